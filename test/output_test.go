package test

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestOutputThatNobodyReads: the reader of the log ends, and the server goes on.
func TestOutputThatNobodyReads(t *testing.T) {
	t.Parallel()
	p := prepare(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-conf", "Corefile")
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.dir, w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	w.Close()
	said := new(bytes.Buffer)
	for b := make([]byte, 4096); !bytes.Contains(said.Bytes(), []byte("linux/")); {
		_ = r.SetReadDeadline(time.Now().Add(20 * time.Second))
		n, err := r.Read(b)
		if err != nil {
			t.Fatalf("%v after %q", err, said)
		}
		said.Write(b[:n])
	}
	r.Close()
	for k := range int64(3) {
		if _, err := p.update(nil, "a", v4(k+1), v6(k+1)); err != nil {
			t.Errorf("update %d: %v", k, err)
		}
	}
	if got := p.pair(t, "a"); got != 3 {
		t.Errorf("a is at %d, want 3", got)
	}
	select {
	case err := <-ended:
		t.Errorf("it has ended: %v", err)
	default:
	}
}
