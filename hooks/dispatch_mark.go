package hooks

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// records is an RRset as a hook is told it: rdata in presentation format, one
// record per line. The zero value is no RRset. Two are equal as Go values when a
// hook could not tell them apart.
type records struct {
	ttl  uint32
	text string
}

// present turns an RRset into records.
func present(set zone.RRset) records {
	if set.Empty() {
		return records{}
	}
	var b strings.Builder
	for _, rr := range set.RRs() {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(zone.RdataText(rr))
	}
	return records{ttl: set.TTL, text: b.String()}
}

func (r records) list() []string {
	if r.text == "" {
		return []string{}
	}
	return strings.Split(r.text, "\n")
}

// kind names the event that leads from one state to another.
func kind(from, to records) string {
	switch {
	case to.text == "":
		return policy.Removed
	case from.text == "":
		return policy.Added
	}
	return policy.Changed
}

// markKey is what at most one mark is kept for.
type markKey struct {
	hook          string
	owner, origin zone.Name
	typ           uint16
}

// Items of the follower: marks, and the hooks that are known.
const (
	markPrefix = "mark\x00"
	hookPrefix = "hook\x00"
)

// item is the key in the store. A wire name says itself where it ends.
func (k markKey) item() string {
	b := append([]byte(markPrefix), k.hook...)
	b = append(b, 0)
	b = append(b, k.owner...)
	b = binary.BigEndian.AppendUint16(b, k.typ)
	return string(append(b, k.origin...))
}

// mark is an event that one hook has still to be told. It is owned by the
// dispatcher's loop.
type mark struct {
	id       string
	origin   zone.Name
	owner    zone.Name
	typ      uint16
	old, new records

	serial   zone.Serial
	position store.Position
	unix     int64 // of the change
	source   string
	actor    string

	since    int64 // Unix milliseconds: the oldest change in it was seen
	attempts int   // runs that ended
	failures int   // of them, those that count towards the last try
	due      time.Time
	trouble  string // how the last attempt failed

	tried bool // the hook may have been told, so it cannot be dropped for nothing
	dead  bool
	stale bool // while running: the zone has moved on to what the hook does not want
	test  bool // run by hand, never stored
}

func (m *mark) same(o *mark) bool {
	return m.typ == o.typ && m.origin == o.origin && m.owner == o.owner && !m.test && !o.test
}

func (m *mark) event(hook string) *Event {
	ttl := m.new.ttl
	if m.new.text == "" {
		ttl = m.old.ttl
	}
	return &Event{
		Event: kind(m.old, m.new), ID: m.id, Hook: hook,
		Zone: m.origin.String(), FQDN: m.owner.String(), Type: zone.TypeString(m.typ), TTL: ttl,
		Old: m.old.list(), New: m.new.list(), Serial: uint32(m.serial), Try: m.attempts + 1,
		Time: time.Unix(m.unix, 0).UTC(), Source: m.source, Actor: m.actor,
	}
}

// supersede returns the mark that stands for prev and the change after it; nil
// when there is nothing left to tell.
//
// A hook that cannot have heard of prev is told the way from the oldest state it
// knows to the newest, and nothing when that is no way at all. One that may have
// heard of it has to be told the newest state even when that is the oldest again:
// then, or when the whole way is an event it does not want, just the last step.
func supersede(h *policy.Hook, prev, next *mark) *mark {
	m := *next
	m.tried = prev.tried
	m.since = min(prev.since, next.since)
	m.old = prev.old
	if m.old != m.new && wants(h, &m) {
		return &m
	}
	if m.old = next.old; prev.tried && wants(h, &m) {
		return &m
	}
	return nil
}

func wants(h *policy.Hook, m *mark) bool { return h.Wants(kind(m.old, m.new), m.owner, m.typ) }

// wantsAny reports whether a hook wants some event of an RRset. The SOA changes
// with every change, so a change of it is no event.
func wantsAny(h *policy.Hook, owner zone.Name, typ uint16) bool {
	return typ != dns.TypeSOA && slices.ContainsFunc([]string{policy.Changed, policy.Added, policy.Removed},
		func(event string) bool { return h.Wants(event, owner, typ) })
}

// The stored form. Version 1; a field that is missing is zero.
type markItem struct {
	Version  int    `json:"v"`
	Hook     string `json:"hook"`
	ID       string `json:"id"`
	Zone     string `json:"zone"`
	Name     string `json:"name"`
	Type     string `json:"type"`
	OldTTL   uint32 `json:"old_ttl,omitempty"`
	Old      string `json:"old,omitempty"`
	NewTTL   uint32 `json:"new_ttl,omitempty"`
	New      string `json:"new,omitempty"`
	Serial   uint32 `json:"serial"`
	Position uint64 `json:"position"`
	Unix     int64  `json:"unix"`
	Source   string `json:"source,omitempty"`
	Actor    string `json:"actor,omitempty"`
	Since    int64  `json:"since"`
	Attempts int    `json:"attempts,omitempty"`
	Failures int    `json:"failures,omitempty"`
	Due      int64  `json:"due,omitempty"` // Unix milliseconds
	Dead     bool   `json:"dead,omitempty"`
	Trouble  string `json:"error,omitempty"`
}

func (m *mark) encode(hook string) []byte {
	it := markItem{
		Version: 1, Hook: hook, ID: m.id, Zone: m.origin.String(), Name: m.owner.String(), Type: zone.TypeString(m.typ),
		OldTTL: m.old.ttl, Old: m.old.text, NewTTL: m.new.ttl, New: m.new.text,
		Serial: uint32(m.serial), Position: uint64(m.position), Unix: m.unix, Source: m.source, Actor: m.actor,
		Since: m.since, Attempts: m.attempts, Failures: m.failures, Dead: m.dead, Trouble: m.trouble,
	}
	if !m.due.IsZero() {
		it.Due = m.due.UnixMilli()
	}
	b, err := json.Marshal(it)
	if err != nil {
		panic("hooks: a mark is not JSON: " + err.Error())
	}
	return b
}

// decodeMark reads what encode wrote. What was found in the store may have been
// run before the process ended, so it counts as tried.
func decodeMark(b []byte) (hook string, m *mark, err error) {
	var it markItem
	if err := json.Unmarshal(b, &it); err != nil {
		return "", nil, err
	}
	if it.Version != 1 {
		return "", nil, fmt.Errorf("format %d is not known to this version", it.Version)
	}
	m = &mark{
		id: it.ID, old: records{it.OldTTL, it.Old}, new: records{it.NewTTL, it.New},
		serial: zone.Serial(it.Serial), position: store.Position(it.Position), unix: it.Unix, source: it.Source, actor: it.Actor,
		since: it.Since, attempts: it.Attempts, failures: it.Failures, dead: it.Dead, trouble: it.Trouble, tried: true,
	}
	if m.origin, err = zone.ParseName(it.Zone); err != nil {
		return "", nil, fmt.Errorf("zone %q: %w", it.Zone, err)
	}
	if m.owner, err = zone.ParseName(it.Name); err != nil {
		return "", nil, fmt.Errorf("name %q: %w", it.Name, err)
	}
	var ok bool
	if m.typ, ok = zone.ParseType(it.Type); !ok {
		return "", nil, fmt.Errorf("type %q is not one", it.Type)
	}
	if it.ID == "" || !m.owner.Within(m.origin) || m.old.text == "" && m.new.text == "" {
		return "", nil, fmt.Errorf("an event of %s without an id, out of its zone, or without records", m.owner)
	}
	if it.Due != 0 {
		m.due = time.UnixMilli(it.Due)
	}
	return it.Hook, m, nil
}

// crockford is the alphabet of event ids: no letter that reads as a digit.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// newID makes an event id: 48 bits of milliseconds and 80 random ones, so that ids
// sort by time (a ULID).
func newID(now time.Time, random func() uint64) string {
	hi := uint64(now.UnixMilli())<<16 | random()&0xffff
	lo := random()
	var b [26]byte
	for i := 25; i >= 0; i-- {
		b[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return string(b[:])
}
