package hooks

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"
)

// The limits of one run. execve(2) refuses a string of 128 KiB; the rest keeps a
// request small.
const (
	MaxArgs     = 64        // arguments of a command, its name included
	MaxArgBytes = 32 << 10  // all of them together
	MaxEnv      = 64        // variables
	MaxEnvName  = 128       // one name
	MaxEnvValue = 96 << 10  // one value
	MaxEnvTotal = 192 << 10 // all names and values together
)

// What kept a command from being started; test with errors.Is.
var (
	// ErrBusy means that as many hooks run as may, and none ended in time.
	ErrBusy = errors.New("too many hooks are running")
	// ErrClosed means that the Runner was closed.
	ErrClosed = errors.New("the hook runner is stopped")
	// ErrIdentity means that this process cannot, or may not, become the user.
	ErrIdentity = errors.New("cannot become the user")

	// errInvalid means that the words of the request are wrong, whatever the machine.
	errInvalid = errors.New("invalid hook")
)

// A Spec says what to run, with every word decided.
type Spec struct {
	Hook    string            // its name: for messages and the Observer
	Command []string          // argv; the first is an absolute path
	User    string            // name or number; "" is the user of this process
	Group   string            // name or number; "" is the user's own
	Root    bool              // the definition says that it may be root
	Cwd     string            // "" is /
	Timeout time.Duration     // 0 is the default of the Runner
	Env     map[string]string // added to the clean base
}

// check returns an error, which is errInvalid, when the words themselves are wrong.
func (s *Spec) check() error {
	if err := checkCommand(s.Command); err != nil {
		return err
	}
	for _, who := range []struct{ what, name string }{{"user", s.User}, {"group", s.Group}} {
		if who.name != "" && !validAccount(who.name) {
			return fmt.Errorf("%w: %s %.40q is not the name or number of a %s", errInvalid, who.what, who.name, who.what)
		}
	}
	if err := checkPath("cwd", s.Cwd); s.Cwd != "" && err != nil {
		return err
	}
	if s.Timeout < 0 {
		return fmt.Errorf("%w: the time limit %v is negative", errInvalid, s.Timeout)
	}
	return checkEnv(s.Env)
}

func checkCommand(argv []string) error {
	if len(argv) == 0 {
		return fmt.Errorf("%w: there is no command", errInvalid)
	}
	if len(argv) > MaxArgs {
		return fmt.Errorf("%w: the command has %d arguments, at most %d are taken", errInvalid, len(argv), MaxArgs)
	}
	total := 0
	for i, arg := range argv {
		if strings.IndexByte(arg, 0) >= 0 {
			return fmt.Errorf("%w: argument %d of the command has a NUL", errInvalid, i)
		}
		total += len(arg) + 1
	}
	if total > MaxArgBytes {
		return fmt.Errorf("%w: the command has %d octets, at most %d are taken", errInvalid, total, MaxArgBytes)
	}
	return checkPath("command", argv[0])
}

// checkPath wants an absolute path that names what it says: cleaning would hide
// from the reader of a policy which file runs.
func checkPath(what, p string) error {
	switch {
	case p == "":
		return fmt.Errorf("%w: the path of %s is empty", errInvalid, what)
	case len(p) > 4095:
		return fmt.Errorf("%w: the path of %s has %d octets, at most 4095 are taken", errInvalid, what, len(p))
	case strings.IndexByte(p, 0) >= 0:
		return fmt.Errorf("%w: the path of %s has a NUL", errInvalid, what)
	case !path.IsAbs(p):
		return fmt.Errorf("%w: %s %.80q is not an absolute path", errInvalid, what, p)
	case path.Clean(p) != p:
		return fmt.Errorf("%w: %s %.80q is not a plain path: write %.80q", errInvalid, what, p, path.Clean(p))
	}
	return nil
}

// validAccount accepts what useradd(8) and directories make, and numbers.
func validAccount(name string) bool {
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
		case i > 0 && (c == '-' || c == '.' || c == '@'), i == len(name)-1 && i > 0 && c == '$':
		default:
			return false
		}
	}
	return name != "" && len(name) <= 128
}

// validHookName is the form of a hook's name everywhere: policy, request, metrics.
func validHookName(name string) bool {
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case i > 0 && (c == '-' || c == '.' || c == '_'):
		default:
			return false
		}
	}
	return name != "" && len(name) <= 64
}
