package test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// TestErrorsOfAcceptPass: memory that is short for a moment, or what the network had
// to say of one connection, must not end a listener for as long as the process runs.
func TestErrorsOfAcceptPass(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(socketDir(t), "hooks")
	p := prepare(t)
	p.write("Corefile", p.corefile("", "grpc unix://"+socket))
	p.start()
	if _, err := p.update(nil, "a", v4(1), v6(1)); err != nil {
		t.Fatal(err)
	}
	said := []string{"No connection can be accepted on " + p.http + " for HTTP", "No connection can be accepted on " + socket + " for hooks"}
	for n, errno := range []string{"ENOMEM", "EPROTO"} {
		in := p.inject(straced{"accept4", "error=" + errno, ""})
		pinged, asked := make(chan error, 1), make(chan error, 1)
		go func() {
			r, err := p.call("GET", "/ping", fresh)
			if err == nil && r.status != http.StatusOK {
				t.Errorf("/ping: %d", r.status)
			}
			pinged <- err
		}()
		go func() { asked <- healthy(t, socket, 20*time.Second) }()
		for _, want := range said { // each tells its error once
			if !p.log.await(want, n+1, 10*time.Second) {
				t.Errorf("%s: the log does not say %q again:\n%s", errno, want, tail(p.log.String()))
			}
		}
		if p.pair(t, "a") == 0 {
			t.Error("a query is not answered meanwhile")
		}
		in.end()
		if in.hits() < 2 {
			t.Errorf("%s: %d faults were met: that proves little", errno, in.hits())
		}
		if err := <-pinged; err != nil {
			t.Errorf("%s: HTTP: %v", errno, err)
		}
		if err := <-asked; err != nil {
			t.Errorf("%s: gRPC: %v", errno, err)
		}
	}
}
