package policy_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy/caddyfile"
	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// FuzzParse: no text makes Parse panic; an accepted one is read as the lexer of
// the Corefile reads it, and says the same after it was printed and read again.
func FuzzParse(f *testing.F) {
	f.Add(diffBase)
	f.Add("token a " + hashA + " {\r\n  update *.x A TYPE65280 * ANY\n  from 192.0.2.1 2001:db8::/32\n  reload\n}\n")
	f.Add("key k. {\n self TXT\n update \\*.x *\n expires 2027-06-30T12:00:00+02:00\n}\n")
	f.Add("hook h {\n command /bin/sh -c \"a \\\" b\n c\" \"\"\n env A \"\"\n allow_env X_*\n on removed\n types *\n user root\n root\n timeout 1h\n cwd /\n group g\n}\n")
	for _, tc := range parseErrors {
		if len(tc.text) < 1000 {
			f.Add(tc.text)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, problem := policy.Scan([]byte(text)); problem == "" {
			checkLexing(t, text)
		}
		p, err := policy.Parse("policy", []byte(text))
		if err != nil {
			if p != nil || !strings.HasPrefix(err.Error(), "policy:") {
				t.Errorf("got %v, %v", p, err)
			}
			return
		}
		for _, h := range p.Hooks() {
			words := slices.AppendSeq(slices.Clone(h.Command), maps.Values(h.Env))
			if strings.Contains(strings.Join(append(words, h.Cwd), ""), `\`) {
				return // the lexer has no way to quote a backslash before a quote
			}
		}
		printed := render(p)
		again, err := policy.Parse("printed", []byte(printed))
		if err != nil {
			t.Fatalf("printed policy: %v\n%s", err, printed)
		}
		if d := policy.Diff(p, again); !d.Empty() {
			t.Fatalf("printed policy differs: %+v\n%s", d, printed)
		}
		if render(again) != printed {
			t.Fatalf("printed twice:\n%s\n%s", printed, render(again))
		}
	})
}

// checkLexing compares the words that scan let pass with the lexer's: each must
// stand in the text as it is, but for quotes and what escapes them.
func checkLexing(t *testing.T, text string) {
	t.Helper()
	bare := strings.NewReplacer(`\`, "", `"`, "") // how quotes are escaped is the lexer's affair
	rest := bare.Replace(text)
	d := caddyfile.NewDispenser("", bytes.NewReader([]byte(text)))
	for d.Next() {
		w := bare.Replace(d.Val())
		i := strings.Index(rest, w)
		if i < 0 {
			t.Fatalf("word %q is not in the text %q", d.Val(), text)
		}
		rest = rest[i+len(w):]
	}
}

// render writes a policy as text.
func render(p *policy.Policy) string {
	var b strings.Builder
	block := func(i *policy.Identity) {
		for _, g := range i.Grants() {
			fmt.Fprintf(&b, "\t%s\n", g)
		}
		for _, f := range i.From {
			fmt.Fprintf(&b, "\tfrom %s\n", f)
		}
		if !i.Expires.IsZero() {
			fmt.Fprintf(&b, "\texpires %s\n", i.Expires.Format(time.RFC3339Nano))
		}
		b.WriteString("}\n")
	}
	for _, i := range p.Tokens() {
		fmt.Fprintf(&b, "token %s %s {\n", i.ID, policy.HashOf(i))
		block(i)
	}
	for _, i := range p.Keys() {
		fmt.Fprintf(&b, "key %s {\n", policy.NamePattern{Name: policy.NameOf(p, i)})
		block(i)
	}
	word := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }
	for _, h := range p.Hooks() {
		fmt.Fprintf(&b, "hook %s {\n\tcommand", h.Name)
		for _, a := range h.Command {
			b.WriteString(" " + word(a))
		}
		b.WriteString("\n")
		for _, property := range [][2]string{{"user", h.User}, {"group", h.Group}, {"cwd", h.Cwd}} {
			if property[1] != "" {
				fmt.Fprintf(&b, "\t%s %s\n", property[0], word(property[1]))
			}
		}
		if h.Timeout != 0 {
			fmt.Fprintf(&b, "\ttimeout %s\n", h.Timeout)
		}
		for _, k := range slices.Sorted(maps.Keys(h.Env)) {
			fmt.Fprintf(&b, "\tenv %s %s\n", k, word(h.Env[k]))
		}
		for _, a := range h.AllowEnv {
			fmt.Fprintf(&b, "\tallow_env %s\n", a)
		}
		fmt.Fprintf(&b, "\ton %s\n", strings.Join(h.On, " "))
		for _, m := range h.Match {
			fmt.Fprintf(&b, "\tmatch %s\n", m)
		}
		b.WriteString("\ttypes")
		if h.AnyType {
			b.WriteString(" *")
		}
		for _, typ := range h.Types {
			b.WriteString(" TYPE" + strconv.Itoa(int(typ)))
		}
		b.WriteString("\n")
		if h.Root {
			b.WriteString("\troot\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// FuzzParseOwner: no text makes ParseOwner panic; a name it returns is one that
// package dns accepts, and printed as a pattern is read as the same.
func FuzzParseOwner(f *testing.F) {
	for _, s := range []string{
		"a.example.org", "*.x", `\*.x`, "bücher.example", "xn--bcher-kva.example", "xn--a", `a\.b\032.x`, "_x._y.z.", ".", "", "例え。x",
		"مثال.x", "ab\u200cc.x", "\u00ad", "a\x00", `\256`, `\`, "💻.x", strings.Repeat("a.", 127), strings.Repeat("ü", 63),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := policy.ParseOwner(s)
		if err != nil {
			if n != "" {
				t.Errorf("got %q beside %v", n, err)
			}
			return
		}
		if _, ok := dns.IsDomainName(n.String()); !ok || len(n) > zone.MaxNameLength {
			t.Errorf("%q is no name: %q", s, n.String())
		}
		text := policy.NamePattern{Name: n}.String()
		if again, err := policy.ParseOwner(text); err != nil || again != n {
			t.Errorf("%q: printed as %q, which is %q, %v", s, text, again, err)
		}
		if strings.ContainsAny(text, " \"#{}\n\r\t") {
			t.Errorf("%q: printed as %q, which is not one word", s, text)
		}
	})
}
