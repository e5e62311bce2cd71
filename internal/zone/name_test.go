package zone_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/zone"
)

func TestParseName(t *testing.T) {
	label63, label64 := strings.Repeat("a", 63), strings.Repeat("a", 64)
	longest := strings.Repeat(label63+".", 3) + strings.Repeat("a", 61) // 3*64 + 62 + 1 = 255
	tests := []struct {
		name, text, want string // want in presentation form
		err              error
	}{
		{"final dot may be absent", "host.example.org", "host.example.org.", nil},
		{"final dot may be present", "host.example.org.", "host.example.org.", nil},
		{"capitals are lowered", "HoSt.Example.ORG", "host.example.org.", nil},
		{"capitals behind an escape too", `\H\079st.org`, "host.org.", nil},
		{"the root", ".", ".", nil},
		{"an escaped dot is data", `a\.b.org`, `a\.b.org.`, nil},
		{"an escaped dot at the end is data", `a\.`, `a\..`, nil},
		{"decimal escapes", `\000\255\032.org`, `\000\255\ .org.`, nil},
		{"octets above ASCII are data", "\xc3\x84.org", `\195\132.org.`, nil},
		{"characters special to zone files", `@;()".org`, `\@\;\(\)\".org.`, nil},
		{"underscores and asterisks", "_x.*.org", "_x.*.org.", nil},
		{"63 octets in a label", label63 + ".org", label63 + ".org.", nil},
		{"64 octets in a label", label64 + ".org", "", zone.ErrLabelLong},
		{"escapes count once", strings.Repeat(`\065`, 63), label63 + ".", nil},
		{"255 octets", longest, longest + ".", nil},
		{"255 octets with final dot", longest + ".", longest + ".", nil},
		{"256 octets", longest + "a", "", zone.ErrNameLong},
		{"256 octets with final dot", longest + "a.", "", zone.ErrNameLong},
		{"127 labels", strings.Repeat("a.", 127), strings.Repeat("a.", 127), nil},
		{"128 labels", strings.Repeat("a.", 128), "", zone.ErrNameLong},
		{"nothing", "", "", zone.ErrNameEmpty},
		{"a dot in front", ".org", "", zone.ErrLabelEmpty},
		{"two dots", "a..org", "", zone.ErrLabelEmpty},
		{"two dots at the end", "a..", "", zone.ErrLabelEmpty},
		{"only dots", "..", "", zone.ErrLabelEmpty},
		{"escape at the end", `a\`, "", zone.ErrNameEscape},
		{"escape too large", `\256`, "", zone.ErrNameEscape},
		{"escape cut short", `\25`, "", zone.ErrNameEscape},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, err := zone.ParseName(tt.text)
			if !errors.Is(err, tt.err) || n.String() != tt.want {
				t.Fatalf("got %q, %v, want %q, %v", n, err, tt.want, tt.err)
			}
			if err == nil && (len(n) > zone.MaxNameLength || n[len(n)-1] != 0) {
				t.Fatalf("wire form %q", string(n))
			}
		})
	}
}

func TestMustNamePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	zone.MustName("a..b")
}

func TestNameParts(t *testing.T) {
	tests := []struct {
		name, parent, label string
		labels              int
		wildcard            bool
	}{
		{".", ".", "", 0, false},
		{"org.", ".", "org", 1, false},
		{"*.example.org.", "example.org.", "*", 3, true},
		{"a*.org.", "org.", "a*", 2, false},
		{`\001*.org.`, "org.", "\x01*", 2, false},
		{"x.*.org.", "*.org.", "x", 3, false},
	}
	for _, tt := range tests {
		n := zone.MustName(tt.name)
		if n.Parent().String() != tt.parent || n.Label() != tt.label || n.Labels() != tt.labels || n.IsWildcard() != tt.wildcard {
			t.Errorf("%s: got %s %q %d %v", tt.name, n.Parent(), n.Label(), n.Labels(), n.IsWildcard())
		}
	}
	if w, ok := zone.MustName("org").Wildcard(); !ok || w.String() != "*.org." {
		t.Errorf("wildcard: got %s %v", w, ok)
	}
	if _, ok := zone.MustName(strings.Repeat("a.", 126) + "a").Wildcard(); ok {
		t.Error("wildcard of a name of 255 octets")
	}
}

func TestNameWithin(t *testing.T) {
	tests := []struct {
		name, origin string
		want         bool
	}{
		{"example.org", "example.org", true},
		{"a.example.org", "example.org", true},
		{"a.b.example.org", "example.org", true},
		{"example.org", "a.example.org", false},
		{"aexample.org", "example.org", false},
		{"org", "example.org", false},
		{"a.org", ".", true},
		{".", ".", true},
		{".", "org", false},
		{"example.net", "example.org", false},
		// The wire form of the origin, length octets and all, as part of a label.
		{`x\003org`, "org", false},
		{`x\003org.org`, "org", true},
		{`\007example\003org`, "example.org", false},
	}
	for _, tt := range tests {
		n, o := zone.MustName(tt.name), zone.MustName(tt.origin)
		if got := n.Within(o); got != tt.want {
			t.Errorf("%s within %s: got %v", n, o, got)
		}
		if got := n.Below(o); got != (tt.want && n != o) {
			t.Errorf("%s below %s: got %v", n, o, got)
		}
	}
}

func TestNameCompareSortsAsTheRFC(t *testing.T) {
	// RFC 4034, section 6.1, with the root in front.
	sorted := []string{".", "example.", "a.example.", "yljkjljk.a.example.", "Z.a.example.", "zABC.a.EXAMPLE.", "z.example.", `\001.z.example.`, "*.z.example.", `\200.z.example.`}
	var names []zone.Name
	for _, s := range sorted {
		names = append(names, zone.MustName(s))
	}
	for i, a := range names {
		for j, b := range names {
			if got := a.Compare(b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%s to %s: got %d", a, b, got)
			}
		}
	}
	shuffled := slices.Clone(names)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	slices.SortFunc(shuffled, zone.Name.Compare)
	if !slices.Equal(shuffled, names) {
		t.Errorf("got %v", shuffled)
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"", ".", "a.b.", `\.\\\000.x`, "..", "a..b", "É.org", `\256`, `\1`, strings.Repeat("a.", 127), strings.Repeat("a", 64)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := zone.ParseName(s)
		if err != nil {
			return
		}
		if again, err := zone.ParseName(n.String()); err != nil || again != n {
			t.Fatalf("%q: written %q, read %q, %v", s, n.String(), again, err)
		}
		// The packer of package dns makes the same octets of it, case aside. Its
		// IsFqdn counts runes where it means octets, hence only ASCII.
		if isASCII(s) && isASCII(string(n)) {
			var buf [300]byte
			end, err := dns.PackDomainName(dns.Fqdn(s), buf[:], 0, nil, false)
			if err != nil {
				t.Fatalf("%q: taken here as %q, refused by package dns: %v", s, n, err)
			}
			if got := bytes.ToLower(buf[:end]); string(got) != string(n) {
				t.Fatalf("%q: got %q, package dns %q", s, n, got)
			}
		}
		text, _, err := dns.UnpackDomainName([]byte(n), 0)
		if err != nil || text != n.String() {
			t.Fatalf("%q: written %q, package dns %q, %v", s, n.String(), text, err)
		}
		if n.Labels() != dns.CountLabel(n.String()) || !n.Within(n.Parent()) || n.Compare(n) != 0 {
			t.Fatalf("%q: labels %d, parent %s", s, n.Labels(), n.Parent())
		}
	})
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
