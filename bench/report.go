package main

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// key says what a figure is about.
type key struct {
	row, peer      string
	hosts, clients int
	unit           string
}

// figures are all samples, in the order in which they were first taken.
type figures struct {
	mu      sync.Mutex
	keys    []key
	samples map[key][]float64
}

func (f *figures) add(row string, s *server, clients int, unit string, value float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := key{row, s.peer.name, s.hosts, clients, unit}
	if f.samples == nil {
		f.samples = make(map[key][]float64)
	}
	if f.samples[k] == nil {
		f.keys = append(f.keys, k)
	}
	f.samples[k] = append(f.samples[k], value)
	fmt.Printf("   %-18s %-10s hosts=%-8d clients=%-4d %12s %s\n", row, k.peer, k.hosts, clients, number(value), unit)
}

// of returns the samples of a figure, in the order of the repeats; nil if there are
// none.
func (f *figures) of(p point) []float64 {
	for _, k := range f.keys {
		if k.row == p.row && k.peer == p.peer && k.hosts == p.hosts && k.clients == p.clients {
			return f.samples[k]
		}
	}
	return nil
}

// ratio compares two figures repeat by repeat, where they have as many: what a
// machine is capable of changes from one to the next.
func ratio(ours, theirs []float64) float64 {
	if len(ours) != len(theirs) {
		return median(ours) / median(theirs)
	}
	var each []float64
	for i := range ours {
		if theirs[i] == 0 {
			continue
		}
		each = append(each, ours[i]/theirs[i])
	}
	if each == nil {
		return 0
	}
	return median(each)
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v)%2 == 1 {
		return v[len(v)/2]
	}
	return (v[len(v)/2-1] + v[len(v)/2]) / 2
}

func number(v float64) string {
	switch {
	case v == math.Trunc(v) || math.Abs(v) >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}

// report writes table.md, figures.csv and the pictures, and prints the table.
func (b *bench) report(took time.Duration) error {
	f, err := os.Create(filepath.Join(b.out, "figures.csv"))
	if err != nil {
		return err
	}
	defer f.Close()
	w := csv.NewWriter(f)
	w.Write([]string{"row", "server", "hosts", "clients", "unit", "median", "min", "max", "samples"})
	for _, k := range b.figures.keys {
		v := b.figures.samples[k]
		w.Write([]string{k.row, k.peer, strconv.Itoa(k.hosts), strconv.Itoa(k.clients), k.unit,
			number(median(v)), number(slices.Min(v)), number(slices.Max(v)), strconv.Itoa(len(v))})
	}
	w.Flush()
	if err := w.Error(); err != nil {
		return err
	}
	var text strings.Builder
	b.table(&text, took)
	if err := os.WriteFile(filepath.Join(b.out, "table.md"), []byte(text.String()), 0o644); err != nil {
		return err
	}
	return b.pictures()
}

// table is what bench/README.md holds: a line per target, then every figure.
func (b *bench) table(w *strings.Builder, took time.Duration) {
	fmt.Fprintf(w, "%s, %s, %d cores (one for the server, one for the load), Linux %s, `%s`, %s.\nMedians of %d interleaved runs of %s; a ratio is the median of those within one turn.\n\n",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), cpu(), strings.Count(contents("/proc/cpuinfo"), "processor\t"),
		strings.TrimSpace(contents("/proc/sys/kernel/osrelease")), command(), took.Round(time.Second), b.repeats, b.short)
	fmt.Fprintln(w, "| what | target | ddns | compared with | ratio | |\n|---|---|---|---|---|---|")
	for _, t := range b.targets() {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", t.what, t.target, t.ours, t.theirs, t.ratio, t.verdict)
	}
	fmt.Fprintf(w, "\nOf %d measurements %d were disturbed by other processes on the cores or the disk and made again, %d of them in vain; %s went by waiting for the host to give this machine its processors.\n",
		b.taken, b.disturbed, b.loud, b.waited.Round(time.Second))
	if len(b.disk) > 0 {
		fmt.Fprintf(w, "The disk puts a block of 4 KiB on stable storage in %s ms (%s to %s), one after the other.\n",
			number(1e3*median(b.disk)), number(1e3*slices.Min(b.disk)), number(1e3*slices.Max(b.disk)))
	}
	b.details(w)
	fmt.Fprintln(w, "\nServers:")
	for _, p := range []*peer{ddns, dynupdate, bind, knot, nsd, powerDNS, nothing} {
		if slices.ContainsFunc(b.figures.keys, func(k key) bool { return k.peer == p.name }) {
			fmt.Fprintf(w, "* %s: %s; %s\n", p.name, p.version(b), p.durable)
		}
	}
	if len(b.remarks) > 0 {
		fmt.Fprintln(w, "\nSeen during the run:")
		for _, r := range b.remarks {
			fmt.Fprintln(w, "*", strings.ReplaceAll(strings.TrimSpace(r), "\n", " "))
		}
	}
}

// details has one line per row, size and number of clients, one column per server.
func (b *bench) details(w *strings.Builder) {
	var peers []string
	for _, k := range b.figures.keys {
		if !slices.Contains(peers, k.peer) {
			peers = append(peers, k.peer)
		}
	}
	fmt.Fprintf(w, "\n| row | hosts | clients | unit | %s |\n|---|---|---|---|%s\n", strings.Join(peers, " | "), strings.Repeat("---|", len(peers)))
	type line struct {
		row            string
		hosts, clients int
		unit           string
	}
	var lines []line
	for _, k := range b.figures.keys {
		l := line{k.row, k.hosts, k.clients, k.unit}
		if !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	slices.SortStableFunc(lines, func(x, y line) int { return strings.Compare(x.row, y.row) })
	for _, l := range lines {
		fmt.Fprintf(w, "| %s | %d | %d | %s |", l.row, l.hosts, l.clients, l.unit)
		for _, p := range peers {
			v := b.figures.samples[key{l.row, p, l.hosts, l.clients, l.unit}]
			switch len(v) {
			case 0:
				w.WriteString(" |")
			case 1:
				fmt.Fprintf(w, " %s |", number(v[0]))
			default:
				fmt.Fprintf(w, " %s (%s to %s) |", number(median(v)), number(slices.Min(v)), number(slices.Max(v)))
			}
		}
		fmt.Fprintln(w)
	}
}

func command() string {
	args := slices.Clone(os.Args[1:])
	if i := slices.Index(args, "-coredns"); i >= 0 && i+1 < len(args) {
		args = slices.Delete(args, i, i+2)
	}
	return strings.TrimSpace("go run ./bench " + strings.Join(args, " "))
}

func contents(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

func cpu() string {
	s := bufio.NewScanner(strings.NewReader(contents("/proc/cpuinfo")))
	for s.Scan() {
		if name, ok := strings.CutPrefix(s.Text(), "model name\t: "); ok {
			return name
		}
	}
	return "unknown processor"
}
