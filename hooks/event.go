package hooks

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// An Event is what one hook is told about one owner and type: the contract of
// hook commands, as they get it in DDNS_EVENT_JSON and, field by field, in the
// other variables that Env lists. Every value is data: none is ever made part
// of a command line.
type Event struct {
	Event string `json:"event"` // added, changed or removed
	ID    string `json:"id"`    // the same each time this event is tried
	Hook  string `json:"hook"`
	Zone  string `json:"zone"` // with a final dot, like FQDN
	FQDN  string `json:"fqdn"`
	Type  string `json:"type"`
	// TTL is that of the records in New; for removed, the one they had, which is
	// how long a cache may still answer with them.
	TTL uint32 `json:"ttl"`
	// Old and New are the rdata of the whole RRset before and after, in
	// presentation format and canonical order. Old is what the hook was last told,
	// as far as is known: of changes that were overtaken, the oldest.
	Old    []string  `json:"old"`
	New    []string  `json:"new"`
	Serial uint32    `json:"serial"` // of the zone, after the change
	Try    int       `json:"attempt"`
	Time   time.Time `json:"time"`   // when the change was accepted, UTC
	Source string    `json:"source"` // http, update, file, …
	Actor  string    `json:"actor"`  // token id or key name; empty for the operator's files
}

// Env is the event as environment variables. A list is joined by spaces; the
// strings of a TXT record are in quotes, with the escapes of RFC 1035, section
// 5.1, so no value has a control character. Where rdata has fields of its own
// (MX, SRV), DDNS_EVENT_JSON tells records apart.
func (e *Event) Env() map[string]string {
	whole, err := json.Marshal(e)
	if err != nil {
		panic("hooks: an event is not JSON: " + err.Error()) // strings, numbers and a valid time
	}
	return map[string]string{
		"DDNS_EVENT":      e.Event,
		"DDNS_EVENT_ID":   e.ID,
		"DDNS_HOOK":       e.Hook,
		"DDNS_ZONE":       e.Zone,
		"DDNS_FQDN":       e.FQDN,
		"DDNS_TYPE":       e.Type,
		"DDNS_TTL":        strconv.FormatUint(uint64(e.TTL), 10),
		"DDNS_OLD":        strings.Join(e.Old, " "),
		"DDNS_NEW":        strings.Join(e.New, " "),
		"DDNS_SERIAL":     strconv.FormatUint(uint64(e.Serial), 10),
		"DDNS_ATTEMPT":    strconv.Itoa(e.Try),
		"DDNS_TIME":       e.Time.UTC().Format(time.RFC3339),
		"DDNS_SOURCE":     e.Source,
		"DDNS_ACTOR":      e.Actor,
		"DDNS_EVENT_JSON": string(whole),
	}
}
