package ddns

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/resident"
	"github.com/coredns-ddns/ddns/internal/store/mem"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// Tokens of the tests. The policy holds their hashes.
var (
	laptopToken = testToken('a') // updates laptop, A and AAAA
	v4Token     = testToken('b') // updates v4only, A
	wideToken   = testToken('c') // updates everything below the zone
	opsToken    = testToken('d') // reloads
	homeToken   = testToken('e') // updates laptop from 192.0.2.0/24 only
	oldToken    = testToken('f') // expired
	otherToken  = testToken('g') // known to the second stanza only
	wrongToken  = testToken('z') // nowhere
)

const testZone = "dyn.example.org."

// repeated is a source of randomness that is not.
type repeated struct{ next byte }

func (r *repeated) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = r.next
		r.next = (r.next*7 + 13) % 248
	}
	return len(b), nil
}

func testToken(seed byte) string {
	g, err := policy.Generate(&repeated{seed})
	if err != nil {
		panic(err)
	}
	return g.Token
}

func testPolicy(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mainPolicy() string {
	h := policy.HashToken
	return fmt.Sprintf(`
token laptop %s {
    update laptop.dyn.example.org
}
token v4 %s {
    update v4only.dyn.example.org A
}
token wide %s {
    update *.dyn.example.org *
    update dyn.example.org *
    update \*.wild.dyn.example.org A
}
token ops %s {
    reload
}
token home %s {
    update laptop.dyn.example.org
    from 192.0.2.0/24
    reload
}
token old %s {
    update laptop.dyn.example.org
    expires 2020-01-01
}
`, h(laptopToken), h(v4Token), h(wideToken), h(opsToken), h(homeToken), h(oldToken))
}

const mainZone = `
@    3600 IN SOA ns1 hostmaster 1 3600 600 1209600 60
@    3600 IN NS  ns1
ns1  3600 IN A   192.0.2.53
www  3600 IN A   192.0.2.80
`

// world is one listener with a stanza on it and a real database behind.
type world struct {
	t    testing.TB
	addr string
	db   *zonedb.DB
	site *httpSite
	gen  *resident.Generation
	res  *resident.Site[*httpSite]

	mu       sync.Mutex
	lines    []string       // of the log; guarded by mu
	seen     map[string]int // what was observed; guarded by mu
	reloaded []string       // "actor request"; guarded by mu
}

func (w *world) Request(route string, code int, _ time.Duration) {
	w.note(fmt.Sprintf("request %s %d", route, code))
}
func (w *world) AuthFailure(reason string)  { w.note("auth " + reason) }
func (w *world) Update(zone, result string) { w.note("update " + zone + " " + result) }

func (w *world) note(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[s]++
}

func (w *world) count(s string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[s]
}

func (w *world) log(level, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, level+": "+fmt.Sprintf(format, args...))
}

// newWorld starts a listener. adjust may change the site before it is served.
func newWorld(t testing.TB, adjust func(*httpSite)) *world {
	t.Helper()
	w := &world{t: t, seen: make(map[string]int)}
	origin := zone.MustName(testZone)
	static, err := zone.ReadFile(strings.NewReader(mainZone), "db.dyn", origin)
	if err != nil {
		t.Fatal(err)
	}
	w.db, err = zonedb.Open(mem.New(), zonedb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	if _, err := w.db.Attach(context.Background(), []zonedb.Spec{{Origin: origin, Static: static, Source: "file"}}); err != nil {
		t.Fatal(err)
	}
	p := testPolicy(t, mainPolicy())
	w.site = &httpSite{
		Zones:  []zone.Name{origin},
		Policy: func() *policy.Policy { return p },
		Update: func(ctx context.Context, origin zone.Name, u zone.Update) (zonedb.Result, error) {
			return w.db.Zone(origin).Update(ctx, u)
		},
		Reload: func(_ context.Context, actor, request string) (reloadReport, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.reloaded = append(w.reloaded, actor+" "+request)
			return reloadReport{Policy: policy.Changes{Tokens: policy.Delta{Added: []string{"new"}}}}, nil
		},
		DefaultTTL: 60, MinTTL: 30, MaxTTL: 3600,
		Limits:      zone.Limits{RecordsPerSet: 8},
		FailureRate: rate{1000, time.Minute},
		Observe:     w,
		Log:         w.log,
	}
	if adjust != nil {
		adjust(w.site)
	}
	w.gen = resident.NewGeneration()
	w.res = serve(t, w.gen, w.site)
	w.addr = w.res.Addr().String()
	return w
}

// serve puts a site on the listener of a generation.
func serve(t testing.TB, g *resident.Generation, s *httpSite) *resident.Site[*httpSite] {
	t.Helper()
	res, err := httpListeners.Acquire(g, "127.0.0.1:0", s, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Drop() })
	return res
}

// answer is a response read whole.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) json(t testing.TB) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		t.Fatalf("body %q: %v", a.body, err)
	}
	return m
}

func (a answer) code() string {
	var p struct{ Code string }
	_ = json.Unmarshal([]byte(a.body), &p)
	return p.Code
}

// do sends one request; headers are "Name: value".
func (w *world) do(method, target string, headers ...string) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, "http://"+w.addr+target, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header[http.CanonicalHeaderKey(name)] = append(req.Header[http.CanonicalHeaderKey(name)], value)
	}
	resp, err := testClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

var testClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func bearer(token string) string { return "Authorization: Bearer " + token }

// addresses lists what the zone holds at a name, as "A 192.0.2.1 60".
func (w *world) addresses(name string) []string {
	v := w.db.Zone(zone.MustName(testZone)).Version()
	n := zone.MustName(name)
	var out []string
	for set := range v.Node(n).RRsets(n) {
		for d := range set.Data() {
			a, _ := netip.AddrFromSlice([]byte(d))
			out = append(out, fmt.Sprintf("%s %s %d", zone.TypeString(set.Type), a, set.TTL))
		}
	}
	return out
}

// raw writes octets to a fresh connection and reads the responses to them.
func (w *world) raw(request string, responses int) []answer {
	w.t.Helper()
	c, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(15 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		w.t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	var out []answer
	br := bufio.NewReader(c)
	for range responses {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			w.t.Fatalf("reading a response to %.60q: %v", request, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, answer{resp.StatusCode, resp.Header, string(body)})
	}
	return out
}

func TestUpdateIsVisibleWhenAnswered(t *testing.T) {
	w := newWorld(t, nil)
	a := w.do("GET", "/update?fqdn=Laptop.DYN.example.org&ip=192.0.2.7", bearer(laptopToken))
	if a.status != 200 || a.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	first := a.json(t)
	serial := first["serial"].(float64)
	want := fmt.Sprintf(`{"fqdn":"laptop.dyn.example.org.","changed":true,"records":[{"type":"A","ttl":60,"data":"192.0.2.7"}],"serial":%.0f}`, serial)
	if got := strings.TrimSpace(a.body); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := w.addresses("laptop.dyn.example.org."); !slices.Equal(got, []string{"A 192.0.2.7 60"}) {
		t.Errorf("zone holds %v", got)
	}
	if got := float64(w.db.Zone(zone.MustName(testZone)).Version().Serial()); got != serial {
		t.Errorf("zone has serial %.0f, the answer %.0f", got, serial)
	}

	same := w.do("POST", "/update?fqdn=laptop.dyn.example.org.&ip=192.0.2.7", bearer(laptopToken)).json(t)
	if same["changed"] != false || same["serial"] != serial || len(same["records"].([]any)) != 1 {
		t.Errorf("the same again: got %v, want unchanged with serial %.0f", same, serial)
	}
	for what, n := range map[string]int{"update dyn.example.org. changed": 1, "update dyn.example.org. unchanged": 1, "request update 200": 2} {
		if w.count(what) != n {
			t.Errorf("observed %q %d times, want %d", what, w.count(what), n)
		}
	}
}

func TestOneFamilyNeverTouchesTheOther(t *testing.T) {
	w := newWorld(t, nil)
	steps := []struct {
		name, method, query string
		want                []string
	}{
		{"both at once", "GET", "&ip=192.0.2.7&ip=2001:db8::7", []string{"A 192.0.2.7 60", "AAAA 2001:db8::7 60"}},
		{"IPv4 alone keeps IPv6", "GET", "&ip=192.0.2.8", []string{"A 192.0.2.8 60", "AAAA 2001:db8::7 60"}},
		{"IPv6 alone keeps IPv4", "GET", "&ip=2001:db8::8,2001:db8::9", []string{"A 192.0.2.8 60", "AAAA 2001:db8::8 60", "AAAA 2001:db8::9 60"}},
		{"withdrawing A keeps AAAA", "DELETE", "&type=A", []string{"AAAA 2001:db8::8 60", "AAAA 2001:db8::9 60"}},
		{"IPv4 comes back", "GET", "&ip=::ffff:192.0.2.9", []string{"A 192.0.2.9 60", "AAAA 2001:db8::8 60", "AAAA 2001:db8::9 60"}},
		{"withdrawing without type takes both", "DELETE", "", nil},
	}
	for _, s := range steps {
		before := w.db.Zone(zone.MustName(testZone)).Version().Serial()
		a := w.do(s.method, "/update?fqdn=laptop.dyn.example.org"+s.query, bearer(laptopToken))
		if got := w.addresses("laptop.dyn.example.org."); a.status != 200 || !slices.Equal(got, s.want) {
			t.Errorf("%s: got %d %v, want %v", s.name, a.status, got, s.want)
		}
		after := w.db.Zone(zone.MustName(testZone)).Version().Serial()
		if after != before+1 && !after.Newer(before) || uint32(a.json(t)["serial"].(float64)) != uint32(after) {
			t.Errorf("%s: serial %d to %d, answered %v", s.name, before, after, a.json(t)["serial"])
		}
	}
	a := w.do("DELETE", "/update?fqdn=laptop.dyn.example.org", bearer(laptopToken))
	if got := a.json(t); a.status != 200 || got["changed"] != false || fmt.Sprint(got["records"]) != "[]" {
		t.Errorf("withdrawing what is not there: got %d %s", a.status, a.body)
	}
}

func TestUpdateAnswers(t *testing.T) {
	w := newWorld(t, nil)
	_ = w.do("GET", "/update?fqdn=alias.dyn.example.org&ip=192.0.2.1", bearer(wideToken))
	tests := []struct {
		name, method, target, auth string
		status                     int
		code                       string // of the problem; of 200, a part of the body
	}{
		{"a name without permission", "GET", "/update?fqdn=other.dyn.example.org&ip=192.0.2.1", laptopToken, 403, codeNotPermitted},
		{"a family without permission", "GET", "/update?fqdn=v4only.dyn.example.org&ip=2001:db8::1", v4Token, 403, codeNotPermitted},
		{"one of two families without permission changes nothing", "GET", "/update?fqdn=v4only.dyn.example.org&ip=192.0.2.1,2001:db8::1", v4Token, 403, codeNotPermitted},
		{"a type without permission", "DELETE", "/update?fqdn=laptop.dyn.example.org&type=TXT", laptopToken, 403, codeNotPermitted},
		{"the whole name without permission", "DELETE", "/update?fqdn=laptop.dyn.example.org&type=ANY", laptopToken, 403, codeNotPermitted},
		{"the whole name", "DELETE", "/update?fqdn=alias.dyn.example.org&type=any", wideToken, 200, `"changed":true`},
		{"only the permitted family is withdrawn", "DELETE", "/update?fqdn=v4only.dyn.example.org", v4Token, 200, `"changed":false`},
		{"a token without grants", "GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1", opsToken, 403, codeNotPermitted},
		{"a static name", "GET", "/update?fqdn=www.dyn.example.org&ip=192.0.2.1", wideToken, 409, codeStatic},
		{"a static name's withdrawal", "DELETE", "/update?fqdn=www.dyn.example.org", wideToken, 409, codeStatic},
		{"the apex of a zone with a file", "GET", "/update?fqdn=dyn.example.org&ip=192.0.2.1", wideToken, 409, codeStatic},
		{"a zone not served", "GET", "/update?fqdn=laptop.example.net&ip=192.0.2.1", laptopToken, 404, codeZoneNotServed},
		{"a zone above the served one", "GET", "/update?fqdn=example.org&ip=192.0.2.1", laptopToken, 404, codeZoneNotServed},
		{"a zone not served, asked without credential", "GET", "/update?fqdn=laptop.example.net", "", 401, codeNoCredentials},
		{"a zone not served, asked with a wrong token", "GET", "/update?fqdn=laptop.example.net", wrongToken, 401, codeBadCredentials},
		{"a bad name with a wrong token", "GET", "/update?fqdn=a..b", wrongToken, 401, codeBadCredentials},
		{"an expired token", "GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1", oldToken, 401, codeBadCredentials},
		{"a token from the wrong place", "GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1", homeToken, 403, codeNotPermitted},
		{"no name", "GET", "/update", laptopToken, 400, codeBadName},
		{"an empty name", "GET", "/update?fqdn=", laptopToken, 400, codeBadName},
		{"two names", "GET", "/update?fqdn=laptop.dyn.example.org&fqdn=laptop.dyn.example.org", laptopToken, 400, codeBadName},
		{"a query badly encoded", "GET", "/update?fqdn=laptop.dyn.example.org&x=%zz", laptopToken, 400, codeBadRequest},
		{"a query with semicolons", "GET", "/update?fqdn=laptop.dyn.example.org;ip=192.0.2.1", laptopToken, 400, codeBadRequest},
		{"unknown parameters are ignored", "GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1&wildcard=NOCHG&mx=", laptopToken, 200, `"changed":true`},
		{"a TTL", "GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1&ttl=300", laptopToken, 200, `"ttl":300`},
		{"a TTL below the least", "GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1&ttl=1", laptopToken, 200, `"ttl":30`},
		{"a TTL above the most", "GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1&ttl=99999999999999999999", laptopToken, 200, `"ttl":3600`},
		{"a TTL that is no number", "GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1&ttl=1h", laptopToken, 400, codeBadTTL},
		{"a negative TTL", "GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1&ttl=-1", laptopToken, 400, codeBadTTL},
		{"two TTLs", "GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1&ttl=60&ttl=60", laptopToken, 400, codeBadTTL},
		{"the peer's own address, which is loopback here", "GET", "/update?fqdn=laptop.dyn.example.org", laptopToken, 422, codeNotPublishable},
		{"more records than the zone allows", "GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1,192.0.2.2,192.0.2.3,192.0.2.4,192.0.2.5,192.0.2.6,192.0.2.7,192.0.2.8,192.0.2.9", laptopToken, 422, codeLimit},
		{"an unknown type", "DELETE", "/update?fqdn=laptop.dyn.example.org&type=NOPE", laptopToken, 400, codeBadType},
		{"a type that is none of data", "DELETE", "/update?fqdn=x.dyn.example.org&type=AXFR", wideToken, 400, codeBadType},
		{"an empty type", "DELETE", "/update?fqdn=x.dyn.example.org&type=", wideToken, 400, codeBadType},
		{"DELETE with an address", "DELETE", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1", laptopToken, 400, codeBadRequest},
		{"a literal wildcard below a grant for names below", "GET", "/update?fqdn=*.dyn.example.org&ip=192.0.2.1", wideToken, 403, codeNotPermitted},
		{"a literal wildcard where granted", "GET", "/update?fqdn=*.wild.dyn.example.org&ip=192.0.2.1", wideToken, 200, `"fqdn":"*.wild.dyn.example.org."`},
		{"an underscore label where granted", "GET", "/update?fqdn=_x.dyn.example.org&ip=192.0.2.1", wideToken, 200, `"fqdn":"_x.dyn.example.org."`},
		{"an underscore label where not", "GET", "/update?fqdn=_x.laptop.dyn.example.org&ip=192.0.2.1", laptopToken, 403, codeNotPermitted},
		{"a U-label", "GET", "/update?fqdn=b%C3%BCcher.dyn.example.org&ip=192.0.2.1", wideToken, 200, `"fqdn":"xn--bcher-kva.dyn.example.org."`},
	}
	for _, tc := range tests {
		var headers []string
		if tc.auth != "" {
			headers = append(headers, bearer(tc.auth))
		}
		a := w.do(tc.method, tc.target, headers...)
		if a.status != tc.status {
			t.Errorf("%s: got %d %s, want %d", tc.name, a.status, a.body, tc.status)
			continue
		}
		if a.status == 200 {
			if !strings.Contains(a.body, tc.code) {
				t.Errorf("%s: got %s, want %s in it", tc.name, a.body, tc.code)
			}
			continue
		}
		checkProblem(t, tc.name, a, tc.code)
	}
	if got := w.addresses("v4only.dyn.example.org."); got != nil {
		t.Errorf("v4only holds %v after refused updates", got)
	}
}

// checkProblem holds an answer to RFC 9457 and to our own rules.
func checkProblem(t testing.TB, name string, a answer, code string) {
	t.Helper()
	p := a.json(t)
	if p["code"] != code || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: got %s (%s), want code %s", name, a.body, a.header.Get("Content-Type"), code)
	}
	if p["status"] != float64(a.status) || p["title"] != http.StatusText(a.status) || p["type"] != "about:blank" || p["detail"] == "" {
		t.Errorf("%s: not a proper problem: %s", name, a.body)
	}
	if p["request_id"] != a.header.Get("X-Request-Id") {
		t.Errorf("%s: request id %v in the body, %q in the header", name, p["request_id"], a.header.Get("X-Request-Id"))
	}
	if a.status == 401 && len(a.header.Values("WWW-Authenticate")) != 2 {
		t.Errorf("%s: 401 with challenges %q", name, a.header.Values("WWW-Authenticate"))
	}
	if (a.status == 429 || a.status == 503) && a.header.Get("Retry-After") == "" {
		t.Errorf("%s: %d without Retry-After", name, a.status)
	}
}

// P14 of the promises: a name is canonical and in the zone, or it is refused.
func TestNamesOfUpdate(t *testing.T) {
	w := newWorld(t, nil)
	long := strings.Repeat("a", 63)
	tests := []struct {
		name, fqdn string
		want       string // the answer's fqdn; empty: 400
	}{
		{"final dot", "x.dyn.example.org.", "x.dyn.example.org."},
		{"upper case", "X.DYN.EXAMPLE.ORG", "x.dyn.example.org."},
		{"63 octets in a label", long + ".dyn.example.org", long + ".dyn.example.org."},
		{"64 octets in a label", long + "a.dyn.example.org", ""},
		{"more than 255 octets", strings.Repeat(long+".", 4) + "dyn.example.org", ""},
		{"two dots", "x..dyn.example.org", ""},
		{"leading dot", ".x.dyn.example.org", ""},
		{"a NUL", "x%00.dyn.example.org", ""},
		{"an escaped NUL", `x%5C000.dyn.example.org`, ""},
		{"a line end", "x%0D%0AX-Evil:1.dyn.example.org", ""},
		{"a space", "x+y.dyn.example.org", ""},
		{"an at sign", "@.dyn.example.org", ""},
		{"a command", "$(id).dyn.example.org", ""},
		{"a URL", "http://x.dyn.example.org", ""},
		{"appended twice", "x.dyn.example.org?fqdn=x.dyn.example.org", ""},
		{"a slash", "x/y.dyn.example.org", ""},
		{"not UTF-8", "%ff.dyn.example.org", ""},
		{"a mixture of dots", "x%E3%80%82dyn.example.org", "x.dyn.example.org."},
		{"a bad A-label", "xn--a.dyn.example.org", ""},
		{"the root", ".", "404"},
	}
	for _, tc := range tests {
		a := w.do("GET", "/update?ip=192.0.2.1&fqdn="+tc.fqdn, bearer(wideToken))
		switch {
		case tc.want == "":
			if a.status != 400 || a.code() != codeBadName {
				t.Errorf("%s: got %d %s, want 400", tc.name, a.status, a.body)
			}
		case tc.want == "404":
			if a.status != 404 {
				t.Errorf("%s: got %d %s, want 404", tc.name, a.status, a.body)
			}
		case a.status != 200 || a.json(t)["fqdn"] != tc.want:
			t.Errorf("%s: got %d %s, want %s", tc.name, a.status, a.body, tc.want)
		}
	}
}

func TestPing(t *testing.T) {
	w := newWorld(t, nil)
	a := w.do("GET", "/ping")
	if got := a.json(t); a.status != 200 || got["status"] != "ok" || got["version"] == "" || len(got) != 2 {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if h := w.do("HEAD", "/ping"); h.status != 200 || h.body != "" || h.header.Get("Content-Length") != a.header.Get("Content-Length") {
		t.Errorf("HEAD: got %d, %q, length %s", h.status, h.body, h.header.Get("Content-Length"))
	}
}

func TestGeneratedTokenHasNoRights(t *testing.T) {
	w := newWorld(t, nil)
	a := w.do("GET", "/token/generate")
	if a.status != 200 || a.header.Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d, Cache-Control %q", a.status, a.header.Get("Cache-Control"))
	}
	g := a.json(t)
	token := g["token"].(string)
	if err := policy.CheckToken(token); err != nil || g["hash"] != policy.HashToken(token) || !strings.Contains(token, g["id"].(string)) {
		t.Errorf("got %s: %v", a.body, err)
	}
	if text := g["policy"].(string); strings.Contains(text, token) || !strings.Contains(text, g["hash"].(string)) {
		t.Errorf("policy %q: want the hash and not the token", text)
	}
	if _, err := policy.Parse("p", []byte(g["policy"].(string))); err != nil {
		t.Errorf("the policy is not ready to paste: %v", err)
	}
	if again := w.do("GET", "/token/generate").json(t); again["token"] == token {
		t.Error("the same token twice")
	}
	if got := w.do("GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1", bearer(token)); got.status != 401 {
		t.Errorf("using it: got %d, want 401", got.status)
	}
	named := w.do("GET", "/token/generate?fqdn=Phone.dyn.example.org").json(t)["policy"].(string)
	if !strings.Contains(named, "update phone.dyn.example.org") {
		t.Errorf("with fqdn: got policy %q", named)
	}
	limited := false
	for range generateRate.count + 5 {
		if a := w.do("GET", "/token/generate"); a.status == 429 {
			limited = true
			checkProblem(t, "one too many", a, codeTooManyRequests)
			break
		}
	}
	if !limited {
		t.Error("never told to stop")
	}
}

func TestRequestID(t *testing.T) {
	w := newWorld(t, nil)
	seen := map[string]bool{}
	for range 3 {
		id := w.do("GET", "/nothing").header.Get("X-Request-Id")
		if len(id) != 16 || seen[id] {
			t.Errorf("got id %q", id)
		}
		seen[id] = true
	}
	tests := []struct {
		name, id string
		kept     bool
	}{
		{"a token of the client's", "abc-123_X.9", true},
		{"64 octets", strings.Repeat("a", 64), true},
		{"65 octets", strings.Repeat("a", 65), false},
		{"a blank", "a b", false},
		{"a credential", laptopToken, false},
		{"what would forge a log line", "a=b", false},
	}
	for _, tc := range tests {
		got := w.do("GET", "/ping", "X-Request-Id: "+tc.id).header.Get("X-Request-Id")
		if (got == tc.id) != tc.kept || got == "" {
			t.Errorf("%s: got %q", tc.name, got)
		}
	}
	if got := w.do("GET", "/ping", "X-Request-Id: a", "X-Request-Id: b").header.Get("X-Request-Id"); got == "a" || got == "b" {
		t.Errorf("two ids: got %q", got)
	}
}

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	w := newWorld(t, func(s *httpSite) {
		s.Update = func(context.Context, zone.Name, zone.Update) (zonedb.Result, error) { panic("boom") }
	})
	a := w.do("GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1", bearer(laptopToken))
	checkProblem(t, "panic", a, codeInternal)
	if a.status != 500 || strings.Contains(a.body, "boom") {
		t.Errorf("got %d %s", a.status, a.body)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.lines, func(l string) bool { return strings.HasPrefix(l, "error: ") && strings.Contains(l, "boom") }) {
		t.Errorf("log: %q", w.lines)
	}
}
