package policy

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
)

// A token is ddns_<id>_<secret><crc>: 47 octets of letters, digits and
// underscore, so that it passes unharmed through headers, URLs, YAML and the
// password field of a router, and is found by secret scanners.
const (
	tokenPrefix  = "ddns_"
	idLength     = 8  // base32: 40 bits; public, to tell tokens apart in a log
	secretLength = 27 // base62: 160.7 bits
	crcLength    = 6  // base62 of the CRC-32 of everything before
	tokenLength  = len(tokenPrefix) + idLength + 1 + secretLength + crcLength
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Errors of CheckToken.
var (
	ErrTokenFormat   = errors.New("not a token of the form ddns_<id>_<secret>")
	ErrTokenChecksum = errors.New("token with a wrong checksum: mistyped or cut")
)

// Generated is a new token. It has no rights until its hash is in a policy file,
// and nothing but the caller knows it: printing the value shows the id only.
type Generated struct {
	Token string // the secret; shown once
	ID    string
	Hash  string // "sha256:<hex>", for the policy file
}

// String returns the part that may be logged.
func (g Generated) String() string { return "token " + g.ID }

// GoString keeps the secret out of %#v as well.
func (g Generated) GoString() string { return "policy.Generated{ID:" + g.ID + "}" }

// Policy returns a block to paste into a policy file: the token by its hash, and
// the right to update the addresses of owner, an OWNER of the policy file. Where
// that is none, the line is a comment for the reader to complete.
func (g Generated) Policy(owner string) string {
	line := "# update NAME A AAAA"
	if p, err := ParsePattern(owner); err == nil {
		line = "update " + p.String() + " " + addresses.String()
	}
	return fmt.Sprintf("token %s %s {\n    %s\n}\n", g.ID, g.Hash, line)
}

// Generate makes a token of octets read from rand, which is crypto/rand.Reader
// outside of tests.
func Generate(rand io.Reader) (Generated, error) {
	var id [idLength * 5 / 8]byte
	if _, err := io.ReadFull(rand, id[:]); err != nil {
		return Generated{}, fmt.Errorf("reading random octets: %w", err)
	}
	secret := make([]byte, 0, secretLength)
	// 248 is the largest multiple of 62 in an octet: more would favour the first
	// letters. A source that is random needs one more round once in a lifetime;
	// one that is stuck must not keep us here.
	for range 16 {
		var raw [2 * secretLength]byte
		if _, err := io.ReadFull(rand, raw[:]); err != nil {
			return Generated{}, fmt.Errorf("reading random octets: %w", err)
		}
		for _, b := range raw {
			if b < 248 && len(secret) < secretLength {
				secret = append(secret, base62[b%62])
			}
		}
		if len(secret) == secretLength {
			break
		}
	}
	if len(secret) < secretLength {
		return Generated{}, errors.New("reading random octets: the source is not random")
	}
	g := Generated{ID: idEncoding.EncodeToString(id[:])}
	body := tokenPrefix + g.ID + "_" + string(secret)
	g.Token = body + checksum(body)
	g.Hash = HashToken(g.Token)
	return g, nil
}

// HashToken returns "sha256:<hex>" of a token, as a policy file has it.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(sum[:])
}

// CheckToken tells without a policy whether s can be a token that Generate made:
// nil, ErrTokenFormat or ErrTokenChecksum.
func CheckToken(s string) error {
	if len(s) != tokenLength || !strings.HasPrefix(s, tokenPrefix) {
		return ErrTokenFormat
	}
	id, secret := s[len(tokenPrefix):len(tokenPrefix)+idLength], s[len(tokenPrefix)+idLength+1:]
	if s[len(tokenPrefix)+idLength] != '_' || strings.Trim(secret, base62) != "" {
		return ErrTokenFormat
	}
	if _, err := idEncoding.DecodeString(id); err != nil || strings.ContainsAny(id, "\r\n") {
		return ErrTokenFormat // the decoder skips line ends
	}
	if body := s[:len(s)-crcLength]; s[len(body):] != checksum(body) {
		return ErrTokenChecksum
	}
	return nil
}

// checksum is the CRC-32 (IEEE) of s in base62, of constant width.
func checksum(s string) string {
	c := crc32.ChecksumIEEE([]byte(s))
	var b [crcLength]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = base62[c%62]
		c /= 62
	}
	return string(b[:])
}
