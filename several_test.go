package ddns_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
)

// Several stanzas with a database each, on one HTTP address.

const severalCorefile = `.:DNS {
	bind 127.0.0.1
	root DIR
	ddns one.example.org {
		ns ns.example.net
		store bolt one.db
		policy policy
		http HTTP
	}
}
other.test:DNS {
	bind 127.0.0.1
	root DIR
	ddns two.example.org {
		ns ns.example.net
		store bolt two.db
		policy second
		http HTTP
	}
}`

func several(t *testing.T) *server {
	t.Helper()
	s := blank(t, "one.example.org", "two.example.org")
	s.write("second", s.read("policy"))
	s.serve(severalCorefile)
	return s
}

func (s *server) read(name string) string {
	s.t.Helper()
	return readText(s.t, s.dir+"/"+name)
}

func TestBackupOfOneOfSeveralDatabases(t *testing.T) {
	s := several(t)
	s.publish("first.one.example.org", "192.0.2.1")
	s.publish("second.two.example.org", "192.0.2.2")
	fetch := func(query string) (*http.Response, []byte) {
		t.Helper()
		req, err := http.NewRequest("GET", "http://"+s.http+"/backup"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.token)
		resp, err := fresh.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, b
	}
	if resp, b := fetch(""); resp.StatusCode != http.StatusBadRequest || !bytes.Contains(b, []byte("zone=one.example.org.")) || !bytes.Contains(b, []byte("zone=two.example.org.")) {
		t.Errorf("without a zone: %d %s", resp.StatusCode, b)
	}
	if resp, b := fetch("?zone=three.example.org"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("of a zone that is not served: %d %s", resp.StatusCode, b)
	}
	for zone, name := range map[string]string{"one": "first", "two": "second"} {
		resp, b := fetch("?zone=" + zone + ".example.org")
		if resp.StatusCode != http.StatusOK || !bytes.Contains(b, []byte(name)) || resp.ContentLength != int64(len(b)) {
			t.Errorf("of %s: %d, %d octets of %d, with %s: %t", zone, resp.StatusCode, len(b), resp.ContentLength, name, bytes.Contains(b, []byte(name)))
		}
	}
}

func TestReloadOfSeveralStanzasIsAllOrNothing(t *testing.T) {
	s := several(t)
	good := s.read("policy")
	s.write("policy", strings.Replace(good, " reload\n", " reload\n update one.example.org TXT\n", 1))
	s.write("second", good+"nonsense\n")
	if a := s.call("GET", "/reload"); a.status != http.StatusUnprocessableEntity || !strings.Contains(fmt.Sprint(a.body["detail"]), "second:") || a.body["reloaded"] != nil {
		t.Errorf("with a bad file: %d %v", a.status, a.body)
	}
	s.write("second", good)
	if a := s.call("GET", "/reload"); a.status != http.StatusOK || a.body["changed"] != true {
		t.Errorf("mended: %d %v: the first stanza's change was taken before", a.status, a.body)
	}
}

func TestOneZoneInTwoStoresIsRefused(t *testing.T) {
	s := several(t)
	bad := strings.Replace(s.corefile, "ddns two.example.org", "ddns one.example.org", 1)
	if err := s.reload(bad); err == nil || !strings.Contains(err.Error(), "zone one.example.org. is in two stanzas with the HTTP address "+s.http) {
		t.Errorf("got %v", err)
	}
	if err := s.reload(strings.Replace(bad, "policy second\n\t\thttp "+s.http, "policy second\n\t\thttp off", 1)); err != nil {
		t.Errorf("with HTTP for one of them: %v", err)
	}
}

func TestTokenForAWildcardGrantsTheWildcardAlone(t *testing.T) {
	s := start(t, options{})
	for name, want := range map[string]string{
		"a.dyn.example.org":  "update a.dyn.example.org. A AAAA",
		"*.dyn.example.org":  `update \*.dyn.example.org. A AAAA`,
		`\*.dyn.example.org`: `update \*.dyn.example.org. A AAAA`,
	} {
		a := s.call("GET", "/token/generate?fqdn="+strings.NewReplacer("*", "%2A", `\`, "%5C").Replace(name))
		if got := fmt.Sprint(a.body["policy"]); !strings.Contains(got, "\n    "+want+"\n") {
			t.Errorf("%s: got %d %s, want %s", name, a.status, got, want)
		}
	}
}

func readText(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
