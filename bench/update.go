package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// patience is how long a client waits for a yes.
const patience = 5 * time.Second

// client makes updates one after the other over its own connection.
type client interface {
	// change gives a host a new address; nil means that the server said yes.
	change(host, generation int) error
	close()
}

// updates is what a load of updates found.
type updates struct {
	queries
	refused int
}

// press runs updates from so many clients as fast as yeses come, or, where rate
// is not 0, at that rate together. Each update is of another host.
func (s *server) press(dial func() (client, error), clients, rate int, d time.Duration) (updates, error) {
	var r updates
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	var next atomic.Int64
	next.Store(int64(s.next))
	first := s.next
	conns := make([]client, clients)
	for i := range conns {
		c, err := dial()
		if err != nil {
			return r, err
		}
		defer c.close()
		conns[i] = c
	}
	begun := time.Now()
	for _, c := range conns {
		wg.Go(func() {
			var mine []time.Duration
			refused := 0
			var complaint error
			for time.Since(begun) < d {
				k := int(next.Add(1) - 1)
				if rate > 0 {
					time.Sleep(time.Until(begun.Add(time.Duration(k-first) * time.Second / time.Duration(rate))))
				}
				at := time.Now()
				if err := c.change(spread(k, s.hosts), s.generation(k)); err != nil {
					refused, complaint = refused+1, err
					if refused > 20 {
						break
					}
					continue
				}
				mine = append(mine, time.Since(at))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			r.refused += refused
			if complaint != nil {
				r.complaint = complaint
			}
		})
	}
	wg.Wait()
	s.next = int(next.Load())
	r.sum(all, time.Since(begun))
	return r, nil
}

// generation makes update k's address differ from what the host had.
func (s *server) generation(k int) int { return 1 + (k/s.hosts)%15 }

// httpClient speaks just enough HTTP/1.1 over one connection, persistent where the
// server lets it be.
type httpClient struct {
	conn   net.Conn
	closes bool // the server closes after each reply
	in     *bufio.Reader
	out    []byte
	format func(b []byte, host, generation int) []byte
	check  func(status int, body []byte, host, generation int) error
	body   []byte
}

func dialHTTP(address string, format func([]byte, int, int) []byte, check func(int, []byte, int, int) error) (client, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &httpClient{conn: c, in: bufio.NewReader(c), format: format, check: check}, nil
}

func (c *httpClient) close() { c.conn.Close() }

func (c *httpClient) change(host, generation int) error {
	if c.closes {
		c.conn.Close()
		conn, err := net.Dial("tcp", c.conn.RemoteAddr().String())
		if err != nil {
			return err
		}
		c.conn, c.closes = conn, false
		c.in.Reset(conn)
	}
	c.out = c.format(c.out[:0], host, generation)
	c.conn.SetDeadline(time.Now().Add(patience))
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	status, err := c.read()
	if err != nil {
		return err
	}
	return c.check(status, c.body, host, generation)
}

// read reads one reply with a Content-Length, or one without a body.
func (c *httpClient) read() (int, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("no HTTP reply: %q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, err
	}
	length := 0
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, err
			}
		case bytes.EqualFold(name, []byte("Connection")):
			c.closes = bytes.EqualFold(value, []byte("close"))
		}
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	for at := 0; at < length; {
		n, err := c.in.Read(c.body[at:])
		if err != nil {
			return 0, err
		}
		at += n
	}
	return status, nil
}

// ddnsRequest is one update of ours, and ddnsReply judges what came back.
func ddnsRequest(token string) func([]byte, int, int) []byte {
	return func(b []byte, host, generation int) []byte {
		return fmt.Appendf(b, "GET /update?fqdn=%s&ip=%s HTTP/1.1\r\nHost: ddns\r\nAuthorization: Bearer %s\r\n\r\n",
			hostName(host), address(host, generation), token)
	}
}

func ddnsReply(status int, body []byte, host, generation int) error {
	switch {
	case status != http.StatusOK:
		return fmt.Errorf("HTTP %d: %s", status, body)
	case !bytes.Contains(body, []byte(`"changed":true`)):
		return fmt.Errorf("nothing changed: %s", body)
	case !bytes.Contains(body, []byte(`"`+address(host, generation).String()+`"`)):
		return fmt.Errorf("not the address of host %d: %s", host, body)
	}
	return nil
}

// dnsClient sends signed UPDATE messages over UDP, and takes a yes from its own
// socket only.
type dnsClient struct {
	conn net.Conn
	buf  []byte
}

func dialUpdate(address string) (client, error) {
	c, err := net.Dial("udp", address)
	if err != nil {
		return nil, err
	}
	return &dnsClient{conn: c, buf: make([]byte, 1500)}, nil
}

func (c *dnsClient) close() { c.conn.Close() }

func (c *dnsClient) change(host, generation int) error {
	h := dns.RR_Header{Name: hostName(host), Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}
	set := []dns.RR{&dns.A{Hdr: h, A: address(host, generation).AsSlice()}}
	m := new(dns.Msg).SetUpdate(origin)
	m.RemoveRRset(set)
	m.Insert(set)
	m.SetTsig(keyName, dns.HmacSHA256, 300, time.Now().Unix())
	wire, _, err := dns.TsigGenerate(m, keySecret, "", false)
	if err != nil {
		return err
	}
	c.conn.SetDeadline(time.Now().Add(patience))
	if _, err := c.conn.Write(wire); err != nil {
		return err
	}
	for {
		n, err := c.conn.Read(c.buf)
		if err != nil {
			return err
		}
		if n < 12 || [2]byte(c.buf) != [2]byte(wire) {
			continue
		}
		if rcode := int(c.buf[3] & 0xf); rcode != dns.RcodeSuccess {
			return errors.New("UPDATE: " + dns.RcodeToString[rcode])
		}
		return nil
	}
}

// visible makes updates and asks for each as soon as it was confirmed; it returns
// how many were asked for and how many were not there.
func (s *server) visible(dial func() (client, error), d time.Duration) (asked, stale int, err error) {
	c, err := dial()
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	for begun := time.Now(); time.Since(begun) < d; s.next++ {
		host, generation := spread(s.next, s.hosts), s.generation(s.next)
		if err := c.change(host, generation); err != nil {
			return asked, stale, err
		}
		msg, err := s.ask(question{host: host}, 5*time.Second)
		if err != nil {
			return asked, stale, err
		}
		asked++
		if want := address(host, generation).As4(); !bytes.Contains(msg, want[:]) {
			stale++
		}
	}
	return asked, stale, nil
}

// serveNothing is the ceiling of anything over net/http: a handler that reads the
// query and the token, and does nothing.
func serveNothing(address string) error {
	return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("fqdn") == "" || r.Header.Get("Authorization") == "" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		const reply = `{"changed":true}` + "\n"
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(reply)))
		w.Write([]byte(reply))
	}))
}
