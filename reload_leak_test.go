//go:build linux

package ddns_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestReloadsThatFailLeaveNothing has reloads fail at each step of the start, most of
// them with a stanza in front that has started with a store, hooks, a hook server
// and an HTTP address of its own.
func TestReloadsThatFailLeaveNothing(t *testing.T) {
	command, _, _ := hookScript(t)
	block := strings.Replace(hookBlock(command), " match *.dyn.example.org\n", "", 1)
	s := start(t, options{policy: block, block: "transfer {\n to 127.0.0.1:9\n}"})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	sockets, err := os.MkdirTemp("/var/tmp", "ddns-leak-") // t.TempDir is below one that everybody can write
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(sockets) })
	policyText, err := os.ReadFile(filepath.Join(s.dir, "policy"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("twice", strings.Replace(string(policyText), "env MODE fast", "env MODE other", 1))
	s.write("bad.zone", "@ 60 SOA ns1 h 1 1 1 1 1\n@ 60 NS ns1\nwww 60 A nonsense\n")

	stanza := func(zone, policy, store, http, more string) string {
		return fmt.Sprintf("%[1]s:%[2]s {\n bind 127.0.0.1\n root %[3]s\n ddns {\n ns ns1.%[1]s 127.0.0.1\n store bolt %[5]s\n policy %[4]s\n http %[6]s\n %[7]s\n }\n transfer {\n to 127.0.0.1:9\n }\n}\n",
			zone, port(s.dns), s.dir, policy, store, http, more)
	}
	httpAddress := freeAddress(t)
	good := stanza("good.example.org", "policy", "second.db", httpAddress, "grpc unix://"+filepath.Join(sockets, "grpc.sock")+"\n hooks unix:///run/nowhere.sock")
	steps := []struct{ name, corefile, want string }{
		{"the policy", good + stanza("bad.example.org", "nowhere", "ddns.db", s.http, ""), "nowhere: no such file"},
		{"a zone file", good + stanza("bad.example.org", "policy", "ddns.db", s.http, "file bad.zone"), "bad.zone"},
		{"the store", good + stanza("bad.example.org", "policy", "nowhere/ddns.db", s.http, ""), "nowhere/ddns.db"},
		{"the hooks", good + stanza("bad.example.org", "twice", "second.db", s.http, ""), "defined in two ways"},
		{"the hook server", good + stanza("bad.example.org", "policy", "ddns.db", s.http, "grpc unix:///nowhere/grpc.sock"), "/nowhere/grpc.sock"},
		{"the HTTP address", good + stanza("bad.example.org", "policy", "ddns.db", taken.Addr().String(), ""), "for HTTP"},
		{"another plugin's start", good + ".:" + port(s.dns) + " {\n bind 127.0.0.1\n health " + taken.Addr().String() + "\n}\n", "address already in use"},
		{"the server's socket", good + ".:" + port(taken.Addr().String()) + " {\n bind 127.0.0.1\n whoami\n}\n", "address already in use"},
		{"a setup", good + ".:" + port(s.dns) + " {\n nonsense\n}\n", "nonsense"},
	}
	round := func() {
		for _, step := range steps {
			if err := s.reload(step.corefile); err == nil || !strings.Contains(err.Error(), step.want) {
				t.Fatalf("%s: got %v, want an error about %s", step.name, err, step.want)
			}
		}
	}
	round() // what is made once for the process
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	for range 22 {
		round()
	}
	deadline := time.Now().Add(10 * time.Second)
	// A NOTIFY that is under way when its configuration is dropped ends by itself.
	for (runtime.NumGoroutine() > goroutines+5 || openFiles(t) > files+5) && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	if got := runtime.NumGoroutine(); got > goroutines+5 {
		stacks := make([]byte, 1<<20)
		t.Errorf("got %d goroutines, %d after the first round:\n%s", got, goroutines, stacks[:runtime.Stack(stacks, true)])
	}
	if got := openFiles(t); got > files+5 {
		t.Errorf("got %d open files, %d after the first round", got, files)
	}
	s.update("laptop", "192.0.2.7")
	if got := s.addresses("laptop"); got != "192.0.2.7" {
		t.Errorf("got %q from the old configuration", got)
	}
	if err := s.reload(s.corefile + "\n" + good); err != nil {
		t.Errorf("what the failed reloads wanted is not free: %v", err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}
