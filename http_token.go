package ddns

import (
	"crypto/rand"
	"net/url"

	"github.com/coredns-ddns/ddns/internal/policy"
)

// generateToken serves /token/generate. It gives entropy, not authority: nothing
// is kept, and the token has no rights until an operator puts its hash into a
// policy file. So anyone may ask. With the parameter fqdn the policy text names
// that owner.
func (f *httpFront) generateToken(r *httpRequest) *problem {
	peer, pr := clientPeer(r.Request, r.view.trusted)
	if pr != nil {
		return pr
	}
	if wait := f.generate.take(peerKey(peer), generateRate, r.now); wait > 0 {
		return newProblem(codeTooManyRequests, "too many tokens for this address").after(retryAfter(wait))
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return newProblem(codeBadRequest, "the query is not properly encoded")
	}
	owner := ""
	if query.Has("fqdn") {
		name, pr := queryName(query)
		if pr != nil {
			return pr
		}
		owner = name.String()
		if name.IsWildcard() {
			owner = `\` + owner // in a policy, *.x is every name below x
		}
	}
	g, err := policy.Generate(rand.Reader)
	if err != nil {
		r.view.log("error", "Generating a token: %v request=%s", err, r.reply.id)
		return newProblem(codeInternal, "the token could not be made; the server's log says why")
	}
	r.reply.json(struct {
		Token  string `json:"token"`
		ID     string `json:"id"`
		Hash   string `json:"hash"`
		Policy string `json:"policy"`
	}{g.Token, g.ID, g.Hash, g.Policy(owner)})
	return nil
}
