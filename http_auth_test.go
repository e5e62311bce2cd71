package ddns

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/resident"
	"github.com/coredns-ddns/ddns/internal/zone"
)

func basic(user, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

func TestCredentials(t *testing.T) {
	w := newWorld(t, nil)
	unpadded := base64.RawStdEncoding.EncodeToString([]byte("u:" + laptopToken))
	tests := []struct {
		name    string
		headers []string
		status  int
		code    string
	}{
		{"Bearer", []string{bearer(laptopToken)}, 200, ""},
		{"bearer in another case", []string{"Authorization: bEARER " + laptopToken}, 200, ""},
		{"Token", []string{"Authorization: Token " + laptopToken}, 200, ""},
		{"Basic", []string{basic("admin", laptopToken)}, 200, ""},
		{"Basic without user", []string{basic("", laptopToken)}, 200, ""},
		{"Basic without padding", []string{"Authorization: Basic " + unpadded}, 200, ""},
		{"the bare token", []string{"Authorization: " + laptopToken}, 200, ""},
		{"more than one blank", []string{"Authorization: Bearer   " + laptopToken}, 200, ""},
		{"nothing", nil, 401, codeNoCredentials},
		{"an empty header", []string{"Authorization: "}, 401, codeNoCredentials},
		{"a scheme alone", []string{"Authorization: Bearer"}, 401, codeNoCredentials},
		{"a wrong token", []string{bearer(wrongToken)}, 401, codeBadCredentials},
		{"a token cut short", []string{bearer(laptopToken[:len(laptopToken)-1])}, 401, codeBadCredentials},
		{"the token as Basic user", []string{basic(laptopToken, "")}, 401, codeBadCredentials},
		{"Basic that is not base64", []string{"Authorization: Basic ***"}, 401, codeBadCredentials},
		{"another scheme", []string{"Authorization: Digest " + laptopToken}, 401, codeBadCredentials},
		{"the hash instead of the token", []string{bearer(policy.HashToken(laptopToken))}, 401, codeBadCredentials},
		{"two headers", []string{bearer(laptopToken), basic("a", laptopToken)}, 400, codeAmbiguous},
		{"two headers that a proxy joined", []string{bearer(laptopToken) + ", Basic YTpi"}, 400, codeAmbiguous},
		{"a browser's own", []string{bearer(laptopToken), "Sec-Fetch-Site: none"}, 200, ""},
		{"a browser for another site", []string{bearer(laptopToken), "Sec-Fetch-Site: cross-site"}, 403, codeCrossSite},
	}
	for _, tc := range tests {
		a := w.do("GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1", tc.headers...)
		if a.status != tc.status {
			t.Errorf("%s: got %d %s, want %d", tc.name, a.status, a.body, tc.status)
		} else if a.status != 200 {
			checkProblem(t, tc.name, a, tc.code)
		}
	}
	// Never from the query, where logs would have it.
	if a := w.do("GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1&token="+laptopToken); a.status != 401 {
		t.Errorf("a token in the query: got %d, want 401", a.status)
	}
}

func TestMistypedTokenIsToldApart(t *testing.T) {
	w := newWorld(t, nil)
	typo := []byte(laptopToken)
	typo[20] ^= 1
	for token, want := range map[string]string{string(typo): "mistyped", wrongToken: "not known", oldToken: "not valid any more"} {
		if a := w.do("GET", "/update?fqdn=laptop.dyn.example.org", bearer(token)); !strings.Contains(a.body, want) {
			t.Errorf("got %s, want %q in it", a.body, want)
		}
	}
}

func TestCredentialIsNeverEchoedOrLogged(t *testing.T) {
	w := newWorld(t, nil)
	for _, target := range []string{
		"/update?fqdn=" + wrongToken, "/update?ip=" + wrongToken + "&fqdn=laptop.dyn.example.org", "/" + wrongToken,
		"/update?fqdn=laptop.dyn.example.org&ttl=" + wrongToken, "/update?fqdn=laptop.dyn.example.org&type=" + wrongToken,
		"/update?fqdn=" + laptopToken + "..x", "/update?fqdn=" + laptopToken + "&ip=192.0.2.1",
		"/update?fqdn=laptop.dyn.example.org&ip=" + laptopToken, "/reload?x=" + laptopToken,
	} {
		for _, token := range []string{wrongToken, laptopToken} {
			for _, method := range []string{"GET", "DELETE"} {
				a := w.do(method, target, bearer(token))
				text := a.body + fmt.Sprint(a.header)
				if strings.Contains(text, token) || strings.Contains(text, strings.ToLower(token)) {
					t.Errorf("%s %s: the answer holds the credential: %s", method, target, text)
				}
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lines {
		if strings.Contains(l, laptopToken) || strings.Contains(l, wrongToken) {
			t.Errorf("log: %s", l)
		}
	}
}

func TestFailuresAreCountedPerPeerAndSuccessIsNot(t *testing.T) {
	w := newWorld(t, func(s *httpSite) { s.FailureRate = rate{3, time.Hour} })
	try := func(headers ...string) answer {
		return w.do("GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1", headers...)
	}
	for range 5 {
		if a := try(); a.status != 401 {
			t.Fatalf("no credential: got %d, want 401: it is not counted", a.status)
		}
	}
	for i := range 3 {
		if a := try(bearer(wrongToken)); a.status != 401 {
			t.Fatalf("failure %d: got %d, want 401", i+1, a.status)
		}
	}
	a := try(bearer(wrongToken))
	checkProblem(t, "one failure too many", a, codeTooManyFailures)
	if s := a.header.Get("Retry-After"); a.status != 429 || s == "0" {
		t.Errorf("got %d with Retry-After %q", a.status, s)
	}
	if a := try(bearer(laptopToken)); a.status != 200 {
		t.Errorf("the right token from the same address: got %d, want 200", a.status)
	}
	if a := w.do("GET", "/reload", bearer(wrongToken)); a.status != 429 {
		t.Errorf("a wrong token at /reload: got %d, want 429: it is one count", a.status)
	}
	if n := w.count("auth unknown"); n != 5 {
		t.Errorf("observed %d failures, want 5", n)
	}
}

func TestFailuresThroughAProxyAreTheClients(t *testing.T) {
	w := newWorld(t, func(s *httpSite) { s.FailureRate = rate{1, time.Hour}; s.TrustedProxies = prefixes("127.0.0.1/32") })
	try := func(client, token string) int {
		return w.do("GET", "/update?fqdn=laptop.dyn.example.org&ip=192.0.2.1", bearer(token), "X-Forwarded-For: "+client).status
	}
	got := []int{
		try("192.0.2.1", wrongToken), try("192.0.2.1", wrongToken), try("192.0.2.2", wrongToken),
		try("2001:db8::1", wrongToken), try("2001:db8::2", wrongToken), try("2001:db8:0:1::2", wrongToken),
	}
	if want := []int{401, 429, 401, 401, 429, 401}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: an IPv4 address each, an IPv6 /64 each", got, want)
	}
}

func TestRateOfUpdatesIsPerToken(t *testing.T) {
	w := newWorld(t, func(s *httpSite) { s.UpdateRate = rate{2, time.Hour} })
	try := func(name, token string) answer {
		return w.do("GET", "/update?ip=192.0.2.1&fqdn="+name, bearer(token))
	}
	for range 3 { // refused for permission: not counted
		if a := try("other.dyn.example.org", laptopToken); a.status != 403 {
			t.Fatalf("got %d, want 403", a.status)
		}
	}
	var got []int
	for range 3 {
		got = append(got, try("laptop.dyn.example.org", laptopToken).status)
	}
	got = append(got, try("laptop.dyn.example.org", wideToken).status)
	if want := []int{200, 200, 429, 200}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	a := try("laptop.dyn.example.org", laptopToken)
	checkProblem(t, "rate", a, codeTooManyRequests)
	if w.count("update dyn.example.org. "+codeTooManyRequests) != 2 {
		t.Error("the metric does not count it")
	}
}

func TestLimiter(t *testing.T) {
	l := newLimiter[int](4)
	now := time.Unix(1000, 0)
	r := rate{2, 10 * time.Second}
	step := func(key int, wait time.Duration) {
		t.Helper()
		if got := l.take(key, r, now); got != wait {
			t.Errorf("key %d at %d: got %v, want %v", key, now.Unix(), got, wait)
		}
	}
	step(1, 0)
	step(1, 0)
	step(1, 5*time.Second)
	step(2, 0)
	now = now.Add(5 * time.Second)
	step(1, 0) // one has come back
	step(1, 5*time.Second)
	now = now.Add(time.Hour)
	for k := range 100 { // far more keys than fit
		step(k, 0)
		now = now.Add(time.Millisecond)
	}
	if len(l.spent) > 4 {
		t.Errorf("%d keys kept, want at most 4", len(l.spent))
	}
	if got := l.take(1, rate{}, now); got != 0 {
		t.Errorf("no rate: got %v, want no wait", got)
	}
}

// Two stanzas on one address: names decide whose a request is, and a token that
// only the other knows is known, but may do nothing here.
func TestStanzasShareAnAddress(t *testing.T) {
	g := resident.NewGeneration()
	w := newWorld(t, nil)
	var updated []string
	other := &httpSite{
		Zones: []zone.Name{zone.MustName("sub.dyn.example.org"), zone.MustName("example.net")},
		Policy: func() *policy.Policy {
			return testPolicy(t, fmt.Sprintf("token other %s {\n update *.example.net\n update *.sub.dyn.example.org\n}\ntoken ops %s {\n reload\n}\n",
				policy.HashToken(otherToken), policy.HashToken(opsToken)))
		},
		Update: nil,
		Reload: w.site.Reload,
	}
	other.Update = fakeUpdate(&updated)
	second := *w.site
	serve(t, g, &second)
	w.addr = serve(t, g, other).Addr().String()
	w.t = t

	tests := []struct {
		name, fqdn, token string
		status            int
	}{
		{"the first's name with its token", "laptop.dyn.example.org", laptopToken, 200},
		{"the second's name with its token", "a.example.net", otherToken, 200},
		{"the longer zone takes the name", "a.sub.dyn.example.org", otherToken, 200},
		{"a wide grant of the first does not reach the second's zone", "a.sub.dyn.example.org", wideToken, 403},
		{"the first's name with the second's token", "laptop.dyn.example.org", otherToken, 403},
		{"nobody's name with a token of one", "a.example.com", otherToken, 404},
		{"nobody's token", "a.example.net", wrongToken, 401},
	}
	for _, tc := range tests {
		if a := w.do("GET", "/update?ip=192.0.2.1&fqdn="+tc.fqdn, bearer(tc.token)); a.status != tc.status {
			t.Errorf("%s: got %d %s, want %d", tc.name, a.status, a.body, tc.status)
		}
	}
	if want := []string{"example.net. a.example.net.", "sub.dyn.example.org. a.sub.dyn.example.org."}; !slices.Equal(updated, want) {
		t.Errorf("the second was asked for %v, want %v", updated, want)
	}

	a := w.do("GET", "/reload", bearer(opsToken))
	if a.status != http.StatusOK || len(a.json(t)["stanzas"].([]any)) != 2 {
		t.Errorf("reload: got %d %s, want both stanzas", a.status, a.body)
	}
	if len(w.reloaded) != 2 {
		t.Errorf("reloaded %v, want both", w.reloaded)
	}
}
