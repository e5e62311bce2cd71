package ddns_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hookScript is a hook that notes what it was told, and whether it should fail.
// It lies in a directory that passes the runner's checks of who can write there.
func hookScript(t *testing.T) (command, output, fail string) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "ddns-hook-") // t.TempDir is below one that everybody can write
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	command, output, fail = filepath.Join(dir, "hook"), filepath.Join(dir, "output"), filepath.Join(dir, "fail")
	script := fmt.Sprintf("#!/bin/sh\n[ ! -e %s ] || exit 1\necho \"$DDNS_EVENT $DDNS_FQDN $DDNS_TYPE old=$DDNS_OLD new=$DDNS_NEW by=$DDNS_ACTOR mode=$MODE uid=$(id -u)\" >>%s\n", fail, output)
	if err := os.WriteFile(command, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(output, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(output, 0o666); err != nil { // the hook runs as somebody else
		t.Fatal(err)
	}
	return command, output, fail
}

// eventually waits until a file says what it should.
func eventually(t *testing.T, file, want string) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	var got []byte
	for time.Now().Before(deadline) {
		got, _ = os.ReadFile(file)
		if string(got) == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("got:\n%swant:\n%s", got, want)
}

func hookBlock(command string) string {
	user := "nobody"
	if os.Getuid() != 0 {
		user = "" // who starts the test runs the hook
	}
	block := fmt.Sprintf("hook note {\n command %s\n env MODE fast\n match *.dyn.example.org\n", command)
	if user != "" {
		block += " user " + user + "\n"
	}
	return block + "}\n"
}

func TestChangeRunsAHookAsAnotherUser(t *testing.T) {
	command, output, _ := hookScript(t)
	s := start(t, options{policy: hookBlock(command)})
	uid := 65534
	if os.Getuid() != 0 {
		uid = os.Getuid()
	}
	s.update("laptop", "192.0.2.7")
	want := fmt.Sprintf("added laptop.dyn.example.org. A old= new=192.0.2.7 by=all mode=fast uid=%d\n", uid)
	eventually(t, output, want)
	s.update("laptop", "192.0.2.7") // no change, no hook
	s.update("laptop", "192.0.2.8")
	want += fmt.Sprintf("changed laptop.dyn.example.org. A old=192.0.2.7 new=192.0.2.8 by=all mode=fast uid=%d\n", uid)
	eventually(t, output, want)
	if a := s.call("DELETE", "/update?fqdn=laptop.dyn.example.org"); a.status != http.StatusOK {
		t.Fatalf("got %d %v", a.status, a.body)
	}
	want += fmt.Sprintf("removed laptop.dyn.example.org. A old=192.0.2.8 new= by=all mode=fast uid=%d\n", uid)
	eventually(t, output, want)
	if a := s.call("GET", "/hooks"); a.status != http.StatusOK || !strings.Contains(fmt.Sprint(a.body), "note") {
		t.Errorf("listing: got %d %v", a.status, a.body)
	}
	if a := s.call("GET", "/hooks", "Authorization", ""); a.status != http.StatusUnauthorized {
		t.Errorf("listing without a token: got %d", a.status)
	}
	if a := s.call("POST", "/hooks/test?hook=note&fqdn=laptop.dyn.example.org"); a.status != http.StatusNotFound {
		t.Errorf("test by hand without a record: got %d %v", a.status, a.body)
	}
	if a := s.call("POST", "/hooks/test?hook=note&fqdn=ns1.dyn.example.org"); a.status != http.StatusOK || a.body["ok"] != true {
		t.Errorf("test by hand: got %d %v", a.status, a.body)
	}
}

func TestPendingHookSurvivesRestartAndReloads(t *testing.T) {
	command, output, fail := hookScript(t)
	if err := os.WriteFile(fail, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := start(t, options{policy: hookBlock(command)})
	s.update("laptop", "192.0.2.7")
	if err := s.reload(strings.Replace(s.corefile, "policy policy", "policy policy\n ttl 90", 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.reload(strings.Replace(s.corefile, "policy policy", "policy nowhere", 1)); err == nil {
		t.Fatal("a broken reload succeeded")
	}
	s.stop()
	if err := os.Remove(fail); err != nil {
		t.Fatal(err)
	}
	uid := 65534
	if os.Getuid() != 0 {
		uid = os.Getuid()
	}
	start(t, options{dir: s.dir, keep: true})
	eventually(t, output, fmt.Sprintf("added laptop.dyn.example.org. A old= new=192.0.2.7 by=all mode=fast uid=%d\n", uid))
}
