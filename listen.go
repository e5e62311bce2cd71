package ddns

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/resident"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// startHTTP puts the stanza on its HTTP address.
func (i *instance) startHTTP(l *loaded) error {
	h := i.cfg.http
	if h.off {
		return nil
	}
	address, err := resident.ParseAddress(h.address)
	if err != nil {
		return fmt.Errorf("http: %w", err)
	}
	var security *resident.Security
	if l.tls != nil {
		name := h.cert + " " + h.key
		if h.ca != "" {
			name += " " + h.ca
		}
		security = &resident.Security{Name: name, Config: l.tls}
	} else if !address.Loopback() {
		log.Warningf("Tokens travel in clear text to http address=%s: anyone on the way can read them; give it 'tls CERT KEY', or put a TLS proxy in front", address)
	}
	site, err := httpListeners.Acquire(i.generation, address, i.httpSite(), security)
	if err != nil {
		return err
	}
	i.site = site
	return nil
}

// httpSite is the stanza as the HTTP side sees it.
func (i *instance) httpSite() *httpSite {
	return &httpSite{
		Zones:  i.cfg.zones,
		Policy: func() *policy.Policy { return i.policy.Load() },
		Update: func(ctx context.Context, origin zone.Name, u zone.Update) (zonedb.Result, error) {
			r, err := i.zones[origin].Update(ctx, u)
			if err == nil && r.Changed {
				logChange(origin, r.Changeset)
			}
			return r, err
		},
		Reload:         i.reload,
		Check:          i.checkReload,
		Backup:         i.backup,
		Database:       i.storeKey(),
		DefaultTTL:     i.cfg.ttl.standard,
		MinTTL:         i.cfg.ttl.least,
		MaxTTL:         i.cfg.ttl.most,
		Limits:         i.cfg.zoneLimits(),
		SourceIP:       i.cfg.sourceIP,
		Addresses:      i.cfg.addresses,
		TrustedProxies: i.cfg.proxies,
		FailureRate:    i.cfg.limits.failures,
		UpdateRate:     i.cfg.limits.update,
		Operator:       hooks.AdminHandler(i.currentDispatcher),
		Hooks: func() any {
			if d := i.currentDispatcher(); d != nil {
				return d
			}
			return nil
		},
		Observe: httpMetrics{},
		Log:     logLevel,
	}
}

func (i *instance) stopHTTP() error {
	if i.site == nil {
		return nil
	}
	return i.site.Release()
}

// readTLS loads the certificates of the listeners that have one.
func (l *loaded) readTLS(cfg *config) (err error) {
	if h := cfg.http; !h.off && h.cert != "" {
		if l.tls, err = loadTLS(h.cert, h.key, h.ca); err != nil {
			return err
		}
	}
	if g := cfg.grpc; g.cert != "" {
		l.grpcTLS, err = hooks.ServerTLS(g.cert, g.key, g.ca)
	}
	return err
}

// reload re-reads the stanza's files: the policy, the zone files, the certificate.
// All of them are read and checked, the zones are changed in one transaction,
// and only then does the rest count; when anything is wrong nothing changes.
func (i *instance) reload(ctx context.Context, actor, request string) (reloadReport, error) {
	if !i.reloading.TryLock() {
		return reloadReport{}, errReloadRunning
	}
	defer i.reloading.Unlock()
	report, err := i.reloadFiles()
	if err != nil {
		reloadsTotal.WithLabelValues("failed").Inc()
		log.Warningf("Reload failed, the old configuration stays by=%s request=%s: %v", actor, request, err)
		return reloadReport{}, err
	}
	reloadsTotal.WithLabelValues("done").Inc()
	log.Infof("Reloaded the files of %v by=%s request=%s changed=%t", names(i.cfg.zones), actor, request, report.changed())
	return report, nil
}

// checkReload reads and checks what reload would, for stanzas that are reloaded
// together.
func (i *instance) checkReload() error {
	l, err := i.read()
	if err != nil {
		return reloadFault(err)
	}
	if err := i.checkHooks(l.policy); err != nil {
		return err
	}
	if err := i.db().Prepare(l.specs); err != nil {
		return reloadFault(err)
	}
	return i.db().Check(l.specs)
}

func (i *instance) reloadFiles() (report reloadReport, err error) {
	l, err := i.read()
	if err != nil {
		return report, reloadFault(err)
	}
	if err := i.checkHooks(l.policy); err != nil {
		return report, err
	}
	if i.over.Load() {
		return report, zonedb.ErrStopped
	}
	if err := i.db().Prepare(l.specs); err != nil {
		return report, reloadFault(err)
	}
	merged, err := i.merge(l.specs)
	if err != nil {
		return report, fmt.Errorf("merging the zone files: %w", err)
	}
	for k, m := range merged {
		if !m.Changed {
			continue
		}
		z := zoneReport{Zone: l.specs[k].Origin.String(), Serial: uint32(m.Serial)}
		for _, s := range m.Changeset.Deleted {
			z.Deleted += s.Len()
		}
		for _, s := range m.Changeset.Added {
			z.Added += s.Len()
		}
		report.Zones = append(report.Zones, z)
	}
	i.specs = nil // these are newer
	old := i.policy.Swap(l.policy)
	report.Policy = policy.Diff(old, l.policy)
	if err := i.redefineHooks(l.policy); err != nil {
		// The definitions count; only should the process end now, a change may be missed.
		log.Errorf("Taking the new hooks: %v", err)
	}
	report.Certificates = i.configureGRPC(l)
	for _, w := range l.policy.Warnings() {
		log.Warningf("%s", w)
	}
	i.warnOfHooks(l.policy)
	if i.site != nil && l.tls != nil {
		report.Certificates = report.Certificates || !sameCertificate(i.tls, l.tls)
		i.tls = l.tls
		i.site.SetTLS(l.tls)
	}
	return report, nil
}

// backup copies the whole database, zones of other stanzas included.
func (i *instance) backup(ctx context.Context, w io.Writer) error {
	n, err := i.db().Backup(ctx, w)
	if err != nil {
		return fmt.Errorf("copying the store after %d octets: %w", n, err)
	}
	log.Infof("Backed up the store of %v octets=%d", names(i.cfg.zones), n)
	return nil
}

// reloadFault says of a file's error which file and line it is about.
func reloadFault(err error) error {
	var p *policy.ParseError
	var z *zone.FileError
	var path *fs.PathError
	switch {
	case errors.As(err, &p):
		return &reloadError{p.File, p.Line, p.Text}
	case errors.As(err, &z):
		return &reloadError{z.File, z.Line, z.Text}
	case errors.As(err, &path):
		return &reloadError{path.Path, 0, path.Err.Error()}
	}
	return err
}

// sameCertificate reports whether two configurations show the same certificate
// and trust the same authorities.
func sameCertificate(a, b *tls.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	if !a.ClientCAs.Equal(b.ClientCAs) || len(a.Certificates[0].Certificate) != len(b.Certificates[0].Certificate) {
		return false
	}
	for k, der := range a.Certificates[0].Certificate {
		if string(der) != string(b.Certificates[0].Certificate[k]) {
			return false
		}
	}
	return true
}
