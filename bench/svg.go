package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// curves are the pictures: a row, over the number of hosts.
var curves = []struct{ row, title, file string }{
	{"curve-query", "queries per second", "queries"},
	{"curve-http", "µs per durable update over HTTP", "updates"},
	{"memory", "octets of memory per host", "memory"},
	{"load", "seconds from start to answer", "load"},
	{"axfr", "seconds per AXFR", "axfr"},
	{"disk", "octets on disk per host", "disk"},
	{"disk-growth", "octets on disk per update", "journal"},
}

var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"}

// pictures writes one SVG per curve that was measured.
func (b *bench) pictures() error {
	for _, c := range curves {
		lines := map[string][][2]float64{}
		var names []string
		for _, k := range b.figures.keys {
			if k.row != c.row && !(c.row == "curve-http" && k.row == "curve-update") || k.row == "load" && k.hosts == 1 {
				continue
			}
			name := k.peer
			if k.clients > 0 && c.file == "updates" {
				name = fmt.Sprintf("%s, %d clients", k.peer, k.clients)
			}
			if lines[name] == nil {
				names = append(names, name)
			}
			lines[name] = append(lines[name], [2]float64{float64(k.hosts), median(b.figures.samples[k])})
		}
		if len(names) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(b.out, c.file+".svg"), []byte(picture(c.title, names, lines)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// picture draws lines on two logarithmic axes.
func picture(title string, names []string, lines map[string][][2]float64) string {
	const width, height, left, right, top, bottom = 640.0, 400.0, 70.0, 150.0, 40.0, 40.0
	low, high := math.Inf(1), math.Inf(-1)
	for _, points := range lines {
		for _, p := range points {
			if p[1] > 0 {
				low, high = min(low, p[1]), max(high, p[1])
			}
		}
	}
	if high < low {
		low, high = 1, 10
	}
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high)+1e-9)
	if from == to {
		to++
	}
	x := func(v float64) float64 { return left + (math.Log10(v)-3)/3*(width-left-right) }
	y := func(v float64) float64 {
		return height - bottom - (math.Log10(max(v, math.Pow(10, from)))-from)/(to-from)*(height-top-bottom)
	}
	var w strings.Builder
	fmt.Fprintf(&w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", width, height)
	fmt.Fprintf(&w, `<rect width="100%%" height="100%%" fill="white"/><text x="%g" y="20" font-size="14">%s</text>`+"\n", left, title)
	for e := 3; e <= 6; e++ {
		v := math.Pow(10, float64(e))
		fmt.Fprintf(&w, `<line x1="%.1f" y1="%g" x2="%.1f" y2="%g" stroke="#ddd"/><text x="%.1f" y="%g" text-anchor="middle">%s</text>`+"\n",
			x(v), top, x(v), height-bottom, x(v), height-bottom+16, []string{"1 k", "10 k", "100 k", "1 M hosts"}[e-3])
	}
	for e := from; e <= to; e++ {
		v := math.Pow(10, e)
		fmt.Fprintf(&w, `<line x1="%g" y1="%.1f" x2="%g" y2="%.1f" stroke="#ddd"/><text x="%g" y="%.1f" text-anchor="end">%g</text>`+"\n",
			left, y(v), width-right, y(v), left-6, y(v)+4, v)
	}
	for i, name := range names {
		points := slices.Clone(lines[name])
		slices.SortFunc(points, func(a, b [2]float64) int { return int(a[0] - b[0]) })
		colour := colours[i%len(colours)]
		var path strings.Builder
		for _, p := range points {
			fmt.Fprintf(&path, "%.1f,%.1f ", x(p[0]), y(p[1]))
			fmt.Fprintf(&w, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(p[0]), y(p[1]), colour)
		}
		fmt.Fprintf(&w, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.TrimSpace(path.String()), colour)
		fmt.Fprintf(&w, `<text x="%g" y="%g" fill="%s">%s</text>`+"\n", width-right+10, top+16*float64(i+1), colour, name)
	}
	w.WriteString("</svg>\n")
	return w.String()
}
