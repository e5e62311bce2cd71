//go:build linux

package test

import (
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestHangingHookDelaysNothing has every run of a hook hang for its whole limit and
// ignore the signal that ends it, in coredns itself. Beside it runs a coredns
// without hooks; both get the same updates and queries in turn, so that what
// else this machine does meets both. No update may wait as long as a hook does, and
// the medians must be alike.
func TestHangingHookDelaysNothing(t *testing.T) {
	const limit = 2 * time.Second
	quiet := prepareHooks(t)
	quiet.start()
	hanging := prepareHooks(t)
	hanging.define(hanging.definition("hang", hanging.script("hang", "trap '' TERM\necho begin >>OUT/begun\nwhile :; do sleep 30; done\n"),
		"timeout 2s", "match *.dyn.example.org"))
	hanging.configure("", "hooks local")
	hanging.startPrivileged()

	for try := 1; ; try++ {
		began := time.Now()
		var updates, queries [2][]time.Duration
		ran := true
		for k := int64(0); time.Since(began) < limit+limit/2; k++ {
			for i, h := range []*hooking{quiet, hanging} {
				at := time.Now()
				if _, err := h.update(nil, host(int(k%8)), v4(int64(try)<<16+k)); err != nil {
					t.Fatal(err)
				}
				updates[i] = append(updates[i], time.Since(at))
				at = time.Now()
				if r, err := h.query("udp", host(int(k%8))+".dyn.example.org", dns.TypeA); err != nil || len(r.Answer) != 1 {
					t.Fatalf("got %v, %v", r, err)
				}
				queries[i] = append(queries[i], time.Since(at))
			}
			if k == 20 || k%100 == 99 {
				ran = ran && hanging.listing().Hooks[0].Running > 0
			}
		}
		if !ran {
			t.Fatalf("no hook was running: that proves nothing\n%s", tail(hanging.log.String()))
		}
		good := true
		for what, d := range map[string][2][]time.Duration{"update": updates, "query": queries} {
			slices.Sort(d[0])
			slices.Sort(d[1])
			at := func(i int, share float64) time.Duration { return d[i][int(share*float64(len(d[i])-1))] }
			t.Logf("%s: %d of each; median %v without and %v with a hook that hangs, p99 %v and %v, longest %v and %v",
				what, len(d[0]), at(0, .5), at(1, .5), at(0, .99), at(1, .99), at(0, 1), at(1, 1))
			if at(1, 1) > limit*3/4 || at(1, .5) > 3*at(0, .5)+2*time.Millisecond || at(1, .99) > 5*at(0, .99)+20*time.Millisecond {
				good = false
			}
		}
		if good {
			break
		}
		if try == 5 {
			t.Fatalf("updates or queries are slower beside a hook that hangs, in each of %d tries", try)
		}
	}
	// The hooks did hang, for as long as they may.
	hanging.until("the first time limit", 20*time.Second, func() bool {
		l := hanging.listing().Hooks[0].Last
		return len(l) > 0 && (l[0].Result == "retry" || l[0].Result == "superseded")
	})
	if len(hanging.read("begun")) == 0 {
		t.Error("no hook began")
	}
}
