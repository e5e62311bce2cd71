package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/coredns-ddns/ddns/internal/plain"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Limits of a policy file. They bound what a reload can cost and leave room for
// some fifty thousand tokens.
const (
	MaxFileSize = 8 << 20
	maxWords    = 1_000_000
	maxHooks    = 256 // each is a value of a metric's label
	maxArgs     = 64  // of a hook's command; variables of its environment
	maxArgBytes = 32 << 10
	maxWarnings = 20
)

// ParseError says where a policy file is wrong.
type ParseError struct {
	File string
	Line int // from 1; 0: the file as a whole
	Text string
}

func (e *ParseError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
}

// ParseFile reads a policy file. An error of its content is a *ParseError.
func ParseFile(path string) (*Policy, error) {
	f, info, err := plain.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("reading policy file: %w (ddns-token and /token/generate make what goes into a new one)", err)
	case errors.Is(err, plain.ErrIrregular):
		return nil, &ParseError{File: path, Text: plain.ErrIrregular.Error()}
	case err != nil:
		return nil, fmt.Errorf("reading policy file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading policy file: %w", err)
	}
	p, err := Parse(path, text)
	if err != nil {
		return nil, err
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o022 != 0:
		p.warn("%s may be written by others than its owner (mode %04o), who could then update every name and run every hook: chmod go-w", path, mode)
	case mode&0o004 != 0:
		p.warn("%s may be read by everyone (mode %04o): chmod o-r", path, mode)
	}
	return p, nil
}

// Parse reads the text of a policy file; name is what errors call it. The error
// is a *ParseError, about the first thing that is wrong, and never shows a
// token.
func Parse(name string, text []byte) (*Policy, error) {
	r, err := newLines(name, text)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	p := &Policy{
		byHash: make(map[[sha256.Size]byte]*Identity),
		byKey:  make(map[zone.Name]*Identity),
		byHook: make(map[string]*Hook),
		digest: hex.EncodeToString(sum[:]),
	}
	names := make(map[string]*Identity) // of tokens
	for r.next() {
		switch word := r.words[0]; word {
		case "token":
			err = p.parseToken(r, names)
		case "key":
			err = p.parseKey(r)
		case "hook":
			err = p.parseHook(r)
		case "import":
			err = r.errorf("import is not available in a policy file: one file is the whole policy")
		default:
			err = r.errorf("unknown block %s: expected token, key or hook", quote(word))
		}
		if err != nil {
			return nil, err
		}
	}
	p.lint()
	return p, nil
}

// lint warns of what is valid and probably a mistake.
func (p *Policy) lint() {
	// A policy of hooks alone is that of ddns-hookd.
	if len(p.tokens)+len(p.keys)+len(p.hooks) == 0 {
		p.warn("the policy has no token and no key: no update will be accepted")
	}
	for _, list := range [][]*Identity{p.tokens, p.keys} {
		for _, i := range list {
			if len(i.exact)+len(i.below) == 0 && !i.Reload {
				p.warn("%s %s grants nothing", i.Kind, i.ID)
			}
			if _, ok := i.below[zone.Root]; ok {
				p.warn("%s %s may update every name of every zone", i.Kind, i.ID)
			}
		}
	}
	if more := len(p.warnings) - maxWarnings; more > 0 {
		p.warnings = p.warnings[:maxWarnings]
		p.warn("and %d more of the like", more)
	}
}

func (p *Policy) warn(format string, args ...any) {
	p.warnings = append(p.warnings, fmt.Sprintf(format, args...))
}
