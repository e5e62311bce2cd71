package ddns

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

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
// reload grant, while updates go on. With several stanzas it is that of the first
// in which the caller has it.
func (f *httpFront) backup(r *httpRequest) *problem {
	sites, ids, pr := f.operated(r)
	if pr != nil {
		return pr
	}
	site := sites[0]
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

// steadyWriter writes to a client that must go on reading.
type steadyWriter struct {
	to      io.Writer
	control *http.ResponseController
}

func (s *steadyWriter) Write(b []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(backupStall))
	return s.to.Write(b)
}
