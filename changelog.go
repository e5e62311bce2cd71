package ddns

import (
	"fmt"
	"strings"

	clog "github.com/coredns/coredns/plugin/pkg/log"

	"github.com/coredns-ddns/ddns/internal/zone"
)

var log = clog.NewWithPlugin(pluginName)

// logChange writes one line for each RRset that a changeset changed: who, what, old
// and new. A large one, such as a zone file's, is summed up.
func logChange(origin zone.Name, cs *zone.Changeset) {
	by := cs.Cause.Actor
	if by == "" {
		by = "-"
	}
	tail := fmt.Sprintf("serial=%d source=%s by=%s", cs.Serial(), cs.Cause.Source, by)
	if cs.Cause.Request != "" {
		tail += " request=" + cs.Cause.Request
	}
	const most = 20
	if n := len(cs.Deleted) + len(cs.Added); n > 2*most {
		log.Infof("Changed zone=%s rrsets_deleted=%d rrsets_added=%d %s", origin, len(cs.Deleted), len(cs.Added), tail)
		return
	}
	type key struct {
		owner zone.Name
		typ   uint16
	}
	old := make(map[key]zone.RRset, len(cs.Deleted))
	for _, s := range cs.Deleted {
		old[key{s.Owner, s.Type}] = s
	}
	line := func(k key, before, after zone.RRset) {
		log.Infof("Changed zone=%s name=%s type=%s old=%s new=%s ttl=%d %s",
			origin, k.owner, zone.TypeString(k.typ), rdataText(before), rdataText(after), after.TTL, tail)
	}
	for _, s := range cs.Added {
		k := key{s.Owner, s.Type}
		line(k, old[k], s)
		delete(old, k)
	}
	for _, s := range cs.Deleted {
		if k := (key{s.Owner, s.Type}); !old[k].Empty() {
			line(k, s, zone.RRset{})
		}
	}
	if len(cs.Deleted)+len(cs.Added) == 0 {
		log.Infof("Changed zone=%s type=SOA %s", origin, tail)
	}
}

// rdataText is the records of a set in presentation format, comma separated,
// with no blank in it and never longer than a log line bears.
func rdataText(s zone.RRset) string {
	if s.Empty() {
		return "-"
	}
	const most = 200
	var b strings.Builder
	for _, rr := range s.RRs() {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		text := zone.RdataText(rr)
		if strings.ContainsAny(text, " \t") {
			text = fmt.Sprintf("%q", text)
		}
		b.WriteString(text)
		if b.Len() > most {
			return b.String()[:most] + "…"
		}
	}
	return b.String()
}

// logStore passes on what the database says of its store.
func logStore(level, message string) {
	switch level {
	case "error":
		log.Error(message)
	case "warning":
		log.Warning(message)
	default:
		log.Info(message)
	}
}

// logLevel is the HTTP side's logger.
func logLevel(level, format string, args ...any) {
	switch level {
	case "error":
		log.Errorf(format, args...)
	case "warning":
		log.Warningf(format, args...)
	case "info":
		log.Infof(format, args...)
	default:
		log.Debugf(format, args...)
	}
}
