// Package loopback finds addresses of 127.0.0.1 for servers that a test or a
// benchmark starts.
package loopback

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports below Linux's ip_local_port_range, which begins at 32768: between finding one
// and binding it, no client's socket can be given it.
const first, last = 10000, 32767

var (
	mu    sync.Mutex
	given = make(map[int]bool) // guarded by mu
)

// Address is HOST:PORT of 127.0.0.1, free for UDP and TCP, and another one at every
// call in this process. It is not held: another process may bind it first.
func Address() (string, error) {
	mu.Lock()
	defer mu.Unlock()
	for range 1000 {
		port := first + rand.IntN(last-first+1)
		if given[port] {
			continue
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if free(address) {
			given[port] = true
			return address, nil
		}
	}
	return "", errors.New("no port of 127.0.0.1 is free for both TCP and UDP")
}

func free(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	defer l.Close()
	u, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	return u.Close() == nil
}
