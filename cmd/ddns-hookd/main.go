// Command ddns-hookd runs hooks for a CoreDNS that has no privileges itself: it
// listens on a unix socket, or on TCP with mutual TLS, and runs the commands that
// its own policy file defines, as the users that file names.
//
// Its one invariant: what a caller sends chooses among the definitions, and never
// changes what they run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coredns-ddns/ddns/internal/version"
)

func main() {
	log.SetPrefix("ddns-hookd: ")
	if os.Getenv("JOURNAL_STREAM") != "" {
		log.SetFlags(0) // the journal has the time, and the name
		log.SetPrefix("")
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "ddns-hookd:", err)
		return 2
	case o.version:
		fmt.Fprintln(stdout, "ddns-hookd", version.String())
		return 0
	case o.check:
		return check(o, stdout, stderr)
	}
	if err := harden(); err != nil {
		log.Print(err)
		return 1
	}
	d, err := newDaemon(o)
	if err != nil {
		log.Print(err)
		return 1
	}
	return d.serve()
}

// serve runs until a signal, and returns the exit status.
func (d *daemon) serve() int {
	// Whoever read the log may end before it does. What is handled is not inherited by
	// hooks.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
	failed := make(chan error, 1)
	go func() { failed <- d.server.Serve(d.listener) }()
	log.Printf("listening on %s", d.listener.Addr())
	notify("READY=1")
	status := 0
	for {
		select {
		case err := <-failed:
			if err != nil {
				log.Print(err)
				status = 1
			}
			d.stop()
			return status
		case s := <-signals:
			if s == syscall.SIGHUP {
				d.reload()
				continue
			}
			log.Printf("stopping at %v", s)
			notify("STOPPING=1")
			d.stop()
			return status
		}
	}
}

// reload reads policy and certificates again; when anything is wrong nothing
// changes.
func (d *daemon) reload() {
	next, err := d.options.load()
	if err == nil {
		err = d.configure(next)
	}
	if err != nil {
		log.Printf("keeping the old policy: %v", err)
		return
	}
	log.Print("policy read again")
}

// stop lets running hooks end within their own limits for a while, then ends them.
func (d *daemon) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), d.options.drain)
	defer cancel()
	d.server.Stop(ctx)
	ctx, cancel = context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := d.runner.Close(ctx); err != nil {
		log.Print(err)
	}
}
