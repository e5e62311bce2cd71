//go:build linux

package hooks_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/store/bolt"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// definitions is a policy of one hook.
type definitions struct{ hook *policy.Hook }

func (d definitions) Hook(name string) (*policy.Hook, bool) { return d.hook, name == d.hook.Name }

// TestFromUpdateToCommand has nothing of its own in between: a database on disk, an
// update, and a shell script that says what it was told. Values that a shell would
// read are data.
func TestFromUpdateToCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	h := hookFor("tell")
	h.Command = []string{script(t, `printf '%s|%s|%s|%s\n' "$DDNS_EVENT" "$DDNS_FQDN" "$DDNS_NEW" "$MODE" >>"`+out+`"`)}
	h.Env = map[string]string{"MODE": "fast"}
	h.Root = os.Geteuid() == 0
	s, err := bolt.Open(filepath.Join(t.TempDir(), "ddns.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := zonedb.Open(s, zonedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	w := &world{t: t, db: db}
	w.attach(dynOrigin, dynZone)
	local := hooks.NewLocal(hooks.LocalConfig{Runner: newRunner(t, hooks.RunnerOptions{}), Policy: definitions{h}})
	d := hooks.NewDispatcher(hooks.DispatcherOptions{Journal: db, Executor: local, Hooks: []*policy.Hook{h}})
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.put("www 60 A 192.0.2.1")
	w.put(`www 60 TXT "$(touch x); \"" `)
	eventually(t, "both runs", func() bool {
		b, _ := os.ReadFile(out)
		st := d.Stats()[0]
		return strings.Count(string(b), "\n") == 2 && st.Pending == 0
	})
	if err := d.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	got, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	want := "added|www.dyn.example.org.|192.0.2.1|fast\n" +
		`added|www.dyn.example.org.|"$(touch x); \""|fast` + "\n"
	if string(got) != want {
		t.Errorf("the script wrote\n%swant\n%s", got, want)
	}
	cursors, err := db.Cursors(hooks.Follower)
	if last := db.Last(dynOrigin); err != nil || cursors[dynOrigin] != last {
		t.Errorf("cursor %v, %v; want the newest position %d", cursors, err, last)
	}
	for it, err := range db.Items(hooks.Follower, "mark") {
		t.Errorf("left in the store: %q %s %v", it.Key, it.Value, err)
	}
}
