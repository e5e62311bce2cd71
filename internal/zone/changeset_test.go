package zone_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/zone"
)

func sampleChangeset(t testing.TB) *zone.Changeset {
	t.Helper()
	return &zone.Changeset{
		From:    one(t, false, "@ 60 SOA a a 10 1 2 3 4"),
		To:      one(t, false, "@ 60 SOA a a 11 1 2 3 4"),
		Deleted: []zone.RRset{one(t, false, "a 60 A 192.0.2.1"), one(t, false, "a 60 TXT x"), one(t, true, "b 0 A 192.0.2.2")},
		Added:   []zone.RRset{one(t, false, "b 4294967295 A 192.0.2.2\nb 4294967295 A 192.0.2.3"), one(t, false, "a.b 60 TYPE65280 \\# 0")},
		Cause:   zone.Cause{Source: "update", Actor: "key.example.org.", Request: "0a1b", Unix: 1790000000},
	}
}

// TestChangesetFormat keeps format 1 as it is on disks. A change here needs a new
// first octet.
func TestChangesetFormat(t *testing.T) {
	want := strings.Join([]string{
		"01",                                 // format
		"06757064617465",                     // source: update
		"106b65792e6578616d706c652e6f72672e", // actor: key.example.org.
		"0430613162",                         // request: 0a1b
		"80ee89ab0d",                         // time
		"07",                                 // From, To is From but for the serial
		"3c",                                 // TTL of From
		"34" + "0032",                        // its data, its one record
		"0161076578616d706c65036f726700",     // a.example.org.
		"0161076578616d706c65036f726700",     // a.example.org.
		"0000000a" + "00000001000000020000000300000004",
		"0000000b", // serial of To
		"03",       // deleted
		"00" + "020161" + "01" + "3c" + "06" + "0004c0000201", // a A
		"02" + "10" + "3c" + "04" + "00020178",                // the same owner: TXT
		"01" + "020162" + "01" + "00" + "06" + "0004c0000202", // b A, static
		"02", // added
		"02" + "01" + "ffffffff0f" + "0c" + "0004c0000202" + "0004c0000203",
		"00" + "0401610162" + "80fe03" + "3c" + "02" + "0000",
	}, "")
	if got := fmt.Sprintf("%x", sampleChangeset(t).Encode()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestChangesetRoundTrip(t *testing.T) {
	whole := sampleChangeset(t)
	for name, edit := range map[string]func(c *zone.Changeset){
		"as it is":                        func(c *zone.Changeset) {},
		"no records":                      func(c *zone.Changeset) { c.Deleted, c.Added = nil, nil },
		"first of a zone":                 func(c *zone.Changeset) { c.From = zone.RRset{}; c.Deleted = nil },
		"last of a zone":                  func(c *zone.Changeset) { c.To = zone.RRset{}; c.Added = nil },
		"SOA of another TTL":              func(c *zone.Changeset) { c.To.TTL = 61 },
		"SOA of other data":               func(c *zone.Changeset) { c.To = one(t, false, "@ 60 SOA b b 11 1 2 3 4") },
		"SOA becomes static":              func(c *zone.Changeset) { c.To.Static = true },
		"SOA stays static":                func(c *zone.Changeset) { c.From.Static, c.To.Static = true, true },
		"SOA of the same serial":          func(c *zone.Changeset) { c.To = c.From },
		"records of the apex":             func(c *zone.Changeset) { c.Added = []zone.RRset{one(t, false, "@ 60 TXT x")} },
		"no cause":                        func(c *zone.Changeset) { c.Cause = zone.Cause{} },
		"a time before 1970":              func(c *zone.Changeset) { c.Cause.Unix = -1 << 63 },
		"the latest time":                 func(c *zone.Changeset) { c.Cause.Unix = 1<<63 - 1 },
		"a cause that is not text":        func(c *zone.Changeset) { c.Cause.Actor = "\x00\xff" },
		"a cause of more than 127 octets": func(c *zone.Changeset) { c.Cause.Request = strings.Repeat("x", 300) },
	} {
		t.Run(name, func(t *testing.T) {
			c := *whole
			edit(&c)
			got, err := zone.DecodeChangeset(zone.MustName(caseOrigin), c.Encode())
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, &c) {
				t.Errorf("got\n%+v\nwant\n%+v", got, &c)
			}
		})
	}
}

// TestDecodeChangesetOfErrors has changesets that no Plan makes.
func TestDecodeChangesetOfErrors(t *testing.T) {
	origin := zone.MustName(caseOrigin)
	for name, edit := range map[string]func(c *zone.Changeset){
		"no SOA at all":             func(c *zone.Changeset) { c.From, c.To = zone.RRset{}, zone.RRset{} },
		"two SOA records":           func(c *zone.Changeset) { c.To = one(t, false, "@ 60 SOA a a 11 1 2 3 4\n@ 60 SOA b b 11 1 2 3 4") },
		"owners out of order":       func(c *zone.Changeset) { slices.Reverse(c.Deleted) },
		"types out of order":        func(c *zone.Changeset) { c.Deleted[0], c.Deleted[1] = c.Deleted[1], c.Deleted[0] },
		"an RRset twice":            func(c *zone.Changeset) { c.Deleted[1] = c.Deleted[0] },
		"an SOA among the records":  func(c *zone.Changeset) { c.Added = []zone.RRset{c.To} },
		"an RRset without a record": func(c *zone.Changeset) { c.Added[0] = zone.RRset{Owner: c.Added[0].Owner, Type: 1} },
		"records of a metatype":     func(c *zone.Changeset) { c.Added[1].Type = 255 },
		"an address of no octets":   func(c *zone.Changeset) { c.Added[1].Type = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			c := sampleChangeset(t)
			edit(c)
			if got, err := zone.DecodeChangeset(origin, c.Encode()); err == nil {
				t.Errorf("accepted as\n%s", describe(got, nil))
			}
		})
	}
}

// TestDecodeChangesetOfOctets has what Encode never writes.
func TestDecodeChangesetOfOctets(t *testing.T) {
	origin := zone.MustName(caseOrigin)
	const (
		soa  = "340032" + "0161076578616d706c65036f726700" + "0161076578616d706c65036f726700" + "0000000a" + "00000001000000020000000300000004"
		soa2 = "340032" + "0161076578616d706c65036f726700" + "0161076578616d706c65036f726700" + "0000000b" + "00000001000000020000000300000004"
		head = "01" + "00" + "00" + "00" + "00" + "07" + "3c" + soa + "0000000b"
		setA = "00" + "020161" + "01" + "3c" + "06" + "0004c0000201"
	)
	for _, tt := range []struct{ name, octets, err string }{
		{"this is one", head + "01" + setA + "00", ""},
		{"no octets", "", "unknown format"},
		{"another format", "02", "unknown format"},
		{"an octet after the end", head + "01" + setA + "00" + "00", "1 octets too many"},
		{"a count that is longer than the rest", head + "7f" + setA + "00", "number out of range"},
		{"a count in two octets where one does", head + "8100" + setA + "00", "shortest form"},
		{"a time of more than 64 bits", "01" + "000000" + "ffffffffffffffffff02", "number out of range"},
		{"a text longer than the rest", "01" + "05" + "00", "number out of range"},
		{"an unknown SOA flag", "01" + "00000000" + "27" + "3c" + soa + "0000000b" + "0000", "SOA flags 0x27"},
		{"a serial for a From that is not there", "01" + "00000000" + "06" + "0000000b" + "0000", "SOA flags 0x6"},
		{"a static From that is not there", "01" + "00000000" + "0a" + "3c" + soa + "0000", "SOA flags 0xa"},
		{"a serial alone where the mark differs", "01" + "00000000" + "17" + "3c" + soa + "0000000b" + "0000", "SOA flags 0x17"},
		{"two whole SOAs where a serial does", "01" + "00000000" + "03" + "3c" + soa + "3c" + soa2 + "0000", "SOA not in its shortest form"},
		{"an unknown RRset flag", head + "01" + "04" + setA[2:] + "00", "RRset flags 0x4"},
		{"the owner before the first", head + "01" + "02" + "01" + "3c" + "06" + "0004c0000201" + "00", "RRset without owner"},
		{"an owner written again", head + "02" + setA + "00" + "020161" + "10" + "3c" + "0400020178" + "00", "bad owner"},
		{"an owner in capitals", head + "01" + "00" + "020141" + setA[8:] + "00", "bad owner"},
		{"an owner that ends too soon", head + "01" + "00" + "03016100" + setA[8:] + "00", "bad owner"},
		{"an owner that eats the origin", head + "01" + "00" + "020261" + setA[8:] + "00", "bad owner"},
		{"a type of more than 16 bits", head + "01" + "00" + "020161" + "808004" + setA[10:] + "00", "number out of range"},
		{"a TTL of more than 32 bits", head + "01" + "00" + "020161" + "01" + "8080808010" + setA[12:] + "00", "number out of range"},
		{"a record longer than the data", head + "01" + setA[:14] + "0005c0000201" + "00", "truncated record"},
		{"an address of three octets", head + "01" + "00" + "020161" + "01" + "3c" + "05" + "0003c00002" + "00", "A"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b []byte
			if _, err := fmt.Sscanf(tt.octets+" ", "%x", &b); err != nil && tt.octets != "" {
				t.Fatal(err)
			}
			_, err := zone.DecodeChangeset(origin, b)
			switch {
			case tt.err == "" && err != nil:
				t.Errorf("got %v, want none", err)
			case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
				t.Errorf("got %v, want %s", err, tt.err)
			}
		})
	}
}
