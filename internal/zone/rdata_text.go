package zone

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// RdataText is the rdata of a record in presentation format, without owner, TTL,
// class and type. It is printable ASCII whatever a client has put there. Rdata
// that has no format of its own is in that of RFC 3597, section 5.
func RdataText(rr dns.RR) string {
	switch r := rr.(type) {
	case *dns.NULL: // prints its octets as they are, line ends included
		return unknownText(hex.EncodeToString([]byte(r.Data)))
	case *dns.RFC3597: // prints a header of its own
		return unknownText(r.Rdata)
	}
	return strings.TrimSpace(strings.TrimPrefix(rr.String(), rr.Header().String()))
}

func unknownText(digits string) string {
	return strings.TrimSpace(fmt.Sprintf(`\# %d %s`, len(digits)/2, digits))
}
