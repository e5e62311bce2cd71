package zone_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/tools/txtar"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// FuzzParseUpdate sends any octets as an UPDATE: nothing may panic, an error is a
// *zone.Error, and what is accepted keeps the laws.
func FuzzParseUpdate(f *testing.F) {
	for _, m := range messagesOfCases(f) {
		wire, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		m := new(dns.Msg)
		if m.Unpack(wire) != nil {
			return
		}
		m.Opcode, m.Response = dns.OpcodeUpdate, false
		c := candidateOf(t, updateZone)
		u, err := zone.ParseUpdate(m, c.Origin())
		if err != nil {
			mustBeOurs(t, err)
			return
		}
		cs, err := c.Plan(u, 1)
		if err != nil {
			mustBeOurs(t, err)
			return
		}
		if cs != nil {
			checkChangeset(t, c, cs)
		}
	})
}

func mustBeOurs(t *testing.T, err error) {
	t.Helper()
	var e *zone.Error
	if !errors.As(err, &e) || e.Rcode == dns.RcodeSuccess || e.Code == "" || e.Text == "" {
		t.Fatalf("%T %v: not a whole *zone.Error", err, err)
	}
}

// FuzzDecodeChangeset decodes any octets: nothing may panic, and what is accepted
// is just what Encode writes.
func FuzzDecodeChangeset(f *testing.F) {
	for _, cs := range changesetsOfCases(f) {
		f.Add(cs.Encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		cs, err := zone.DecodeChangeset(zone.MustName(caseOrigin), b)
		if err != nil {
			return
		}
		if again := cs.Encode(); string(again) != string(b) {
			t.Fatalf("accepted\n%x\nencodes as\n%x", b, again)
		}
		describe(cs, nil) // makes every record
	})
}

func TestDecodeChangesetRefuses(t *testing.T) {
	all := changesetsOfCases(t)
	if len(all) < 60 {
		t.Fatalf("only %d changesets", len(all))
	}
	origin := zone.MustName(caseOrigin)
	for _, cs := range all {
		b := cs.Encode()
		for i := range b { // every truncation
			if _, err := zone.DecodeChangeset(origin, b[:i]); err == nil {
				t.Fatalf("%d of %d octets accepted: %x", i, len(b), b)
			}
		}
		if _, err := zone.DecodeChangeset(origin, append(b, 0)); err == nil {
			t.Errorf("an octet too many accepted: %x", b)
		}
		if again, err := zone.DecodeChangeset(zone.MustName("example.net"), b); err == nil && string(again.Encode()) != string(b) {
			t.Errorf("decoded for another zone it is not the same: %x", b)
		}
		for i := range b { // every octet changed: an error, or another changeset
			for range 4 {
				mutant := append([]byte(nil), b...)
				mutant[i] ^= byte(1 + rand.N(255))
				if again, err := zone.DecodeChangeset(origin, mutant); err == nil && string(again.Encode()) != string(mutant) {
					t.Fatalf("accepted\n%x\nencodes as\n%x", mutant, again.Encode())
				}
			}
		}
	}
}

// TestChangesetSize keeps the journal compact: the step of a dynamic host.
func TestChangesetSize(t *testing.T) {
	c := candidateOf(t, updateZone)
	_, cs := planMessage(t, c, readNsupdate(t, caseOrigin, "update delete a.b A\nupdate add a.b 60 A 192.0.2.9"), 1)
	if n := len(cs.Encode()); n > 120 {
		t.Errorf("%d octets: %x", n, cs.Encode())
	}
}

// TestParseUpdateIsBounded sends the largest messages there are.
func TestParseUpdateIsBounded(t *testing.T) {
	const origin = caseOrigin
	for name, line := range map[string]func(i int) string{
		"every record another name": func(i int) string { return fmt.Sprintf("%d 60 IN A 192.0.2.1", i) },
		"one RRset":                 func(i int) string { return fmt.Sprintf("x 60 IN A 10.0.%d.%d", i>>8, i&255) },
		"two RRsets in turn": func(i int) string {
			return fmt.Sprintf("x 60 IN %s", []string{fmt.Sprintf("A 10.0.%d.%d", i>>8, i&255), fmt.Sprintf("TXT %d", i)}[i&1])
		},
		"one RRset, another TTL in turn": func(i int) string { return fmt.Sprintf("x %d IN A 10.0.%d.%d", 60+i&1, i>>8, i&255) },
	} {
		t.Run(name, func(t *testing.T) {
			m := new(dns.Msg)
			m.SetUpdate(origin)
			m.Compress = true
			for i := range 2000 {
				rr, err := dns.NewRR("$ORIGIN " + origin + "\n" + line(i))
				if err != nil {
					t.Fatal(err)
				}
				m.Ns = append(m.Ns, rr)
			}
			c := candidateOf(t, updateZone)
			rcode, cs := planMessage(t, c, overTheWire(t, m), 1)
			if rcode != dns.RcodeSuccess || cs == nil {
				t.Fatalf("%s, %v", dns.RcodeToString[rcode], cs)
			}
			n := 0
			for _, s := range cs.Added {
				n += s.Len()
			}
			if n != 2000 {
				t.Errorf("%d records added, want 2000", n)
			}
			checkChangeset(t, c, cs)
		})
	}
}

// TestMessageWithoutWire is a message that a program made and never packed: what
// it asks for is not known, and nothing may panic.
func TestMessageWithoutWire(t *testing.T) {
	origin := zone.MustName(caseOrigin)
	for name, m := range map[string]*dns.Msg{
		"nil":           nil,
		"empty":         {},
		"nil records":   {MsgHdr: dns.MsgHdr{Opcode: dns.OpcodeUpdate}, Question: []dns.Question{{Name: caseOrigin, Qtype: dns.TypeSOA, Qclass: dns.ClassINET}}, Ns: []dns.RR{nil}},
		"nil condition": {MsgHdr: dns.MsgHdr{Opcode: dns.OpcodeUpdate}, Question: []dns.Question{{Name: caseOrigin, Qtype: dns.TypeSOA, Qclass: dns.ClassINET}}, Answer: []dns.RR{nil}},
		"bad names":     {MsgHdr: dns.MsgHdr{Opcode: dns.OpcodeUpdate}, Question: []dns.Question{{Name: "a..b.", Qtype: dns.TypeSOA, Qclass: dns.ClassINET}}},
		"a reply":       {MsgHdr: dns.MsgHdr{Opcode: dns.OpcodeUpdate, Response: true}, Question: []dns.Question{{Name: caseOrigin, Qtype: dns.TypeSOA, Qclass: dns.ClassINET}}},
		"a query":       {Question: []dns.Question{{Name: caseOrigin, Qtype: dns.TypeSOA, Qclass: dns.ClassINET}}},
	} {
		u, err := zone.ParseUpdate(m, origin)
		if err == nil && u.Malformed == nil {
			t.Errorf("%s: accepted", name)
		}
		if err != nil {
			mustBeOurs(t, err)
		}
	}
}

func caseArchives(t testing.TB) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob("testdata/update/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*txtar.Archive{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".txtar")] = txtar.Parse(text)
	}
	return all
}

func messagesOfCases(t testing.TB) (all []*dns.Msg) {
	t.Helper()
	for _, a := range caseArchives(t) {
		for _, f := range a.Files {
			if f.Name == "update" {
				all = append(all, readNsupdate(t, caseOrigin, string(f.Data)))
			}
		}
	}
	return all
}

func changesetsOfCases(t testing.TB) (all []*zone.Changeset) {
	t.Helper()
	for _, a := range caseArchives(t) {
		files := map[string]string{}
		for _, f := range a.Files {
			files[f.Name] = string(f.Data)
		}
		if files["changeset"] == "" || files["update"] == "" || files["zone"] == "" {
			continue
		}
		c := candidateOf(t, files["zone"])
		_, cs := planMessage(t, c, readNsupdate(t, caseOrigin, files["update"]), 1)
		if cs == nil {
			continue // it needs the operator's file
		}
		cs.Cause = zone.Cause{Source: "update", Actor: "key.example.org.", Request: "0a1b", Unix: -1 << 40}
		all = append(all, cs)
		if len(all)%3 == 0 {
			all = append(all, cs.Inverse())
		}
	}
	return all
}
