package ddns

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/store"
)

// backupTime is how long sending a copy of the database may take, and backupStall how
// long its reader may take for a piece of it: while it reads nothing, the store
// can neither be closed nor recover from a failed write.
const (
	backupTime  = time.Hour
	backupStall = 30 * time.Second
)

// backup serves /backup: a consistent copy of the database for a caller with the
// reload grant, while updates go on. With several databases the parameter zone says
// whose.
func (f *httpFront) backup(r *httpRequest) *problem {
	sites, ids, pr := f.operated(r)
	if pr != nil {
		return pr
	}
	site, pr := whose(r, sites)
	if pr != nil {
		return pr
	}
	if site.stopping {
		return stopping()
	}
	ctx, cancel := context.WithTimeout(r.Context(), backupTime)
	defer cancel()
	err := r.reply.stream("ddns.db", func(w io.Writer) error {
		return site.Backup(ctx, &steadyWriter{w, http.NewResponseController(r.reply)})
	})
	switch {
	case errors.Is(err, store.ErrRefused):
		return newProblem(codeNotFound, "the store has no file to copy: it is in memory")
	case err != nil:
		r.view.log("error", "Backing up by=%s request=%s: %v", ids[0].ID, r.reply.id, err)
		return newProblem(codeStore, "the store could not be copied").after(retryStore)
	}
	return nil
}

// whose is the site whose database is asked for: that of a zone, or the only one.
func whose(r *httpRequest, sites []*httpMember) (*httpMember, *problem) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, newProblem(codeBadRequest, "the query is not properly encoded")
	}
	if query.Has("zone") {
		name, err := policy.ParseOwner(query.Get("zone"))
		if err != nil {
			return nil, newProblem(codeBadName, "zone: %v", err)
		}
		for _, s := range sites {
			if slices.Contains(s.Zones, name) {
				return s, nil
			}
		}
		return nil, newProblem(codeZoneNotServed, "no zone %s whose database you may copy is served here", name)
	}
	for _, s := range sites {
		if s.Database != sites[0].Database {
			return nil, newProblem(codeBadRequest, "there are several databases: zone=%s copies that of %s, zone=%s another",
				sites[0].Zones[0], sites[0].Zones[0], s.Zones[0])
		}
	}
	return sites[0], nil
}

// steadyWriter writes to a client that must go on reading.
type steadyWriter struct {
	to      io.Writer
	control *http.ResponseController
}

// Expect implements store.Sized.
func (s *steadyWriter) Expect(octets int64) {
	if to, ok := s.to.(store.Sized); ok {
		to.Expect(octets)
	}
}

func (s *steadyWriter) Write(b []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(backupStall))
	return s.to.Write(b)
}
