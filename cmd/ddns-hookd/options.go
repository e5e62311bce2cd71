package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os/user"
	"strconv"
	"strings"
	"time"
)

type options struct {
	policy     string
	listen     string
	allow      users
	mode       string
	group      string
	cert, key  string
	clientCA   string
	any        bool
	anyRoot    bool
	reflection bool
	parallel   int
	timeout    time.Duration
	grace      time.Duration
	drain      time.Duration
	version    bool
	check      bool

	// from the words above
	socketMode fs.FileMode
	socketGID  int
}

// users is a flag that collects users by name or number.
type users []uint32

func (u *users) String() string { return fmt.Sprint([]uint32(*u)) }

func (u *users) Set(s string) error {
	for _, name := range strings.Split(s, ",") {
		id := name
		if _, err := strconv.ParseUint(name, 10, 32); err != nil {
			a, err := user.Lookup(name)
			if err != nil {
				return err
			}
			id = a.Uid
		}
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return err
		}
		*u = append(*u, uint32(n))
	}
	return nil
}

func parseFlags(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("ddns-hookd", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprintln(stderr, "usage: ddns-hookd -policy FILE [-listen unix:///PATH|HOST:PORT] [flags]")
		f.PrintDefaults()
	}
	f.StringVar(&o.policy, "policy", "", "`file` that defines the hooks; owned by root and writable by nobody else")
	f.StringVar(&o.listen, "listen", "", "`address`: unix:///PATH, or HOST:PORT with mutual TLS (default unix:///run/ddns/hookd.sock, or the socket systemd passes)")
	f.Var(&o.allow, "allow-uid", "`users`, by name or number, that may call over the unix socket besides root; repeatable")
	f.StringVar(&o.mode, "socket-mode", "", "`mode` of the unix socket (default 0600; 0660 with -socket-group)")
	f.StringVar(&o.group, "socket-group", "", "`group` of the unix socket, for more than one -allow-uid")
	f.StringVar(&o.cert, "tls-cert", "", "certificate `file` of a TCP listener")
	f.StringVar(&o.key, "tls-key", "", "key `file` of a TCP listener")
	f.StringVar(&o.clientCA, "client-ca", "", "`file` with the CA that signs the certificates of callers")
	f.BoolVar(&o.any, "any", false, "run whatever an allowed caller asks for, not only what the policy defines")
	f.BoolVar(&o.anyRoot, "any-root", false, "with -any, as root too")
	f.BoolVar(&o.reflection, "reflection", false, "answer gRPC reflection")
	f.IntVar(&o.parallel, "parallel", 8, "how many hooks run at once")
	f.DurationVar(&o.timeout, "timeout", 30*time.Second, "time limit of a hook whose definition has none")
	f.DurationVar(&o.grace, "grace", 5*time.Second, "how long a hook may take to end between TERM and KILL")
	f.DurationVar(&o.drain, "drain", 20*time.Second, "how long running hooks may go on after SIGTERM")
	f.BoolVar(&o.version, "version", false, "print the version")
	f.BoolVar(&o.check, "check", false, "read the policy and the certificates, say what is wrong with them and with each hook, and exit")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.version {
		return o, nil
	}
	return o, o.validate()
}

func (o *options) validate() error {
	given := 0
	for _, s := range []string{o.cert, o.key, o.clientCA} {
		if s != "" {
			given++
		}
	}
	isUnix := strings.HasPrefix(o.listen, "unix://")
	switch {
	case o.policy == "" && !o.any:
		return errors.New("-policy is needed: without it there is nothing to run")
	case o.anyRoot && !o.any:
		return errors.New("-any-root needs -any")
	case given != 0 && given != 3:
		return errors.New("-tls-cert, -tls-key and -client-ca go together")
	case o.listen != "" && !isUnix && given == 0:
		return fmt.Errorf("-listen %s: a TCP listener needs mutual TLS: -tls-cert, -tls-key and -client-ca", o.listen)
	case isUnix && !strings.HasPrefix(o.listen, "unix:///"):
		return fmt.Errorf("-listen %s: write unix:///path with an absolute path", o.listen)
	case o.parallel < 1 || o.parallel > 1024:
		return fmt.Errorf("-parallel %d: want 1 to 1024", o.parallel)
	case o.timeout <= 0 || o.grace <= 0 || o.drain <= 0:
		return errors.New("-timeout, -grace and -drain must be positive")
	}
	return o.validateSocket()
}

func (o *options) validateSocket() error {
	o.socketMode = 0o600
	if o.group != "" {
		g, err := user.LookupGroup(o.group)
		if err != nil {
			return fmt.Errorf("-socket-group: %w", err)
		}
		if o.socketGID, err = strconv.Atoi(g.Gid); err != nil {
			return fmt.Errorf("-socket-group: %w", err)
		}
		o.socketMode = 0o660
	}
	if o.mode != "" {
		m, err := strconv.ParseUint(o.mode, 8, 32)
		if err != nil || m > 0o777 {
			return fmt.Errorf("-socket-mode %s: want an octal number like 0660", o.mode)
		}
		o.socketMode = fs.FileMode(m)
	}
	return nil
}
