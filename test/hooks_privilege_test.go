//go:build linux

package test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// caller runs grpcurl as a user, with the committed description of the service.
type caller struct {
	h       *hooking
	program string
	user    string
}

func newCaller(h *hooking, user string) *caller {
	h.t.Helper()
	c := &caller{h: h, program: filepath.Join(h.base, "grpcurl"), user: user}
	if _, err := os.Stat(c.program); err != nil { // the original may be where the user cannot go
		program, err := os.ReadFile(hookTool(h.t, "grpcurl"))
		if err != nil {
			h.t.Fatal(err)
		}
		h.place("grpcurl", string(program), 0o755)
		proto, err := os.ReadFile("../proto/hooks/v1/hooks.proto")
		if err != nil {
			h.t.Fatal(err)
		}
		h.place("hooks.proto", string(proto), 0o644)
		h.place("health.proto", healthProto, 0o644)
	}
	return c
}

// healthProto is grpc.health.v1 as far as it is used here.
const healthProto = `syntax = "proto3";
package grpc.health.v1;
message HealthCheckRequest { string service = 1; }
message HealthCheckResponse {
  enum ServingStatus { UNKNOWN = 0; SERVING = 1; NOT_SERVING = 2; SERVICE_UNKNOWN = 3; }
  ServingStatus status = 1;
}
service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }
`

// call calls a method with a request in JSON. where is the address and the flags
// that it needs.
func (c *caller) call(where []string, method, request string) (string, error) {
	c.h.t.Helper()
	proto := "hooks.proto"
	if strings.HasPrefix(method, "grpc.health") {
		proto = "health.proto"
	}
	args := append([]string{"-max-time", "20", "-import-path", c.h.base, "-proto", proto, "-d", request}, where...)
	return c.run(append(args, method))
}

func (c *caller) run(args []string) (string, error) {
	args = append(append(as(c.user), c.program), args...)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const executeHook = "hooks.v1.HookService/ExecuteHook"

func overUnix(socket string) []string { return []string{"-plaintext", "-unix", socket} }

// reportRun notes who it is and what it was told.
const reportRun = `cd OUT
{
	grep -E '^(Uid|Gid|Groups|CapPrm|CapEff|CapBnd|NoNewPrivs):' /proc/self/status | tr '\t' ' '
	echo "cwd $(pwd -P)"
	env | sort
} >"report.$$"
printf '%s' "$DDNS_NEW" >"new.$DDNS_FQDN"
mv "report.$$" "report.$DDNS_TYPE"
`

// The usual arrangement: coredns has no privilege at all, ddns-hookd is root, the
// hook is a third user. Who has taken over coredns tries what it can.
func TestUnprivilegedServerRunsWhatThePolicyDefinesAndNothingElse(t *testing.T) {
	needPrivilege(t)
	h := prepareHooks(t)
	command := h.script("report", reportRun)
	h.define(h.definition("report", command, "env MODE fast", "match *.dyn.example.org"))
	h.configure("", "hooks unix://"+h.socket())
	h.startHookd()
	h.boot()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.cmd.Process.Pid))
	if err != nil || !strings.Contains(string(status), "\nUid:\t65534\t65534\t65534\t65534\n") || !strings.Contains(string(status), "\nCapPrm:\t0000000000000000\n") {
		t.Fatalf("coredns is not without privileges: %v\n%s", err, status)
	}

	if _, err := h.update(nil, "laptop", "192.0.2.7"); err != nil {
		t.Fatal(err)
	}
	h.until("the hook", 20*time.Second, func() bool { return h.read("report.A") != "" })
	report := h.read("report.A")
	for _, want := range []string{
		"Uid: 1 1 1 1\n", "Gid: 1 1 1 1\n", "CapPrm: 0000000000000000\n", "CapEff: 0000000000000000\n", "CapBnd: 0000000000000000\n", "NoNewPrivs: 1\n",
		"\nDDNS_FQDN=laptop.dyn.example.org.\n", "\nDDNS_NEW=192.0.2.7\n", "\nDDNS_EVENT=added\n", "\nDDNS_ACTOR=all\n", "\nDDNS_SOURCE=http\n", "\nMODE=fast\n", "\nUSER=daemon\n",
	} {
		if !strings.Contains("\n"+report, want) {
			t.Errorf("the hook did not report %q", want)
		}
	}
	for line := range strings.Lines(report) {
		name, _, _ := strings.Cut(line, "=")
		known := []string{"MODE", "PATH", "HOME", "USER", "LOGNAME", "LANG", "PWD", "_", "OLDPWD", "SHLVL"}
		if strings.Contains(line, "=") && !strings.HasPrefix(name, "DDNS_") && !slices.Contains(known, name) {
			t.Errorf("the hook has the variable %q", line)
		}
	}
	if t.Failed() {
		t.Log(report)
	}

	canary := filepath.Join(h.out, "canary")
	attempts := []struct{ name, request, want string }{
		{"a hook that is not defined", `{"name":"other","command":["/bin/touch","CANARY"],"user":"root"}`, "Code: NotFound"},
		{"another command", `{"name":"report","command":["/bin/touch","CANARY"]}`, "Code: PermissionDenied"},
		{"a further argument", `{"name":"report","command":["COMMAND","CANARY"]}`, "Code: PermissionDenied"},
		{"root", `{"name":"report","user":"root"}`, "Code: PermissionDenied"},
		{"root by number", `{"name":"report","user":"0"}`, "Code: PermissionDenied"},
		{"another group", `{"name":"report","group":"root"}`, "Code: PermissionDenied"},
		{"another directory", `{"name":"report","cwd":"/tmp"}`, "Code: PermissionDenied"},
		{"LD_PRELOAD", `{"name":"report","env":{"LD_PRELOAD":"CANARY"}}`, "Code: InvalidArgument"},
		{"PATH", `{"name":"report","env":{"PATH":"/tmp"}}`, "Code: InvalidArgument"},
		{"BASH_ENV", `{"name":"report","env":{"BASH_ENV":"CANARY"}}`, "Code: InvalidArgument"},
		{"a variable that is not allowed", `{"name":"report","env":{"REASON":"none"}}`, "Code: PermissionDenied"},
		{"another value for a variable of the definition", `{"name":"report","env":{"MODE":"slow"}}`, "Code: PermissionDenied"},
		{"a path as a name", `{"name":"../../bin/touch"}`, "Code: InvalidArgument"},
		{"another hook's event", `{"name":"report","env":{"DDNS_HOOK":"other"}}`, "Code: InvalidArgument"},
		{"a negative time limit", `{"name":"report","timeoutSeconds":-1}`, "Code: InvalidArgument"},
		{"no hook", `null`, "Code: InvalidArgument"},
	}
	if err := os.Remove(filepath.Join(h.out, "report.A")); err != nil {
		t.Fatal(err)
	}
	nobody := newCaller(h, serverUser)
	for _, a := range attempts {
		request := strings.NewReplacer("CANARY", canary, "COMMAND", command).Replace(a.request)
		out, err := nobody.call(overUnix(h.socket()), executeHook, `{"hook":`+request+`}`)
		if err == nil || !strings.Contains(out, a.want) {
			t.Errorf("%s: got %v\n%swant %s", a.name, err, out, a.want)
		}
	}
	if h.read("report.A") != "" {
		t.Error("a request that was refused has run the hook")
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("a request has run a command of its own")
	}
	out, err := nobody.call(overUnix(h.socket()), executeHook, `{"hook":{"name":"report","env":{"DDNS_FQDN":"by.hand.","DDNS_TYPE":"A","DDNS_NEW":"none"}}}`)
	if err != nil || h.read("new.by.hand.") != "none" {
		t.Errorf("what the policy defines: got %v\n%s", err, out)
	}

	// A third user is kept out by the mode of the socket, and where the operator has
	// opened that, by who it is.
	stranger := newCaller(h, strangerUser)
	request := `{"hook":{"name":"report","env":{"DDNS_FQDN":"stranger.","DDNS_TYPE":"A"}}}`
	info, err := os.Stat(h.socket())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: got %v, %v", info, err)
	}
	if out, err := stranger.call(append(overUnix(h.socket()), "-connect-timeout", "1"), executeHook, request); err == nil || strings.Contains(out, "Code:") {
		t.Errorf("a stranger: got %v\n%s", err, out)
	}
	h.hookd.kill()
	h.startHookd("-socket-mode", "0666")
	if out, err := stranger.call(overUnix(h.socket()), executeHook, request); err == nil || !strings.Contains(out, "Code: PermissionDenied") || !strings.Contains(out, "uid 33 may not call") {
		t.Errorf("a stranger at an open socket: got %v\n%s", err, out)
	}
	if out, err := stranger.call(overUnix(h.socket()), "grpc.health.v1.Health/Check", `{}`); err == nil || !strings.Contains(out, "Code: PermissionDenied") {
		t.Errorf("a stranger who asks for health: got %v\n%s", err, out)
	}
	if h.read("new.stranger.") != "" {
		t.Error("a stranger has run a hook")
	}
}

// What clients may put into a zone reaches the hook as it is, and nothing reads it
// as a command on the way.
func TestEventDataIsDataToTheHook(t *testing.T) {
	h := prepareHooks(t)
	h.define(h.definition("report", h.script("report", reportRun), "match *.dyn.example.org", "types TXT"))
	const secret = "NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk="
	h.configure("tsig {\n secret test.example.org. "+secret+"\n require_opcode UPDATE\n }", "hooks unix://"+h.socket())
	h.startHookd()
	h.boot()
	canary := filepath.Join(h.out, "canary")
	tests := []struct{ owner, text string }{
		{"substitution", "$(touch " + canary + ")"},
		{"backquotes", "`touch " + canary + "`"},
		{"sequence", "; touch " + canary + " #"},
		{"quotes", `'"; touch ` + canary + `; "'`},
		{"newline", "a\nDDNS_FQDN=root.\nLD_PRELOAD=" + canary + "\n"},
		{"octets", "\x01\x1b[2J\xff"},
		{"options", "--help"},
		// In a name the hook is told, dots and the rest are escaped as in a zone file.
		{`\$\(touch\032canary\)`, "in the name"},
		{`\;touch\032canary\;`, "in the name"},
		{`*`, "the wildcard"},
	}
	for _, test := range tests {
		owner := test.owner + ".dyn.example.org."
		m := new(dns.Msg).SetUpdate("dyn.example.org.")
		m.Insert([]dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: owner, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 60}, Txt: []string{escapeTXT(test.text)}}})
		m.SetTsig("test.example.org.", dns.HmacSHA256, 300, time.Now().Unix())
		c := &dns.Client{Net: "tcp", TsigSecret: map[string]string{"test.example.org.": secret}}
		r, _, err := c.Exchange(m, h.dns)
		if err != nil {
			t.Fatal(err)
		}
		if test.owner == "*" {
			// Nobody was granted the wildcard, so no file name is made of it.
			if r.Rcode != dns.RcodeRefused {
				t.Errorf("%s: got %s", owner, dns.RcodeToString[r.Rcode])
			}
			continue
		}
		if r.Rcode != dns.RcodeSuccess {
			t.Fatalf("%s: got %s\n%s", owner, dns.RcodeToString[r.Rcode], tail(h.log.String()))
		}
	}
	h.until("all hooks", 30*time.Second, func() bool {
		l := h.listing().Hooks[0]
		return l.Pending == 0 && len(l.Last) >= len(tests)-1
	})
	for _, r := range h.listing().Hooks[0].Last {
		if r.Result != "ok" {
			t.Errorf("got %+v", r)
		}
	}
	for _, test := range tests[:7] {
		want := `"` + escapeTXT(test.text) + `"`
		if got := h.read("new." + test.owner + ".dyn.example.org."); got != want {
			t.Errorf("%s: the hook was told %s, want %s", test.owner, got, want)
		}
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("event data was run as a command")
	}
	if found, _ := filepath.Glob(filepath.Join(h.out, "canary*")); len(found) > 0 {
		t.Errorf("event data was run as a command: %v", found)
	}
}

// escapeTXT is a character string as zone files write it.
func escapeTXT(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%03d`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Hooks of different users cannot read each other's events, and none outlives its
// time limit, whatever it does with signals, sessions and parents.
func TestHookEscapesNeitherItsUserNorItsTimeLimit(t *testing.T) {
	needPrivilege(t)
	h := prepareHooks(t)
	marker := "escaped-" + filepath.Base(h.base)
	t.Cleanup(func() { endProcesses(marker) })
	victim := h.script("victim", "cd OUT\n: >victim-runs\ni=0\nwhile [ ! -e spied ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i + 1)); done\n")
	spy := h.script("spy", `cd OUT
i=0
while [ ! -e victim-runs ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i + 1)); done
cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep '^DDNS_HOOK=' | sort -u >seen || true
: >spied
`)
	escape := h.script("escape", `trap '' TERM INT HUP
(setsid sh -c 'trap "" TERM; (setsid sh -c "trap \"\" TERM HUP; sleep 300; : `+marker+`" &) ; sleep 300; : `+marker+`' </dev/null >/dev/null 2>&1 &)
echo started
exec 1>&- 2>&-
while :; do sleep 300; done # `+marker+`
`)
	h.define(
		h.definition("victim", victim, "match laptop.dyn.example.org"),
		fmt.Sprintf("hook spy {\n command %s\n user %s\n match laptop.dyn.example.org\n}\n", spy, strangerUser),
		h.definition("escape", escape, "timeout 1s", "on removed"),
	)
	h.configure("", "hooks unix://"+h.socket())
	h.startHookd("-grace", "300ms")
	h.boot()
	if _, err := h.update(nil, "laptop", "192.0.2.7"); err != nil {
		t.Fatal(err)
	}
	h.until("the spy", 30*time.Second, func() bool { _, err := os.Stat(filepath.Join(h.out, "spied")); return err == nil })
	if got := h.read("seen"); got != "DDNS_HOOK=spy\n" {
		t.Errorf("a hook saw the events of %q", got)
	}
	h.until("the victim", 30*time.Second, func() bool { return h.listing().Hooks[0].Pending == 0 })
	if got := h.listing().Hooks[0].Last; len(got) == 0 || got[0].Result != "ok" {
		t.Errorf("the victim ran before the spy, so that nothing is proved: %+v", got)
	}

	var result struct {
		OK       bool
		TimedOut bool `json:"timed_out"`
		Error    string
		Output   string
		Seconds  float64
	}
	if status := h.json("POST", "/hooks/test?hook=escape&fqdn=laptop.dyn.example.org", &result); status != 200 {
		t.Fatalf("status %d", status)
	}
	if result.OK || !result.TimedOut || result.Output != "started\n" || result.Seconds > 8 {
		b, _ := json.Marshal(result)
		t.Errorf("got %s", b)
	}
	// The kernel may take a moment to be done with what was killed.
	h.until("the end of what the hook had started", 10*time.Second, func() bool { return len(processes(marker)) == 0 })
}

// Without ddns-hookd, a coredns that cannot become the user says so and runs
// nothing.
func TestUnprivilegedServerRefusesAHookOfAnotherUser(t *testing.T) {
	needPrivilege(t)
	h := prepareHooks(t)
	h.define(h.definition("report", h.script("report", reportRun), "match *.dyn.example.org"))
	h.configure("", "hooks local")
	h.boot()
	if _, err := h.update(nil, "laptop", "192.0.2.7"); err != nil {
		t.Fatal(err)
	}
	h.until("the refusal", 20*time.Second, func() bool { return h.listing().Hooks[0].Dead == 1 })
	if e := h.listing().Hooks[0].Events[0]; e.State != "dead" || !strings.Contains(e.Error, "cannot become the user") {
		t.Errorf("got %+v", e)
	}
	if h.read("report.A") != "" {
		t.Error("the hook ran")
	}
	if !strings.Contains(h.log.String(), "[WARNING] plugin/ddns: Running hooks: ") {
		t.Errorf("the log does not say what cannot be promised\n%s", tail(h.log.String()))
	}
}

// TestRootTakesNoHooksFromAStranger: who writes the policy of a coredns that runs as root
// would be root by a hook.
func TestRootTakesNoHooksFromAStranger(t *testing.T) {
	needPrivilege(t)
	h := prepareHooks(t)
	h.define(h.definition("any", h.script("any", "exit 0\n")))
	h.configure("", "hooks local")
	h.chown(filepath.Join(h.dir, "policy"), serverUser)
	h.launch()
	select {
	case <-h.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("it started")
	}
	if said := h.log.String(); !strings.Contains(said, "policy: it defines hooks, which this process runs as root, but ") || !strings.Contains(said, "it must be owned by root") {
		t.Errorf("it said\n%s", said)
	}
}
