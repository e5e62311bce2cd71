package ddns_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestReloadChangesAHookOfTwoStanzas has two stanzas with one store and one policy
// file. /reload takes them one by one, so for a moment they do not agree.
func TestReloadChangesAHookOfTwoStanzas(t *testing.T) {
	command, output, _ := hookScript(t)
	block := strings.Replace(hookBlock(command), " match *.dyn.example.org\n", "", 1)
	s := start(t, options{policy: block})
	second := strings.ReplaceAll(s.corefile, "dyn.example.org", "second.example.org")
	if err := s.reload(s.corefile + "\n" + second); err != nil {
		t.Fatal(err)
	}
	policyFile := filepath.Join(s.dir, "policy")
	text, err := os.ReadFile(policyFile)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "env MODE fast", "env MODE slow", 1)
	changed = strings.Replace(changed, "{\n", "{\n update *.second.example.org\n", 1)
	s.write("policy", changed)
	if a := s.call("POST", "/reload"); a.status != http.StatusOK {
		t.Fatalf("got %d %v", a.status, a.body)
	}
	uid := 65534
	if os.Getuid() != 0 {
		uid = os.Getuid()
	}
	want := ""
	for _, zone := range []string{"dyn", "second"} {
		if a := s.call("GET", "/update?ip=192.0.2.7&fqdn=laptop."+zone+".example.org"); a.status != http.StatusOK {
			t.Fatalf("got %d %v", a.status, a.body)
		}
		want += fmt.Sprintf("added laptop.%s.example.org. A old= new=192.0.2.7 by=all mode=slow uid=%d\n", zone, uid)
		eventually(t, output, want)
	}
}

// TestPendingHooksSurviveTheEndOfEveryStanza has two stanzas with one store. The one
// that ends first must not take the events with it.
func TestPendingHooksSurviveTheEndOfEveryStanza(t *testing.T) {
	const block = "ZONE:DNS {\n bind 127.0.0.1\n root DIR\n ddns {\n ns ns1.ZONE 127.0.0.1\n store bolt ddns.db\n policy POLICY\n http HTTP\n }\n}\n"
	uid := 65534
	if os.Getuid() != 0 {
		uid = os.Getuid()
	}
	for _, test := range []struct {
		name  string
		zones []string // in order of the Corefile
		hooks []string // those that have one
	}{
		{"the first has no hook", []string{"second", "dyn"}, []string{"dyn"}},
		{"the last has no hook", []string{"dyn", "second"}, []string{"dyn"}},
		{"each has its own", []string{"dyn", "second"}, []string{"dyn", "second"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			command, output, fail := hookScript(t)
			if err := os.WriteFile(fail, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			s := blank(t, "dyn.example.org", "second.example.org")
			text, err := os.ReadFile(filepath.Join(s.dir, "policy"))
			if err != nil {
				t.Fatal(err)
			}
			corefile := ""
			for _, z := range test.zones {
				hook := ""
				if slices.Contains(test.hooks, z) {
					hook = strings.NewReplacer("hook note", "hook note-"+z, "dyn.example.org", z+".example.org").Replace(hookBlock(command))
				}
				s.write("policy-"+z, string(text)+hook)
				corefile += strings.NewReplacer("ZONE", z+".example.org", "POLICY", "policy-"+z).Replace(block)
			}
			s.serve(corefile)
			for _, z := range test.hooks {
				s.publish("laptop."+z+".example.org", "192.0.2.7")
			}
			s.stop()
			if err := os.Remove(fail); err != nil {
				t.Fatal(err)
			}
			s.serve(corefile)
			for _, z := range test.hooks {
				contains(t, output, fmt.Sprintf("added laptop.%s.example.org. A old= new=192.0.2.7 by=all mode=fast uid=%d\n", z, uid))
			}
		})
	}
}

// contains waits until a file has a line.
func contains(t *testing.T, file, line string) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	var got []byte
	for time.Now().Before(deadline) {
		if got, _ = os.ReadFile(file); strings.Contains(string(got), line) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("got:\n%swant:\n%s", got, line)
}
