package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
)

func TestParseOwner(t *testing.T) {
	l63 := strings.Repeat("a", 63)
	// 3 labels of 63 and one of 61: 255 octets with the root label.
	longest := l63 + "." + l63 + "." + l63 + "." + strings.Repeat("b", 61)
	for _, tc := range []struct{ name, in, want string }{
		{"a name with the final dot", "laptop.example.org.", "laptop.example.org."},
		{"a name without the final dot", "laptop.example.org", "laptop.example.org."},
		{"upper case", "LapTop.Example.ORG", "laptop.example.org."},
		{"the root", ".", "."},
		{"an underscore", "_acme-challenge.a.example.org", "_acme-challenge.a.example.org."},
		{"hyphens anywhere", "-a--b-.example.org", "-a--b-.example.org."},
		{"digits only", "1.2.0.192.in-addr.arpa", "1.2.0.192.in-addr.arpa."},
		{"the wildcard record", "*.example.org", "*.example.org."},
		{"the wildcard record, escaped", `\*.example.org`, "*.example.org."},
		{"a star in another place, escaped", `a.\*.b\042.org`, "a.*.b*.org."},
		{"a dot in a label", `first\.last.example.org`, `first\.last.example.org.`},
		{"a classless reverse zone", `0\/25.2.0.192.in-addr.arpa`, "0/25.2.0.192.in-addr.arpa."},
		{"a U-label", "bücher.example.org", "xn--bcher-kva.example.org."},
		{"a U-label in upper case", "BÜCHER.Example.org.", "xn--bcher-kva.example.org."},
		{"a U-label with a combining mark", "bu\u0308cher.example.org", "xn--bcher-kva.example.org."},
		{"the sharp s of IDNA2008", "straße.example.org", "xn--strae-oqa.example.org."},
		{"the final sigma of IDNA2008", "βόλος.example.org", "xn--nxasmm1c.example.org."},
		{"an A-label", "XN--bcher-KVA.example.org", "xn--bcher-kva.example.org."},
		{"a right-to-left label beside a service", "_sip.مثال.example.org", "_sip.xn--mgbh0fb.example.org."},
		{"a character RFC 5892 excepts", "paral·lel.example.org", "xn--parallel-koa.example.org."},
		{"ideographic full stops", "例え。example．org｡", "xn--r8jz45g.example.org."},
		{"full-width letters", "ｌａｐｔｏｐ.example.org", "laptop.example.org."},
		{"a wildcard below a U-label", "*.bücher.org", "*.xn--bcher-kva.org."},
		{"a label of 63 octets", l63 + ".org", l63 + ".org."},
		{"a name of 255 octets", longest, longest + "."},
		{"a name of 255 octets, all escaped", strings.ReplaceAll(strings.ReplaceAll(longest, "a", `\097`), "b", `\098`), longest + "."},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := policy.ParseOwner(tc.in)
			if err != nil || got.String() != tc.want {
				t.Errorf("got %q, %v, want %q", got.String(), err, tc.want)
			}
		})
	}
}

func TestParseOwnerErrors(t *testing.T) {
	l63 := strings.Repeat("a", 63)
	l62 := l63[:62]
	for _, tc := range []struct {
		name, in, want string
		is             error
	}{
		{"nothing", "", `name "": empty name`, zone.ErrNameEmpty},
		{"an empty label", "a..org", `name "a..org": empty label`, zone.ErrLabelEmpty},
		{"a leading dot", ".org", `name ".org": empty label`, zone.ErrLabelEmpty},
		{"two final dots", "a.org..", `name "a.org..": empty label`, zone.ErrLabelEmpty},
		{"a label that maps to nothing", "\u00ad.org", `name "\u00ad.org": empty label`, zone.ErrLabelEmpty},
		{"a label of 64 octets", l63 + "a.org", `name "` + l63 + `a.org": label longer than 63 octets`, zone.ErrLabelLong},
		{"a U-label whose A-label is too long", strings.Repeat("ü", 60) + ".org", `name "` + strings.Repeat("ü", 40) + `…": label longer than 63 octets`, zone.ErrLabelLong},
		{"a name of 256 octets", l63 + "." + l63 + "." + l63 + "." + l62, `name "` + l63 + "." + l63[:16] + `…": name longer than 255 octets`, zone.ErrNameLong},
		{"a text of many kilobytes", strings.Repeat("a.", 4000), `name "` + strings.Repeat("a.", 40) + `…": name longer than 255 octets`, zone.ErrNameLong},
		{"an escape above 255", `\256.org`, `name "\\256.org": bad escape`, zone.ErrNameEscape},
		{"an escape cut short", `a\2`, `name "a\\2": bad escape`, zone.ErrNameEscape},
		{"a backslash at the end", `a\`, `name "a\\": bad escape`, zone.ErrNameEscape},
		{"an escaped letter beyond ASCII", `\ü.org`, `name "\\ü.org": bad escape`, zone.ErrNameEscape},
		{"a NUL", "a\x00.org", `name "a\x00.org": octets that are not visible ASCII are refused, escaped or not`, policy.ErrNameOctet},
		{"an escaped NUL", `a\000.org`, `name "a\\000.org": octets that are not visible ASCII are refused, escaped or not`, policy.ErrNameOctet},
		{"an escaped space", `a\032b.org`, `name "a\\032b.org": octets that are not visible ASCII are refused, escaped or not`, policy.ErrNameOctet},
		{"an escaped octet above ASCII", `\252.org`, `name "\\252.org": octets that are not visible ASCII are refused, escaped or not`, policy.ErrNameOctet},
		{"DEL", "\x7f.org", `name "\x7f.org": octets that are not visible ASCII are refused, escaped or not`, policy.ErrNameOctet},
		{"a space", "a b.org", `name "a b.org": character ' ' must be escaped`, nil},
		{"a URL", "https://a.org/", `name "https://a.org/": character ':' must be escaped`, nil},
		{"a star inside a label", "a*.org", `name "a*.org": character '*' must be escaped`, nil},
		{"a star that is not the first label", "a.*.org", `name "a.*.org": character '*' must be escaped`, nil},
		{"what is not UTF-8", "\xfc.org", `name "\xfc.org": not UTF-8`, policy.ErrNameEncoding},
		{"an emoji", "💻.org", `name "💻.org": label "xn--3s8h": character '💻' (U+1F4BB) is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"an emoji's A-label", "xn--3s8h.org", `name "xn--3s8h.org": label "xn--3s8h": character '💻' (U+1F4BB) is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"an A-label of nothing", "xn--.org", `name "xn--.org": label "xn--" is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"an A-label of ASCII", "xn--abc-.org", `name "xn--abc-.org": label "xn--abc-" is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"an A-label that does not decode", "xn--a.org", `name "xn--a.org": label "xn--a" is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"an A-label behind an escape", `\120n--a.org`, `name "\\120n--a.org": label "xn--a" is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"an A-label of what would be mapped", "xn--BCHER-0na.org", `name "xn--BCHER-0na.org": label "xn--bcher-0na" is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"a label of two directions", "مa.org", `name "مa.org": label "مa" is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"a last label of two directions", "org.مa", `name "org.مa": label "مa" is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"an ellipsis", "a…org", `name "a…org": label "a…org" is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"a long text cut between characters", "a" + strings.Repeat("ü", 60) + "!", `name "a` + strings.Repeat("ü", 39) + `…": character '!' must be escaped`, nil},
		{"a joiner that joins nothing", "ab\u200dc.org", `name "ab\u200dc.org": label "ab\u200dc" is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"a U-label with an underscore", "_bücher.org", `name "_bücher.org": label "_bücher" is not allowed by IDNA2008`, policy.ErrNameIDNA},
		{"a U-label with an escape", `b\ür.\a`, `name "b\\ür.\\a": bad escape`, zone.ErrNameEscape},
		{"an escape in a U-label", `bü\a.org`, `name "bü\\a.org": label "bü\\a" mixes escapes and U-label`, nil},
		{"a token in the place of a name", secret + "!", `name "ddns_…": character '!' must be escaped`, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := policy.ParseOwner(tc.in)
			if err == nil {
				t.Fatalf("got %q, want the error %s", got.String(), tc.want)
			}
			if got != "" {
				t.Errorf("got the name %q beside the error", got.String())
			}
			if err.Error() != tc.want {
				t.Errorf("\ngot  %s\nwant %s", err, tc.want)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("the error is not %v", tc.is)
			}
		})
	}
}

func TestPatternMatches(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"a.example.org", "a.example.org", true},
		{"A.Example.Org.", "a.example.org", true},
		{"a.example.org", "b.a.example.org", false},
		{"a.example.org", "example.org", false},
		{"*.example.org", "a.example.org", true},
		{"*.example.org", "_acme-challenge.b.a.example.org", true},
		{"*.example.org", "example.org", false},
		{"*.example.org", "org", false},
		{"*.example.org", "aexample.org", false},
		{"*.example.org", "*.example.org", false},
		{"*.example.org", "*.a.example.org", false},
		{"*.example.org", "a.*.example.org", false},
		{"*.example.org", "*a.example.org", true},
		{`\*.example.org`, "*.example.org", true},
		{`\*.example.org`, "a.example.org", false},
		{`*.\*.example.org`, "a.*.example.org", true},
		{`*.\*.example.org`, "*.*.example.org", false},
		{"*.", "org", true},
		{"*.", ".", false},
		{"*.", "*", false},
		{".", ".", true},
		{".", "org", false},
	} {
		p, err := policy.ParsePattern(tc.pattern)
		if err != nil {
			t.Errorf("%s: %v", tc.pattern, err)
			continue
		}
		if got := p.Matches(zone.MustName(tc.name)); got != tc.want {
			t.Errorf("%s matches %s: got %v, want %v", tc.pattern, tc.name, got, tc.want)
		}
		if p.Matches("") {
			t.Errorf("%s matches the zero Name", tc.pattern)
		}
		again, err := policy.ParsePattern(p.String())
		if err != nil || again != p {
			t.Errorf("%s: printed as %s, which is %v, %v", tc.pattern, p, again, err)
		}
		// A grant decides by another way, which must agree.
		id := mustParse(t, inToken("update \""+tc.pattern+"\" TXT")).Tokens()[0]
		if got := id.Permits(zone.MustName(tc.name), 16); got != tc.want {
			t.Errorf("grant of %s permits %s: got %v, want %v", tc.pattern, tc.name, got, tc.want)
		}
		if got := id.Knows(zone.MustName(tc.name)); got != tc.want {
			t.Errorf("grant of %s knows %s: got %v, want %v", tc.pattern, tc.name, got, tc.want)
		}
	}
}

func TestParsePatternErrors(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"", `name "": empty name`},
		{"*", `"*" is not a name: every name there is would be "*."`},
		{"*..", `name "*..": empty label`},
		{"*.*.org", `name "*.*.org": only the first label may be *`},
		{"*.a.*.org", `name "*.a.*.org": character '*' must be escaped`},
		{"*.xn--a.org", `name "*.xn--a.org": label "xn--a" is not allowed by IDNA2008`},
	} {
		if p, err := policy.ParsePattern(tc.in); err == nil || err.Error() != tc.want {
			t.Errorf("%q: got %v, %v, want the error %s", tc.in, p, err, tc.want)
		}
	}
}
