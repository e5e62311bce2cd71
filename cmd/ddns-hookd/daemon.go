package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strings"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/policy"
)

const defaultListen = "unix:///run/ddns/hookd.sock"

type daemon struct {
	options  *options
	runner   *hooks.Runner
	local    *hooks.Local
	server   *hooks.Server
	listener net.Listener
	policy   *policy.Policy // nil with -any and no -policy
}

// A loaded is everything that is read from files, before any of it is used.
type loaded struct {
	policy *policy.Policy
	tls    *tls.Config
}

// load reads policy and certificates.
func (o *options) load() (loaded, error) {
	var l loaded
	if o.policy != "" {
		if err := hooks.CheckFile(o.policy); err != nil {
			return l, fmt.Errorf("the policy file %s: %w", o.policy, err)
		}
		p, err := policy.ParseFile(o.policy)
		if err != nil {
			return l, err
		}
		l.policy = p
	}
	if o.cert != "" {
		// Who can write the CA can sign a caller; who can write the key has read it.
		for _, f := range []string{o.key, o.clientCA} {
			if err := hooks.CheckFile(f); err != nil {
				return l, fmt.Errorf("the file %s: %w", f, err)
			}
		}
		c, err := hooks.ServerTLS(o.cert, o.key, o.clientCA)
		if err != nil {
			return l, err
		}
		l.tls = c
	}
	return l, nil
}

func newDaemon(o *options) (*daemon, error) {
	l, err := o.load()
	if err != nil {
		return nil, err
	}
	d := &daemon{options: o, runner: newRunner(o), local: hooks.NewLocal(hooks.LocalConfig{})}
	for _, s := range d.runner.Guarantees().Missing() {
		log.Printf("warning: %s", s)
	}
	if err = d.configure(l); err == nil {
		d.listener, err = o.listenOn()
	}
	if err != nil {
		d.runner.Close(context.Background()) // nothing runs: its control group goes
		return nil, err
	}
	return d, nil
}

func newRunner(o *options) *hooks.Runner {
	return hooks.NewRunner(hooks.RunnerOptions{DefaultTimeout: o.timeout, Grace: o.grace, Parallel: o.parallel})
}

// configure puts what was read in force, whole or not at all.
func (d *daemon) configure(l loaded) error {
	lc := hooks.LocalConfig{Runner: d.runner, Any: d.options.any, AnyRoot: d.options.anyRoot}
	if l.policy != nil {
		lc.Policy = l.policy
	}
	sc := hooks.ServerConfig{
		Executor: d.local, AllowUIDs: d.options.allow, TLS: l.tls, Reflection: d.options.reflection,
		Log:  func(line string) { log.Print(line) },
		Warn: func(line string) { log.Print(line) },
	}
	// Only the server can refuse; and until it is configured nothing is served.
	if d.server == nil {
		s, err := hooks.NewServer(sc)
		if err != nil {
			return err
		}
		d.server = s
	} else if err := d.server.Configure(sc); err != nil {
		return err
	}
	d.local.Configure(lc)
	d.server.RefreshHealth()
	for _, p := range problems(d.runner, l.policy) {
		log.Printf("warning: %s", p)
	}
	if l.policy != nil {
		for _, w := range l.policy.Warnings() {
			log.Printf("warning: %s", w)
		}
		log.Print(summary(d.policy, l.policy))
	}
	d.policy = l.policy
	return nil
}

// summary says what a policy changes among the hooks.
func summary(old, new *policy.Policy) string {
	if old == nil {
		return fmt.Sprintf("%d hooks are defined", len(new.Hooks()))
	}
	c := policy.Diff(old, new).Hooks
	return fmt.Sprintf("%d hooks are defined; added %s; removed %s; changed %s",
		len(new.Hooks()), names(c.Added), names(c.Removed), names(c.Changed))
}

func names(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, " ")
}

// problems lists the hooks that could not be run as things are.
func problems(r *hooks.Runner, p *policy.Policy) (list []string) {
	if p == nil {
		return nil
	}
	for _, h := range p.Hooks() {
		if err := r.Allows(hooks.Definition(h)); err != nil {
			list = append(list, fmt.Sprintf("the hook %s cannot run: %v", h.Name, err))
		}
	}
	return list
}

// check is -check.
func check(o *options, stdout, stderr io.Writer) int {
	l, err := o.load()
	if err != nil {
		fmt.Fprintln(stderr, "ddns-hookd:", err)
		return 1
	}
	r := newRunner(o)
	defer r.Close(context.Background())
	for _, s := range r.Guarantees().Missing() {
		fmt.Fprintln(stderr, "ddns-hookd: warning:", s)
	}
	list := problems(r, l.policy)
	for _, p := range list {
		fmt.Fprintln(stderr, "ddns-hookd:", p)
	}
	if len(list) > 0 {
		return 1
	}
	if l.policy != nil {
		fmt.Fprintf(stdout, "%s: %d hooks, each can run\n", o.policy, len(l.policy.Hooks()))
	}
	return 0
}

// listenOn opens the listener that the flags, or systemd, name.
func (o *options) listenOn() (net.Listener, error) {
	if o.listen == "" {
		l, err := passedListener()
		if l != nil || err != nil {
			return l, err
		}
	}
	address := o.listen
	if address == "" {
		address = defaultListen
	}
	path, isUnix := strings.CutPrefix(address, "unix://")
	if !isUnix {
		return net.Listen("tcp", address)
	}
	so := hooks.UnixOptions{Mode: o.socketMode, GID: o.socketGID}
	switch {
	case o.group != "" || o.mode != "":
	case len(o.allow) == 1:
		// With one caller the socket can be its own, and closed to all others.
		so.UID = int(o.allow[0])
	case len(o.allow) > 1:
		return nil, errors.New("several users with -allow-uid need -socket-group or -socket-mode: with mode 0600 only one could connect")
	}
	return hooks.ListenUnix(path, so)
}
