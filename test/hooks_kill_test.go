//go:build linux

package test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// told is one line of what noteRun wrote.
type told struct {
	what    string // begin or end
	name    string
	id      string
	serial  uint64
	attempt int
	event   string
	value   string
}

// noteRun is a hook that takes its time and notes when it began and ended. The lock,
// which dies with the shell, finds two runs for one name. Some runs are still there
// when a coredns that was killed is back: they do not end because they are asked to.
const noteRun = `cd OUT
pause=0.04
case $DDNS_FQDN in once0-*) trap '' TERM; pause=0.7 ;; esac
exec 9>"lock.$DDNS_FQDN"
flock -n 9 || echo "overlap $DDNS_FQDN $DDNS_EVENT_ID" >>runs
echo "begin $DDNS_FQDN $DDNS_EVENT_ID $DDNS_SERIAL $DDNS_ATTEMPT $DDNS_EVENT $DDNS_NEW" >>runs
sleep $pause 9>&-
echo "end $DDNS_FQDN $DDNS_EVENT_ID $DDNS_SERIAL $DDNS_ATTEMPT $DDNS_EVENT $DDNS_NEW" >>runs
`

// runs reads what noteRun wrote.
func (h *hooking) runs() (list []told) {
	h.t.Helper()
	for line := range strings.Lines(h.read("runs")) {
		f := strings.Fields(line)
		if len(f) < 6 || f[0] != "begin" && f[0] != "end" {
			h.t.Fatalf("a hook wrote %q", line)
		}
		r := told{what: f[0], name: f[1], id: f[2], event: f[5], value: strings.Join(f[6:], " ")}
		var err error
		if r.serial, err = strconv.ParseUint(f[3], 10, 32); err != nil {
			h.t.Fatalf("a hook wrote %q", line)
		}
		if r.attempt, err = strconv.Atoi(f[4]); err != nil {
			h.t.Fatalf("a hook wrote %q", line)
		}
		list = append(list, r)
	}
	return list
}

// TestHooksAreToldTheLastStateThroughSIGKILL kills coredns, ddns-hookd and both at
// random moments under a stream of updates, some names often and some rarely. In
// the end every name's last state must have been told to the end, each name's
// changes in order and one at a time, and an event that was told again by its own id.
func TestHooksAreToldTheLastStateThroughSIGKILL(t *testing.T) {
	const writers, once = 8, 4
	rounds := 21
	if long() {
		rounds = 210
	}
	h := prepareHooks(t)
	h.define(h.definition("note", h.script("note", noteRun), "match *.dyn.example.org"))
	h.configure("", "hooks unix://"+h.socket())
	h.startHookd()
	h.boot()

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}, Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	stop := make(chan struct{})
	var running sync.WaitGroup
	for n := range writers {
		running.Go(func() {
			for k := int64(1); ; k++ {
				// A change that is cut off may have happened; the zone says in the end.
				var err error
				if k%7 == 0 {
					_, err = h.call("DELETE", "/update?fqdn="+host(n)+".dyn.example.org", client)
				} else {
					_, err = h.update(client, host(n), v4(k))
				}
				pause := time.Duration(rand.IntN(1+n*n*20)) * time.Millisecond
				if err != nil {
					pause = 10 * time.Millisecond
				}
				select {
				case <-stop:
					return
				case <-time.After(pause):
				}
			}
		})
	}
	count := func() int { return strings.Count(h.read("runs"), "end ") }
	for round := range rounds {
		before := count()
		h.until(fmt.Sprintf("hooks in round %d", round), 30*time.Second, func() bool { return count() > before+2 })
		running.Go(func() { // names that change once, so that no later change makes good what is lost
			for n := range once {
				_, _ = h.update(client, onceIn(round, n), "192.0.2.1")
			}
		})
		time.Sleep(time.Duration(rand.IntN(80)) * time.Millisecond) // the random moment
		server, executor := round%3 != 1, round%3 != 0
		if server {
			h.kill()
		}
		if executor {
			h.hookd.kill()
			h.startHookd()
		}
		if server {
			h.boot()
		}
	}
	close(stop)
	running.Wait()
	h.until("all events to be told", 60*time.Second, func() bool { return h.listing().Hooks[0].Pending == 0 })
	if l := h.listing(); l.Hooks[0].Dead != 0 {
		t.Errorf("%d events were given up: %+v", l.Hooks[0].Dead, l.Hooks[0].Events)
	}
	var names []string
	for n := range writers {
		names = append(names, host(n))
	}
	for round := range rounds {
		for n := range once {
			names = append(names, onceIn(round, n))
		}
	}
	checkRuns(t, h, names)
}

func onceIn(round, n int) string { return fmt.Sprintf("once%d-%d", n, round) }

func checkRuns(t *testing.T, h *hooking, names []string) {
	t.Helper()
	last := make(map[string]string) // what a name was told to the end
	serial := make(map[string]uint64)
	event := make(map[string]told)    // by id
	change := make(map[string]string) // id, by name and serial
	again := make(map[string]bool)
	began := 0
	for _, r := range h.runs() {
		if r.what == "end" {
			last[r.name] = r.value
			continue
		}
		began++
		if r.serial < serial[r.name] {
			t.Errorf("%s was told of serial %d after %d", r.name, r.serial, serial[r.name])
		}
		serial[r.name] = r.serial
		key := fmt.Sprint(r.name, r.serial)
		if id, ok := change[key]; ok && id != r.id {
			t.Errorf("the change of %s with serial %d was told as %s and as %s", r.name, r.serial, id, r.id)
		}
		change[key] = r.id
		if e, ok := event[r.id]; ok {
			again[r.id] = true
			if e.name != r.name || e.serial != r.serial || e.event != r.event || e.value != r.value || e.attempt > r.attempt {
				t.Errorf("the event %s was told as %+v and then as %+v", r.id, e, r)
			}
		}
		event[r.id] = r
	}
	for _, short := range names {
		name := short + ".dyn.example.org."
		if want := h.address(short, dns.TypeA); last[name] != want {
			t.Errorf("%s: the hook was told %q last, the zone has %q", name, last[name], want)
		}
	}
	if len(again) == 0 || len(event) < 50 {
		t.Errorf("%d events, %d of them told again: that proves nothing", len(event), len(again))
	}
	t.Logf("%d events, %d runs, %d events told again", len(event), began, len(again))
}
