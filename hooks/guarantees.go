package hooks

import "strings"

// Guarantees say what a Runner can promise on this machine. An empty string is a
// promise kept; otherwise the string says what is missing and why.
type Guarantees struct {
	// Tree: every process of a hook is in a control group of its own, and killed
	// with it.
	Tree string
	// Users: hooks can be run as any user that their definition names.
	Users string
	// Isolation: a hook cannot read or signal this process.
	Isolation string
	// Umask: hooks start with umask 077, whatever the umask of this process.
	Umask string
	// Run: commands can be run at all.
	Run string
}

// Missing lists the promises that cannot be kept, as sentences. It is empty when
// all can.
func (g Guarantees) Missing() []string {
	var list []string
	for _, s := range []string{g.Run, g.Users, g.Tree, g.Isolation, g.Umask} {
		if s != "" {
			list = append(list, s)
		}
	}
	return list
}

// String is one line for a log.
func (g Guarantees) String() string {
	if list := g.Missing(); len(list) > 0 {
		return "hooks run degraded: " + strings.Join(list, "; ")
	}
	return "hooks run with every guarantee"
}
