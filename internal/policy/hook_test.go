package policy_test

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
)

func TestHookWants(t *testing.T) {
	p := mustParse(t, `hook some {
    command /bin/some
    on changed
    match *.dyn.example.org www.example.org
    types TXT
}
hook plain {
    command /bin/plain
}
hook every {
    command /bin/every
    types *
}
`)
	for _, tc := range []struct {
		hook, event, owner string
		typ                uint16
		want               bool
	}{
		{"some", "changed", "a.dyn.example.org", dns.TypeTXT, true},
		{"some", "changed", "www.example.org", dns.TypeTXT, true},
		{"some", "added", "www.example.org", dns.TypeTXT, false},
		{"some", "changed", "www.example.org", dns.TypeA, false},
		{"some", "changed", "example.org", dns.TypeTXT, false},
		{"some", "changed", "*.dyn.example.org", dns.TypeTXT, false},
		{"plain", "added", "a.example.org", dns.TypeA, true},
		{"plain", "changed", "*.example.org", dns.TypeAAAA, true},
		{"plain", "removed", "a.example.org", dns.TypeTXT, false},
		{"plain", "renamed", "a.example.org", dns.TypeA, false},
		{"every", "removed", "a.example.org", dns.TypeTXT, true},
		{"every", "removed", "a.example.org", 65280, true},
	} {
		h, _ := p.Hook(tc.hook)
		if got := h.Wants(tc.event, zone.MustName(tc.owner), tc.typ); got != tc.want {
			t.Errorf("%s wants %s %s %s: got %v, want %v", tc.hook, tc.event, tc.owner, zone.TypeString(tc.typ), got, tc.want)
		}
	}
}

func TestHookAllowsEnv(t *testing.T) {
	h, _ := mustParse(t, inHook("allow_env REASON X_*")).Hook("h")
	for name, want := range map[string]bool{
		"REASON": true, "REASONS": false, "X_": true, "X_ID": true, "x_ID": false, "X": false, "X_A=B": false, "X_\x00": false,
		"LD_PRELOAD": false, "DDNS_FQDN": false, "": false,
	} {
		if got := h.AllowsEnv(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}

func TestCheckEnvName(t *testing.T) {
	for _, name := range []string{"A", "_", "MODE", "a1", "HOME", "TZ", "LANG", "LC_ALL", "PATHS", "ENVIRONMENT", "LDAP_URI", "XLD_PRELOAD"} {
		if err := policy.CheckEnvName(name); err != nil {
			t.Errorf("%s: got %v, want no error", name, err)
		}
	}
	for _, name := range []string{
		"", "1A", "A-B", "A B", "A=B", "Ä", "A\x00", "A*",
		"DDNS_", "DDNS_EVENT", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_", "GLIBC_TUNABLES", "GCONV_PATH", "DYLD_INSERT_LIBRARIES",
		"PATH", "IFS", "ENV", "BASH_ENV", "BASH_FUNC_ls", "SHELLOPTS", "PS4", "PYTHONPATH", "PYTHONSTARTUP", "PERL5LIB", "PERLIO",
		"RUBYOPT", "NODE_OPTIONS", "LUA_PATH_5_4", "JAVA_TOOL_OPTIONS",
	} {
		if err := policy.CheckEnvName(name); err == nil {
			t.Errorf("%q: got no error", name)
		}
	}
}
