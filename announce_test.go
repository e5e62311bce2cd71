package ddns

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// announced runs announce for d, beside change, and returns when its rounds began.
// They take so long, and fail unless that is nothing.
func announced(t *testing.T, d, round time.Duration, change func(set func(zone.Serial), wake func())) []time.Duration {
	t.Helper()
	origin, err := zone.ParseName("dyn.example.org.")
	if err != nil {
		t.Fatal(err)
	}
	var at []time.Duration
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var serial atomic.Uint32
		serial.Store(1)
		changed := make(chan struct{}, 1)
		wake := func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
		began := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			announce(ctx, origin, func() zone.Serial { return zone.Serial(serial.Load()) }, changed, func(string) error {
				at = append(at, time.Since(began))
				time.Sleep(round)
				if round > 0 {
					return errors.New("no answer")
				}
				return nil
			})
		}()
		if change != nil {
			go change(func(s zone.Serial) { serial.Store(uint32(s)); wake() }, wake)
		}
		time.Sleep(d)
		cancel()
		<-ended
	})
	return at
}

func TestLastNotifyIsSaidTwice(t *testing.T) {
	const second = time.Second
	twice := []time.Duration{second, second + notifyAgain}
	for _, tt := range []struct {
		name   string
		round  time.Duration
		change func(set func(zone.Serial), wake func())
		want   []time.Duration
	}{
		{"nothing changes", 0, nil, twice},
		{"other zones change all the time", 0, func(_ func(zone.Serial), wake func()) {
			for range 300 {
				time.Sleep(100 * time.Millisecond)
				wake()
			}
		}, twice},
		{"many changes", 0, func(set func(zone.Serial), _ func()) {
			time.Sleep(500 * time.Millisecond)
			for i := range 40 { // until 4.5s
				set(zone.Serial(i + 2))
				time.Sleep(100 * time.Millisecond)
			}
		}, []time.Duration{second, 2 * second, 3 * second, 4 * second, 5 * second, 5*second + notifyAgain}},
		{"a change before the second time", 0, func(set func(zone.Serial), _ func()) {
			time.Sleep(5 * second)
			set(2)
		}, []time.Duration{second, 6 * second, 6*second + notifyAgain}},
		{"a secondary is down", 6 * second, nil, []time.Duration{second, 7*second + notifyAgain}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := announced(t, time.Minute, tt.round, tt.change)
			if len(got) > len(tt.want) || !slices.EqualFunc(got, tt.want, func(a, b time.Duration) bool { return (a - b).Abs() <= second }) {
				t.Errorf("notified at %v, want %v or a second later", got, tt.want)
			}
		})
	}
}

func TestAnnounceEndsWhileItWaits(t *testing.T) {
	for _, d := range []time.Duration{notifyPause / 2, 2 * notifyPause, notifyAgain / 2, 2 * notifyAgain} {
		announced(t, d, 0, nil) // hangs, which synctest tells, or returns
	}
}
