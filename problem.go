package ddns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// problem is an error as an HTTP client is told it: RFC 9457. It is an error
// value, so that the steps of a request can return it.
type problem struct {
	status int
	code   string // stable: clients may rely on it
	detail string // for people; holds no credential
	retry  time.Duration
	header http.Header    // beside what every problem has
	extra  map[string]any // extension members
}

func (p *problem) Error() string { return p.code + ": " + p.detail }

// The codes, with the status each one has. They are documented and never change
// their meaning.
const (
	codeBadRequest      = "bad-request"
	codeBadName         = "bad-name"
	codeBadAddress      = "bad-address"
	codeBadTTL          = "bad-ttl"
	codeBadType         = "bad-type"
	codeAmbiguous       = "ambiguous-credentials"
	codeSourceHeader    = "untrusted-source-header"
	codeForwarded       = "bad-forwarded-for"
	codeNoCredentials   = "missing-credentials"
	codeBadCredentials  = "bad-credentials"
	codeNotPermitted    = "not-permitted"
	codeCrossSite       = "cross-site"
	codeNotFound        = "not-found"
	codeZoneNotServed   = "zone-not-served"
	codeMethod          = "method-not-allowed"
	codeNotAcceptable   = "not-acceptable"
	codeStatic          = "static-record"
	codeConflict        = "conflict"
	codeReloadRunning   = "reload-running"
	codeBodyTooLarge    = "body-too-large"
	codeNotPublishable  = "address-not-publishable"
	codeLimit           = "limit-reached"
	codeConfiguration   = "invalid-configuration"
	codeTooManyFailures = "too-many-failures"
	codeTooManyRequests = "too-many-requests"
	codeInternal        = "internal"
	codeBusy            = "busy"
	codeStopping        = "stopping"
	codeStore           = "store-unavailable"
)

var problemStatus = map[string]int{
	codeBadRequest:      http.StatusBadRequest,
	codeBadName:         http.StatusBadRequest,
	codeBadAddress:      http.StatusBadRequest,
	codeBadTTL:          http.StatusBadRequest,
	codeBadType:         http.StatusBadRequest,
	codeAmbiguous:       http.StatusBadRequest,
	codeSourceHeader:    http.StatusBadRequest,
	codeForwarded:       http.StatusBadRequest,
	codeNoCredentials:   http.StatusUnauthorized,
	codeBadCredentials:  http.StatusUnauthorized,
	codeNotPermitted:    http.StatusForbidden,
	codeCrossSite:       http.StatusForbidden,
	codeNotFound:        http.StatusNotFound,
	codeZoneNotServed:   http.StatusNotFound,
	codeMethod:          http.StatusMethodNotAllowed,
	codeNotAcceptable:   http.StatusNotAcceptable,
	codeStatic:          http.StatusConflict,
	codeConflict:        http.StatusConflict,
	codeReloadRunning:   http.StatusConflict,
	codeBodyTooLarge:    http.StatusRequestEntityTooLarge,
	codeNotPublishable:  http.StatusUnprocessableEntity,
	codeLimit:           http.StatusUnprocessableEntity,
	codeConfiguration:   http.StatusUnprocessableEntity,
	codeTooManyFailures: http.StatusTooManyRequests,
	codeTooManyRequests: http.StatusTooManyRequests,
	codeInternal:        http.StatusInternalServerError,
	codeBusy:            http.StatusServiceUnavailable,
	codeStopping:        http.StatusServiceUnavailable,
	codeStore:           http.StatusServiceUnavailable,
}

// newProblem makes a problem with the status of its code.
func newProblem(code, format string, args ...any) *problem {
	status, ok := problemStatus[code]
	if !ok {
		panic("ddns: no status for problem code " + code)
	}
	return &problem{status: status, code: code, detail: fmt.Sprintf(format, args...)}
}

// after says when to try again.
func (p *problem) after(d time.Duration) *problem {
	p.retry = d
	return p
}

// with adds an extension member.
func (p *problem) with(name string, value any) *problem {
	if p.extra == nil {
		p.extra = make(map[string]any)
	}
	p.extra[name] = value
	return p
}

// How long to stay away when the service is not able to.
const (
	retryBusy     = 1 * time.Second
	retryStopping = 5 * time.Second
	retryStore    = 10 * time.Second
)

// zoneProblem maps the codes of zone.Error.
var zoneProblem = map[string]string{
	zone.CodeNotPermitted: codeNotPermitted,
	zone.CodeStatic:       codeStatic,
	zone.CodeNotInZone:    codeZoneNotServed,
	zone.CodePrerequisite: codeConflict,
	zone.CodeMalformed:    codeBadRequest,
	zone.CodeLimit:        codeLimit,
	zone.CodeInvariant:    codeConflict,
}

// updateProblem is what a client is told of an error of the write path. unknown
// reports an error that is none of those it documents, for the log.
func updateProblem(err error) (p *problem, unknown bool) {
	var refused *zone.Error
	switch {
	case errors.As(err, &refused):
		code, ok := zoneProblem[refused.Code]
		if !ok {
			return newProblem(codeInternal, "the update was refused for a reason this server has no word for"), true
		}
		if code == codeNotPermitted {
			return notPermitted(), false
		}
		return newProblem(code, "%s", refused.Text), false
	case errors.Is(err, zonedb.ErrStopped):
		return stopping(), false
	case errors.Is(err, zonedb.ErrBusy), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return busy("too many updates are waiting"), false
	case errors.Is(err, zonedb.ErrNoZone):
		return newProblem(codeZoneNotServed, "the zone is not loaded"), false
	case errors.Is(err, zonedb.ErrUnavailable):
		return newProblem(codeStore, "the store did not confirm the update, so whether it was made is unknown; it may be repeated").after(retryStore), false
	}
	return newProblem(codeInternal, "the update failed; the server's log says why"), true
}

// notPermitted is the one answer for "not yours", "no such grant" and "not from
// there": it says nothing about what others may do.
func notPermitted() *problem {
	return newProblem(codeNotPermitted, "the credential does not permit this")
}

func stopping() *problem {
	return newProblem(codeStopping, "the server is shutting down; try again").after(retryStopping)
}

func busy(why string) *problem {
	return newProblem(codeBusy, "%s; try again", why).after(retryBusy)
}

// problemType is the media type of RFC 9457, section 3.
const problemType = "application/problem+json"

// marshal returns the problem as JSON on one line. The type is about:blank, so
// the title is the status phrase (RFC 9457, section 4.2.1) and the code tells
// problems apart.
func (p *problem) marshal(request, credential string) []byte {
	m := map[string]any{
		"type":       "about:blank",
		"title":      http.StatusText(p.status),
		"status":     p.status,
		"detail":     redact(p.detail, credential),
		"code":       p.code,
		"request_id": request,
	}
	for k, v := range p.extra {
		m[k] = v
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("ddns: marshalling problem %s: %v", p.code, err))
	}
	return append(b, '\n')
}

// redact takes a credential out of text that may quote what the client sent: it
// may have put its token where a name or an address belongs.
func redact(text, credential string) string {
	if credential == "" {
		return text
	}
	for _, form := range []string{credential, strings.ToLower(credential)} {
		text = strings.ReplaceAll(text, form, "[credential]")
	}
	return text
}
