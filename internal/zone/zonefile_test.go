package zone_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

const head = "$TTL 300\n@ SOA ns hostmaster 1 7200 900 1209600 60\n@ NS ns\n" // three lines

func TestReadFile(t *testing.T) {
	apex := zone.MustName("example.org")
	tests := []struct{ name, text, want string }{ // want: RRsets as "owner ttl type data,data;", or the error
		{"the least there can be", head, "example.org. 300 SOA ns.example.org. hostmaster.example.org. 1 7200 900 1209600 60; example.org. 300 NS ns.example.org."},
		{"no line end at the end", "$TTL 1\n@ NS .\n@ SOA . . 1 2 3 4 5", "example.org. 1 NS .; example.org. 1 SOA . . 1 2 3 4 5"},
		{"lines end as on Windows", "$TTL 1\r\n@ NS .\r\n@ SOA . . 1 2 3 4 5\r\n", "example.org. 1 NS .; example.org. 1 SOA . . 1 2 3 4 5"},
		{"duplicates are one record", head + "A A 192.0.2.1\na A 192.0.2.1\n", "+a.example.org. 300 A 192.0.2.1"},
		{"the lowest TTL of a set", head + "a 60 A 192.0.2.1\na 30 A 192.0.2.2\na 90 A 192.0.2.3\n", "+a.example.org. 30 A 192.0.2.1,192.0.2.2,192.0.2.3"},
		{"records of a set may be apart", head + "a A 192.0.2.1\nb A 192.0.2.1\na A 192.0.2.2\n", "+a.example.org. 300 A 192.0.2.1,192.0.2.2; b.example.org. 300 A 192.0.2.1"},
		{"$ORIGIN", head + "$ORIGIN sub\na A 192.0.2.1\n", "+a.sub.example.org. 300 A 192.0.2.1"},
		{"unknown types", head + "a TYPE65280 \\# 2 0102\nb TYPE1 \\# 4 c0000201\n", "+a.example.org. 300 TYPE65280 \\# 2 0102; b.example.org. 300 A 192.0.2.1"},
		{"a name that begins like a directive", head + "\\$GENERATE A 192.0.2.1\n", "+$generate.example.org. 300 A 192.0.2.1"},
		{"what lies below a delegation", head + "sub NS ns.sub\nns.sub A 192.0.2.1\n", "+sub.example.org. 300 NS ns.sub.example.org.; ns.sub.example.org. 300 A 192.0.2.1"},
		{"the same CNAME twice", head + "a CNAME b\na CNAME B\n", "+a.example.org. 300 CNAME b.example.org."},
		{"DNAME at the apex", head + "@ DNAME example.net.\n", "+example.org. 300 DNAME example.net."},

		{"an empty file", "", "zone:1: no SOA at example.org."},
		{"no SOA", "$TTL 1\n\n@ NS ns\n", "zone:3: no SOA at example.org."},
		{"no NS", "@ 1 SOA . . 1 2 3 4 5\na 1 NS ns\n", "zone:2: no NS at example.org."},
		{"a second SOA", head + "\n@ SOA ns hostmaster 2 7200 900 1209600 60\n", "zone:5: example.org.: a second SOA"},
		{"the same SOA again, as at the end of a transfer", head + "a A 192.0.2.1\n@ SOA ns hostmaster 1 7200 900 1209600 60\n", "+a.example.org. 300 A 192.0.2.1"},
		{"SOA elsewhere", head + "a SOA ns hostmaster 1 7200 900 1209600 60\n", "zone:4: a.example.org. SOA: only the apex example.org. has one"},
		{"outside the zone", head + "\n; a comment\nexample.net. A 192.0.2.1\n", "zone:6: example.net. is not in zone example.org."},
		{"above the zone", head + "org. A 192.0.2.1", "zone:4: org. is not in zone example.org."},
		{"a name that only ends like the zone", head + "notexample.org. A 192.0.2.1\n", "zone:4: notexample.org. is not in zone example.org."},
		{"another class", head + "a CH TXT x\n", "zone:4: a.example.org. TXT: class CH, only IN is served"},
		{"CNAME beside other data", head + "a CNAME b\nb A 192.0.2.1\na A 192.0.2.1\n", "zone:6: a.example.org.: CNAME beside A"},
		{"other data beside CNAME", head + "a A 192.0.2.1\nb A 192.0.2.1\na CNAME b\n", "zone:6: a.example.org.: CNAME beside A"},
		{"CNAME at the apex", head + "@ CNAME b\n", "zone:4: example.org.: CNAME beside SOA"},
		{"two CNAMEs", head + "a CNAME b\na CNAME c\n", "zone:5: a.example.org.: a second CNAME"},
		{"two DNAMEs", head + "a DNAME b\na DNAME c\n", "zone:5: a.example.org.: a second DNAME"},
		{"DNAME beside a delegation", head + "a DNAME b\na NS c\n", "zone:5: a.example.org.: DNAME beside NS below the apex"},
		{"$INCLUDE", head + "$INCLUDE /etc/passwd\n", `zone:4: $INCLUDE directive not allowed: "/etc/passwd"`},
		{"an unknown directive", head + "$FOO x\n", `zone:4: `},
		{"a bad address", head + "a A 192.0.2.256\n", `zone:4: bad A A: "192.0.2.256"`},
		{"an unknown type", head + "a FOO x\n", `zone:4: `},
		{"a type of messages", head + "a TYPE41 \\# 0\n", "zone:4: a.example.org. OPT: not a type of records in a zone"},
		{"an address without its octets", head + "a A \\# 0\n", "zone:4: "},
		{"parentheses left open", head + "a TXT ( x\n\n\n", "zone:"},
		{"a quote left open", head + "a TXT \"x\n\n\n", "zone:"},
		{"no TTL", "@ SOA . . 1 2 3 4 5\n", "zone:1: "},
		{"a TTL that is too large", head + "a 2147483648 A 192.0.2.1\n", "zone:4: a.example.org. A: TTL 2147483648, at most 2147483647"},
		{"a signed zone", head + "@ RRSIG SOA 8 2 300 20300101000000 20200101000000 1 example.org. AAAA\n", "zone:4: example.org. RRSIG: the file of a signed zone; use the one from before signing"},
		{"a name that is too long", head + strings.Repeat("a.", 125) + " A 192.0.2.1\n", "zone:4: "},
		{"$GENERATE", head + "\n$Generate 1-2 h$ A 192.0.2.$\n", "zone:5: $GENERATE directive not allowed"},
		{"the line of a record over several", head + "a ( A\n 192.0.2.1\n )\nexample.net. A 192.0.2.1", "zone:7: example.net. is not in zone example.org."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sets, err := zone.ReadFile(strings.NewReader(tt.text), "zone", apex)
			if strings.HasPrefix(tt.want, "zone:") {
				var f *zone.FileError
				switch {
				case err == nil:
					t.Fatalf("taken as %s", written(sets))
				case !errors.As(err, &f) || f.File != "zone" || f.Line < 1 || f.Line > 1+strings.Count(tt.text, "\n"):
					t.Fatalf("got %#v", err)
				case strings.HasSuffix(tt.want, ":"), strings.HasSuffix(tt.want, " "):
					if !strings.HasPrefix(err.Error(), tt.want) {
						t.Fatalf("got %v, want %s…", err, tt.want)
					}
				case err.Error() != tt.want:
					t.Fatalf("got  %v\nwant %s", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := written(sets)
			if rest, ok := strings.CutPrefix(tt.want, "+"); ok {
				tt.want = "example.org. 300 SOA ns.example.org. hostmaster.example.org. 1 7200 900 1209600 60; example.org. 300 NS ns.example.org.; " + rest
			}
			if got != tt.want {
				t.Fatalf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func written(sets []zone.RRset) string {
	var out []string
	for _, s := range sets {
		var datas []string
		for _, rr := range s.RRs() {
			datas = append(datas, strings.SplitN(rr.String(), "\t", 5)[4])
		}
		out = append(out, fmt.Sprintf("%s %d %s %s", s.Owner, s.TTL, zone.TypeString(s.Type), strings.Join(datas, ",")))
	}
	return strings.Join(out, "; ")
}

func TestReadFileSaysWhyItCannotRead(t *testing.T) {
	broken := errors.New("the disk is on fire")
	_, err := zone.ReadFile(io.MultiReader(strings.NewReader(head), iotest.ErrReader(broken)), "zone", zone.MustName("example.org"))
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "reading zone") {
		t.Errorf("got %v", err)
	}
}

func TestReadFileOfTheRoot(t *testing.T) {
	v := parse(t, "$TTL 1\n@ SOA a b 1 2 3 4 5\n@ NS a\norg NS ns.org\nns.org A 192.0.2.1\n*.x A 192.0.2.2\n", ".")
	for question, want := range map[string]string{
		". NS":       "NOERROR aa | . 1 NS a. | |",
		"a.org. A":   "NOERROR | | org. 1 NS ns.org. | ns.org. 1 A 192.0.2.1",
		"y.x. A":     "NOERROR aa | y.x. 1 A 192.0.2.2 | |",
		"nothing. A": "NXDOMAIN aa | | . 1 SOA a. b. 1 2 3 4 5 |",
	} {
		qname, typ, _ := strings.Cut(question, " ")
		// brief takes the origin of other tests off names, and the dot off the root.
		got := strings.ReplaceAll(brief(v.Lookup(qname, zone.MustName(qname), dns.StringToType[typ], false)), ".example.org.", "")
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", question, got, want)
		}
	}
}

func FuzzReadFile(f *testing.F) {
	f.Add(head + "a A 192.0.2.1\n")
	f.Add(head + "$ORIGIN x\n*.a 3 IN TYPE65280 \\# 2 0102\n")
	f.Add(head + "@ TXT \"a\" ( \"b\"\n )")
	f.Add(head + "s SVCB 1 . alpn=h2 key65000=x\n")
	apex := zone.MustName("example.org")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 { // the fuzzer would spend its time on making them smaller
			t.Skip()
		}
		sets, err := zone.ReadFile(strings.NewReader(text), "zone", apex)
		if err != nil {
			var file *zone.FileError
			if !errors.As(err, &file) || file.Line < 1 || file.Line > 1+strings.Count(text, "\n") {
				t.Fatalf("%v", err)
			}
			return
		}
		// What was read is a zone that can be kept, and written and read once more.
		var b strings.Builder
		for _, s := range sets {
			n := zone.NewNode(s)
			if _, err := zone.DecodeNode(s.Owner, []byte(n)); err != nil {
				t.Fatal(err)
			}
			for _, rr := range s.RRs() {
				b.WriteString(rr.String() + "\n")
			}
		}
		again, err := zone.ReadFile(strings.NewReader(b.String()), "zone", apex)
		if err != nil || !slices.Equal(again, sets) {
			t.Fatalf("%v\nread    %s\nwritten %s\nread    %s", err, text, b.String(), written(again))
		}
	})
}
