package main

import "fmt"

// target is one line of the table: what was promised, and what came out.
type target struct {
	what, target, ours, theirs, ratio, verdict string
}

// want is a comparison of two medians: of ours with something, by a ratio. Without a
// bound it is only told.
type want struct {
	what          string
	ours, theirs  point
	best          []string // when not empty, the best of these servers instead of theirs.peer
	least, atMost float64  // bound of ours/theirs; 0 is none
	absolute      float64  // bound of ours itself, at most
	unit          string
}

type point struct {
	row, peer      string
	hosts, clients int
}

var updating = []string{"bind", "knot", "pdns", "dynupdate"}

func wants() []want {
	const k, M = 1_000, 1_000_000
	flood := querySockets * queryWindow
	q := func(row, peer string, hosts int) point { return point{row, peer, hosts, flood} }
	t := func(row, peer string, hosts int) point { return point{row, peer, hosts, 1} }
	list := []want{
		{what: "queries, 1 M hosts", ours: q("queries", "ddns", M), theirs: q("queries", "hosts", k), least: 0.95, unit: "/s"},
		{what: "queries, 1 M hosts, by dnsperf", ours: q("dnsperf", "ddns", M), theirs: q("dnsperf", "hosts", k), least: 0.95, unit: "/s"},
		{what: "queries, 1 M hosts, bare stanza", ours: q("queries", "ddns-bare", M), theirs: q("queries", "hosts", k), least: 0.95, unit: "/s"},
		{what: "queries, 1 M hosts", ours: q("queries", "ddns", M), theirs: q("queries", "file", M), least: 2, unit: "/s"},
		{what: "queries, 1 M hosts, 1,000 updates/s beside", ours: q("queries+updates", "ddns", M), theirs: q("queries", "hosts", k), least: 0.95, unit: "/s"},
		{what: "queries, 1 M hosts, 1,000 updates/s beside", ours: q("queries+updates", "ddns", M), theirs: q("queries", "file", M), least: 2, unit: "/s"},
		{what: "p99 at 5,000 queries/s, 1 M hosts", ours: t("tail", "ddns", M), theirs: t("tail", "ddns", k), atMost: 1.1, unit: " µs"},
		{what: "the same with 1,000 updates/s", ours: t("tail+updates", "ddns", M), theirs: t("tail+updates", "ddns", k), atMost: 1.1, unit: " µs"},
		{what: "the same, against hosts at 1 M", ours: t("tail", "ddns", M), theirs: t("tail", "hosts", M), atMost: 1, unit: " µs"},
	}
	for _, way := range []string{"http", "update"} {
		for _, c := range []struct {
			clients int
			least   float64
		}{{1, 1}, {16, 3}, {64, 5}, {256, 0}} {
			list = append(list, want{what: fmt.Sprintf("durable updates/s by %s, 100 k hosts, %d clients", way, c.clients),
				ours: point{way, "ddns", 100 * k, c.clients}, best: updating, theirs: point{"", "", 100 * k, c.clients}, least: c.least, unit: "/s"})
		}
	}
	return append(list,
		want{what: "update cost, 1 k to 1 M hosts, 1 client", ours: point{"curve-http", "ddns", M, 1}, theirs: point{"curve-http", "ddns", k, 1}, atMost: 1.3, unit: " µs"},
		want{what: "update cost, 1 k to 1 M hosts, 16 clients", ours: point{"curve-http", "ddns", M, 16}, theirs: point{"curve-http", "ddns", k, 16}, atMost: 1.3, unit: " µs"},
		want{what: "memory, 1 M hosts, per host", ours: point{"memory", "ddns", M, 0}, theirs: point{"memory", "knot", M, 0}, absolute: 300, unit: " octets"},
		want{what: "load, 1 M hosts", ours: point{"load", "ddns", M, 0}, theirs: point{"load", "knot", M, 0}, absolute: 3, unit: " s"},
		want{what: "not visible after the yes, HTTP", ours: point{"stale-http", "ddns", 100 * k, 1}, absolute: -1, unit: ""},
		want{what: "not visible after the yes, UPDATE", ours: point{"stale-update", "ddns", 100 * k, 1}, absolute: -1, unit: ""},
	)
}

// targets are those of which both sides were measured.
func (b *bench) targets() (list []target) {
	for _, w := range wants() {
		ours := b.figures.of(w.ours)
		if ours == nil {
			continue
		}
		t := target{what: w.what, ours: number(median(ours)) + w.unit, theirs: "-", ratio: "-"}
		theirs, against := b.other(w)
		r := 0.0
		if theirs != nil {
			r = ratio(ours, theirs)
			t.theirs = fmt.Sprintf("%s: %s%s", against, number(median(theirs)), w.unit)
			t.ratio = fmt.Sprintf("%.2f", r)
		}
		met := false
		switch {
		case w.absolute < 0:
			t.target, met = "none", median(ours) == 0
		case w.absolute > 0:
			t.target, met = fmt.Sprintf("at most %s%s", number(w.absolute), w.unit), median(ours) <= w.absolute
		case theirs == nil:
			continue
		case w.least+w.atMost == 0:
			t.target, t.verdict = "-", "-"
		case w.least > 0:
			t.target, met = fmt.Sprintf("at least %s ×", number(w.least)), r >= w.least
		default:
			t.target, met = fmt.Sprintf("at most %s ×", number(w.atMost)), r <= w.atMost
		}
		switch {
		case t.verdict != "":
		case met:
			t.verdict = "met"
		default:
			t.verdict = "missed"
		}
		list = append(list, t)
	}
	return list
}

// other is what ours is compared with: one figure, or the best of several servers
// by whichever of the two protocols it does better.
func (b *bench) other(w want) (best []float64, name string) {
	if len(w.best) == 0 {
		return b.figures.of(w.theirs), fmt.Sprintf("%s, %d hosts", w.theirs.peer, w.theirs.hosts)
	}
	for _, peer := range w.best {
		for _, row := range []string{"http", "update"} {
			v := b.figures.of(point{row, peer, w.theirs.hosts, w.theirs.clients})
			if v != nil && (best == nil || median(v) > median(best)) {
				best, name = v, peer+" by "+row
			}
		}
	}
	return best, name
}
