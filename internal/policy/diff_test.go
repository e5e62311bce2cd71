package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/policy"
)

const diffBase = "token a " + hashA + ` {
    update a.example.org A
    update *.a.example.org TXT
    from 192.0.2.0/24
    expires 2027-06-30
}
token b ` + hashB + ` {
    reload
}
key k.example.org {
    self
}
hook h {
    command /bin/h one
    env MODE fast
    match *.example.org
}
`

func TestDiff(t *testing.T) {
	base := mustParse(t, diffBase)
	for _, tc := range []struct {
		name string
		edit []string // old, new pairs
		want string
	}{
		{"the same text", nil, `{"tokens":{},"keys":{},"hooks":{}}`},
		{"comments and spaces", []string{"    reload", "\treload # soon"}, `{"tokens":{},"keys":{},"hooks":{}}`},
		{"the same in another spelling", []string{"update a.example.org A", "update A.EXAMPLE.ORG. type1 a", "2027-06-30", "2027-06-30T02:00:00+02:00"}, `{"tokens":{},"keys":{},"hooks":{}}`},
		{"a line further down", []string{"token b", "\n\n\ntoken b"}, `{"tokens":{},"keys":{},"hooks":{}}`},
		{"another type", []string{"a.example.org A", "a.example.org AAAA"}, `{"tokens":{"changed":["a"]},"keys":{},"hooks":{}}`},
		{"another name below", []string{"*.a.", "*.b."}, `{"tokens":{"changed":["a"]},"keys":{},"hooks":{}}`},
		{"another peer", []string{"192.0.2.0/24", "192.0.2.0/25"}, `{"tokens":{"changed":["a"]},"keys":{},"hooks":{}}`},
		{"another date", []string{"2027", "2028"}, `{"tokens":{"changed":["a"]},"keys":{},"hooks":{}}`},
		{"another hash", []string{hashB, "sha256:" + strings.Repeat("c", 64)}, `{"tokens":{"changed":["b"]},"keys":{},"hooks":{}}`},
		{"no more reload", []string{"    reload\n", ""}, `{"tokens":{"changed":["b"]},"keys":{},"hooks":{}}`},
		{"another name of a token", []string{"token b", "token c"}, `{"tokens":{"added":["c"],"removed":["b"]},"keys":{},"hooks":{}}`},
		{"other types of a key", []string{"self", "self TXT"}, `{"tokens":{},"keys":{"changed":["k.example.org."]},"hooks":{}}`},
		{"another name of a key", []string{"key k", "key l"}, `{"tokens":{},"keys":{"added":["l.example.org."],"removed":["k.example.org."]},"hooks":{}}`},
		{"another argument", []string{"one", "two"}, `{"tokens":{},"keys":{},"hooks":{"changed":["h"]}}`},
		{"another variable", []string{"fast", "slow"}, `{"tokens":{},"keys":{},"hooks":{"changed":["h"]}}`},
		{"another hook", []string{"hook h", "hook g"}, `{"tokens":{},"keys":{},"hooks":{"added":["g"],"removed":["h"]}}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := strings.NewReplacer(tc.edit...).Replace(diffBase)
			if tc.edit != nil && text == diffBase {
				t.Fatal("the edit changes nothing")
			}
			p := mustParse(t, text)
			d := policy.Diff(base, p)
			got, err := json.Marshal(d)
			if err != nil || string(got) != tc.want {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
			if same := strings.Count(tc.want, "[") == 0; d.Empty() != same {
				t.Errorf("empty: got %v, want %v", d.Empty(), same)
			}
			if same := text == diffBase; (p.Digest() == base.Digest()) != same {
				t.Errorf("digests %s and %s", p.Digest(), base.Digest())
			}
		})
	}
}

func TestDiffFromAndToNothing(t *testing.T) {
	base := mustParse(t, diffBase)
	for _, tc := range []struct {
		old, new *policy.Policy
		want     string
	}{
		{nil, base, `{"tokens":{"added":["a","b"]},"keys":{"added":["k.example.org."]},"hooks":{"added":["h"]}}`},
		{base, nil, `{"tokens":{"removed":["a","b"]},"keys":{"removed":["k.example.org."]},"hooks":{"removed":["h"]}}`},
		{nil, nil, `{"tokens":{},"keys":{},"hooks":{}}`},
	} {
		if got, err := json.Marshal(policy.Diff(tc.old, tc.new)); err != nil || string(got) != tc.want {
			t.Errorf("got %s, %v, want %s", got, err, tc.want)
		}
	}
}
