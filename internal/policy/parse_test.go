package policy_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
)

const (
	hashA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	hashB = "sha256:BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB"
)

// secret looks like a token: no error may show it, wherever it is written.
const secret = "ddns_abcdefgh_0123456789ABCDEFGHIJKLMNOPQ"

func mustParse(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParse(t *testing.T) {
	p := mustParse(t, `# who may do what
token laptop `+hashA+` {
    update laptop.dyn.example.org A AAAA   # its own name
    update *.laptop.dyn.example.org
    update "_acme-challenge.laptop.dyn.example.org" TXT
    from 192.0.2.0/24 2001:db8::/32
    from 198.51.100.7
    expires 2027-06-30
}

token ops `+hashB+` {
    reload
}

key DHCP.example.org {
    update *.dyn.example.org A AAAA DHCID ANY
    self
    expires 2027-06-30T12:00:00+02:00
}

hook reload-proxy {
    command /usr/local/bin/reload-proxy --quiet "two words" ""
    user proxy
    group proxy
    cwd /var/empty
    timeout 90s
    env MODE fast
    env EMPTY ""
    allow_env REASON X_*
    on removed added
    match *.dyn.example.org www.example.org
    match example.org.
    types TXT A TYPE65280
}

hook all {
    command /bin/true
    types *
    user root
    root
}
`)

	laptop, ops := p.Tokens()[0], p.Tokens()[1]
	if laptop.ID != "laptop" || laptop.Kind != policy.Token || laptop.Line != 2 || laptop.Reload {
		t.Errorf("first token: got %+v", laptop)
	}
	if want := []netip.Prefix{
		netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("198.51.100.7/32"),
	}; !slices.Equal(laptop.From, want) {
		t.Errorf("from: got %v, want %v", laptop.From, want)
	}
	if want := time.Date(2027, 6, 30, 0, 0, 0, 0, time.UTC); !laptop.Expires.Equal(want) {
		t.Errorf("expires DATE: got %v, want %v", laptop.Expires, want)
	}
	if want := []string{
		"update laptop.dyn.example.org. A AAAA",
		"update _acme-challenge.laptop.dyn.example.org. TXT",
		"update *.laptop.dyn.example.org. A AAAA",
	}; !slices.Equal(laptop.Grants(), want) {
		t.Errorf("grants: got %q, want %q", laptop.Grants(), want)
	}
	if !ops.Reload || !slices.Equal(ops.Grants(), []string{"reload"}) {
		t.Errorf("ops: got %+v with %q", ops, ops.Grants())
	}

	dhcp, ok := p.Key(zone.MustName("dhcp.example.org."))
	if !ok || dhcp.ID != "dhcp.example.org." || dhcp.Kind != policy.Key {
		t.Fatalf("key: got %+v, %v", dhcp, ok)
	}
	if want := time.Date(2027, 6, 30, 10, 0, 0, 0, time.UTC); !dhcp.Expires.Equal(want) {
		t.Errorf("expires RFC3339: got %v, want %v", dhcp.Expires, want)
	}
	if want := []string{"update dhcp.example.org. A AAAA", "update *.dyn.example.org. A AAAA DHCID ANY"}; !slices.Equal(dhcp.Grants(), want) {
		t.Errorf("key's grants: got %q, want %q", dhcp.Grants(), want)
	}

	h, ok := p.Hook("reload-proxy")
	want := &policy.Hook{
		Name:    "reload-proxy",
		Command: []string{"/usr/local/bin/reload-proxy", "--quiet", "two words", ""},
		User:    "proxy", Group: "proxy", Cwd: "/var/empty", Timeout: 90 * time.Second,
		Env:      map[string]string{"MODE": "fast", "EMPTY": ""},
		AllowEnv: []string{"REASON", "X_*"},
		On:       []string{"added", "removed"},
		Match: []policy.NamePattern{
			{Name: zone.MustName("dyn.example.org"), Below: true},
			{Name: zone.MustName("www.example.org")}, {Name: zone.MustName("example.org")},
		},
		Types: []uint16{dns.TypeA, dns.TypeTXT, 65280},
		Line:  21,
	}
	if !ok || !reflect.DeepEqual(h, want) {
		t.Errorf("hook:\ngot  %+v\nwant %+v", h, want)
	}
	all := p.Hooks()[1]
	if !all.AnyType || all.Types != nil || !all.Root || all.User != "root" || all.Match != nil || !slices.Equal(all.On, []string{"added", "changed", "removed"}) {
		t.Errorf("hook all: got %+v", all)
	}
	if len(p.Warnings()) != 0 {
		t.Errorf("warnings: got %q, want none", p.Warnings())
	}
}

func TestParseTakesLineEndsAndByteOrderMarkOfWindows(t *testing.T) {
	p := mustParse(t, "\ufefftoken a "+hashA+" {\r\n\tupdate a.example.org\r\n}\r\n")
	if got := p.Tokens()[0].Grants(); !slices.Equal(got, []string{"update a.example.org. A AAAA"}) {
		t.Errorf("got %q", got)
	}
}

func TestParseCountsLinesOfQuotedWords(t *testing.T) {
	p := mustParse(t, "hook a {\n  command /bin/sh -c \"one\ntwo\nthree\" last\n  user nobody\n}\nhook b {\n  command /bin/b\n}\n")
	h := p.Hooks()
	if want := []string{"/bin/sh", "-c", "one\ntwo\nthree", "last"}; !slices.Equal(h[0].Command, want) || h[0].User != "nobody" || h[1].Line != 7 {
		t.Errorf("got %q, user %q, second on line %d", h[0].Command, h[0].User, h[1].Line)
	}
}

// inToken and inHook put a line on line 2 of a block.
func inToken(line string) string { return "token a " + hashA + " {\n" + line + "\n}\n" }
func inKey(line string) string   { return "key k.example.org {\n" + line + "\n}\n" }
func inHook(line string) string  { return "hook h {\n" + line + "\ncommand /bin/h\n}\n" }

var parseErrors = []struct{ name, text, want string }{
	// Blocks.
	{"a block that does not exist", "\n\nuser a {\n}\n", `policy:3: unknown block "user": expected token, key or hook`},
	{"import beside blocks", "import other\n", `policy:1: import is not available in a policy file: one file is the whole policy`},
	{"import in a block", inToken("import other"), `policy:2: import is not available in a policy file: one file is the whole policy`},
	{"a token without a hash", "token a {\n}\n", `policy:1: expected token NAME sha256:HEX {`},
	{"a token without a block", "token a " + hashA + "\n", `policy:1: expected token NAME sha256:HEX {`},
	{"an opening brace on the next line", "token a " + hashA + "\n{\n}\n", `policy:1: expected token NAME sha256:HEX {`},
	{"a key with two names", "key a b {\n}\n", `policy:1: expected key NAME {`},
	{"a hook without a name", "hook {\n}\n", `policy:1: expected hook NAME {`},
	{"a word alone", "hook\n", `policy:1: expected hook NAME {`},
	{"a block that is not closed", "\ntoken a " + hashA + " {\nreload\n", `policy:2: token a: the block is not closed: missing }`},
	{"a block that the next one runs into", "token a " + hashA + " {\nreload\ntoken b " + hashB + " {\n}\n", `policy:3: token a: unexpected {: } closes a block on a line of its own`},
	{"a block on one line", "token a " + hashA + " { reload }\n", `policy:1: expected token NAME sha256:HEX {`},
	{"a closing brace behind a property", "token a " + hashA + " {\nreload }\n", `policy:2: token a: unexpected }: } closes a block on a line of its own`},
	{"a brace too many", inToken("reload") + "}\n", `policy:4: unknown block "}": expected token, key or hook`},
	{"an environment variable", inHook("env HOME_DIR {$HOME}"), `policy:2: hook h: "{$HOME}": environment variables are not expanded in a policy file`},
	{"an environment variable of Windows", inHook("env HOME_DIR x{%HOME%}"), `policy:2: hook h: "x{%HOME%}": environment variables are not expanded in a policy file`},
	{"two tokens of one name", inToken("reload") + "token a " + hashB + " {\n}\n", `policy:4: token a: the name is taken by line 1`},
	{"two tokens of one hash", inToken("reload") + "token b " + strings.ToUpper(hashA[7:8]) + hashA[8:] + " {\n}\n", `policy:4: token b: expected sha256: and 64 hex digits`},
	{"one hash in two spellings", inToken("reload") + "token b sha256:" + strings.ToUpper(hashA[7:]) + " {\n}\n", `policy:4: token b: the hash is that of token a, line 1`},
	{"two keys of one name", inKey("self") + "key K.EXAMPLE.org. {\n}\n", `policy:4: key k.example.org.: the name is taken by line 1`},
	{"two hooks of one name", "hook h {\ncommand /a\n}\nhook h {\ncommand /b\n}\n", `policy:4: hook h: the name is taken by line 1`},

	// Names and hashes.
	{"a token's name with a space", "token \"a b\" " + hashA + " {\n}\n", `policy:1: token: "a b" is not a name: expected at most 63 letters, digits, - _ and ., a letter or digit first`},
	{"a token's name that is empty", "token \"\" " + hashA + " {\n}\n", `policy:1: token: "" is not a name: expected at most 63 letters, digits, - _ and ., a letter or digit first`},
	{"a hook's name that begins with a dash", "hook -h {\n}\n", `policy:1: hook: "-h" is not a name: expected at most 63 letters, digits, - _ and ., a letter or digit first`},
	{"a name that is too long", "hook " + strings.Repeat("h", 64) + " {\n}\n", `policy:1: hook: "` + strings.Repeat("h", 64) + `" is not a name: expected at most 63 letters, digits, - _ and ., a letter or digit first`},
	{"a token for a name", "token " + secret + " " + hashA + " {\n}\n", `policy:1: token: "ddns_…": a token cannot be a name`},
	{"a token for a hash", "token a " + secret + " {\n}\n", `policy:1: token a: expected the hash of the token, sha256: and 64 hex digits, not the token itself, which is now known to whoever read this file`},
	{"another word for a hash", "token a hunter2 {\n}\n", `policy:1: token a: expected sha256: and 64 hex digits`},
	{"a hash cut short", "token a sha256:abc {\n}\n", `policy:1: token a: expected 64 hex digits after sha256:, not 3 characters`},
	{"a hash with a wrong digit", "token a " + hashA[:70] + "g {\n}\n", `policy:1: token a: expected 64 hex digits after sha256:, not other characters`},
	{"a key's name that is no name", "key a..b {\n}\n", `policy:1: key: name "a..b": empty label`},
	{"a key named as a wildcard", "key *.example.org {\n}\n", `policy:1: key: "*.example.org" cannot be the name of a key`},

	// Tokens and keys.
	{"an unknown property of a token", inToken("updates a"), `policy:2: token a: unknown property "updates": expected update, from, expires or reload`},
	{"self of a token", inToken("self"), `policy:2: token a: unknown property "self": expected update, from, expires or reload`},
	{"reload of a key", inKey("reload"), `policy:2: key k.example.org.: unknown property "reload": expected update, self, from or expires`},
	{"a token for a property", inToken(secret), `policy:2: token a: unknown property "ddns_…": expected update, from, expires or reload`},
	{"update of nothing", inToken("update"), `policy:2: token a: update: expected OWNER [TYPES...]`},
	{"update of a lone star", inToken("update *"), `policy:2: token a: update: "*" is not a name: every name there is would be "*."`},
	{"update of a bad name", inToken("update a..b"), `policy:2: token a: update: name "a..b": empty label`},
	{"update below a bad name", inToken("update *.a..b"), `policy:2: token a: update: name "*.a..b": empty label`},
	{"update of two names", inToken("update a.example.org b.example.org"), `policy:2: token a: update: "b.example.org" is not a type of record: a line names one owner, then types`},
	{"update of an unknown type", inToken("update a.example.org A QUADA"), `policy:2: token a: update: "QUADA" is not a type of record`},
	{"update of a meta type", inToken("update a.example.org TSIG"), `policy:2: token a: update: "TSIG" is not a type that a zone can hold`},
	{"update of the pseudo type OPT by number", inToken("update a.example.org TYPE41"), `policy:2: token a: update: "TYPE41" is not a type that a zone can hold`},
	{"update of type 0", inToken("update a.example.org TYPE0"), `policy:2: token a: update: "TYPE0" is not a type of record`},
	{"from nowhere", inToken("from"), `policy:2: token a: from: expected ADDRESS|CIDR...`},
	{"from a name", inToken("from 192.0.2.1 localhost"), `policy:2: token a: from: "localhost" is not an address`},
	{"from an interface", inToken("from fe80::1%eth0"), `policy:2: token a: from: "fe80::1%eth0" is not an address`},
	{"from an address with a leading zero", inToken("from 192.0.2.010"), `policy:2: token a: from: "192.0.2.010" is not an address`},
	{"from a prefix too long", inToken("from 192.0.2.0/33"), `policy:2: token a: from: "192.0.2.0/33" is not a CIDR`},
	{"from a prefix with host bits", inToken("from 192.0.2.7/24"), `policy:2: token a: from: "192.0.2.7/24" has bits beyond its length: write 192.0.2.0/24`},
	{"from IPv4 in IPv6", inToken("from ::ffff:192.0.2.0/120"), `policy:2: token a: from: "::ffff:192.0.2.0/120": write the IPv4 address as such`},
	{"expires without a date", inToken("expires"), `policy:2: token a: expires: expected one date`},
	{"expires in words", inToken("expires tomorrow"), `policy:2: token a: expires: "tomorrow" is not a date such as 2027-06-30 or 2027-06-30T12:00:00Z`},
	{"expires on a day that is none", inToken("expires 2027-02-29"), `policy:2: token a: expires: "2027-02-29" is not a date such as 2027-06-30 or 2027-06-30T12:00:00Z`},
	{"expires in the year 1", inToken("expires 0001-01-01"), `policy:2: token a: expires: "0001-01-01" is not a date such as 2027-06-30 or 2027-06-30T12:00:00Z`},
	{"expires twice", inToken("expires 2027-06-30\nexpires 2028-06-30"), `policy:3: token a: expires: given twice`},
	{"reload twice", inToken("reload\nreload"), `policy:3: token a: reload: given twice`},
	{"reload with an argument", inToken("reload now"), `policy:2: token a: reload: takes no argument`},
	{"self twice", inKey("self\nself A"), `policy:3: key k.example.org.: self: given twice`},
	{"self of an unknown type", inKey("self B"), `policy:2: key k.example.org.: self: "B" is not a type of record`},

	// Hooks.
	{"an unknown property of a hook", inHook("shell /bin/sh"), `policy:2: hook h: unknown property "shell": expected command, user, group, cwd, timeout, env, allow_env, on, match, types or root`},
	{"a hook without a command", "hook h {\nuser a\n}\n", `policy:1: hook h: no command`},
	{"a command that is missing", "hook h {\ncommand\n}\n", `policy:2: hook h: command: expected PATH [ARGS...]`},
	{"a command found by PATH", "hook h {\ncommand true\n}\n", `policy:2: hook h: command: "true" is not an absolute path`},
	{"a command through ..", "hook h {\ncommand /bin/../sbin/x\n}\n", `policy:2: hook h: command: "/bin/../sbin/x" is not a clean path: write "/sbin/x"`},
	{"a command with too many arguments", "hook h {\ncommand /bin/h" + strings.Repeat(" a", 64) + "\n}\n", `policy:2: hook h: command: more than 64 arguments or 32768 octets`},
	{"a command with a huge argument", "hook h {\ncommand /bin/h " + strings.Repeat("a", 32<<10) + "\n}\n", `policy:2: hook h: command: more than 64 arguments or 32768 octets`},
	{"two commands", inHook("command /bin/g"), `policy:3: hook h: command: given twice`},
	{"user by number", inHook("user 1000"), `policy:2: hook h: user: "1000" is a number: give the name`},
	{"user with a colon", inHook("user proxy:proxy"), `policy:2: hook h: user: "proxy:proxy" is not the name of an account`},
	{"user that is empty", inHook(`user ""`), `policy:2: hook h: user: "" is not the name of an account`},
	{"user and group on one line", inHook("user proxy proxy"), `policy:2: hook h: user: expected one NAME`},
	{"group by number", inHook("group 0"), `policy:2: hook h: group: "0" is a number: give the name`},
	{"user root without the word", inHook("user root"), `policy:1: hook h: user root needs the word root on a line of its own`},
	{"group root without the word", inHook("user proxy\ngroup root"), `policy:1: hook h: group root needs the word root on a line of its own`},
	{"root with an argument", inHook("root yes"), `policy:2: hook h: root: takes no argument`},
	{"cwd that is relative", inHook("cwd tmp"), `policy:2: hook h: cwd: "tmp" is not an absolute path`},
	{"cwd with a slash at the end", inHook("cwd /tmp/"), `policy:2: hook h: cwd: "/tmp/" is not a clean path: write "/tmp"`},
	{"cwd without a path", inHook("cwd"), `policy:2: hook h: cwd: expected one PATH`},
	{"timeout without a unit", inHook("timeout 30"), `policy:2: hook h: timeout: "30" is not a duration such as 30s`},
	{"timeout that is missing", inHook("timeout"), `policy:2: hook h: timeout: expected one duration`},
	{"timeout too short", inHook("timeout 999ms"), `policy:2: hook h: timeout: "999ms" is not between 1s and 1h`},
	{"timeout too long", inHook("timeout 1h1s"), `policy:2: hook h: timeout: "1h1s" is not between 1s and 1h`},
	{"timeout below zero", inHook("timeout -5s"), `policy:2: hook h: timeout: "-5s" is not between 1s and 1h`},
	{"timeout of half a second", inHook("timeout 1500ms"), `policy:2: hook h: timeout: "1500ms" is not a whole number of seconds`},
	{"env without a value", inHook("env MODE"), `policy:2: hook h: env: expected NAME VALUE, the value in quotes when it has spaces`},
	{"env as an assignment", inHook("env MODE=fast x"), `policy:2: hook h: env: "MODE=fast" is not a name of an environment variable`},
	{"env of the event", inHook("env DDNS_FQDN x"), `policy:2: hook h: env: "DDNS_FQDN" is reserved: DDNS_* describes the event`},
	{"env of the loader", inHook("env LD_PRELOAD /x.so"), `policy:2: hook h: env: "LD_PRELOAD" is refused: it would change what program runs`},
	{"env PATH", inHook("env PATH /x"), `policy:2: hook h: env: "PATH" is refused: it would change what program runs`},
	{"env twice", inHook("env A 1\nenv A 2"), `policy:3: hook h: env: "A" given twice`},
	{"env too much", inHook("env A " + strings.Repeat("a", 32<<10)), `policy:2: hook h: env: more than 64 variables or 32768 octets`},
	{"allow_env of nothing", inHook("allow_env"), `policy:2: hook h: allow_env: expected NAME|PREFIX*...`},
	{"allow_env of everything", inHook("allow_env *"), `policy:2: hook h: allow_env: "*" is not a prefix of environment variables`},
	{"allow_env of a shell's variable", inHook("allow_env BASH_ENV"), `policy:2: hook h: allow_env: "BASH_ENV" is refused: it would change what program runs`},
	{"allow_env of a prefix inside a refused one", inHook("allow_env PYTHONP*"), `policy:2: hook h: allow_env: "PYTHONP*" would allow PYTHON*, which is refused`},
	{"allow_env of a prefix that reaches the loader", inHook("allow_env L*"), `policy:2: hook h: allow_env: "L*" would allow LD_*, which is refused`},
	{"allow_env of a prefix that reaches a name", inHook("allow_env PA*"), `policy:2: hook h: allow_env: "PA*" would allow PATH_LOCALE, which is refused`},
	{"allow_env of the event", inHook("allow_env D*"), `policy:2: hook h: allow_env: "D*" would allow DDNS_*, which is refused`},
	{"allow_env twice", inHook("allow_env A A"), `policy:2: hook h: allow_env: "A" given twice`},
	{"allow_env too often", inHook("allow_env" + numbered(" A", 65)), `policy:2: hook h: allow_env: more than 64 variables`},
	{"on nothing", inHook("on"), `policy:2: hook h: on: expected some of added, changed and removed`},
	{"on an unknown event", inHook("on updated"), `policy:2: hook h: on: "updated" is not an event: expected added, changed or removed`},
	{"on an event twice", inHook("on added added"), `policy:2: hook h: on: "added" given twice`},
	{"match of nothing", inHook("match"), `policy:2: hook h: match: expected OWNER...`},
	{"match of a bad name", inHook("match a..b"), `policy:2: hook h: match: name "a..b": empty label`},
	{"types of nothing", inHook("types"), `policy:2: hook h: types: expected TYPES...`},
	{"types ANY", inHook("types A any"), `policy:2: hook h: types: "any" is not a type of record: every type is *`},
	{"types of an unknown one", inHook("types AAAAA"), `policy:2: hook h: types: "AAAAA" is not a type of record`},

	// Text that the lexer would read other than it looks.
	{"text that is not UTF-8", "\n# caf\xe9\n", `policy:2: text is not UTF-8`},
	{"a NUL", "hook h {\ncommand /bin/h\x00\n}\n", `policy:2: character U+0000 is not allowed: it would not be seen`},
	{"a character that turns the line around", "# \u202ereload\n", `policy:1: character U+202E is not allowed: it would not be seen`},
	{"a carriage return alone", "hook h {\rcommand /bin/h\n}\n", `policy:1: carriage return without line feed`},
	{"a comment inside a word", inToken("update a#b.example.org"), `policy:2: "#" inside a word would begin a comment: put a space before it, or the word in quotes`},
	{"a quote that is not closed", "\nhook h {\ncommand \"/bin/h\n}\n", `policy:3: quote is not closed`},
	{"too many words", strings.Repeat("a\n", policy.MaxWords+1), fmt.Sprintf(`policy:%d: more than 1000000 words`, policy.MaxWords+1)},
	{"too many hooks", numberedHooks(policy.MaxHooks + 1), `policy:769: hook h256: more than 256 hooks`},
	{"too large a file", strings.Repeat("#", policy.MaxFileSize+1), `policy: larger than 8 MiB`},
}

func numbered(word string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d", word, i)
	}
	return b.String()
}

func numberedHooks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "hook h%d {\ncommand /bin/h\n}\n", i)
	}
	return b.String()
}

func TestParseErrors(t *testing.T) {
	for _, tc := range parseErrors {
		t.Run(tc.name, func(t *testing.T) {
			p, err := policy.Parse("policy", []byte(tc.text))
			if err == nil {
				t.Fatalf("got no error, want %s", tc.want)
			}
			if p != nil {
				t.Error("got a policy beside the error")
			}
			if err.Error() != tc.want {
				t.Errorf("\ngot  %s\nwant %s", err, tc.want)
			}
			var pe *policy.ParseError
			if !errors.As(err, &pe) || pe.File != "policy" {
				t.Errorf("got %T, want a *ParseError of the file", err)
			}
		})
	}
}

// Wherever a token is pasted, no error shows its secret part.
func TestParseNeverShowsAToken(t *testing.T) {
	lines := []string{
		"%s", "token %s {\n}", "token %s x {\n}", "token a %s {\n}", "token a sha256:%s {\n}", "key %s {\n}\nx", "hook %s {\n}",
		"token a " + hashA + " {\n%s\n}", "token a " + hashA + " {\nupdate a.%s..example.org\n}", "token a " + hashA + " {\nupdate a %s\n}",
		"token a " + hashA + " {\nfrom %s\n}", "token a " + hashA + " {\nexpires %s\n}", "hook h {\ncommand %s\n}", "hook h {\nuser %s\n}",
		"hook h {\ntimeout %s\n}", "hook h {\nenv %s-x 1\n}", "hook h {\non %s\n}", "hook h {\nmatch %s..x\n}", "hook h {\nallow_env %s.*\n}",
		"hook h {\ncwd %s\n}", "hook h {\nenv A {$%s}\n}",
	}
	for _, l := range lines {
		_, err := policy.Parse("policy", []byte(fmt.Sprintf(l, secret)))
		if err == nil {
			t.Errorf("%q: got no error", l)
		} else if strings.Contains(err.Error(), "0123456789ABC") {
			t.Errorf("%q: the error shows the token: %s", l, err)
		}
	}
}

func TestParseFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := dir + "/" + name
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		name, file string
		mode       os.FileMode
		want       string // warning; FILE stands for the path
	}{
		{"a file of its owner's is not worth a word", "owner", 0o600, ""},
		{"a group may read", "group", 0o640, ""},
		{"everyone may read", "read", 0o644, "FILE may be read by everyone (mode 0644): chmod o-r"},
		{"the group may write", "write", 0o664, "FILE may be written by others than its owner (mode 0664), who could then update every name and run every hook: chmod go-w"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(tc.file, inToken("reload"), tc.mode)
			p, err := policy.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(strings.Join(p.Warnings(), "\n"), path, "FILE"); got != tc.want {
				t.Errorf("warnings: got %q, want %q", got, tc.want)
			}
		})
	}

	bad := write("bad", "\nx\n", 0o600)
	if _, err := policy.ParseFile(bad); err == nil || err.Error() != bad+`:2: unknown block "x": expected token, key or hook` {
		t.Errorf("bad file: got %v", err)
	}
	if _, err := policy.ParseFile(dir); err == nil || err.Error() != dir+`: not a regular file` {
		t.Errorf("directory: got %v", err)
	}
	if _, err := policy.ParseFile(dir + "/none"); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "reading policy file: open "+dir+"/none: no such file or directory (") {
		t.Errorf("missing file: got %v", err)
	}
	large := write("large", strings.Repeat("#", policy.MaxFileSize+1), 0o600)
	if _, err := policy.ParseFile(large); err == nil || err.Error() != large+": larger than 8 MiB" {
		t.Errorf("large file: got %v", err)
	}
}

func TestWarnings(t *testing.T) {
	var many strings.Builder
	for i := range 25 {
		fmt.Fprintf(&many, "token t%d %s {\n}\n", i, policy.HashToken(fmt.Sprint(i)))
	}
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"an empty policy", "", []string{"the policy has no token and no key: no update will be accepted"}},
		{"hooks alone, as ddns-hookd has them", inHook("on added"), nil},
		{"a block without a grant", inToken("from 192.0.2.1"), []string{"token a grants nothing"}},
		{"a grant of everything", inKey("update *."), []string{"key k.example.org. may update every name of every zone"}},
		{"more warnings than one reads", many.String(), append(func() (w []string) {
			for i := range 20 {
				w = append(w, fmt.Sprintf("token t%d grants nothing", i))
			}
			return w
		}(), "and 5 more of the like")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := mustParse(t, tc.text).Warnings(); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
