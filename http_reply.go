package ddns

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/coredns-ddns/ddns/internal/policy"
)

// reply collects an answer and sends it in one piece: so that it always has a
// Content-Length, which HTTP/1.0 clients need, and so that a handler that panics
// half way still gets a proper error out. It implements http.ResponseWriter.
type reply struct {
	to         http.ResponseWriter
	id         string // X-Request-Id
	credential string // what must not be echoed
	status     int
	streamed   bool // the answer went out by stream
	body       bytes.Buffer
}

var replies = sync.Pool{New: func() any { return new(reply) }}

// maxReply bounds what a pooled buffer keeps.
const maxReply = 64 << 10

func newReply(w http.ResponseWriter, r *http.Request) *reply {
	p := replies.Get().(*reply)
	p.to, p.id, p.credential, p.status, p.streamed = w, requestID(r.Header), "", 0, false
	p.body.Reset()
	h := w.Header()
	h.Set("X-Request-Id", p.id)
	// Answers hold tokens and states of the moment: nobody may keep them.
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	return p
}

// Header implements http.ResponseWriter.
func (p *reply) Header() http.Header { return p.to.Header() }

// WriteHeader implements http.ResponseWriter; the first call counts.
func (p *reply) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
	}
}

// Write implements http.ResponseWriter.
func (p *reply) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	return p.body.Write(b)
}

// Unwrap serves http.ResponseController.
func (p *reply) Unwrap() http.ResponseWriter { return p.to }

// restart drops what was collected, for another answer in its place.
func (p *reply) restart() {
	p.body.Reset()
	p.status = 0
}

// json answers 200 with v on one line.
func (p *reply) json(v any) {
	p.Header().Set("Content-Type", "application/json")
	p.WriteHeader(http.StatusOK)
	e := json.NewEncoder(&p.body)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("ddns: encoding %T: %v", v, err))
	}
}

// stream lets write send an answer that is too large to be collected, as a file.
// An error after the first octet cuts the connection, which tells the client that
// what it has is not whole.
func (p *reply) stream(name string, write func(io.Writer) error) error {
	// RFC 9110, section 8.6: without it a client of HTTP/1.0 cannot tell a cut copy.
	length := func(n int64) { p.Header().Set("Content-Length", strconv.FormatInt(n, 10)) }
	out := &firstWrite{to: p.to, expect: length, begin: func() {
		p.streamed = true
		p.status = http.StatusOK
		p.Header().Set("Content-Type", "application/octet-stream")
		p.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
		p.to.WriteHeader(http.StatusOK)
	}}
	err := write(out)
	if err != nil && p.streamed {
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		p.Header().Del("Content-Length")
	}
	return err
}

// firstWrite calls begin before the first octet.
type firstWrite struct {
	to     io.Writer
	begin  func()
	expect func(octets int64)
}

// Expect says how many octets will come.
func (f *firstWrite) Expect(octets int64) { f.expect(octets) }

func (f *firstWrite) Write(b []byte) (int, error) {
	if f.begin != nil {
		f.begin()
		f.begin = nil
	}
	return f.to.Write(b)
}

// problem answers with an error instead of whatever was collected so far.
func (p *reply) problem(pr *problem) {
	p.body.Reset()
	p.status = pr.status
	h := p.Header()
	h.Set("Content-Type", problemType)
	if pr.retry > 0 {
		// Rounded up, so that who obeys is not refused again. RFC 9110, section 10.2.3.
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(pr.retry.Seconds()))))
	}
	for k, v := range pr.header {
		h[k] = v
	}
	p.body.Write(pr.marshal(p.id, p.credential))
}

// send writes it all and gives the reply back. It returns the status.
func (p *reply) send() int {
	p.WriteHeader(http.StatusOK)
	status := p.status
	if !p.streamed {
		p.Header().Set("Content-Length", strconv.Itoa(p.body.Len()))
		p.to.WriteHeader(status)
		_, _ = p.to.Write(p.body.Bytes()) // a client that left is no error of ours
	}
	p.to = nil
	if p.body.Cap() <= maxReply {
		replies.Put(p)
	}
	return status
}

// maxRequestID is the longest X-Request-Id that is taken over.
const maxRequestID = 64

// requestID is the client's or its proxy's id where that is a short token that is
// harmless in a log, so that one id runs through all logs; otherwise a new one.
func requestID(h http.Header) string {
	if ids := h["X-Request-Id"]; len(ids) == 1 && len(ids[0]) > 0 && len(ids[0]) <= maxRequestID {
		for i := 0; i < len(ids[0]); i++ {
			if !isTokenOctet(ids[0][i]) {
				return newRequestID()
			}
		}
		if policy.CheckToken(ids[0]) == nil {
			return newRequestID() // a credential in the wrong header
		}
		return ids[0]
	}
	return newRequestID()
}

func isTokenOctet(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}

func newRequestID() string {
	const digits = "0123456789abcdef"
	var b [16]byte
	for i, r := 0, rand.Uint64(); i < len(b); i, r = i+1, r>>4 {
		b[i] = digits[r&15]
	}
	return string(b[:])
}

// retryAfter rounds a wait that a limiter asks for.
func retryAfter(d time.Duration) time.Duration { return max(d, time.Second) }
