package ddns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// reloadReport says what a stanza's /reload changed.
type reloadReport struct {
	Policy       policy.Changes `json:"policy"`
	Zones        []zoneReport   `json:"zones"`        // those whose records changed
	Certificates bool           `json:"certificates"` // whether another certificate is served now
}

// zoneReport is one zone's part of a reloadReport.
type zoneReport struct {
	Zone    string `json:"zone"`
	Deleted int    `json:"deleted"` // records
	Added   int    `json:"added"`
	Serial  uint32 `json:"serial"`
}

func (r reloadReport) changed() bool {
	return !r.Policy.Empty() || len(r.Zones) > 0 || r.Certificates
}

// reloadError says which file kept a reload from happening.
type reloadError struct {
	File string
	Line int // 0: the file as a whole
	Text string
}

func (e *reloadError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Text)
}

// errReloadRunning is the error of a reload while another one runs.
var errReloadRunning = errors.New("a reload is running")

// reloadTime is how long the reply to /reload may take: a zone file can be large.
const reloadTime = 5 * time.Minute

// stanzaReport is a reloadReport with the stanza it is about.
type stanzaReport struct {
	Serves []string `json:"serves"`
	reloadReport
}

// reload serves /reload: it reloads every stanza in which the caller has the
// reload grant. The files of all are checked before any is taken; what fails all the
// same, a store or a file that changed meanwhile, leaves those before it reloaded,
// and the problem lists them.
func (f *httpFront) reload(r *httpRequest) *problem {
	sites, ids, pr := f.operated(r)
	if pr != nil {
		return pr
	}
	_ = http.NewResponseController(r.reply).SetWriteDeadline(time.Now().Add(reloadTime))
	// The client going away does not stop it half way.
	ctx := context.WithoutCancel(r.Context())
	answer := struct {
		Changed bool           `json:"changed"`
		Stanzas []stanzaReport `json:"stanzas"`
	}{Stanzas: []stanzaReport{}}
	for _, s := range sites {
		if s.stopping {
			return stopping()
		}
		if len(sites) == 1 || s.Check == nil {
			continue
		}
		if err := s.Check(); err != nil {
			r.view.log("warning", "Reload failed, the old configuration stays request=%s: %v", r.reply.id, err)
			return reloadProblem(err).with("serves", names(s.Zones))
		}
	}
	for i, s := range sites {
		report, err := s.Reload(ctx, ids[i].ID, r.reply.id)
		if err != nil {
			pr := reloadProblem(err).with("serves", names(s.Zones))
			if len(answer.Stanzas) > 0 {
				pr = pr.with("reloaded", answer.Stanzas)
			}
			return pr
		}
		if report.Zones == nil {
			report.Zones = []zoneReport{}
		}
		answer.Changed = answer.Changed || report.changed()
		answer.Stanzas = append(answer.Stanzas, stanzaReport{names(s.Zones), report})
	}
	r.reply.json(answer)
	return nil
}

// operated lists the sites in which the caller has the reload grant, and as whom.
func (f *httpFront) operated(r *httpRequest) ([]*httpMember, []*policy.Identity, *problem) {
	if len(r.view.sites) == 0 {
		return nil, nil, stopping()
	}
	who, pr := f.authenticate(r, nil)
	if pr != nil {
		return nil, nil, pr
	}
	var sites []*httpMember
	var ids []*policy.Identity
	refusal := notPermitted()
	for _, s := range r.view.sites {
		if known := who.at[s]; known == nil || !known.Reload {
			continue
		}
		id, _, pr := f.admit(r, who, s)
		if pr != nil {
			refusal = pr
			continue
		}
		sites, ids = append(sites, s), append(ids, id)
	}
	if len(sites) == 0 {
		return nil, nil, refusal
	}
	return sites, ids, nil
}

// reloadProblem maps the errors of httpSite.Reload. Its caller is an operator, so
// whatever is wrong with the configuration is said in full.
func reloadProblem(err error) *problem {
	var wrong *reloadError
	switch {
	case errors.As(err, &wrong):
		pr := newProblem(codeConfiguration, "%s", wrong).with("file", wrong.File).with("reason", wrong.Text)
		if wrong.Line > 0 {
			pr = pr.with("line", wrong.Line)
		}
		return pr
	case errors.Is(err, errReloadRunning):
		return newProblem(codeReloadRunning, "another reload is running; its caller is told the outcome").after(retryBusy)
	case errors.Is(err, zonedb.ErrUnavailable):
		return newProblem(codeStore, "the store did not take the new records; the old configuration stays").after(retryStore)
	case errors.Is(err, zonedb.ErrStopped):
		return stopping()
	case errors.Is(err, zonedb.ErrBusy), errors.Is(err, context.DeadlineExceeded):
		return busy("too many updates are waiting")
	}
	return newProblem(codeConfiguration, "%v", err)
}

// operatorTime is how long the reply to an operator may take: that of a hook run
// by hand, which ends with the hook.
const operatorTime = time.Hour + 2*time.Minute

// operator hands what is below /hooks to the stanzas that offer it to the caller. With
// several of them, what is asked for a hook is answered by the first that has it, and
// the listing is that of all.
func (f *httpFront) operator(r *httpRequest) *problem {
	sites, _, pr := f.operated(r)
	if pr != nil {
		return pr
	}
	var offered, having []http.Handler
	seen := make(map[any]bool)
	for _, s := range sites {
		if s.Operator == nil {
			continue
		}
		offered = append(offered, s.Operator)
		if s.Hooks == nil {
			continue
		}
		if what := s.Hooks(); what != nil && !seen[what] {
			seen[what] = true
			having = append(having, s.Operator)
		}
	}
	_ = http.NewResponseController(r.reply).SetWriteDeadline(time.Now().Add(operatorTime))
	switch {
	case len(offered) == 0:
		return newProblem(codeNotFound, "there is no such path")
	case len(having) == 0:
		offered[0].ServeHTTP(r.reply, r.Request)
	case len(having) > 1 && r.Method == http.MethodGet:
		r.listings(having)
	default:
		for _, h := range having {
			r.reply.restart()
			h.ServeHTTP(r.reply, r.Request)
			if r.reply.status != http.StatusNotFound {
				break
			}
		}
	}
	return nil
}

// listings answers with the hooks of several handlers; what is not a listing is
// answered as it is.
func (r *httpRequest) listings(handlers []http.Handler) {
	type listing struct {
		Hooks []json.RawMessage `json:"hooks"`
	}
	var all listing
	for _, h := range handlers {
		r.reply.restart()
		h.ServeHTTP(r.reply, r.Request)
		var one listing
		if r.reply.status != http.StatusOK || json.Unmarshal(r.reply.body.Bytes(), &one) != nil {
			return
		}
		all.Hooks = append(all.Hooks, one.Hooks...)
	}
	r.reply.restart()
	r.reply.json(all)
}

func names(zones []zone.Name) []string {
	out := make([]string, len(zones))
	for i, z := range zones {
		out[i] = z.String()
	}
	return out
}
