//go:build linux

package test

import (
	"bufio"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// scrape reads the metrics of hooks, by name and labels.
func scrape(t testing.TB, address string) map[string]float64 {
	t.Helper()
	resp, err := fresh.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	metrics := make(map[string]float64)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "} ")
		if !ok || !strings.HasPrefix(name, "coredns_ddns_hook_") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		metrics[strings.TrimPrefix(name, "coredns_ddns_hook_")+"}"] = n
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return metrics
}

// attempts are the lines of a log about an event.
func attempts(log, event string) (lines []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, " id="+event+" ") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// An operator follows one event from its failure to its repeated success: in the
// listing, in the metrics of coredns, and in the logs of both sides.
func TestOperatorSeesAndRepeatsWhatAHookFailed(t *testing.T) {
	h := prepareHooks(t)
	status := func(n string) { h.place("out/status", n+"\n", 0o644) }
	status("78")
	h.define(
		h.definition("strict", h.script("strict", "read -r status <OUT/status\necho \"$DDNS_EVENT_ID $DDNS_ATTEMPT\" >>OUT/strict\necho it went wrong\nexit \"$status\"\n"), "match laptop.dyn.example.org"),
		h.definition("later", h.script("later", "echo \"$DDNS_EVENT_ID $DDNS_ATTEMPT\" >>OUT/later\n[ \"$DDNS_ATTEMPT\" -gt 2 ] || exit 75\n"), "match later.dyn.example.org"),
		h.definition("loud", h.script("loud", "head -c 100000 /dev/zero | tr '\\0' x\nsleep 300 &\n"), "match loud.dyn.example.org"),
	)
	metrics := freeAddress(t)
	h.configure("prometheus "+metrics, "hooks local")
	h.startPrivileged()
	for _, name := range []string{"laptop", "later", "loud"} {
		if _, err := h.update(nil, name, "192.0.2.7"); err != nil {
			t.Fatal(err)
		}
	}
	// Exit status 78 gives up at once.
	h.until("the event to be given up", 20*time.Second, func() bool { return h.listing().Hooks[0].Dead == 1 })
	dead := h.listing().Hooks[0].Events[0]
	if dead.State != "dead" || dead.FQDN != "laptop.dyn.example.org." || dead.Error != "exit status 78: it went wrong" || dead.ID == "" {
		t.Errorf("got %+v", dead)
	}
	if got := h.read("strict"); got != dead.ID+" 1\n" {
		t.Errorf("the hook was told %q, the listing has the event %s", got, dead.ID)
	}
	// 75 tries again by itself.
	h.until("the third attempt", 30*time.Second, func() bool { return h.listing().Hooks[1].Pending == 0 })
	later := h.listing().Hooks[1].Last
	if len(later) != 3 || later[0].Result != "retry" || later[1].Result != "retry" || later[2].Result != "ok" || later[0].ID != later[2].ID || later[2].Attempt != 3 {
		t.Errorf("got %+v", later)
	}
	h.until("the loud hook", 20*time.Second, func() bool { return h.listing().Hooks[2].Pending == 0 })
	m := scrape(t, metrics)
	for name, want := range map[string]float64{
		`dead_letters{hook="strict"}`: 1, `runs_total{hook="strict",result="dead"}`: 1, `pending{hook="strict"}`: 0,
		`runs_total{hook="later",result="retry"}`: 2, `runs_total{hook="later",result="ok"}`: 1, `retries_total{hook="later"}`: 2,
		`oldest_pending_seconds{hook="later"}`: 0,
		`dead_letters{hook="later"}`:           0, `duration_seconds_count{hook="later"}`: 3,
		`output_truncated_total{hook="loud"}`: 1, `killed_total{hook="loud"}`: 1,
	} {
		if got, ok := m[name]; !ok || got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}

	// What was given up stays through a restart, and is told again when asked for.
	h.signal(syscall.SIGTERM)
	if code := h.wait(20 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
	before := h.log.String()
	h.start()
	if status := h.json("POST", "/hooks/retry?hook=nosuch", new(any)); status != http.StatusNotFound {
		t.Errorf("retrying an unknown hook: status %d", status)
	}
	status("0")
	var retried struct{ Retried int }
	if status := h.json("POST", "/hooks/retry?hook=strict&fqdn=laptop.dyn.example.org", &retried); status != http.StatusOK || retried.Retried != 1 {
		t.Errorf("got status %d, %+v", status, retried)
	}
	h.until("the attempt that was asked for", 20*time.Second, func() bool { return h.listing().Hooks[0].Pending == 0 && h.listing().Hooks[0].Dead == 0 })
	if got := h.read("strict"); got != dead.ID+" 1\n"+dead.ID+" 2\n" {
		t.Errorf("the hook was told\n%swant attempts 1 and 2 of %s", got, dead.ID)
	}
	if m := scrape(t, metrics); m[`dead_letters{hook="strict"}`] != 0 || m[`runs_total{hook="strict",result="ok"}`] != 1 {
		t.Errorf("got %v", m)
	}

	// One line per attempt, over both lives of the server.
	line := regexp.MustCompile(`^\[(\w+)\] plugin/ddns: Hook .*: hook=\S+ event=added id=\S+ zone=dyn\.example\.org\. name=\S+ type=A attempt=(\d) result=(\w+) took=`)
	for event, want := range map[string]string{
		dead.ID:     "ERROR 1 dead, INFO 2 ok",
		later[0].ID: "WARNING 1 retry, WARNING 2 retry, INFO 3 ok",
	} {
		var got []string
		for _, l := range attempts(before+h.log.String(), event) {
			f := line.FindStringSubmatch(l)
			if f == nil {
				t.Errorf("got the line %q", l)
				continue
			}
			got = append(got, strings.Join(f[1:], " "))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("event %s: got %v, want %s", event, got, want)
		}
	}
}

// While ddns-hookd is away, what it has to be told waits, is seen to wait, and
// does not count as tried in vain.
func TestHooksWaitForHookdThatIsAway(t *testing.T) {
	h := prepareHooks(t)
	h.define(h.definition("note", h.script("note", noteRun), "match *.dyn.example.org"))
	metrics := freeAddress(t)
	h.configure("prometheus "+metrics, "hooks unix://"+h.socket())
	h.boot()
	for n, name := range []string{"a", "b", "a"} {
		if _, err := h.update(nil, name, v4(int64(n+1))); err != nil {
			t.Fatal(err)
		}
	}
	var m map[string]float64
	// Three for as long as the first attempt at "a" is under way beside its newer change.
	h.until("an attempt, and one event for each name", 20*time.Second, func() bool {
		m = scrape(t, metrics)
		return m[`runs_total{hook="note",result="away"}`] > 0 && m[`pending{hook="note"}`] == 2
	})
	if m[`oldest_pending_seconds{hook="note"}`] <= 0 || m[`dead_letters{hook="note"}`] != 0 {
		t.Errorf("got %v", m)
	}
	h.startHookd()
	// The pause is at most half a minute; somebody who knows better can shorten it.
	h.json("POST", "/hooks/retry?hook=note", new(any))
	h.until("the events", 40*time.Second, func() bool { return h.listing().Hooks[0].Pending == 0 })
	last := make(map[string]string)
	for _, r := range h.runs() {
		last[r.name] = r.value
	}
	if last["a.dyn.example.org."] != v4(3) || last["b.dyn.example.org."] != v4(2) {
		t.Errorf("got %v", last)
	}
	for _, r := range h.runs() {
		if lines := strings.Count(h.hookd.log.String(), ` event="`+r.id+`" `); lines != 1 {
			t.Errorf("ddns-hookd has %d lines about the event %s\n%s", lines, r.id, h.hookd.log)
		}
	}
}
