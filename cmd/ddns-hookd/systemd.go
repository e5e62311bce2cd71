package main

import (
	"fmt"
	"log"
	"net"
	"os"
	"strconv"
)

// passedListener returns the socket that systemd passed, or nil; sd_listen_fds(3).
func passedListener() (net.Listener, error) {
	pid, n := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	if pid != strconv.Itoa(os.Getpid()) || n == "" {
		return nil, nil
	}
	if n != "1" {
		return nil, fmt.Errorf("systemd passed %s sockets: one is served", n)
	}
	f := os.NewFile(3, "LISTEN_FD_3")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("using the socket that systemd passed: %w", err)
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // it is systemd's
	}
	return l, nil
}

// notify tells systemd, if it listens, how far things are; sd_notify(3).
func notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	if path[0] == '@' {
		path = "\x00" + path[1:]
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		log.Printf("telling systemd %s: %v", state, err)
		return
	}
	defer c.Close()
	if _, err := c.Write([]byte(state)); err != nil {
		log.Printf("telling systemd %s: %v", state, err)
	}
}
