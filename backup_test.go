package ddns_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// backup fetches a copy of the store.
func (s *server) backup() (status int, body []byte) {
	s.t.Helper()
	req, err := http.NewRequest("GET", "http://"+s.http+"/backup", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := fresh.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, body
}

func TestBackupOfALiveStoreIsRestored(t *testing.T) {
	s := start(t, options{})
	s.update("laptop", "192.0.2.7")
	status, copied := s.backup()
	if status != http.StatusOK || len(copied) == 0 {
		t.Fatalf("got %d, %d octets", status, len(copied))
	}
	s.update("laptop", "192.0.2.8")
	s.stop()
	if err := os.WriteFile(filepath.Join(s.dir, "ddns.db"), copied, 0o600); err != nil {
		t.Fatal(err)
	}
	s = start(t, options{dir: s.dir, keep: true})
	if got := s.addresses("laptop"); got != "192.0.2.7" {
		t.Errorf("restored: got %q, want the address of when the copy was made", got)
	}
	s.update("laptop", "192.0.2.9")
}

func TestBackupIsForOperators(t *testing.T) {
	s := start(t, options{})
	s.token = "nobody knows this one"
	if status, _ := s.backup(); status != http.StatusUnauthorized {
		t.Errorf("got %d", status)
	}
}

func TestBackupOfMemoryIsRefused(t *testing.T) {
	s := start(t, options{store: "memory"})
	if status, body := s.backup(); status != http.StatusNotFound {
		t.Errorf("got %d %s", status, body)
	}
}
