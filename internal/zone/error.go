package zone

import "github.com/miekg/dns"

// Error is a refusal that is the client's business: it carries the RCODE a DNS
// client is told, and a sentence for people. Code is a stable word for other
// protocols to map (for example "static", "not-permitted", "not-in-zone").
type Error struct {
	Rcode int
	Code  string
	Text  string
}

func (e *Error) Error() string { return e.Text }

// Codes of Error.
const (
	CodeNotPermitted = "not-permitted"     // no grant; REFUSED
	CodeStatic       = "static"            // the operator's file holds the name; REFUSED
	CodeNotInZone    = "not-in-zone"       // NOTZONE
	CodeNotAuth      = "not-authoritative" // NOTAUTH
	CodePrerequisite = "prerequisite"      // YXDOMAIN, YXRRSET, NXRRSET, NXDOMAIN
	CodeMalformed    = "malformed"         // FORMERR
	CodeLimit        = "limit"             // a limit of the zone would be passed; REFUSED
	CodeInvariant    = "invariant"         // the result would not be a zone; REFUSED
)

func refused(code, text string) *Error {
	return &Error{Rcode: dns.RcodeRefused, Code: code, Text: text}
}
