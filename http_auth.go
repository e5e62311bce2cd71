package ddns

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
)

// Reasons of authentication failures, as the metric has them.
const (
	failureMissing   = "missing"
	failureAmbiguous = "ambiguous"
	failureUnknown   = "unknown"
	failureExpired   = "expired"
	failurePeer      = "peer"
)

// failureKey is what failures are counted by.
type failureKey = netip.Prefix

// identityKey is what updates are counted by: an identity of one stanza.
type identityKey struct {
	zone zone.Name // the stanza's first
	id   string
}

// credential returns the token a request presents: Bearer, Token, the password of
// Basic, or the bare token of the original interface. Schemes are matched in any
// case (RFC 9110, section 11.1). It is empty when there is none, and given tells
// an unusable one from none.
func credential(r *http.Request) (token string, given bool, pr *problem) {
	values := r.Header["Authorization"]
	if len(values) > 1 || len(values) == 1 && r.URL.User != nil {
		return "", true, newProblem(codeAmbiguous, "more than one credential")
	}
	if len(values) == 0 || values[0] == "" {
		return "", false, nil
	}
	scheme, rest, spaced := strings.Cut(values[0], " ")
	rest = strings.TrimSpace(rest)
	known := true
	switch strings.ToLower(scheme) {
	case "bearer", "token":
		token = rest
	case "basic":
		token = basicPassword(rest)
	default:
		known = false
	}
	switch {
	case known && rest == "":
		return "", false, nil
	case !known && !spaced:
		token = scheme
	}
	if strings.ContainsAny(rest, " ,") && mergedSchemes(rest) {
		// Two header lines that a proxy joined: RFC 9110, section 5.2.
		return "", true, newProblem(codeAmbiguous, "more than one credential")
	}
	return token, true, nil
}

// mergedSchemes reports whether a further credential follows a comma.
func mergedSchemes(s string) bool {
	_, rest, ok := strings.Cut(s, ",")
	if !ok {
		return false
	}
	scheme, _, spaced := strings.Cut(strings.TrimSpace(rest), " ")
	switch strings.ToLower(scheme) {
	case "bearer", "token", "basic":
		return spaced
	}
	return false
}

// basicPassword decodes the credentials of RFC 7617, with or without padding. The
// user name is free.
func basicPassword(s string) string {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	if err != nil {
		return ""
	}
	_, password, _ := strings.Cut(string(b), ":")
	return password
}

// caller is a request whose credential some site knows.
type caller struct {
	token string
	// at is what each site that knows the token takes it for. A site's policy is
	// looked at once.
	at map[*httpMember]*policy.Identity
}

// authenticate finds out who calls. first is the site the request is about, or
// nil. Verification comes before counting, so that who shares an address with an
// attacker is not locked out: only failures are counted and only failures are
// refused for their number.
func (f *httpFront) authenticate(r *httpRequest, first *httpMember) (*caller, *problem) {
	if pr := crossSite(r.Request); pr != nil {
		return nil, pr
	}
	token, given, pr := credential(r.Request)
	if pr != nil {
		r.view.observe().AuthFailure(failureAmbiguous) // not counted: nothing was tried
		return nil, pr
	}
	if !given {
		r.view.observe().AuthFailure(failureMissing)
		return nil, challenge(newProblem(codeNoCredentials, "this needs a credential: Authorization: Bearer TOKEN"))
	}
	if len(token) >= policy.MinTokenLength {
		r.reply.credential = token
	}
	c := &caller{token: token, at: make(map[*httpMember]*policy.Identity, 1)}
	expired := false
	sites := r.view.sites
	digest, possible := policy.DigestToken(token)
	if !possible {
		sites = nil
	}
	for _, s := range sites {
		id, ok := s.Policy().TokenByDigest(digest)
		if !ok {
			continue
		}
		// Only the time is looked at here: whether it may come from this peer is
		// for the one site to say that the request is about.
		var denied *policy.DeniedError
		if err := id.Admits(socketPeer(r.Request), r.now); errors.As(err, &denied) && denied.Reason == policy.ReasonExpired {
			expired = true
			continue
		}
		c.at[s] = id
	}
	switch {
	case len(c.at) > 0:
		return c, nil
	case expired:
		return nil, f.failed(r, first, failureExpired, challenge(newProblem(codeBadCredentials, "the token is not valid any more")))
	case errors.Is(policy.CheckToken(token), policy.ErrTokenChecksum):
		return nil, f.failed(r, first, failureUnknown, challenge(newProblem(codeBadCredentials, "the token is mistyped or cut: its checksum is wrong")))
	}
	return nil, f.failed(r, first, failureUnknown, challenge(newProblem(codeBadCredentials, "the token is not known here")))
}

// admit returns the identity that site takes the caller for, with its peer. The
// answer is the same whether the site does not know the caller or does not take
// it from there.
func (f *httpFront) admit(r *httpRequest, c *caller, site *httpMember) (*policy.Identity, netip.Addr, *problem) {
	peer, pr := clientPeer(r.Request, site.TrustedProxies)
	if pr != nil {
		return nil, peer, pr
	}
	id := c.at[site]
	if id == nil {
		return nil, peer, notPermitted()
	}
	if err := id.Admits(peer, r.now); err != nil {
		r.view.observe().AuthFailure(failurePeer)
		r.view.log("warning", "Refused a valid token: %v request=%s", err, r.reply.id)
		return nil, peer, notPermitted()
	}
	return id, peer, nil
}

// failed counts a failure against the peer. pr is the answer unless there were
// too many.
func (f *httpFront) failed(r *httpRequest, site *httpMember, reason string, pr *problem) *problem {
	r.view.observe().AuthFailure(reason)
	trusted := r.view.trusted
	var limit rate
	if site == nil && len(r.view.sites) > 0 {
		site = r.view.sites[0]
	} else if site != nil {
		trusted = site.TrustedProxies
	}
	if site != nil {
		limit = site.FailureRate
	}
	peer, _ := clientPeer(r.Request, trusted)
	if wait := f.failures.take(peerKey(peer), limit, r.now); wait > 0 {
		return newProblem(codeTooManyFailures, "too many wrong credentials from this address").after(retryAfter(wait))
	}
	r.view.log("info", "Refused peer=%s reason=%s request=%s", peer, reason, r.reply.id)
	return pr
}

// challenge adds what a 401 must have (RFC 9110, section 11.6.1). Basic comes
// first: simple clients read only one, and send nothing before it.
func challenge(pr *problem) *problem {
	pr.header = http.Header{"Www-Authenticate": {`Basic realm="ddns", charset="UTF-8"`, `Bearer realm="ddns"`}}
	return pr
}

// crossSite refuses what a browser sends on behalf of some other site's page.
// GET changes things here and a browser may hold Basic credentials, so a picture
// in a page could update a name. Clients that are no browser do not send the
// header.
func crossSite(r *http.Request) *problem {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return nil
	}
	return newProblem(codeCrossSite, "a page of another site may not make a browser do this")
}
