//go:build linux

package test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/internal/policy"
)

const hookExamples = "../examples/hooks/"

// exampleScripts are the commands of the examples.
var exampleScripts = map[string]string{"proxy": "ddns-proxy", "nftables": "ddns-nft", "wireguard": "ddns-wg"}

// The examples of the documentation are the files of the examples, their policies
// parse, and each names the script that lies beside it.
func TestHookExamplesAreWhatTheDocumentationShows(t *testing.T) {
	doc, err := os.ReadFile("../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob(hookExamples + "*/policy")
	if err != nil || len(dirs) != len(exampleScripts) {
		t.Fatalf("got %v, %v", dirs, err)
	}
	for example, script := range exampleScripts {
		p, err := policy.ParseFile(hookExamples + example + "/policy")
		if err != nil {
			t.Error(err)
			continue
		}
		if len(p.Hooks()) != 1 || filepath.Base(p.Hooks()[0].Command[0]) != script {
			t.Errorf("%s: the policy does not define one hook that runs %s", example, script)
		}
		if info, err := os.Stat(hookExamples + example + "/" + script); err != nil || info.Mode().Perm()&0o111 != 0o111 {
			t.Errorf("%s: %v, %v", script, info, err)
		}
		files, _ := filepath.Glob(hookExamples + example + "/*")
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(doc), "\n"+string(text)+"~~~\n") {
				t.Errorf("%s is not in docs/hooks.md as it is", file)
			}
		}
	}
}

func TestHookExamplesPassShellcheck(t *testing.T) {
	shellcheck := hookTool(t, "shellcheck")
	for example, script := range exampleScripts {
		if out, err := exec.Command(shellcheck, hookExamples+example+"/"+script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}

// tell runs a script as a runner of hooks does, and returns its exit status.
func tell(t testing.TB, event, fqdn, typ, data string, argv ...string) (int, string) {
	t.Helper()
	env := []string{"DDNS_EVENT=" + event, "DDNS_FQDN=" + fqdn, "DDNS_TYPE=" + typ, "DDNS_NEW=" + data}
	if event == "" {
		env = nil
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = "/", append(env, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// network is a network of its own; the words before a command that is to run in it.
func network(t testing.TB) []string {
	t.Helper()
	needPrivilege(t)
	hold := exec.Command("unshare", "--net", "sh", "-c", "echo there; exec cat")
	in, err := hold.StdinPipe() // closed with this process, which ends cat
	if err != nil {
		t.Fatal(err)
	}
	out, err := hold.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hold.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = hold.Wait() })
	if _, err := io.ReadFull(out, make([]byte, len("there\n"))); err != nil {
		t.Skip("networks cannot be made here")
	}
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", hold.Process.Pid), "--"}
}

// TestNftablesExample has updates of an unprivileged coredns change a real set of
// nftables, in a network of its own, by the script and policy of the example.
func TestNftablesExample(t *testing.T) {
	nft := hookTool(t, "nft")
	inside := network(t)
	run := func(args ...string) (string, error) {
		args = append(append(slices.Clone(inside), nft), args...)
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		return string(out), err
	}
	if out, err := run("-f", hookExamples+"nftables/ruleset.nft"); err != nil {
		if strings.Contains(out, "not supported") || strings.Contains(out, "not permitted") {
			t.Skipf("this kernel has no nftables: %s", out)
		}
		t.Fatalf("%v\n%s", err, out)
	}
	elements := func(set string) string {
		out, err := run("list", "set", "inet", "filter", set)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_, list, _ := strings.Cut(out, "elements = {")
		list, _, _ = strings.Cut(list, "}")
		return strings.Join(strings.Fields(list), " ")
	}

	h := prepareHooks(t)
	text, err := os.ReadFile(hookExamples + "nftables/ddns-nft")
	if err != nil {
		t.Fatal(err)
	}
	script := h.place("bin/ddns-nft", string(text), 0o755)
	state := filepath.Join(h.base, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	block, err := os.ReadFile(hookExamples + "nftables/policy")
	if err != nil {
		t.Fatal(err)
	}
	h.define(strings.NewReplacer("/usr/local/libexec/ddns-nft", script, "/var/lib/ddns-nft", state).Replace(string(block)))
	h.configure("", "hooks unix://"+h.socket())
	h.startHookdUnder(inside)
	h.boot()

	update := func(name string, addresses ...string) {
		if _, err := h.update(nil, name, addresses...); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(four, six string) {
		t.Helper()
		h.until(fmt.Sprintf("the sets to be {%s} and {%s}", four, six), 20*time.Second, func() bool { return elements("dyn4") == four && elements("dyn6") == six })
	}
	update("laptop", "192.0.2.7", "2001:db8::7")
	expect("192.0.2.7", "2001:db8::7")
	update("phone", "192.0.2.7", "192.0.2.9")
	expect("192.0.2.7, 192.0.2.9", "2001:db8::7")
	update("laptop", "192.0.2.8", "2001:db8::7")
	expect("192.0.2.7, 192.0.2.8, 192.0.2.9", "2001:db8::7") // .7 is the phone's still
	if r, err := h.call("DELETE", "/update?fqdn=laptop.dyn.example.org", nil); err != nil || r.status != http.StatusOK {
		t.Fatalf("got %v, %v", r, err)
	}
	expect("192.0.2.7, 192.0.2.9", "")

	// After a restart of the machine the sets are empty, and filled without an event.
	if out, err := run("flush set inet filter dyn4"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	argv := append(slices.Clone(inside), script, state, "inet", "filter", "dyn4", "dyn6")
	if code, out := tell(t, "", "", "", "", argv...); code != 0 {
		t.Errorf("got %d\n%s", code, out)
	}
	expect("192.0.2.7, 192.0.2.9", "")
	// An event that is told twice does no harm.
	for range 2 {
		if code, out := tell(t, "changed", "phone.dyn.example.org.", "A", "192.0.2.10", argv...); code != 0 {
			t.Errorf("got %d\n%s", code, out)
		}
	}
	expect("192.0.2.10", "")
	for _, name := range []string{`..`, `.hidden.`, `a/b.dyn.example.org.`, `-f.dyn.example.org.`, `a\032b.dyn.example.org.`, `$\(id\).dyn.example.org.`, ""} {
		if code, out := tell(t, "added", name, "A", "192.0.2.99", argv...); code != 78 {
			t.Errorf("the name %q: got %d\n%s", name, code, out)
		}
	}
	expect("192.0.2.10", "")
	if code, _ := tell(t, "added", "phone.dyn.example.org.", "TXT", `"x"`, argv...); code != 78 {
		t.Errorf("a TXT record: got %d", code)
	}
}

// TestWireGuardExample runs the script with a wg that notes what it is asked, and
// then asks the real one whether it understands that.
func TestWireGuardExample(t *testing.T) {
	h := prepareHooks(t)
	keys := regexp.MustCompile(`\S{43}=`)
	peers := hookExamples + "wireguard/peers"
	text, err := os.ReadFile(peers)
	if err != nil {
		t.Fatal(err)
	}
	known := keys.FindAllString(string(text), -1)
	if len(known) != 2 {
		t.Fatalf("the example has the keys %v", known)
	}
	h.place("peers", string(text)+"stranger.dyn.example.org. A 51820 "+strings.Repeat("A", 43)+"=\n", 0o644)
	h.script("wg", `if [ "$1" = show ]; then
	[ ! -e OUT/down ] || { echo "Unable to access interface: No such device" >&2; exit 1; }
	printf '%s\n' `+strings.Join(known, " ")+`
else
	echo "$@" >>OUT/wg
fi
`)
	script, err := os.ReadFile(hookExamples + "wireguard/ddns-wg")
	if err != nil {
		t.Fatal(err)
	}
	stub := strings.Replace(string(script), "PATH=$PATH:", "PATH="+h.base+"/bin:$PATH:", 1)
	if stub == string(script) {
		t.Fatal("the script does not set PATH")
	}
	argv := []string{h.place("bin/ddns-wg", stub, 0o755), "wg0", filepath.Join(h.base, "peers")}
	set := func(key, endpoint string) string { return "set wg0 peer " + key + " endpoint " + endpoint + "\n" }
	tests := []struct {
		name, event, fqdn, typ, data string
		code                         int
		asked                        string
	}{
		{"a new address", "added", "laptop.dyn.example.org.", "A", "192.0.2.7", 0, set(known[0], "192.0.2.7:51820")},
		{"the first of several", "changed", "laptop.dyn.example.org.", "A", "192.0.2.7 192.0.2.8", 0, set(known[0], "192.0.2.7:51820")},
		{"IPv6", "changed", "cabin.dyn.example.org.", "AAAA", "2001:db8::7", 0, set(known[1], "[2001:db8::7]:51821")},
		{"the other type", "changed", "cabin.dyn.example.org.", "A", "192.0.2.9", 0, ""},
		{"a name that is no peer", "changed", "phone.dyn.example.org.", "A", "192.0.2.9", 0, ""},
		{"a name that is gone", "removed", "laptop.dyn.example.org.", "A", "", 0, ""},
		{"a peer that the interface does not have", "added", "stranger.dyn.example.org.", "A", "192.0.2.9", 78, ""},
	}
	var asked []string
	for _, test := range tests {
		_ = os.Remove(filepath.Join(h.out, "wg"))
		code, out := tell(t, test.event, test.fqdn, test.typ, test.data, argv...)
		if got := h.read("wg"); code != test.code || got != test.asked {
			t.Errorf("%s: got %d, asked %q, want %d and %q\n%s", test.name, code, got, test.code, test.asked, out)
		}
		if test.asked != "" {
			asked = append(asked, test.asked)
		}
	}
	h.place("out/down", "", 0o644)
	if code, out := tell(t, "changed", "laptop.dyn.example.org.", "A", "192.0.2.7", argv...); code != 75 {
		t.Errorf("an interface that is down: got %d\n%s", code, out)
	}

	wg := hookTool(t, "wg")
	for _, line := range asked {
		args := strings.Fields(strings.Replace(line, "wg0", "ddns-none", 1))
		out, err := exec.Command(wg, args...).CombinedOutput()
		// It reads its arguments before it looks for the interface, which is not there.
		if err == nil || !strings.Contains(string(out), "Unable to modify interface") {
			t.Errorf("wg %s: got %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestProxyExample has a real nginx follow a machine that moves.
func TestProxyExample(t *testing.T) {
	h := prepareHooks(t)
	dir := filepath.Join(h.base, "proxy")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs(hookExamples + "proxy/ddns-proxy")
	if err != nil {
		t.Fatal(err)
	}
	note := h.script("reload", "printf '%s\\n' \"$*\" >>OUT/reloads\n")
	for _, test := range []struct {
		name, event, fqdn, typ, data string
		code                         int
		file, text                   string
	}{
		{"IPv6", "added", "other.dyn.example.org.", "AAAA", "2001:db8::7", 0, "other.dyn.example.org.AAAA.conf", "server [2001:db8::7]:8080;\n"},
		{"two addresses", "changed", "other.dyn.example.org.", "A", "192.0.2.7 192.0.2.8", 0, "other.dyn.example.org.A.conf", "server 192.0.2.7:8080;\nserver 192.0.2.8:8080;\n"},
		{"a name that is gone", "removed", "other.dyn.example.org.", "A", "", 0, "other.dyn.example.org.A.conf", ""},
		{"another type", "added", "other.dyn.example.org.", "TXT", `"x"`, 78, "", ""},
		{"a name that leaves the directory", "added", "../x.", "A", "192.0.2.7", 78, "", ""},
		{"a name with a command", "added", `$\(id\).dyn.example.org.`, "A", "192.0.2.7", 78, "", ""},
	} {
		_ = os.Remove(filepath.Join(h.out, "reloads"))
		code, out := tell(t, test.event, test.fqdn, test.typ, test.data, script, dir, "8080", note, "reload", "the proxy")
		if code != test.code {
			t.Errorf("%s: got %d\n%s", test.name, code, out)
		}
		if reloaded := h.read("reloads"); reloaded == "reload the proxy\n" != (code == 0) {
			t.Errorf("%s: reloaded with %q", test.name, reloaded)
		}
		if text, err := os.ReadFile(filepath.Join(dir, test.file)); test.file != "" && (err != nil || string(text) != test.text) {
			t.Errorf("%s: got %v, %q", test.name, err, text)
		}
	}
	if code, _ := tell(t, "added", "other.dyn.example.org.", "A", "192.0.2.7", script, dir, "8080", "/bin/false"); code == 0 {
		t.Error("a reload that fails is not told")
	}

	nginx := hookTool(t, "nginx")
	_, backend, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"127.0.0.2", "127.0.0.3"} {
		l, err := net.Listen("tcp", address+":"+backend)
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, address) })}
		go s.Serve(l)
		t.Cleanup(func() { s.Close() })
	}
	front := freeAddress(t)
	text, err := os.ReadFile(hookExamples + "proxy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	site := strings.NewReplacer("/var/lib/ddns-proxy", dir, "listen 80;", "listen "+front+";").Replace(string(text))
	temp := ""
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("%s_temp_path %s/tmp;\n", kind, h.base)
	}
	conf := h.place("nginx.conf", fmt.Sprintf("daemon off;\npid %s/nginx.pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n%s%s}\n", h.base, temp, site), 0o644)
	server := exec.Command(nginx, "-c", conf)
	said := &logBuffer{grew: make(chan struct{}, 1)}
	server.Stdout, server.Stderr = said, said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	expect := func(want string) {
		t.Helper()
		got := ""
		for deadline := time.Now().Add(20 * time.Second); got != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the proxy answers %q, want %q\n%s", got, want, said)
			}
			resp, err := fresh.Get("http://" + front + "/")
			if err != nil {
				got = err.Error()
				continue
			}
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if got = string(b); resp.StatusCode != http.StatusOK {
				got = fmt.Sprint(resp.StatusCode)
			}
		}
	}
	expect("502")
	for _, move := range []struct{ event, data, want string }{
		{"added", "127.0.0.2", "127.0.0.2"}, {"changed", "127.0.0.3", "127.0.0.3"}, {"removed", "", "502"}, {"added", "127.0.0.2", "127.0.0.2"},
	} {
		if code, out := tell(t, move.event, "web.dyn.example.org.", "A", move.data, script, dir, backend, nginx, "-c", conf, "-s", "reload"); code != 0 {
			t.Fatalf("got %d\n%s", code, out)
		}
		expect(move.want)
	}
}
