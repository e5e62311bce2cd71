package policy

import (
	"slices"
	"time"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// Events a hook can ask for.
const (
	Added   = "added"
	Changed = "changed"
	Removed = "removed"
)

// Hook is the definition of a command that runs when a name changed. Whether its
// user, command and directory exist is for the runner to find out: the policy
// may be read on another machine, or before they are installed.
type Hook struct {
	// immutable after Parse
	Name    string
	Command []string // argv; [0] is an absolute, clean path
	User    string   // empty: the runner's own user, which may be root only with Root
	Group   string   // empty: the user's primary group
	Cwd     string   // empty: /
	Timeout time.Duration
	Env     map[string]string
	// AllowEnv are the names, or PREFIX*, that a request may set besides DDNS_*.
	AllowEnv []string
	On       []string      // events, in the order added, changed, removed
	Match    []NamePattern // empty: every name
	Types    []uint16      // sorted; nil with AnyType
	AnyType  bool
	Root     bool // the word root was spelled out
	Line     int  // where its block begins in the file
}

// Wants reports whether the hook asked for this event of this owner and type.
func (h *Hook) Wants(event string, owner zone.Name, typ uint16) bool {
	if !slices.Contains(h.On, event) {
		return false
	}
	if !h.AnyType && !slices.Contains(h.Types, typ) {
		return false
	}
	return len(h.Match) == 0 || slices.ContainsFunc(h.Match, func(p NamePattern) bool { return p.Matches(owner) })
}

// AllowsEnv reports whether a request may set the variable, by AllowEnv. DDNS_*
// is the caller's to allow.
func (h *Hook) AllowsEnv(name string) bool {
	return CheckEnvName(name) == nil && slices.ContainsFunc(h.AllowEnv, func(a string) bool { return envCovers(a, name) })
}
