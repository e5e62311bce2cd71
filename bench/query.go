package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// question is one query for an A record: of a host, or of a name that does not
// exist.
type question struct {
	host int
	miss bool
}

const missShare = 10 // one of so many queries is about a name that does not exist

func (s *server) someQuestion(r *rand.Rand) question {
	return question{host: r.IntN(s.hosts), miss: r.IntN(missShare) == 0}
}

var wireOrigin = func() []byte {
	buf := make([]byte, 64)
	n, err := dns.PackDomainName(origin, buf, 0, nil, false)
	if err != nil {
		panic(err)
	}
	return buf[:n]
}()

// appendQuery is the message that asks q.
func appendQuery(b []byte, id uint16, q question) []byte {
	b = binary.BigEndian.AppendUint16(b, id)
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	at := len(b)
	b = append(b, 0, 'h')
	if q.miss {
		b[at+1] = 'x'
	}
	b = strconv.AppendInt(b, int64(q.host), 10)
	b[at] = byte(len(b) - at - 1)
	b = append(b, wireOrigin...)
	return append(b, 0, 1, 0, 1)
}

// check says what is wrong with the answer to q, or nil.
func (p *peer) check(msg []byte, q question) error {
	if len(msg) < 12 || msg[2]&0x80 == 0 {
		return errors.New("not an answer")
	}
	rcode, want := int(msg[3]&0xf), dns.RcodeSuccess
	if q.miss && !p.noData {
		want = p.missRcode
	}
	if rcode != want {
		return fmt.Errorf("%s for host %d (miss %v)", dns.RcodeToString[rcode], q.host, q.miss)
	}
	var buf [64]byte
	asked := appendQuery(buf[:0], 0, q)[12:]
	if len(msg) < 12+len(asked) || string(msg[12:12+len(asked)]) != string(asked) {
		return errors.New("the question is not the one that was asked")
	}
	if q.miss || p.noData {
		return nil
	}
	if binary.BigEndian.Uint16(msg[6:]) != 1 {
		return fmt.Errorf("%d answers for host %d", binary.BigEndian.Uint16(msg[6:]), q.host)
	}
	rest := msg[12+len(asked):]
	if len(rest) > 0 && rest[0] < 0xc0 { // an owner that is not compressed
		rest = rest[min(len(rest), len(asked)-4):]
	} else {
		rest = rest[min(len(rest), 2):]
	}
	if len(rest) < 14 || string(rest[:4]) != "\x00\x01\x00\x01" || string(rest[8:10]) != "\x00\x04" {
		return fmt.Errorf("no A record for host %d", q.host)
	}
	if got := ownerOf([4]byte(rest[10:14])); got != q.host {
		return fmt.Errorf("the address of host %d for host %d", got, q.host)
	}
	return nil
}

// askOnce asks over a new socket and checks the answer.
func (s *server) askOnce(q question, wait time.Duration) error {
	_, err := s.ask(q, wait)
	return err
}

func (s *server) ask(q question, wait time.Duration) ([]byte, error) {
	c, err := net.Dial("udp", s.dns)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(wait))
	if _, err := c.Write(appendQuery(nil, 1, q)); err != nil {
		time.Sleep(wait / 4) // nobody listens yet
		return nil, err
	}
	buf := make([]byte, 1500)
	n, err := c.Read(buf)
	if err != nil {
		time.Sleep(wait / 4)
		return nil, err
	}
	return buf[:n], s.peer.check(buf[:n], q)
}

// queries is what a load of queries found.
type queries struct {
	rate      float64 // right answers per second
	p50, p99  time.Duration
	most      time.Duration
	lost      int
	wrong     int
	complaint error // the first wrong answer
}

func (r *queries) sum(latencies []time.Duration, took time.Duration) {
	r.rate = float64(len(latencies)) / took.Seconds()
	if len(latencies) == 0 {
		return
	}
	slices.Sort(latencies)
	r.p50 = latencies[len(latencies)/2]
	r.p99 = latencies[len(latencies)*99/100]
	r.most = latencies[len(latencies)-1]
}

// The closed load: so many sockets, each with so many questions on the way.
const (
	querySockets = 8
	queryWindow  = 16
)

// flood asks as fast as answers come.
func (s *server) flood(d time.Duration) (queries, error) {
	var r queries
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	var failed error
	begun := time.Now()
	for i := range querySockets {
		c, err := net.Dial("udp", s.dns)
		if err != nil {
			return r, err
		}
		defer c.Close()
		wg.Go(func() {
			f := &flooder{server: s, conn: c.(*net.UDPConn), until: begun.Add(d), rng: rand.New(rand.NewPCG(uint64(i), uint64(begun.UnixNano())))}
			err := f.run()
			mu.Lock()
			defer mu.Unlock()
			all = append(all, f.latencies...)
			r.lost, r.wrong = r.lost+f.lost, r.wrong+f.wrong
			if r.complaint == nil {
				r.complaint = f.complaint
			}
			if err != nil {
				failed = err
			}
		})
	}
	wg.Wait()
	r.sum(all, time.Since(begun))
	return r, failed
}

type flooder struct {
	server *server
	conn   *net.UDPConn
	until  time.Time
	rng    *rand.Rand

	asked       [queryWindow]question
	ids         [queryWindow]uint16
	sent        [queryWindow]time.Time
	latencies   []time.Duration
	lost, wrong int
	complaint   error
}

func (f *flooder) run() error {
	pc := ipv4.NewPacketConn(f.conn)
	in, out := make([]ipv4.Message, queryWindow), make([]ipv4.Message, queryWindow)
	for i := range in {
		in[i].Buffers = [][]byte{make([]byte, 1500)}
		out[i].Buffers = [][]byte{make([]byte, 0, 128)}
	}
	send := func(slots []int) error {
		now := time.Now()
		for i, slot := range slots {
			q := f.server.someQuestion(f.rng)
			f.ids[slot] = (f.ids[slot]/queryWindow+1)*queryWindow%(1<<15) + uint16(slot)
			f.asked[slot], f.sent[slot] = q, now
			out[i].Buffers[0] = appendQuery(out[i].Buffers[0][:0], f.ids[slot], q)
		}
		for rest := out[:len(slots)]; len(rest) > 0; {
			n, err := pc.WriteBatch(rest, 0)
			if err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	}
	slots := make([]int, queryWindow)
	for i := range slots {
		slots[i] = i
	}
	for {
		if err := send(slots); err != nil {
			return err
		}
		slots = slots[:0]
		f.conn.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		n, err := pc.ReadBatch(in, 0)
		now := time.Now()
		if now.After(f.until) {
			return nil
		}
		if err != nil {
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				return err
			}
			f.lost += queryWindow // all were waited for
			for i := range queryWindow {
				slots = append(slots, i)
			}
			continue
		}
		for _, m := range in[:n] {
			msg := m.Buffers[0][:m.N]
			if len(msg) < 12 {
				f.wrong++
				continue
			}
			id := binary.BigEndian.Uint16(msg)
			slot := int(id % queryWindow)
			if f.ids[slot] != id || slices.Contains(slots, slot) {
				continue // came after it was given up
			}
			slots = append(slots, slot)
			if err := f.server.peer.check(msg, f.asked[slot]); err != nil {
				f.wrong++
				f.complaint = err
				continue
			}
			f.latencies = append(f.latencies, now.Sub(f.sent[slot]))
		}
	}
}

// drip asks at a steady rate, whatever comes back. A latency is from the write to
// the moment at which the kernel got the answer, so that the load's own waiting for
// its core is not in it.
func (s *server) drip(rate int, d time.Duration) (queries, error) {
	var r queries
	conn, err := net.Dial("udp", s.dns)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	c := conn.(*net.UDPConn)
	c.SetReadBuffer(4 << 20)
	raw, err := c.SyscallConn()
	if err != nil {
		return r, err
	}
	var optErr error
	raw.Control(func(fd uintptr) { optErr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	if optErr != nil {
		return r, optErr
	}
	const window = 1 << 16
	asked, sent := make([]question, window), make([]atomic.Int64, window)
	total := int(d.Seconds() * float64(rate))
	var latencies []time.Duration
	done := make(chan error, 1)
	go func() {
		buf, oob := make([]byte, 1500), make([]byte, 128)
		for {
			n, on, _, _, err := c.ReadMsgUDP(buf, oob)
			if err != nil {
				done <- err
				return
			}
			if n < 12 {
				r.wrong++
				continue
			}
			id := binary.BigEndian.Uint16(buf)
			at := sent[id].Swap(0)
			if at == 0 {
				continue
			}
			if err := s.peer.check(buf[:n], asked[id]); err != nil {
				r.wrong, r.complaint = r.wrong+1, err
				continue
			}
			latencies = append(latencies, time.Duration(arrival(oob[:on])-at))
			if len(latencies)+r.wrong == total {
				done <- nil
				return
			}
		}
	}()
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	var msg []byte
	begun := time.Now()
	for k := range total {
		due := begun.Add(time.Duration(k) * time.Second / time.Duration(rate))
		for wait := time.Until(due); wait > 0; wait = time.Until(due) {
			time.Sleep(wait)
		}
		id := uint16(k)
		q := s.someQuestion(rng)
		asked[id] = q
		msg = appendQuery(msg[:0], id, q)
		sent[id].Store(time.Now().UnixNano())
		if _, err := c.Write(msg); err != nil {
			return r, err
		}
	}
	took := time.Since(begun)
	c.SetReadDeadline(time.Now().Add(2 * time.Second))
	<-done
	r.lost = total - len(latencies) - r.wrong
	r.sum(latencies, took)
	return r, nil
}

// arrival is the kernel's time stamp of a received datagram.
func arrival(oob []byte) int64 {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err == nil {
		for _, m := range messages {
			if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
				return int64(binary.NativeEndian.Uint64(m.Data))*1e9 + int64(binary.NativeEndian.Uint64(m.Data[8:]))
			}
		}
	}
	return time.Now().UnixNano()
}
