package ddns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/resident"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

func TestReloadAnswers(t *testing.T) {
	var result error
	w := newWorld(t, func(s *httpSite) {
		ok := s.Reload
		s.Reload = func(ctx context.Context, actor, request string) (reloadReport, error) {
			if result != nil {
				return reloadReport{}, result
			}
			return ok(ctx, actor, request)
		}
	})
	tests := []struct {
		name, token string
		result      error
		status      int
		code        string
	}{
		{"no credential", "", nil, 401, codeNoCredentials},
		{"a wrong token", wrongToken, nil, 401, codeBadCredentials},
		{"a token without the grant", laptopToken, nil, 403, codeNotPermitted},
		{"the grant, from the wrong place", homeToken, nil, 403, codeNotPermitted},
		{"the grant", opsToken, nil, 200, ""},
		{"another one is running", opsToken, errReloadRunning, 409, codeReloadRunning},
		{"a wrong line", opsToken, &reloadError{"/etc/ddns/policy", 7, "unknown property 'updat'"}, 422, codeConfiguration},
		{"a wrong file", opsToken, fmt.Errorf("reading: %w", &reloadError{File: "/etc/ddns/policy", Text: "empty"}), 422, codeConfiguration},
		{"an error without a file", opsToken, errors.New("zone dyn.example.org.: no SOA"), 422, codeConfiguration},
		{"the store", opsToken, fmt.Errorf("committing: %w", zonedb.ErrUnavailable), 503, codeStore},
		{"the end", opsToken, zonedb.ErrStopped, 503, codeStopping},
		{"a full queue", opsToken, zonedb.ErrBusy, 503, codeBusy},
	}
	for _, tc := range tests {
		result = tc.result
		for _, method := range []string{"GET", "POST"} {
			var headers []string
			if tc.token != "" {
				headers = []string{bearer(tc.token)}
			}
			a := w.do(method, "/reload", headers...)
			if a.status != tc.status {
				t.Errorf("%s: got %d %s, want %d", tc.name, a.status, a.body, tc.status)
			} else if tc.code != "" {
				checkProblem(t, tc.name, a, tc.code)
			}
		}
	}
	if len(w.reloaded) != 2 || !strings.HasPrefix(w.reloaded[0], "ops ") {
		t.Errorf("reloaded %q, want twice by ops", w.reloaded)
	}

	result = &reloadError{"/etc/ddns/policy", 7, "unknown property 'updat'"}
	p := w.do("GET", "/reload", bearer(opsToken)).json(t)
	if p["file"] != "/etc/ddns/policy" || p["line"] != 7.0 || p["reason"] != "unknown property 'updat'" ||
		p["detail"] != "/etc/ddns/policy:7: unknown property 'updat'" {
		t.Errorf("got %v, want file, line and reason", p)
	}
}

func TestReloadSaysWhatChanged(t *testing.T) {
	report := reloadReport{}
	w := newWorld(t, func(s *httpSite) {
		s.Reload = func(context.Context, string, string) (reloadReport, error) { return report, nil }
	})
	ask := func() string { return strings.TrimSpace(w.do("GET", "/reload", bearer(opsToken)).body) }
	want := `{"changed":false,"stanzas":[{"serves":["dyn.example.org."],"policy":{"tokens":{},"keys":{},"hooks":{}},"zones":[],"certificates":false}]}`
	if got := ask(); got != want {
		t.Errorf("nothing:\ngot  %s\nwant %s", got, want)
	}
	report.Policy.Tokens = policy.Delta{Added: []string{"phone"}, Removed: []string{"old"}}
	report.Zones = []zoneReport{{Zone: testZone, Deleted: 1, Added: 2, Serial: 9}}
	report.Certificates = true
	want = `{"changed":true,"stanzas":[{"serves":["dyn.example.org."],"policy":{"tokens":{"added":["phone"],"removed":["old"]},"keys":{},"hooks":{}},` +
		`"zones":[{"zone":"dyn.example.org.","deleted":1,"added":2,"serial":9}],"certificates":true}]}`
	if got := ask(); got != want {
		t.Errorf("everything:\ngot  %s\nwant %s", got, want)
	}
}

func TestOperatorEndpointsNeedTheReloadGrant(t *testing.T) {
	w := newWorld(t, func(s *httpSite) {
		s.Operator = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, "%q\n", r.URL.Path)
		})
	})
	for token, want := range map[string]int{"": 401, wrongToken: 401, laptopToken: 403, opsToken: 200} {
		var headers []string
		if token != "" {
			headers = []string{bearer(token)}
		}
		for _, path := range []string{"/hooks", "/hooks/dead"} {
			if a := w.do("GET", path, headers...); a.status != want || want == 200 && a.body != fmt.Sprintf("%q\n", path) {
				t.Errorf("%s: got %d %s, want %d", path, a.status, a.body, want)
			}
		}
	}
	none := newWorld(t, nil)
	if a := none.do("GET", "/hooks", bearer(opsToken)); a.status != 404 {
		t.Errorf("nobody there: got %d, want 404", a.status)
	}
	if a := none.do("GET", "/hooksabc", bearer(opsToken)); a.status != 404 {
		t.Errorf("another path: got %d, want 404", a.status)
	}
}

// patient is a response writer that notes how long it may take.
type patient struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (p *patient) SetWriteDeadline(t time.Time) error { p.until = t; return nil }

func TestHooksAreThoseOfTheStanzaThatHasSome(t *testing.T) {
	says := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, what) })
	}
	p := testPolicy(t, mainPolicy())
	site := func(origin string, has bool) resident.Member[*httpSite] {
		return resident.Member[*httpSite]{Generation: nil, Site: &httpSite{
			Zones: []zone.Name{zone.MustName(origin)}, Policy: func() *policy.Policy { return p },
			Operator: says(origin), Hooks: func() any {
				if has {
					return origin
				}
				return nil
			},
		}}
	}
	f := newHTTPFront()
	f.SetSites([]resident.Member[*httpSite]{site("without.example.org", false), site("with.example.org", true)})
	r := httptest.NewRequest("GET", "/hooks", nil)
	r.Header.Set("Authorization", "Bearer "+opsToken)
	w := &patient{ResponseRecorder: httptest.NewRecorder()}
	f.ServeHTTP(w, r)
	if got := w.Body.String(); w.Code != http.StatusOK || got != "with.example.org" {
		t.Errorf("got %d %q, want the hooks of the second stanza", w.Code, got)
	}
	if left := time.Until(w.until); left < time.Hour {
		t.Errorf("the reply to an operator has %v, a hook may take longer", left)
	}
}

func TestBackupWaitsForNoClientThatDoesNotRead(t *testing.T) {
	p := testPolicy(t, mainPolicy())
	w := &patient{ResponseRecorder: httptest.NewRecorder()}
	f := newHTTPFront()
	f.SetSites([]resident.Member[*httpSite]{{Site: &httpSite{
		Zones: []zone.Name{zone.MustName(testZone)}, Policy: func() *policy.Policy { return p },
		Backup: func(ctx context.Context, to io.Writer) error {
			for range 3 {
				w.until = time.Time{}
				if _, err := to.Write([]byte("piece ")); err != nil {
					return err
				}
				if left := time.Until(w.until); left <= 0 || left > time.Minute {
					t.Errorf("the client has %v for a piece", left)
				}
			}
			return nil
		},
	}}})
	r := httptest.NewRequest("GET", "/backup", nil)
	r.Header.Set("Authorization", "Bearer "+opsToken)
	f.ServeHTTP(w, r)
	if got := w.Body.String(); w.Code != http.StatusOK || got != "piece piece piece " {
		t.Errorf("got %d %q", w.Code, got)
	}
}

func TestHooksOfSeveralDatabasesAreListedTogether(t *testing.T) {
	p := testPolicy(t, mainPolicy())
	site := func(origin, database, hook string) resident.Member[*httpSite] {
		return resident.Member[*httpSite]{Site: &httpSite{
			Zones: []zone.Name{zone.MustName(origin)}, Policy: func() *policy.Policy { return p },
			Hooks: func() any { return database },
			Operator: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodGet:
					fmt.Fprintf(w, `{"hooks":[{"hook":%q}]}`, hook)
				case r.URL.Query().Get("hook") != hook:
					w.WriteHeader(http.StatusNotFound)
				default:
					fmt.Fprint(w, hook)
				}
			}),
		}}
	}
	f := newHTTPFront()
	f.SetSites([]resident.Member[*httpSite]{site("one.example.org", "1", "a"), site("same.example.org", "1", "a"), site("two.example.org", "2", "b")})
	for target, want := range map[string]string{
		"GET /hooks":               `{"hooks":[{"hook":"a"},{"hook":"b"}]}` + "\n",
		"POST /hooks/retry?hook=a": "a",
		"POST /hooks/retry?hook=b": "b",
		"POST /hooks/retry?hook=c": "",
	} {
		method, path, _ := strings.Cut(target, " ")
		r := httptest.NewRequest(method, path, nil)
		r.Header.Set("Authorization", "Bearer "+opsToken)
		w := httptest.NewRecorder()
		f.ServeHTTP(w, r)
		if got := w.Body.String(); got != want || (w.Code == http.StatusNotFound) != (want == "") {
			t.Errorf("%s: got %d %q, want %q", target, w.Code, got, want)
		}
	}
}
