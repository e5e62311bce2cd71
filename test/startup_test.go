package test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStartThatCannotWork wants each mistake to end the program with one sentence
// that names what is wrong.
func TestStartThatCannotWork(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	good := func(p *process) string { return p.corefile("", "") }
	replace := func(old, new string) func(p *process) string {
		return func(p *process) string { return strings.Replace(p.corefile("", ""), old, new, 1) }
	}
	tests := []struct {
		name     string
		prepare  func(p *process)
		corefile func(p *process) string
		want     []string // all in the output
	}{
		{"the HTTP port is in use", nil, func(p *process) string {
			return strings.Replace(p.corefile("", ""), p.http, taken.Addr().String(), 1)
		}, []string{taken.Addr().String(), "address already in use"}},
		{"no policy file", nil, replace("policy policy", "policy nowhere"), []string{"nowhere", "no such file"}},
		{"a policy file with a mistake", func(p *process) { p.write("policy", "token x sha256:00 {\n}\n") }, good, []string{"policy:1", "sha256"}},
		{"no zone file", nil, replace("ns ns1.dyn.example.org 127.0.0.1", "file db.dyn"), []string{"db.dyn", "no such file"}},
		{"a zone file with a mistake", func(p *process) { p.write("db.dyn", "@ 60 SOA a b 1 2 3 4 5\n@ 60 NS a\nx 60 A 1.2.3\n") },
			replace("ns ns1.dyn.example.org 127.0.0.1", "file db.dyn"), []string{"db.dyn:3"}},
		{"a store in a directory that is not there", nil, replace("bolt ddns.db", "bolt nowhere/ddns.db"), []string{"nowhere", "there is no directory"}},
		{"a store that is a directory", nil, replace("bolt ddns.db", "bolt ."), []string{"directory"}},
		{"a store that is something else", func(p *process) { p.write("ddns.db", strings.Repeat("not a database ", 1000)) }, good, []string{"ddns.db"}},
		{"a certificate that is none", func(p *process) { p.write("cert.pem", "x"); p.write("key.pem", "y") }, func(p *process) string {
			return strings.Replace(p.corefile("", ""), "http "+p.http, "http "+p.http+" tls cert.pem key.pem", 1)
		}, []string{"cert.pem"}},
		{"a hook server's socket in a directory that is not there", nil, replace("store bolt ddns.db", "grpc unix:///nowhere/hooks.sock"), []string{"/nowhere/hooks.sock"}},
		{"a property that there is not", nil, replace("store bolt ddns.db", "storage bolt ddns.db"), []string{"unknown property 'storage'"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := prepare(t)
			if test.prepare != nil {
				test.prepare(p)
			}
			p.write("Corefile", test.corefile(p))
			p.launch()
			if code := p.wait(10 * time.Second); code == 0 {
				t.Error("it ended with status 0")
			}
			for _, want := range test.want {
				if !strings.Contains(p.log.String(), want) {
					t.Errorf("the output does not have %q:\n%s", want, p.log)
				}
			}
			if strings.Contains(p.log.String(), "goroutine ") {
				t.Errorf("it panicked:\n%s", p.log)
			}
		})
	}
}

func TestSecondProcessOnOneStoreIsRefused(t *testing.T) {
	p := prepare(t)
	p.start()
	q := prepare(t)
	q.write("Corefile", strings.Replace(q.corefile("", ""), "bolt ddns.db", "bolt "+filepath.Join(p.dir, "ddns.db"), 1))
	q.launch()
	if code := q.wait(15 * time.Second); code == 0 || !strings.Contains(q.log.String(), "ddns.db") || !strings.Contains(q.log.String(), "process") {
		t.Errorf("status %d, output:\n%s", code, q.log)
	}
	if _, err := p.update(nil, "a", "192.0.2.1"); err != nil {
		t.Errorf("the first is disturbed: %v", err)
	}
}

func TestStoreIsForItsOwnerOnly(t *testing.T) {
	p := prepare(t)
	p.start()
	info, err := os.Stat(filepath.Join(p.dir, "ddns.db"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, want 0600", info.Mode().Perm())
	}
}
