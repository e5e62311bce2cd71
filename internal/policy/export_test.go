package policy

import (
	"encoding/hex"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// Scan is exported for the fuzz test, which compares it with caddy's lexer.
var Scan = scan

// Limits that tests reach.
const (
	MaxWords = maxWords
	MaxHooks = maxHooks
)

// HashOf returns the hash of a token as the policy file spells it.
func HashOf(i *Identity) string { return hashPrefix + hex.EncodeToString(i.hash[:]) }

// NameOf returns the name of a key.
func NameOf(p *Policy, key *Identity) zone.Name {
	for n, i := range p.byKey {
		if i == key {
			return n
		}
	}
	return ""
}
