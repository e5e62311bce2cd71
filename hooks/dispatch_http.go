package hooks

import (
	"encoding/json"
	"errors"
	"net/http"

	"google.golang.org/grpc/status"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
	hooksv1 "github.com/coredns-ddns/ddns/proto/hooks/v1"
)

// AdminHandler serves what an operator may see and do of hooks, as JSON. The caller
// has authenticated the request and seen the reload grant. dispatcher is asked once
// per request; nil means that there are no hooks here.
//
//	GET  /hooks                      a Listing
//	POST /hooks/retry?hook=[&fqdn=]  try again what was given up, or waits to be
//	POST /hooks/discard?hook=[&fqdn=]  forget it
//	POST /hooks/test?hook=&fqdn=     run a hook for a name as it is now
//
// Errors are application/problem+json (RFC 9457).
func AdminHandler(dispatcher func() *Dispatcher) http.Handler {
	// No http.ServeMux: it answers paths that it would clean with a redirect.
	routes := map[string]struct {
		method string
		serve  func(http.ResponseWriter, *http.Request, *Dispatcher)
	}{
		"/hooks": {http.MethodGet, func(w http.ResponseWriter, _ *http.Request, d *Dispatcher) {
			writeJSON(w, http.StatusOK, "application/json", d.List())
		}},
		"/hooks/retry": {http.MethodPost, func(w http.ResponseWriter, r *http.Request, d *Dispatcher) {
			if owner, ok := ownerOf(w, r, false); ok {
				n, err := d.Retry(r.Context(), r.URL.Query().Get("hook"), owner)
				writeResult(w, map[string]int{"retried": n}, err)
			}
		}},
		"/hooks/discard": {http.MethodPost, func(w http.ResponseWriter, r *http.Request, d *Dispatcher) {
			if owner, ok := ownerOf(w, r, false); ok {
				n, err := d.Discard(r.Context(), r.URL.Query().Get("hook"), owner)
				writeResult(w, map[string]int{"discarded": n}, err)
			}
		}},
		"/hooks/test": {http.MethodPost, func(w http.ResponseWriter, r *http.Request, d *Dispatcher) {
			if owner, ok := ownerOf(w, r, true); ok {
				e, resp, err := d.Test(r.Context(), r.URL.Query().Get("hook"), owner)
				writeResult(w, testReply(e, resp), err)
			}
		}},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		route, ok := routes[r.URL.Path]
		d := dispatcher()
		switch {
		case !ok:
			writeProblem(w, http.StatusNotFound, "not-found", "There are /hooks, /hooks/retry, /hooks/discard and /hooks/test.")
		case r.Method != route.method:
			w.Header().Set("Allow", route.method)
			writeProblem(w, http.StatusMethodNotAllowed, "method-not-allowed", "This takes "+route.method+" only.")
		case d == nil:
			writeProblem(w, http.StatusNotFound, "no-hooks", "No hook is defined here.")
		default:
			route.serve(w, r, d)
		}
	})
}

func testReply(e *Event, resp *hooksv1.ExecuteHookResponse) any {
	return map[string]any{
		"event": e, "ok": resp.GetError() == "", "error": resp.GetError(), "exit_code": resp.GetExitCode(),
		"timed_out": resp.GetTimedOut(), "output": resp.GetOutput(), "seconds": float64(resp.GetDurationMilliseconds()) / 1000,
	}
}

// ownerOf reads the query; when it returns false the problem is written.
func ownerOf(w http.ResponseWriter, r *http.Request, required bool) (owner zone.Name, ok bool) {
	q := r.URL.Query()
	for _, name := range []string{"hook", "fqdn"} {
		if len(q[name]) > 1 {
			writeProblem(w, http.StatusBadRequest, "bad-request", "The parameter "+name+" is there more than once.")
			return "", false
		}
	}
	if q.Get("hook") == "" || required && q.Get("fqdn") == "" {
		want := "hook"
		if required {
			want = "hook and fqdn"
		}
		writeProblem(w, http.StatusBadRequest, "bad-request", "This needs the parameters "+want+".")
		return "", false
	}
	if !q.Has("fqdn") {
		return "", true
	}
	owner, err := policy.ParseOwner(q.Get("fqdn"))
	if err != nil {
		writeProblem(w, http.StatusBadRequest, "bad-name", err.Error())
		return "", false
	}
	return owner, true
}

// writeResult answers with v, or with the problem that err is.
func writeResult(w http.ResponseWriter, v any, err error) {
	if err == nil {
		writeJSON(w, http.StatusOK, "application/json", v)
		return
	}
	for _, p := range []struct {
		is     error
		status int
		code   string
	}{
		{ErrNoHook, http.StatusNotFound, "no-such-hook"},
		{ErrNoRecord, http.StatusNotFound, "no-record"},
		{ErrRunning, http.StatusConflict, "running"},
		{ErrBusy, http.StatusServiceUnavailable, "busy"},
		{ErrDispatcherStopped, http.StatusServiceUnavailable, "stopping"},
	} {
		if errors.Is(err, p.is) {
			if p.status == http.StatusServiceUnavailable {
				w.Header().Set("Retry-After", "5")
			}
			writeProblem(w, p.status, p.code, err.Error())
			return
		}
	}
	if s, ok := status.FromError(err); ok {
		writeProblem(w, http.StatusBadGateway, "executor", "The hook was not run: "+s.Message()+" ("+s.Code().String()+").")
		return
	}
	w.Header().Set("Retry-After", "5")
	writeProblem(w, http.StatusServiceUnavailable, "unavailable", err.Error())
}

func writeProblem(w http.ResponseWriter, code int, word, detail string) {
	writeJSON(w, code, "application/problem+json", map[string]any{
		"type": "about:blank", "title": http.StatusText(code), "status": code, "code": word, "detail": detail,
	})
}

func writeJSON(w http.ResponseWriter, code int, media string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic("hooks: a reply is not JSON: " + err.Error())
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n')) // a client that went away needs no answer
}
