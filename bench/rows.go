package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// try starts a peer, or says why it is not in the table.
func (b *bench) try(p *peer, n int) *server {
	if p.most > 0 {
		n = min(n, p.most)
	}
	s, err := b.start(p, n)
	if err != nil {
		b.remark("%s with %d hosts is missing: %v", p.name, n, err)
		return nil
	}
	return s
}

func (b *bench) tryAll(n int, peers ...*peer) (all []*server) {
	for _, p := range peers {
		if len(b.only) > 0 && !slices.Contains(b.only, p.name) {
			continue
		}
		if s := b.try(p, n); s != nil {
			all = append(all, s)
		}
	}
	return all
}

// rowUpdates: durable updates of distinct names at 100,000 hosts, over HTTP and by
// DNS UPDATE, and the time from a yes until it is visible.
func (b *bench) rowUpdates() error {
	const n = 100_000
	servers := b.tryAll(n, ddns, ddnsRoomy, nothing, bind, knot, powerDNS, dynupdate)
	for range b.repeats {
		for _, clients := range []int{1, 16, 64, 256} {
			for _, s := range servers {
				if clients > 16 && (s.peer == powerDNS || s.peer == dynupdate) {
					continue // they get no faster, and clients give up waiting
				}
				// The API of PowerDNS checks the whole zone after each change: 1 per second.
				if s.update != nil && s.peer != powerDNS {
					b.pressed("http", s, s.update, clients)
				}
				if s.updateD != nil {
					b.pressed("update", s, s.updateD, clients)
				}
			}
		}
	}
	for _, s := range servers {
		for _, way := range []struct {
			name string
			dial func() (client, error)
		}{{"http", s.update}, {"update", s.updateD}} {
			if way.dial == nil || s.dns == "" || s.peer == powerDNS && way.name == "http" {
				continue
			}
			asked, stale, err := s.visible(way.dial, b.short)
			if err != nil {
				b.remark("%s by %s: asking for what was updated: %v", s.peer.name, way.name, err)
				continue
			}
			b.figures.add("asked-"+way.name, s, 1, "updates", float64(asked))
			b.figures.add("stale-"+way.name, s, 1, "updates", float64(stale))
		}
	}
	return nil
}

// pressed is one measurement of updates.
func (b *bench) pressed(way string, s *server, dial func() (client, error), clients int) {
	var r updates
	var err error
	b.profiled(s, fmt.Sprintf("%s-%d", way, clients), func() {
		b.quietly(func() { r, err = s.press(dial, clients, 0, b.short) })
	})
	b.complain(s, r.queries, r.refused, err)
	b.figures.add(way, s, clients, "updates/s", r.rate)
	b.figures.add(way+"-p50", s, clients, "µs", micros(r.p50))
	b.figures.add(way+"-p99", s, clients, "µs", micros(r.p99))
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func (b *bench) complain(s *server, q queries, refused int, err error) {
	if err != nil {
		b.remark("%s: %v", s.peer.name, err)
	}
	if q.wrong+refused > 0 {
		b.remark("%s with %d hosts: %d wrong answers, %d refused; the last: %v", s.peer.name, s.hosts, q.wrong, refused, q.complaint)
	}
	if q.lost > 0 {
		b.figures.add("lost", s, 0, "queries", float64(q.lost))
	}
}

// busy is a server with or without updates beside its queries.
type busy struct {
	*server
	updates int // per second
}

func (s busy) label() string {
	if s.updates > 0 {
		return "+updates"
	}
	return ""
}

// while runs ask while the updates run, and returns what they did.
func (b *bench) while(s busy, ask func() (queries, error)) queries {
	done := make(chan updates, 1)
	if s.updates > 0 {
		dial := s.update
		if dial == nil {
			dial = s.updateD
		}
		go func() {
			r, err := s.press(dial, 16, s.updates, b.short+300*time.Millisecond)
			b.complain(s.server, queries{}, r.refused, err)
			done <- r
		}()
		time.Sleep(200 * time.Millisecond)
	}
	r, err := ask()
	if s.updates > 0 {
		u := <-done
		b.figures.add("updates-beside", s.server, 16, "updates/s", u.rate)
	}
	b.complain(s.server, r, 0, err)
	return r
}

// rowQueries: queries per second and the tail at a steady 5,000 per second, at 1 k
// and 1 M hosts, with and without updates; and what 1 M hosts cost to load and hold.
func (b *bench) rowQueries() error {
	const few, many = 1_000, 1_000_000
	small := b.tryAll(few, ddns, ddnsBare, hosts, file, whoami)
	large := b.tryAll(many, ddns, ddnsBare, hosts, file, bind, knot, nsd)
	var all []busy
	for _, s := range append(small, large...) {
		all = append(all, busy{server: s})
		if s.update != nil || s.updateD != nil && s.peer != dynupdate {
			all = append(all, busy{s, 1000})
		}
	}
	_, missing := exec.LookPath("dnsperf")
	known := missing == nil
	if !known {
		b.remark("dnsperf is missing: queries are measured by our own load only")
	}
	for range b.repeats {
		for _, s := range all {
			var r queries
			b.profiled(s.server, "queries"+s.label(), func() {
				b.quietly(func() { r = b.while(s, func() (queries, error) { return s.flood(b.short) }) })
			})
			b.figures.add("queries"+s.label(), s.server, querySockets*queryWindow, "queries/s", r.rate)
			if s.updates == 0 && known {
				b.settle()
				r := b.while(s, func() (queries, error) { return s.dnsperf(b.short) })
				b.figures.add("dnsperf", s.server, querySockets*queryWindow, "queries/s", r.rate)
			}
		}
		for _, s := range all {
			var r queries
			b.quietly(func() { r = b.while(s, func() (queries, error) { return s.drip(5000, b.short) }) })
			b.figures.add("tail"+s.label(), s.server, 1, "µs p99", micros(r.p99))
			b.figures.add("tail-max"+s.label(), s.server, 1, "µs", micros(r.most))
		}
	}
	return nil
}

// rowSyncs counts the calls that force data to the disk, per update.
func (b *bench) rowSyncs() error {
	if _, err := exec.LookPath("strace"); err != nil {
		b.remark("strace is missing: calls of fsync are not counted")
		return nil
	}
	for _, s := range b.tryAll(10_000, ddns, bind, knot, powerDNS, dynupdate) {
		dial := s.update
		if dial == nil {
			dial = s.updateD
		}
		for _, clients := range []int{1, 16, 64} {
			trace := filepath.Join(s.dir, fmt.Sprintf("strace-%d", clients))
			cmd := exec.Command("strace", "-f", "-c", "-e", "trace=fsync,fdatasync,msync,sync_file_range", "-o", trace, "-p", strconv.Itoa(s.cmd.Process.Pid))
			if err := startOn(b.serverCore, b.loadCore, cmd); err != nil {
				return err
			}
			time.Sleep(500 * time.Millisecond) // attached to every thread by then
			before := s.next
			r, err := s.press(dial, clients, 0, b.short)
			b.complain(s, r.queries, r.refused, err)
			done := s.next - before - r.refused
			cmd.Process.Signal(syscall.SIGINT)
			cmd.Wait()
			text, err := os.ReadFile(trace)
			if err != nil || done == 0 {
				continue
			}
			b.figures.add("syncs", s, clients, "per update", float64(syncs(string(text)))/float64(done))
		}
	}
	return nil
}

// syncs adds up the calls in strace's summary.
func syncs(summary string) (sum int) {
	for line := range strings.Lines(summary) {
		f := strings.Fields(line)
		if len(f) < 5 || !strings.Contains(f[len(f)-1], "sync") {
			continue
		}
		if n, err := strconv.Atoi(f[3]); err == nil {
			sum += n
		}
	}
	return sum
}

// profiled fetches a CPU profile of the server while measure runs.
func (b *bench) profiled(s *server, label string, measure func()) {
	port, err := os.ReadFile(filepath.Join(s.dir, "pprof"))
	if !b.profile || err != nil {
		measure()
		return
	}
	done := make(chan error, 1)
	go func() {
		done <- func() error {
			res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s/debug/pprof/profile?seconds=%d", port, max(1, int(b.short.Seconds()))))
			if err != nil {
				return err
			}
			defer res.Body.Close()
			f, err := os.Create(filepath.Join(b.out, fmt.Sprintf("%s-%d-%s.pprof", s.peer.name, s.hosts, label)))
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = io.Copy(f, res.Body)
			return err
		}()
	}()
	measure()
	if err := <-done; err != nil {
		b.remark("profile of %s: %v", s.peer.name, err)
	}
}
