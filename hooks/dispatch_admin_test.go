package hooks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// ask sends one request to the handler for operators.
func (w *world) ask(method, target string) (code int, body map[string]any, header http.Header) {
	w.t.Helper()
	r := httptest.NewRequest(method, target, nil)
	rec := httptest.NewRecorder()
	hooks.AdminHandler(func() *hooks.Dispatcher { return w.d }).ServeHTTP(rec, r)
	if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
		w.t.Fatalf("%s %s: %q is not JSON: %v", method, target, rec.Body, err)
	}
	if got := rec.Header().Get("Cache-Control"); got != "no-store" {
		w.t.Errorf("%s %s: Cache-Control: %s", method, target, got)
	}
	media := "application/json"
	if rec.Code >= 400 {
		media = "application/problem+json"
	}
	if got := rec.Header().Get("Content-Type"); got != media {
		w.t.Errorf("%s %s: Content-Type: %s, want %s", method, target, got, media)
	}
	return rec.Code, body, rec.Header()
}

func TestAdminErrors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		w.stage.act(hangs)
		w.settled("busy 60 A 192.0.2.1")
		for _, tt := range []struct {
			name, method, target string
			status               int
			code                 string
		}{
			{"another path", "GET", "/hooks/x", 404, "not-found"},
			{"a path that would be cleaned is not redirected", "GET", "//hooks", 404, "not-found"},
			{"listing by POST", "POST", "/hooks", 405, "method-not-allowed"},
			{"retry by GET", "GET", "/hooks/retry?hook=h", 405, "method-not-allowed"},
			{"retry of no hook", "POST", "/hooks/retry", 400, "bad-request"},
			{"retry of two hooks", "POST", "/hooks/retry?hook=h&hook=k", 400, "bad-request"},
			{"retry of an unknown hook", "POST", "/hooks/retry?hook=k", 404, "no-such-hook"},
			{"retry of a bad name", "POST", "/hooks/retry?hook=h&fqdn=a..b", 400, "bad-name"},
			{"an empty name is not all names", "POST", "/hooks/discard?hook=h&fqdn=", 400, "bad-name"},
			{"test without a name", "POST", "/hooks/test?hook=h", 400, "bad-request"},
			{"test of a name without records", "POST", "/hooks/test?hook=h&fqdn=no.dyn.example.org", 404, "no-record"},
			{"test of a name of no zone", "POST", "/hooks/test?hook=h&fqdn=example.com", 404, "no-record"},
			{"test of a name that is being told", "POST", "/hooks/test?hook=h&fqdn=busy.dyn.example.org", 409, "running"},
		} {
			code, body, header := w.ask(tt.method, tt.target)
			if code != tt.status || body["code"] != tt.code || body["status"] != float64(tt.status) || body["detail"] == "" {
				t.Errorf("%s: %d %v, want %d %s", tt.name, code, body, tt.status, tt.code)
			}
			if code == 405 && header.Get("Allow") == "" {
				t.Errorf("%s: no Allow", tt.name)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.d.Stop(ctx); err != nil {
			t.Error(err)
		}
		if code, body, _ := w.ask("POST", "/hooks/retry?hook=h"); code != 503 || body["code"] != "stopping" {
			t.Errorf("after Stop: %d %v", code, body)
		}
		w.db.Close()
		w.d = nil
		if code, body, _ := w.ask("GET", "/hooks"); code != 404 || body["code"] != "no-hooks" {
			t.Errorf("without a dispatcher: %d %v", code, body)
		}
	})
}

func TestListing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		defer w.stop()
		seen := time.Now().UTC()
		w.stage.act(exits(78))
		w.settled("dead 60 A 192.0.2.1")
		w.stage.act(exits(0))
		w.settled("fine 60 A 192.0.2.1")
		w.stage.act(exits(75))
		w.settled("waits 60 A 192.0.2.1")
		code, body, _ := w.ask("GET", "/hooks")
		if code != 200 {
			t.Fatalf("%d %v", code, body)
		}
		h := body["hooks"].([]any)[0].(map[string]any)
		if h["hook"] != "h" || h["pending"] != 1.0 || h["dead"] != 1.0 || h["running"] != 0.0 || h["oldest"] != seen.Format(time.RFC3339) {
			t.Errorf("numbers: %v", h)
		}
		var states []string
		for _, e := range h["events"].([]any) {
			e := e.(map[string]any)
			states = append(states, fmt.Sprintf("%v %v %v %v", e["fqdn"], e["state"], e["event"], e["error"]))
		}
		wantSet(t, states, "dead.dyn.example.org. dead added exit status 78", "waits.dyn.example.org. waiting added exit status 75")
		var results []string
		for _, e := range h["last"].([]any) {
			e := e.(map[string]any)
			results = append(results, fmt.Sprintf("%v %v", e["fqdn"], e["result"]))
		}
		wantLines(t, results, "dead.dyn.example.org. dead", "fine.dyn.example.org. ok", "waits.dyn.example.org. retry")
		w.stage.act(nil)
		if code, body, _ := w.ask("POST", "/hooks/retry?hook=h&fqdn=DEAD.dyn.example.org"); code != 200 || body["retried"] != 1.0 {
			t.Errorf("retry: %d %v", code, body)
		}
		if code, body, _ := w.ask("POST", "/hooks/retry?hook=h"); code != 200 || body["retried"] != 1.0 {
			t.Errorf("retry of all: %d %v, want the one that still waits", code, body)
		}
		synctest.Wait()
		if st := w.stats(); st.Pending+st.Dead+w.marks() != 0 {
			t.Errorf("%+v, %d marks", st, w.marks())
		}
	})
}

func TestListingIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		defer w.stop()
		w.stage.act(exits(78))
		var lines []string
		for i := range 700 {
			lines = append(lines, fmt.Sprintf("n%d 60 A 192.0.2.1", i))
		}
		w.settled(lines...)
		h := w.d.List().Hooks[0]
		if len(h.Events) != 500 || h.LeftOut != 200 || h.Dead != 700 || len(h.Last) != 16 {
			t.Errorf("%d events, %d left out, %d dead, %d results", len(h.Events), h.LeftOut, h.Dead, len(h.Last))
		}
	})
}

func TestDiscard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, hookFor("h"))
		defer w.stop()
		w.stage.act(exits(78))
		w.settled("dead 60 A 192.0.2.1")
		gate := make(chan struct{})
		w.stage.act(func(ctx context.Context, c call) (*executed, error) { <-gate; return exits(75)(ctx, c) })
		w.settled("runs 60 A 192.0.2.1")
		w.settled("runs 60 AAAA 2001:db8::1")
		if n, err := w.d.Discard(t.Context(), "h", ""); n != 2 || err != nil {
			t.Errorf("Discard: %d, %v", n, err)
		}
		close(gate)
		time.Sleep(time.Hour)
		synctest.Wait()
		if st := w.stats(); len(w.stage.seen()) != 2 || st.Pending+st.Dead+w.marks() != 0 {
			t.Errorf("%d runs, %+v, %d marks: what runs is not tried again", len(w.stage.seen()), st, w.marks())
		}
	})
}

func TestRunByHand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := hookFor("h")
		h.AnyType, h.Types, h.On = false, []uint16{1}, []string{policy.Removed}
		w := newWorld(t, h)
		defer w.stop()
		w.settled("www 60 A 192.0.2.1", "www 60 TXT x")
		before := w.marks()
		w.stage.act(func(context.Context, call) (*executed, error) {
			time.Sleep(time.Second)
			return &executed{ExitCode: 3, Error: "exit status 3: no", Output: "no\n", DurationMilliseconds: 1000}, nil
		})
		code, body, _ := w.ask("POST", "/hooks/test?hook=h&fqdn=www.dyn.example.org")
		if code != 200 || body["ok"] != false || body["exit_code"] != 3.0 || body["output"] != "no\n" || body["seconds"] != 1.0 {
			t.Errorf("%d %v", code, body)
		}
		wantLines(t, w.stage.told(0), `changed www A: "192.0.2.1" -> "192.0.2.1"`)
		if got := w.stage.seen()[0].env["DDNS_SOURCE"]; got != "test" {
			t.Errorf("DDNS_SOURCE=%s", got)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(w.stage.seen()) != 1 || w.marks() != before {
			t.Errorf("%d runs, %d marks: nothing is kept of a run by hand", len(w.stage.seen()), w.marks())
		}

		// A change meanwhile waits for it; the caller going away ends it.
		w.stage.act(hangs)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() {
			time.Sleep(time.Second)
			w.put("www A")
			w.stage.act(nil)
		}()
		begin := time.Now()
		if _, _, err := w.d.Test(ctx, "h", owner("www")); err == nil || time.Since(begin) != 5*time.Second {
			t.Errorf("Test: %v after %v", err, time.Since(begin))
		}
		synctest.Wait()
		wantLines(t, w.stage.told(2), `removed www A: "192.0.2.1" -> ""`)

		w.settled("www 60 A 192.0.2.1")
		w.stage.act(refuses(codes.PermissionDenied))
		if code, body, _ := w.ask("POST", "/hooks/test?hook=h&fqdn=www.dyn.example.org"); code != 502 || !strings.Contains(body["detail"].(string), "PermissionDenied") {
			t.Errorf("refused: %d %v", code, body)
		}
	})
}

func TestMarkKeysAreKept(t *testing.T) {
	long := zone.Name(strings.Repeat("\x3f"+strings.Repeat("\xff", 63), 3) + "\x3d" + strings.Repeat("\xff", 61) + "\x00")
	if len(long) != zone.MaxNameLength {
		t.Fatal(len(long))
	}
	a := store.Advance{Follower: hooks.Follower, Put: []store.Item{{Key: hooks.MarkKey(strings.Repeat("h", 64), long, long[:], 65535)}}}
	if err := a.Check(); err != nil {
		t.Errorf("the longest key: %v", err)
	}
}

// FuzzDecodeMark reads what is on disk: it never panics, and what it accepts is
// written again as the same.
func FuzzDecodeMark(f *testing.F) {
	f.Add([]byte(`{"v":1,"hook":"h","id":"01JX","zone":"example.org.","name":"www.example.org.","type":"A","new_ttl":60,"new":"192.0.2.1","serial":7,"position":3,"unix":1,"source":"http","actor":"laptop","since":5}`))
	f.Add([]byte(`{"v":1,"hook":"h","id":"01JX","zone":"example.org.","name":"www.example.org.","type":"TYPE65280","old_ttl":60,"old":"\\# 0\nx","serial":7,"position":3,"attempts":2,"failures":1,"due":99,"dead":true,"error":"exit status 1"}`))
	f.Add([]byte(`{"v":2}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		key, once, err := hooks.RecodeMark(b)
		if err != nil {
			return
		}
		again, twice, err := hooks.RecodeMark(once)
		if err != nil || again != key || !bytes.Equal(once, twice) {
			t.Errorf("%q becomes %q, then %q: %v", b, once, twice, err)
		}
	})
}

func wantSet(t testing.TB, got []string, want ...string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	wantLines(t, got, want...)
}
