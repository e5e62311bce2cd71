// Bench measures ddns side by side with other name servers, on one machine: it
// starts each on loopback, bound to one core, and puts load on it from another.
//
// Its one invariant: a figure counts right answers only. Each reply is checked
// against what the question asked for, and a run with a wrong one says so.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// bench is one run of this program.
type bench struct {
	dir     string // of everything the servers write; removed at the end
	coredns string // the binary
	out     string // where table, CSV and pictures go

	serverCore, loadCore int

	full    bool
	profile bool
	repeats int
	short   time.Duration // one measurement
	only    []string      // servers to measure; all if empty

	started int
	running []*server
	figures figures
	remarks []string

	waited                 time.Duration // for the processor
	taken, disturbed, loud int           // measurements
	disk                   []float64     // seconds for 4 KiB on stable storage, as measured between
}

// rows are what can be measured, in order.
var rows = []struct {
	name string
	run  func(*bench) error
}{
	{"updates", (*bench).rowUpdates},
	{"queries", (*bench).rowQueries},
	{"syncs", (*bench).rowSyncs},
	{"curves", (*bench).rowCurves},
}

func main() {
	b := &bench{}
	var chosen, only, nothingAt string
	flag.BoolVar(&b.full, "full", false, "all peers at all sizes, longer and more often")
	flag.BoolVar(&b.profile, "profile", false, "write CPU profiles of CoreDNS under load to the output directory")
	flag.StringVar(&chosen, "rows", "", "comma-separated rows to measure: updates, queries, syncs, curves; all if empty")
	flag.StringVar(&only, "servers", "", "comma-separated servers to measure; all if empty")
	flag.StringVar(&b.out, "out", "", "directory for table.md, figures.csv and the pictures (bench/results, or its subdirectory for a single row)")
	flag.StringVar(&b.coredns, "coredns", "", "coredns binary with ddns; built from the checkout if empty")
	flag.IntVar(&b.repeats, "repeats", 0, "how often each measurement is made (7, or 11 with -full)")
	flag.DurationVar(&b.short, "time", 0, "length of one measurement (300ms, or 2s with -full)")
	flag.StringVar(&nothingAt, "serve-nothing", "", "be the empty HTTP server on this address")
	flag.Parse()
	if nothingAt != "" {
		fail(serveNothing(nothingAt))
		return
	}
	if b.repeats == 0 {
		b.repeats = 7
		if b.full {
			b.repeats = 11
		}
	}
	if b.short == 0 {
		b.short = 300 * time.Millisecond
		if b.full {
			b.short = 2 * time.Second
		}
	}
	comma := func(r rune) bool { return r == ',' }
	b.only = strings.FieldsFunc(only, comma)
	names := strings.FieldsFunc(chosen, comma)
	if b.out == "" {
		b.out = "bench/results"
		if len(names) == 1 {
			b.out += "/" + names[0]
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(rows, func(r struct {
			name string
			run  func(*bench) error
		}) bool {
			return r.name == n
		}) {
			fail(fmt.Errorf("-rows %s: no such row", n))
		}
	}
	fail(b.main(names))
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (b *bench) main(names []string) (err error) {
	// All cores, before this process is bound to one.
	if b.coredns == "" && os.Getenv("DDNS_BENCH_PINNED") == "" {
		if b.coredns, err = filepath.Abs("bin/coredns"); err != nil {
			return err
		}
		build := exec.Command("go", "build", "-o", b.coredns, "./cmd/coredns")
		build.Stdout, build.Stderr = os.Stdout, os.Stderr
		if err := build.Run(); err != nil {
			return fmt.Errorf("building coredns: %w", err)
		}
		os.Args = append(os.Args, "-coredns", b.coredns)
	}
	if runtime.NumCPU() > 1 || os.Getenv("DDNS_BENCH_PINNED") != "" {
		b.serverCore, b.loadCore = 0, 1
	} else {
		b.remark("This machine has one core: server and load share it.")
	}
	if err := pin(b.loadCore); err != nil {
		return fmt.Errorf("binding to core %d: %w", b.loadCore, err)
	}
	if b.dir, err = os.MkdirTemp("", "ddns-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- b.measure(names) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if stopErr := b.stopAll(); err == nil {
		err = stopErr
	}
	return err
}

func (b *bench) measure(names []string) error {
	begun := time.Now()
	for _, r := range rows {
		if len(names) > 0 && !slices.Contains(names, r.name) {
			continue
		}
		at := time.Now()
		if err := r.run(b); err != nil {
			b.remark("%s ended early: %v", r.name, err)
		}
		if err := b.stopAll(); err != nil {
			b.remark("%v", err)
		}
		fmt.Printf("-- %s took %s\n", r.name, time.Since(at).Round(time.Second))
		// After each: a run that is cut short has said what it knows.
		if err := b.report(time.Since(begun)); err != nil {
			return err
		}
	}
	fmt.Print("\n", contents(filepath.Join(b.out, "table.md")))
	return nil
}

func (b *bench) stopAll() error {
	var first error
	for _, s := range b.running {
		if err := s.stop(); err != nil && first == nil {
			first = err
		}
	}
	b.running = nil
	return first
}

// remark is a sentence for below the table.
func (b *bench) remark(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(b.remarks, text) {
		b.remarks = append(b.remarks, text)
		fmt.Println("   note:", text)
	}
}
