package ddns

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// recorder is a response recorder that also notices a second WriteHeader, which
// a real connection would only complain about in a log.
type recorder struct {
	*httptest.ResponseRecorder
	headers int
}

func newRecorder() *recorder { return &recorder{ResponseRecorder: httptest.NewRecorder()} }

func (r *recorder) WriteHeader(code int) {
	r.headers++
	r.ResponseRecorder.WriteHeader(code)
}

func (r *recorder) answer() answer {
	return answer{r.Code, r.Header(), r.Body.String()}
}

// FuzzUpdateQuery throws raw queries and headers at /update: never a panic, a
// status of the table, a proper body, and no credential in it.
func FuzzUpdateQuery(f *testing.F) {
	for _, seed := range [][6]string{
		{"GET", "/update", "fqdn=laptop.dyn.example.org&ip=192.0.2.1", "Bearer " + laptopToken, "", ""},
		{"POST", "//update/", "fqdn=laptop.dyn.example.org&ip=2001:db8::1,192.0.2.1&ttl=90", "Token " + laptopToken, "", "*/*"},
		{"DELETE", "/update", "fqdn=x.dyn.example.org&type=TXT,ANY", wideToken, "", ""},
		{"GET", `/\/update`, "fqdn=%00&ip=%00", "Basic dTpwOnE=", "203.0.113.1, ::1", "text/html;q=0,*/*"},
		{"GET", "/reload", "", opsToken, "::ffff:1.2.3.4", "application/json;q=0.0"},
		{"HEAD", "/ping", "", "", "", ","},
		{"GET", "/token/generate", "fqdn=b%C3%BCcher.dyn.example.org", "", "", ""},
		{"GET", "/update", "fqdn=" + laptopToken + "&ip=" + laptopToken, laptopToken, laptopToken, laptopToken},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], seed[4], seed[5])
	}
	w := newWorld(f, func(s *httpSite) {
		s.TrustedProxies = prefixes("127.0.0.0/8")
		real := s.Update
		s.Update = func(ctx context.Context, origin zone.Name, u zone.Update) (zonedb.Result, error) {
			res, err := real(ctx, origin, u)
			if pr, unknown := updateProblem(err); err != nil && unknown {
				f.Errorf("an error without a word for it: %v (%s)", err, pr.code)
			}
			return res, err
		}
	})
	front := newHTTPFront()
	front.view.Store(w.view())
	statuses := []int{200}
	for _, s := range problemStatus {
		statuses = append(statuses, s)
	}
	f.Fuzz(func(t *testing.T, method, path, query, authorization, address, accept string) {
		r := &http.Request{
			Method: method, URL: &url.URL{Path: path, RawQuery: query}, Header: http.Header{},
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: "127.0.0.1:4711",
		}
		for name, v := range map[string]string{
			"Authorization": authorization, "X-Source-Ip": address, "X-Forwarded-For": address, "Accept": accept,
		} {
			if v != "" {
				r.Header[name] = []string{v}
			}
		}
		rec := newRecorder()
		front.ServeHTTP(rec, r)
		a := rec.answer()
		if a.status == 500 || !slices.Contains(statuses, a.status) {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		if rec.headers != 1 || a.header.Get("X-Request-Id") == "" || a.header.Get("Content-Length") != strconv.Itoa(len(a.body)) {
			t.Errorf("%d headers, %v", rec.headers, a.header)
		}
		if !json.Valid([]byte(a.body)) || strings.Count(a.body, "\n") != 1 {
			t.Errorf("not one line of JSON: %q", a.body)
		}
		if token, _, _ := credential(r); len(token) >= 16 && a.status != 200 && strings.Contains(a.body, token) && !strings.Contains(newProblem(a.code(), "").code, token) {
			t.Errorf("the answer holds the credential: %s", a.body)
		}
		if a.status != 200 {
			checkProblem(t, "fuzz", a, a.code())
		}
	})
}
