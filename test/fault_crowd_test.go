package test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

const crowdSize = 10_000

// raiseFiles lets this process, and those that it starts, open enough for a crowd.
func raiseFiles(t testing.TB) {
	t.Helper()
	const need = crowdSize + 1000 // in each
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if old.Cur >= need {
		return
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: need, Max: max(old.Max, need)}); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("allowing %d open files: %v", need, err)
		}
		t.Skipf("allowing %d open files: %v", need, err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
}

// crowd is connections that do nothing.
type crowd struct {
	mu    sync.Mutex
	conns []net.Conn // guarded by mu
	full  atomic.Int64
}

// gather opens a crowd's connections. greet is sent on each.
func gather(network, address, greet string, size int) *crowd {
	c := new(crowd)
	var running sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(size))
	for range 64 {
		running.Go(func() {
			for left.Add(-1) >= 0 {
				conn, err := net.DialTimeout(network, address, 5*time.Second)
				if err != nil { // a unix socket's queue is full
					c.full.Add(1)
					continue
				}
				if greet != "" {
					_, _ = conn.Write([]byte(greet))
				}
				c.mu.Lock()
				c.conns = append(c.conns, conn)
				c.mu.Unlock()
			}
		})
	}
	running.Wait()
	return c
}

func (c *crowd) leave() {
	for _, conn := range c.conns {
		conn.Close()
	}
}

// healthy asks the hook server over gRPC how it is.
func healthy(t testing.TB, socket string, limit time.Duration) error {
	t.Helper()
	c, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var last error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var r *healthv1.HealthCheckResponse
		r, last = healthv1.NewHealthClient(c).Check(t.Context(), &healthv1.HealthCheckRequest{}, grpc.WaitForReady(false))
		if last == nil && r.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			last = errors.New(r.GetStatus().String())
		}
		if last == nil {
			return nil
		}
	}
	return last
}

// socketDir is a directory whose name is short enough for a socket.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ddns-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestTenThousandIdleConnections has a crowd connect to each listener in turn and say
// nothing, or half of something. While it is there, queries and updates are answered
// on the others and, over HTTP, on the same one; when it has gone, nothing is left of it.
func TestTenThousandIdleConnections(t *testing.T) {
	raiseFiles(t)
	socket := filepath.Join(socketDir(t), "hooks")
	p := watched(t, "", "grpc unix://"+socket)
	p.start()
	before := p.warm()
	if err := healthy(t, socket, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	t.Logf("before: %v", before)
	tests := []struct {
		name, network, address, greet string
		memory                        int64 // at most this much for each connection that is held
		held                          int   // at most so many are held
	}{
		{"DNS over TCP", "tcp", p.dns, "", 40 << 10, crowdSize},
		{"DNS over TCP, half of a message", "tcp", p.dns, "\x00\x20half", 40 << 10, crowdSize},
		{"HTTP", "tcp", p.http, "", 40 << 10, 4096},
		{"HTTP, half of a header", "tcp", p.http, "GET /update?fqdn=x HTTP/1.1\r\nHost: x\r\nX-", 40 << 10, 4096},
		{"HTTP, half of a body", "tcp", p.http, "POST /ping HTTP/1.1\r\nHost: x\r\nContent-Length: 90\r\n\r\nhalf", 60 << 10, 4096},
		{"HTTP, kept open", "tcp", p.http, "GET /ping HTTP/1.1\r\nHost: x\r\n\r\n", 60 << 10, 4096},
		{"gRPC", "unix", socket, "", 400 << 10, 64},
		{"gRPC, half of a greeting", "unix", socket, "PRI * HTTP/2.0\r\n", 400 << 10, 64},
		{"gRPC, greeted", "unix", socket, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", 400 << 10, 64},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			began := time.Now()
			c := gather(test.network, test.address, test.greet, crowdSize)
			held := p.descriptors() - before.descriptors
			t.Logf("%d connections in %v, %d refused by the kernel, %d held", len(c.conns), time.Since(began), c.full.Load(), held)
			if held > test.held+50 {
				t.Errorf("%d connections are held, want at most %d", held, test.held)
			}
			if len(c.conns) < crowdSize && test.network == "tcp" {
				t.Errorf("%d did not connect", c.full.Load())
			}
			during := p.footprint()
			if most := before.heap + slackCrowd + int64(max(held, 0))*test.memory; during.heap > most || during.resident > 400<<20 {
				t.Errorf("with the crowd: %v, want at most %d MiB of heap", during, most>>20)
			}
			p.answers(t)
			if resp, err := fresh.Get("http://" + p.http + "/ping"); err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("ping: %v, %v", resp, err)
			} else {
				resp.Body.Close()
			}
			t.Logf("with the crowd: %v", during)
			c.leave()
			after := p.settled(before, slackCrowd)
			t.Logf("after it: %v", after)
			p.answers(t)
			if err := healthy(t, socket, 20*time.Second); err != nil {
				t.Errorf("gRPC: %v", err)
			}
		})
	}
}
