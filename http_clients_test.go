package ddns

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// Requests of old and odd clients, as they are on the wire.
func TestOddClients(t *testing.T) {
	w := newWorld(t, nil)
	auth := "Authorization: Bearer " + laptopToken + "\r\n"
	const query = "?fqdn=laptop.dyn.example.org&ip=192.0.2.1"
	tests := []struct {
		name, request string
		status        int
	}{
		{"HTTP/1.0 without Host", "GET /update" + query + " HTTP/1.0\r\n" + auth + "\r\n", 200},
		{"HTTP/1.0 with Host", "GET /update" + query + " HTTP/1.0\r\nHost: x\r\n" + auth + "\r\n", 200},
		{"HTTP/1.1 without Host is malformed", "GET /update" + query + " HTTP/1.1\r\n" + auth + "\r\n", 400},
		{"an empty Host", "GET /update" + query + " HTTP/1.1\r\nHost:\r\n" + auth + "\r\n", 200},
		{"a Host in upper case", "GET /update" + query + " HTTP/1.1\r\nHOST: DYN.EXAMPLE.ORG:8053\r\n" + auth + "\r\n", 200},
		{"two slashes", "GET //update" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 200},
		{"a trailing slash", "GET /update/" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 200},
		{"slash and backslash", `GET /\/update` + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 200},
		{"absolute form", "GET http://dyn.example.org/update" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 200},
		{"absolute form with two slashes", "GET http://dyn.example.org//update" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 200},
		{"absolute form with a credential beside the header", "GET http://a:b@x/update" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 400},
		{"a path in percent encoding", "GET /%75pdate" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 200},
		{"an encoded slash", "GET /%2Fupdate" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 200},
		{"dot segments", "GET /x/../update" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 404},
		{"an encoded NUL", "GET /update%00" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 404},
		{"another case", "GET /Update" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 404},
		{"no leading slash", "GET update" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 400},
		{"the root", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		{"OPTIONS", "OPTIONS /update HTTP/1.1\r\nHost: x\r\n\r\n", 405},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 404},
		{"TRACE", "TRACE /update HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 405},
		{"HEAD does not update", "HEAD /update" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 405},
		{"PUT", "PUT /update" + query + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n" + auth + "\r\n", 405},
		{"a method of its own", "UPDATE /update" + query + " HTTP/1.1\r\nHost: x\r\n" + auth + "\r\n", 405},
		{"a lower-case method", "get /ping HTTP/1.1\r\nHost: x\r\n\r\n", 405},
		{"CONNECT", "CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n", 404},
		{"HEAD on ping", "HEAD /ping HTTP/1.0\r\n\r\n", 200},
		{"POST on ping", "POST /ping HTTP/1.0\r\nContent-Length: 0\r\n\r\n", 405},
		{"POST with an empty form", "POST /update" + query + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n" + auth + "\r\n", 200},
		{"POST with a small body", "POST /update" + query + " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" + auth + "\r\n{}", 200},
		{"POST with a small chunked body", "POST /update" + query + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + auth + "\r\n2\r\n{}\r\n0\r\n\r\n", 200},
		{"GET with a small body", "GET /update" + query + " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" + auth + "\r\n{}", 200},
		{"a body that is announced too large", "POST /update" + query + " HTTP/1.1\r\nHost: x\r\nContent-Length: 4097\r\n" + auth + "\r\n", 413},
		{"a chunked body that is too large", "POST /update" + query + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + auth + "\r\n1001\r\n" + strings.Repeat("x", 4097) + "\r\n0\r\n\r\n", 413},
		{"a broken chunked body", "POST /update" + query + " HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n" + auth + "\r\nzz\r\n", 400},
		{"length and chunked at once", "POST /update" + query + " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n" + auth + "\r\n0\r\n\r\n", 200},
		{"two lengths", "POST /update" + query + " HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n" + auth + "\r\nx", 400},
		{"a header folded over two lines", "GET /update" + query + " HTTP/1.1\r\nHost: x\r\nX-A: b\r\n c\r\n" + auth + "\r\n", 200},
		{"a header of 20 KiB", "GET /ping HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("x", 20<<10) + "\r\n\r\n", 431},
		{"a request line of 20 KiB", "GET /ping?" + strings.Repeat("x", 20<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n", 431},
		{"a header of 12 KiB", "GET /ping HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("x", 12<<10) + "\r\n\r\n", 200},
		{"TLS on a plain port", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400},
		{"HTTP/2 without asking", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 404},
	}
	for _, tc := range tests {
		a := w.raw(tc.request, 1)[0]
		if a.status != tc.status {
			t.Errorf("%s: got %d %s, want %d", tc.name, a.status, a.body, tc.status)
			continue
		}
		if a.header.Get("Location") != "" {
			t.Errorf("%s: redirected to %s", tc.name, a.header.Get("Location"))
		}
		if a.status == 405 && (a.header.Get("Allow") == "" || strings.Contains(tc.request, "/update") && strings.Contains(a.header.Get("Allow"), "HEAD")) {
			t.Errorf("%s: Allow is %q", tc.name, a.header.Get("Allow"))
		}
		if id := a.header.Get("X-Request-Id"); id != "" { // what net/http refuses itself has none
			n, err := strconv.Atoi(a.header.Get("Content-Length"))
			if err != nil || n != len(a.body) && !strings.HasPrefix(tc.request, "HEAD") {
				t.Errorf("%s: Content-Length %q of a body of %d octets", tc.name, a.header.Get("Content-Length"), len(a.body))
			}
		}
	}
	if got := w.addresses("laptop.dyn.example.org."); !slices.Equal(got, []string{"A 192.0.2.1 60"}) {
		t.Errorf("zone holds %v", got)
	}
}

func TestHeadWithoutPermissionToUpdateChangesNothing(t *testing.T) {
	w := newWorld(t, nil)
	for _, method := range []string{"HEAD", "OPTIONS", "PUT", "PATCH", "TRACE"} {
		if a := w.do(method, "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1", bearer(laptopToken)); a.status != 405 {
			t.Errorf("%s: got %d, want 405", method, a.status)
		}
		if a := w.do(method, "/reload", bearer(opsToken)); a.status != 405 {
			t.Errorf("%s /reload: got %d, want 405", method, a.status)
		}
	}
	if got := w.addresses("laptop.dyn.example.org."); got != nil || len(w.reloaded) > 0 {
		t.Errorf("zone holds %v, reloaded %v", got, w.reloaded)
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	w := newWorld(t, nil)
	var all strings.Builder
	const n = 20
	for i := range n {
		fmt.Fprintf(&all, "GET /update?fqdn=laptop.dyn.example.org&ip=192.0.2.%d HTTP/1.1\r\nHost: x\r\nX-Request-Id: r%d\r\nAuthorization: %s\r\n\r\n", i, i, laptopToken)
	}
	for i, a := range w.raw(all.String(), n) {
		if a.status != 200 || a.header.Get("X-Request-Id") != fmt.Sprintf("r%d", i) || !strings.Contains(a.body, fmt.Sprintf(`"192.0.2.%d"`, i)) {
			t.Fatalf("response %d: %d %s %s", i, a.status, a.header.Get("X-Request-Id"), a.body)
		}
	}
}

func TestAccept(t *testing.T) {
	tests := []struct {
		name   string
		values []string
		ok     bool
	}{
		{"absent", nil, true},
		{"empty", []string{""}, true},
		{"anything", []string{"*/*"}, true},
		{"a lone star, as old Java sends", []string{"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"}, true},
		{"JSON", []string{"application/json"}, true},
		{"JSON in another case with a parameter", []string{"Application/JSON; charset=utf-8"}, true},
		{"any application", []string{"application/*"}, true},
		{"a browser", []string{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}, true},
		{"text only", []string{"text/plain"}, false},
		{"HTML only", []string{"text/html, text/*;q=0.5"}, false},
		{"JSON refused", []string{"application/json;q=0"}, false},
		{"JSON refused, anything else welcome", []string{"*/*, application/json;q=0"}, false},
		{"applications refused, anything else welcome", []string{"*/*, application/*;q=0.0"}, false},
		{"JSON welcome, other applications not", []string{"application/*;q=0, application/json"}, true},
		{"everything refused", []string{"*/*;q=0"}, false},
		{"a weight that cannot be read", []string{"application/json;q=high"}, true},
		{"over two lines", []string{"text/plain", "application/json;q=0.1"}, true},
		{"problems only", []string{"application/problem+json"}, false},
		{"commas", []string{",,"}, true},
	}
	w := newWorld(t, nil)
	for _, tc := range tests {
		if got := acceptsJSON(tc.values); got != tc.ok {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.ok)
		}
		var headers []string
		for _, v := range tc.values {
			headers = append(headers, "Accept: "+v)
		}
		for _, target := range []string{"/ping", "/token/generate", "/update", "/reload"} {
			a := w.do("GET", target, headers...)
			if (a.status == 406) == tc.ok {
				t.Errorf("%s: %s: got %d, want %v", tc.name, target, a.status, tc.ok)
			}
			if a.status == 406 {
				checkProblem(t, tc.name, a, codeNotAcceptable)
			}
		}
	}
}

// Headers that never end are cut off after five seconds.
func TestSlowHeaderIsCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("takes five seconds")
	}
	t.Parallel()
	w := newWorld(t, nil)
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /ping HTTP/1.1\r\nHost: x\r\nX-Slow:"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_ = c.SetReadDeadline(began.Add(httpHeaderTime + 5*time.Second))
	_, err = io.ReadAll(c)
	if took := time.Since(began); err != nil || took < httpHeaderTime-time.Second {
		t.Errorf("after %v: %v, want the connection closed after %v", took, err, httpHeaderTime)
	}
}

// The store hangs: whatever is above the bound is told so at once, and a ping
// counts like any other request but does not wait.
func TestRequestsBeyondTheBoundAreRefused(t *testing.T) {
	block := make(chan struct{})
	entered := make(chan struct{}, httpRequestsMax)
	w := newWorld(t, func(s *httpSite) {
		s.Update = func(context.Context, zone.Name, zone.Update) (zonedb.Result, error) {
			entered <- struct{}{}
			<-block
			return zonedb.Result{}, zonedb.ErrStopped
		}
	})
	front := newHTTPFront()
	front.view.Store(w.view())
	front.running.Store(httpRequestsMax - 1)
	done := make(chan *recorder)
	go func() {
		rec := newRecorder()
		front.ServeHTTP(rec, updateRequest(t, laptopToken))
		done <- rec
	}()
	<-entered
	rec := newRecorder()
	front.ServeHTTP(rec, updateRequest(t, laptopToken))
	a := rec.answer()
	checkProblem(t, "beyond the bound", a, codeBusy)
	if a.status != 503 {
		t.Errorf("got %d, want 503", a.status)
	}
	close(block)
	if a := (<-done).answer(); a.status != 503 || a.code() != codeStopping {
		t.Errorf("the request inside: got %d %s", a.status, a.body)
	}
	if n := front.running.Load(); n != httpRequestsMax-1 {
		t.Errorf("%d running afterwards", n-httpRequestsMax+1)
	}
}

// A client that leaves while its update waits does not undo it.
func TestClientLeavingDoesNotStopItsUpdate(t *testing.T) {
	queued, proceed, finished := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	w := newWorld(t, nil)
	update := w.site.Update
	slow := *w.site
	slow.Update = func(ctx context.Context, origin zone.Name, u zone.Update) (zonedb.Result, error) {
		close(queued)
		<-proceed
		res, err := update(context.WithoutCancel(ctx), origin, u)
		finished <- err
		return res, err
	}
	front := newHTTPFront()
	view := w.view()
	view.sites[0].httpSite = &slow
	front.view.Store(view)
	srv := &http.Server{Handler: front}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go srv.Serve(l) //nolint:errcheck // ends with Close
	t.Cleanup(func() { srv.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "GET /update?fqdn=laptop.dyn.example.org&ip=192.0.2.1 HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\n\r\n", laptopToken)
	<-queued
	c.Close()
	close(proceed)
	if err := <-finished; err != nil {
		t.Fatal(err)
	}
	if got := w.addresses("laptop.dyn.example.org."); !slices.Equal(got, []string{"A 192.0.2.1 60"}) {
		t.Errorf("zone holds %v", got)
	}
}

// view is what the world's listener serves.
func (w *world) view() *httpView {
	m := &httpMember{httpSite: w.site}
	v := &httpView{sites: []*httpMember{m}, byZone: map[zone.Name]*httpMember{}, trusted: w.site.TrustedProxies}
	for _, z := range w.site.Zones {
		v.byZone[z] = m
	}
	return v
}

func updateRequest(t testing.TB, token string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(
		"GET /update?fqdn=laptop.dyn.example.org&ip=192.0.2.1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr = "127.0.0.1:1"
	return r
}
