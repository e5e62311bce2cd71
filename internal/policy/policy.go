package policy

import (
	"crypto/sha256"
	"slices"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// Lengths of a token that is looked up at all. An operator may choose tokens of
// another form than Generate's; what is shorter is a password, not a token.
const (
	MinTokenLength = 16
	MaxTokenLength = 512
)

// Policy is the content of one policy file. It is safe for concurrent use. The
// nil *Policy grants nothing.
type Policy struct {
	// immutable after Parse
	tokens []*Identity // in file order
	keys   []*Identity
	hooks  []*Hook

	byHash map[[sha256.Size]byte]*Identity
	byKey  map[zone.Name]*Identity
	byHook map[string]*Hook

	digest   string
	warnings []string
}

// TokenDigest is the SHA-256 of a presented token, which policies know it by.
type TokenDigest [sha256.Size]byte

// DigestToken returns the digest of what was presented; ok is false for what can be no
// token. The whole string is hashed, so that the work done says nothing about how much
// of a guess was right.
func DigestToken(presented string) (d TokenDigest, ok bool) {
	if len(presented) < MinTokenLength || len(presented) > MaxTokenLength {
		return d, false
	}
	var buf [MaxTokenLength]byte
	for i := 0; i < len(presented); i++ {
		if c := presented[i]; c <= ' ' || c > '~' {
			return d, false
		}
		buf[i] = presented[i]
	}
	return sha256.Sum256(buf[:len(presented)]), true
}

// Token returns the identity whose token was presented.
func (p *Policy) Token(presented string) (*Identity, bool) {
	d, ok := DigestToken(presented)
	if !ok {
		return nil, false
	}
	return p.TokenByDigest(d)
}

// TokenByDigest is Token for who asks several policies.
func (p *Policy) TokenByDigest(d TokenDigest) (*Identity, bool) {
	if p == nil {
		return nil, false
	}
	i, ok := p.byHash[d]
	return i, ok
}

// Key returns the identity of a TSIG key. The caller has verified the signature.
func (p *Policy) Key(name zone.Name) (*Identity, bool) {
	if p == nil {
		return nil, false
	}
	i, ok := p.byKey[name]
	return i, ok
}

// Tokens returns the identities of all tokens in file order. The slice must not
// be changed.
func (p *Policy) Tokens() []*Identity {
	if p == nil {
		return nil
	}
	return slices.Clip(p.tokens)
}

// Keys returns the identities of all TSIG keys in file order. The slice must not
// be changed.
func (p *Policy) Keys() []*Identity {
	if p == nil {
		return nil
	}
	return slices.Clip(p.keys)
}

// Hooks returns the definitions of all hooks in file order. The slice must not
// be changed.
func (p *Policy) Hooks() []*Hook {
	if p == nil {
		return nil
	}
	return slices.Clip(p.hooks)
}

// Hook returns the definition of one hook.
func (p *Policy) Hook(name string) (*Hook, bool) {
	if p == nil {
		return nil, false
	}
	h, ok := p.byHook[name]
	return h, ok
}

// Digest is the SHA-256 of the file's text in hex: equal digests are equal
// policies. It is empty for the nil Policy.
func (p *Policy) Digest() string {
	if p == nil {
		return ""
	}
	return p.digest
}

// Warnings are sentences for the operator about a policy that is valid, but
// probably not what was meant: a file that others can read, a token that grants
// nothing.
func (p *Policy) Warnings() []string {
	if p == nil {
		return nil
	}
	return slices.Clip(p.warnings)
}
