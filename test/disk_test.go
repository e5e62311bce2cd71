package test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// fill updates ever more names until one is refused, and wants that to be a 503.
func (p *process) fill(t *testing.T) (accepted int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for ; accepted < 100_000; accepted++ {
		r, err := p.update(client, fmt.Sprintf("n%d", accepted), v4(int64(accepted)))
		if err == nil {
			continue
		}
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
			t.Fatalf("update %d: got %v %v, want 503 with Retry-After", accepted, err, r.header)
		}
		return accepted
	}
	t.Fatal("the disk is never full")
	return 0
}

// intact wants every accepted name to be answered.
func (p *process) intact(t *testing.T, accepted int) {
	t.Helper()
	for n := range accepted {
		if got := p.address(fmt.Sprintf("n%d", n), dns.TypeA); got != v4(int64(n)) {
			t.Fatalf("n%d: got %q, want %s", n, got, v4(int64(n)))
		}
	}
}

// recovered wants updates to be taken again within a while, without a restart.
func (p *process) recovered(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		_, err := p.update(nil, "later", "192.0.2.9")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("updates are not taken again: %v\n%s", err, tail(p.log.String()))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got := p.address("later", dns.TypeA); got != "192.0.2.9" {
		t.Errorf("later: got %q", got)
	}
}

func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("this needs root, to mount a small file system")
		}
		t.Skip("this needs root, to mount a small file system")
	}
	p := prepare(t)
	disk := filepath.Join(p.dir, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("mounting: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	p.write("Corefile", strings.Replace(p.corefile("", ""), "bolt ddns.db", "bolt disk/ddns.db", 1))
	p.start()
	accepted := p.fill(t)
	p.intact(t, accepted)
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatalf("remounting: %v", err)
	}
	p.recovered(t)
	p.kill()
	p.start()
	p.intact(t, accepted)
	t.Logf("%d updates fitted", accepted)
}

func TestFileSizeLimit(t *testing.T) {
	p := prepare(t)
	p.start()
	for n := range 10 {
		if _, err := p.update(nil, fmt.Sprintf("n%d", n), v4(int64(n))); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(p.dir, "ddns.db"))
	if err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	limit := unix.Rlimit{Cur: uint64(info.Size()), Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &limit, &old); err != nil {
		t.Fatal(err)
	}
	accepted := p.fill(t) // the kernel sends SIGXFSZ, which must not end it
	p.intact(t, accepted)
	if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &old, nil); err != nil {
		t.Fatal(err)
	}
	p.recovered(t)
	p.kill()
	p.start()
	p.intact(t, accepted)
}
