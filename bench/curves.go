package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// rowCurves: what each costs from a thousand hosts to a million: a query, an
// update, memory, loading, the disk, a transfer.
func (b *bench) rowCurves() error {
	peers := []*peer{ddns, knot, bind}
	if b.full {
		peers = []*peer{ddns, knot, bind, nsd, hosts, file}
	}
	empty := map[*peer]int64{}
	for _, p := range append(peers, nsd, hosts, file, ddnsFile) {
		if _, known := empty[p]; known {
			continue
		}
		if len(b.only) > 0 && !slices.Contains(b.only, p.name) {
			continue
		}
		if s := b.try(p, 1); s != nil {
			anon, mapped := s.resident()
			empty[p] = anon + mapped
			if err := s.stop(); err != nil {
				return err
			}
		}
	}
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		here := peers
		if !b.full && n == 1_000_000 {
			here = []*peer{ddns, knot, bind, nsd, hosts, file}
		}
		servers := b.tryAll(n, here...)
		for _, s := range servers {
			if s.peer != ddns {
				b.figures.add("load", s, 0, "s", s.loaded.Seconds())
				continue
			}
			// The first start made the zone from its seed; what counts is a restart.
			b.figures.add("seed", s, 0, "s", s.loaded.Seconds())
			b.figures.add("disk", s, 0, "octets/host", float64(s.diskUse())/float64(n))
		}
		for range min(b.repeats, 3) {
			for _, s := range servers {
				if s.peer != ddns && (n < 1_000_000 || s.peer != knot) && !b.full {
					continue
				}
				if err := s.stop(); err != nil {
					return err
				}
				if err := b.run(s); err != nil {
					return err
				}
				b.figures.add("load", s, 0, "s", s.loaded.Seconds())
			}
		}
		for _, s := range servers {
			anon, mapped := s.resident()
			b.figures.add("memory", s, 0, "octets/host", float64(anon+mapped-empty[s.peer])/float64(n))
			b.figures.add("memory-anon", s, 0, "MB", float64(anon)/1e6)
			b.figures.add("memory-file", s, 0, "MB", float64(mapped)/1e6)
		}
		for round := range b.repeats {
			for _, s := range servers {
				var r queries
				var err error
				b.quietly(func() { r, err = s.flood(b.short) })
				b.complain(s, r, 0, err)
				b.figures.add("curve-query", s, querySockets*queryWindow, "queries/s", r.rate)
				dial, way := s.update, "http"
				if dial == nil {
					dial, way = s.updateD, "update"
				}
				if dial != nil {
					before, first := s.diskUse(), s.next
					for _, clients := range []int{1, 16} {
						var r updates
						b.quietly(func() { r, err = s.press(dial, clients, 0, b.short) })
						b.complain(s, r.queries, r.refused, err)
						b.figures.add("curve-"+way, s, clients, "µs/update", 1e6/r.rate)
					}
					b.figures.add("disk-growth", s, 0, "octets/update", float64(s.diskUse()-before)/float64(s.next-first))
				}
				if s.peer == hosts || round >= 3 {
					continue
				}
				took, err := s.transfer(2*n + apexRecords + 1)
				if err != nil {
					b.remark("%s with %d hosts: AXFR: %v", s.peer.name, n, err)
					continue
				}
				b.figures.add("axfr", s, 1, "s", took.Seconds())
			}
		}
		for _, s := range servers {
			anon, mapped := s.resident()
			b.figures.add("memory-after", s, 0, "octets/host", float64(anon+mapped-empty[s.peer])/float64(n))
		}
		if err := b.stopAll(); err != nil {
			b.remark("%v", err)
		}
	}
	return b.fileStarts(1_000_000, empty[ddnsFile])
}

// fileStarts: a zone that is all the operator's, the first time and when its file has
// not changed since.
func (b *bench) fileStarts(n int, empty int64) error {
	for _, s := range b.tryAll(n, ddnsFile) {
		b.figures.add("seed", s, 0, "s", s.loaded.Seconds())
		for range min(b.repeats, 3) {
			if err := s.stop(); err != nil {
				return err
			}
			if err := b.run(s); err != nil {
				return err
			}
			b.figures.add("load", s, 0, "s", s.loaded.Seconds())
			anon, mapped := s.resident()
			b.figures.add("memory", s, 0, "octets/host", float64(anon+mapped-empty)/float64(n))
		}
	}
	return b.stopAll()
}

// transfer takes the zone by AXFR and counts its records.
func (s *server) transfer(records int) (time.Duration, error) {
	begun := time.Now()
	c, err := net.Dial("tcp", s.dns)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(begun.Add(2 * time.Minute))
	query, err := new(dns.Msg).SetAxfr(origin).Pack()
	if err != nil {
		return 0, err
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
		return 0, err
	}
	buf := make([]byte, 1<<16)
	for got := 0; got < records; {
		if _, err := io.ReadFull(c, buf[:2]); err != nil {
			return 0, fmt.Errorf("after %d of %d records: %w", got, records, err)
		}
		msg := buf[:binary.BigEndian.Uint16(buf)]
		if _, err := io.ReadFull(c, msg); err != nil {
			return 0, err
		}
		if rcode := int(msg[3] & 0xf); rcode != dns.RcodeSuccess {
			return 0, fmt.Errorf("answered %s", dns.RcodeToString[rcode])
		}
		got += int(binary.BigEndian.Uint16(msg[6:]))
		if got > records {
			return 0, fmt.Errorf("%d records, want %d", got, records)
		}
	}
	return time.Since(begun), nil
}
