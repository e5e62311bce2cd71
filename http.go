package ddns

import (
	"errors"
	"io"
	stdlog "log"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coredns-ddns/ddns/internal/resident"
	"github.com/coredns-ddns/ddns/internal/version"
)

// Limits of the side listeners.
const (
	httpHeaderBytes = 16 << 10
	httpHeaderTime  = 5 * time.Second
	httpReadTime    = 10 * time.Second
	httpWriteTime   = 15 * time.Second
	httpIdleTime    = 60 * time.Second
	httpGrace       = 10 * time.Second // for running requests once a socket is closed
	httpConnections = 4096
	httpRequestsMax = 2048    // running at once
	httpBodyBytes   = 4 << 10 // read and ignored; no call has a body
	httpKeys        = 1 << 16 // peers or identities a limiter remembers
)

// generateRate is how often one peer may ask for a token. It costs little and
// gives no rights; the limit is there for clients that run wild.
var generateRate = rate{60, time.Minute}

// httpOverflow is the whole answer to a connection there is no room for.
const httpOverflow = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// httpListeners are the side listeners of the process.
var httpListeners = resident.NewListeners(resident.ListenerOptions[*httpSite]{
	Frontend:    func(resident.Address) resident.Frontend[*httpSite] { return newHTTPFront() },
	Server:      newHTTPServer,
	Connections: httpConnections,
	Overflow:    []byte(httpOverflow),
	Trouble: func(a resident.Address, err error) {
		log.Errorf("No connection can be accepted on %s for HTTP, trying again: %v", a, err)
	},
	Grace: httpGrace,
})

func newHTTPServer() *http.Server {
	// The library reads this much more than it is told, for its own buffer.
	const slop = 4 << 10
	return &http.Server{
		ReadHeaderTimeout:            httpHeaderTime,
		ReadTimeout:                  httpReadTime,
		WriteTimeout:                 httpWriteTime,
		IdleTimeout:                  httpIdleTime,
		MaxHeaderBytes:               httpHeaderBytes - slop,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     stdlog.New(debugLog{}, "", 0),
	}
}

// debugLog receives what net/http has to say of single connections: bad
// handshakes and the like, which any scanner causes.
type debugLog struct{}

func (debugLog) Write(b []byte) (int, error) {
	log.Debugf("HTTP: %s", strings.TrimSpace(string(b)))
	return len(b), nil
}

// httpFront answers on one address for all stanzas that share it. It lives as
// long as the socket, so that reloading does not reset what it counts.
type httpFront struct {
	view    atomic.Pointer[httpView]
	running atomic.Int64
	now     func() time.Time

	failures *limiter[failureKey]
	generate *limiter[failureKey]
	updates  *limiter[identityKey]
}

func newHTTPFront() *httpFront {
	f := &httpFront{
		now:      time.Now,
		failures: newLimiter[failureKey](httpKeys),
		generate: newLimiter[failureKey](httpKeys),
		updates:  newLimiter[identityKey](httpKeys),
	}
	f.view.Store(&httpView{})
	return f
}

// SetSites implements resident.Frontend.
func (f *httpFront) SetSites(members []resident.Member[*httpSite]) {
	f.view.Store(newHTTPView(members))
}

// httpRequest is one request on its way. What configuration it sees is fixed when
// it begins.
type httpRequest struct {
	*http.Request
	reply *reply
	view  *httpView
	now   time.Time
}

// route is one path of the interface.
type route struct {
	name    string   // metric label
	methods []string // "" is any
	serve   func(*httpFront, *httpRequest) *problem
	any     bool // content is negotiated by what is behind it
}

var routes = map[string]route{
	"/ping":           {name: "ping", methods: []string{http.MethodGet, http.MethodHead}, serve: (*httpFront).ping},
	"/token/generate": {name: "token", methods: []string{http.MethodGet}, serve: (*httpFront).generateToken},
	"/update":         {name: "update", methods: []string{http.MethodGet, http.MethodPost, http.MethodDelete}, serve: (*httpFront).update},
	"/reload":         {name: "reload", methods: []string{http.MethodGet, http.MethodPost}, serve: (*httpFront).reload},
	"/backup":         {name: "backup", methods: []string{http.MethodGet}, serve: (*httpFront).backup, any: true},
	"/hooks":          {name: "hooks", serve: (*httpFront).operator},
}

// ServeHTTP implements http.Handler.
func (f *httpFront) ServeHTTP(w http.ResponseWriter, hr *http.Request) {
	r := &httpRequest{Request: hr, reply: newReply(w, hr), view: f.view.Load().made(), now: f.now()}
	name := "other"
	defer func() {
		if v := recover(); v == http.ErrAbortHandler {
			r.view.observe().Request(name, http.StatusOK, f.now().Sub(r.now))
			panic(v) // net/http closes the connection
		} else if v != nil {
			r.view.log("error", "Panic while serving request=%s route=%s: %v\n%s", r.reply.id, name, v, debug.Stack())
			r.reply.problem(newProblem(codeInternal, "the server made a mistake; its log has more"))
		}
		id := r.reply.id
		status := r.reply.send()
		took := f.now().Sub(r.now)
		r.view.observe().Request(name, status, took)
		r.view.log("debug", "HTTP request=%s route=%s method=%.10q status=%d duration=%.6f", id, name, hr.Method, status, took.Seconds())
	}()
	path := cleanPath(hr.URL.Path)
	rt, ok := routes[path]
	if !ok && strings.HasPrefix(path, "/hooks/") {
		rt, ok = routes["/hooks"], true
	}
	if !ok {
		r.reply.problem(newProblem(codeNotFound, "there is no such path; there are /ping, /token/generate, /update and /reload"))
		return
	}
	name = rt.name
	if pr := f.serve(r, rt); pr != nil {
		r.reply.problem(pr)
	}
}

// serve makes the checks that all routes share.
func (f *httpFront) serve(r *httpRequest, rt route) *problem {
	if rt.methods != nil && !slices.Contains(rt.methods, r.Method) {
		pr := newProblem(codeMethod, "this path takes %s", strings.Join(rt.methods, ", "))
		pr.header = http.Header{"Allow": {strings.Join(rt.methods, ", ")}}
		return pr
	}
	if !rt.any && !acceptsJSON(r.Header["Accept"]) {
		return newProblem(codeNotAcceptable, "answers are application/json, which the Accept header excludes")
	}
	if pr := r.dropBody(); pr != nil {
		return pr
	}
	// Only now: those whose body is still to come are bounded as connections.
	defer f.running.Add(-1)
	if f.running.Add(1) > httpRequestsMax {
		return busy("too many requests are running")
	}
	return rt.serve(f, r)
}

// dropBody reads and ignores a small body: none is expected, but some clients
// send "{}" or an empty form with every POST.
func (r *httpRequest) dropBody() *problem {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	tooLarge := func() *problem {
		r.reply.Header().Set("Connection", "close")
		return newProblem(codeBodyTooLarge, "no body is expected, and one of more than %d octets is not read", httpBodyBytes)
	}
	if r.ContentLength > httpBodyBytes {
		return tooLarge()
	}
	var n int64
	var err error
	resident.ReadBody(r.Context(), func() { n, err = io.Copy(io.Discard, io.LimitReader(r.Body, httpBodyBytes+1)) })
	if n > httpBodyBytes {
		return tooLarge()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		r.reply.Header().Set("Connection", "close")
		return newProblem(codeBadRequest, "the body could not be read")
	}
	return nil
}

// cleanPath makes one spelling of what clients mean by a path: routers are known
// to send //update, /update/ and backslashes. http.ServeMux would redirect, and
// they do not follow. Dot segments are left alone, so they match nothing.
func cleanPath(p string) string {
	clean := len(p) > 0 && p[0] == '/'
	for i := 1; clean && i < len(p); i++ {
		clean = p[i] != '\\' && (p[i] != '/' || p[i-1] != '/' && i != len(p)-1)
	}
	if clean && p != "/" {
		return p
	}
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(p, func(c rune) bool { return c == '/' || c == '\\' }) {
		b.WriteByte('/')
		b.WriteString(part)
	}
	return b.String()
}

// ping answers that the listener lives. It depends on nothing, so that it tells
// a dead process from one with a full disk.
func (f *httpFront) ping(r *httpRequest) *problem {
	r.reply.json(struct {
		Status  string `json:"status"`
		Version string `json:"version"`
	}{"ok", version.String()})
	return nil
}

// acceptsJSON reports whether an Accept header lets application/json through: RFC
// 9110, section 12.5.1. The most specific range counts. Absent, empty and
// unreadable headers do, and the lone "*" of old Java clients is "*/*".
func acceptsJSON(values []string) bool {
	best, accepted, any := 0, true, false
	for _, v := range values {
		for item := range strings.SplitSeq(v, ",") {
			mediaRange, params, _ := strings.Cut(item, ";")
			specific := 0
			switch strings.ToLower(strings.TrimSpace(mediaRange)) {
			case "":
				continue
			case "*/*", "*":
				specific = 1
			case "application/*":
				specific = 2
			case "application/json":
				specific = 3
			}
			any = true
			if specific > best {
				best, accepted = specific, quality(params) > 0
			} else if specific == best && best > 0 {
				accepted = accepted || quality(params) > 0
			}
		}
	}
	return !any || best > 0 && accepted
}

// quality is the weight among the parameters of a media range, 1 when there is
// none that can be read. RFC 9110, section 12.4.2.
func quality(params string) float64 {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		if q, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil {
			return q
		}
	}
	return 1
}
