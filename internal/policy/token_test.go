package policy_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
)

func sum(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

var tokenForm = regexp.MustCompile(`^ddns_[a-z2-7]{8}_[0-9A-Za-z]{33}$`)

func TestGenerate(t *testing.T) {
	seen := make(map[string]bool)
	letters := make(map[rune]int)
	for range 2000 {
		g, err := policy.Generate(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		if !tokenForm.MatchString(g.Token) || g.ID != g.Token[5:13] || g.Hash != "sha256:"+sum(g.Token) {
			t.Fatalf("got %s with id %s and hash %s", g.Token, g.ID, g.Hash)
		}
		if err := policy.CheckToken(g.Token); err != nil {
			t.Fatalf("%s: %v", g.Token, err)
		}
		if seen[g.Token] {
			t.Fatalf("%s made twice", g.Token)
		}
		seen[g.Token] = true
		for _, c := range g.Token[14:41] {
			letters[c]++
		}
	}
	// 54,000 letters over 62: 871 each, deviation 29. A modulo bias of one octet
	// would give the first 8 letters 25 % more.
	for c, n := range letters {
		if n < 871-8*29 || n > 871+8*29 {
			t.Errorf("letter %c came %d times, want about 871", c, n)
		}
	}
	if len(letters) != 62 {
		t.Errorf("got %d letters, want 62", len(letters))
	}
}

// The form of a token is for ever: a change would refuse tokens in use.
func TestGenerateIsStable(t *testing.T) {
	g, err := policy.Generate(bytes.NewReader(bytes.Repeat([]byte{0, 1, 61, 62, 247, 248, 255, 100}, 20)))
	if err != nil {
		t.Fatal(err)
	}
	if want := "ddns_aaat2pxx_c01z0zc01z0zc01z0zc01z0zc010zAoPC"; g.Token != want {
		t.Errorf("got %s, want %s", g.Token, want)
	}
}

func TestGenerateWithoutRandomness(t *testing.T) {
	if _, err := policy.Generate(bytes.NewReader(make([]byte, 10))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("source that ends: got %v", err)
	}
	if _, err := policy.Generate(bytes.NewReader(nil)); !errors.Is(err, io.EOF) {
		t.Errorf("empty source: got %v", err)
	}
	_, err := policy.Generate(stuck{})
	if err == nil || err.Error() != "reading random octets: the source is not random" {
		t.Errorf("stuck source: got %v", err)
	}
}

type stuck struct{}

func (stuck) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0xff
	}
	return len(p), nil
}

func TestGeneratedIsNotPrinted(t *testing.T) {
	g, err := policy.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%s", "%#v", "%q"} {
		if s := fmt.Sprintf(verb, g); strings.Contains(s, g.Token) || !strings.Contains(s, g.ID) {
			t.Errorf("%s: got %s", verb, s)
		}
	}
}

func TestGeneratedPolicyIsReadyToPaste(t *testing.T) {
	g, err := policy.Generate(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ owner, want string }{
		{"Laptop.dyn.example.org", "    update laptop.dyn.example.org. A AAAA\n"},
		{"*.bücher.example", "    update *.xn--bcher-kva.example. A AAAA\n"},
		{`a\#b.example.org`, `    update a\035b.example.org. A AAAA` + "\n"},
		{"", "    # update NAME A AAAA\n"},
		{"x\n}\nhook h {", "    # update NAME A AAAA\n"},
	} {
		text := g.Policy(tc.owner)
		if want := "token " + g.ID + " " + g.Hash + " {\n" + tc.want + "}\n"; text != want {
			t.Errorf("%q: got %q, want %q", tc.owner, text, want)
		}
		id, ok := mustParse(t, text).Token(g.Token)
		if !ok || id.ID != g.ID {
			t.Errorf("%q: the token is not found in its own policy", tc.owner)
		}
	}
	id, _ := mustParse(t, g.Policy("laptop.example.org")).Token(g.Token)
	if !id.Permits(zone.MustName("laptop.example.org"), dns.TypeA) {
		t.Error("the pasted block grants nothing")
	}
}

func TestCheckToken(t *testing.T) {
	const good = "ddns_aaat2pxx_c01z0zc01z0zc01z0zc01z0zc010zAoPC"
	for _, tc := range []struct {
		name, token string
		want        error
	}{
		{"a token", good, nil},
		{"nothing", "", policy.ErrTokenFormat},
		{"another prefix", "dyns" + good[4:], policy.ErrTokenFormat},
		{"the end is missing", good[:len(good)-1], policy.ErrTokenFormat},
		{"a letter too many", good + "0", policy.ErrTokenFormat},
		{"a line end", good[:len(good)-1] + "\n", policy.ErrTokenFormat},
		{"a line end in the id", good[:12] + "\n" + good[13:], policy.ErrTokenFormat},
		{"an id in upper case", strings.Replace(good, "aaat", "AAAT", 1), policy.ErrTokenFormat},
		{"no underscore behind the id", good[:13] + "0" + good[14:], policy.ErrTokenFormat},
		{"a hyphen in the secret", good[:20] + "-" + good[21:], policy.ErrTokenFormat},
		{"a wrong letter in the secret", good[:20] + "x" + good[21:], policy.ErrTokenChecksum},
		{"a wrong letter in the id", "ddns_b" + good[6:], policy.ErrTokenChecksum},
		{"two letters swapped", good[:14] + "0c" + good[16:], policy.ErrTokenChecksum},
		{"a wrong letter in the checksum", good[:len(good)-1] + "5", policy.ErrTokenChecksum},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := policy.CheckToken(tc.token); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestTokenIsFoundByItsHash(t *testing.T) {
	own := map[string]string{ // the operator's own tokens, of no form at all
		"short":  "0123456789abcdef",
		"long":   strings.Repeat("x", 512),
		"signs":  "a!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~",
		"small":  "0123456789abcde",
		"large":  strings.Repeat("x", 513),
		"spaced": "0123456789 abcdef",
		"accent": "0123456789abcdéf",
	}
	var text strings.Builder
	for name, token := range own {
		fmt.Fprintf(&text, "token %s sha256:%s {\n}\n", name, sum(token))
	}
	p := mustParse(t, text.String())
	for name, want := range map[string]bool{"short": true, "long": true, "signs": true, "small": false, "large": false, "spaced": false, "accent": false} {
		id, ok := p.Token(own[name])
		if ok != want || ok && id.ID != name {
			t.Errorf("%s: got %v, %v, want found %v", name, id, ok, want)
		}
	}
	for _, wrong := range []string{"", "0123456789abcdeF", "0123456789abcdef0", sum(own["short"]), "sha256:" + sum(own["short"])} {
		if id, ok := p.Token(wrong); ok {
			t.Errorf("%q: found as %s", wrong, id.ID)
		}
	}
}

func BenchmarkToken(b *testing.B) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "token t%d sha256:%s {\n}\n", i, sum(fmt.Sprintf("0123456789abcdef%d", i)))
	}
	g, err := policy.Generate(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	text.WriteString(g.Policy("laptop.dyn.example.org"))
	p := mustParse(b, text.String())
	for name, token := range map[string]string{"known": g.Token, "unknown": strings.Repeat("a", 47)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Token(token)
			}
		})
	}
}
