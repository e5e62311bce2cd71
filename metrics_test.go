package ddns_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
)

const metricPrefix = "coredns_ddns_"

// TestReadmeListsTheMetrics compares the names and labels there with what the
// package has registered.
func TestReadmeListsTheMetrics(t *testing.T) {
	written := make(map[string]string)
	for _, m := range regexp.MustCompile("`("+metricPrefix+"[a-z_]+)(?:\\{([a-z, ]*)\\})?`").FindAllStringSubmatch(section(t, "README.md", "Metrics"), -1) {
		if _, twice := written[m[1]]; twice {
			t.Errorf("README lists %s twice", m[1])
		}
		written[m[1]] = m[2]
	}

	// The registry describes what it holds, also what has no value yet.
	described := make(chan *prometheus.Desc)
	go func() {
		defer close(described)
		prometheus.DefaultRegisterer.(*prometheus.Registry).Describe(described)
	}()
	registered := make(map[string]string)
	desc := regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", (?:unit: "[^"]*", )?constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
	for d := range described {
		m := desc.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("cannot read %v", d)
		}
		if !strings.HasPrefix(m[1], metricPrefix) {
			continue
		}
		if m[2] == "" || m[3] != "" {
			t.Errorf("%s: help %q, constant labels %q", m[1], m[2], m[3])
		}
		registered[m[1]] = strings.ReplaceAll(m[4], ",", ", ")
	}
	if len(registered) < 20 {
		t.Fatalf("found %d metrics", len(registered))
	}
	for _, name := range slices.Sorted(maps.Keys(registered)) {
		labels, ok := written[name]
		switch {
		case !ok:
			t.Errorf("README does not list %s{%s}", name, registered[name])
		case labels != registered[name]:
			t.Errorf("README has %s{%s}, the package %s{%s}", name, labels, name, registered[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(written)) {
		if _, ok := registered[name]; !ok {
			t.Errorf("README lists %s, which the package does not have", name)
		}
	}
}

var names int // ever used by exercised

// exercised runs a server through everything that counts something, for many names
// and clients, and returns a scrape of our metrics.
func exercised(t *testing.T) (text []byte, values map[string]map[string]bool) {
	t.Helper()
	command, output, _ := hookScript(t)
	o := signedOptions()
	o.block += "\ntransfer {\n to *\n}"
	o.policy += hookBlock(command)
	s := start(t, o)
	for range 40 {
		names++
		i := names % 250
		name := fmt.Sprintf("secretname%d", names)
		s.update(name, fmt.Sprintf("192.0.2.%d", i+1), fmt.Sprintf("2001:db8::%d", i+1))
		s.ask(name+".dyn.example.org", dns.TypeA)
		s.ask("no"+name+".dyn.example.org", dns.TypeA)
		s.call("GET", updatePath(name, "127.0.0.1"))
		s.call("GET", "/update?fqdn="+name+".example.net&ip=192.0.2.1")
		s.call("GET", "/"+name)
		s.call("GET", updatePath(name, "192.0.2.1"), "Authorization", fmt.Sprintf("Bearer secretname%d", i))
		sent(t, s.dial("udp"), packed(t, adding(t, name+"u.dyn.example.org. 60 A 192.0.2.1"), tsigRecord(testKey, time.Now(), 300), testSecret))
		m := adding(t, "a.example.net. 60 A 192.0.2.1")
		m.Question[0].Name = name + ".dyn.example.org."
		sent(t, s.dial("udp"), packed(t, m, tsigRecord(testKey, time.Now(), 300), testSecret))
	}
	s.call("PUT", "/update")
	s.call("GET", "/reload")
	s.transfer(0)
	s.transfer(1)
	s.transfer(s.serial())
	eventuallyRan(t, output)

	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	var b bytes.Buffer
	values = make(map[string]map[string]bool)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), metricPrefix) {
			continue
		}
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if values[l.GetName()] == nil {
					values[l.GetName()] = make(map[string]bool)
				}
				values[l.GetName()][l.GetValue()] = true
			}
		}
	}
	return b.Bytes(), values
}

// eventuallyRan waits until a hook has noted something.
func eventuallyRan(t *testing.T, output string) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for time.Now().Before(deadline) {
		if info, err := os.Stat(output); err == nil && info.Size() > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("no hook ran")
}

func TestMetricsAreCleanAndTheirLabelsBounded(t *testing.T) {
	text, values := exercised(t)
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	t.Run("promtool", func(t *testing.T) {
		if _, err := exec.LookPath("promtool"); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal("promtool is not installed, and CI is set")
			}
			t.Skip("promtool is not installed: make clients")
		}
		cmd := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
		cmd.Stdin = bytes.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
	// Forty more names and wrong tokens are not as many values more; a result that
	// did not happen the first time may be new.
	_, more := exercised(t)
	for label, have := range more {
		if len(have) > len(values[label])+5 {
			t.Errorf("label %s: %v became %v", label, slices.Sorted(maps.Keys(values[label])), slices.Sorted(maps.Keys(have)))
		}
		for v := range have {
			if strings.Contains(v, "secretname") || strings.Contains(v, "192.0.2.") || strings.Contains(v, "2001:db8:") || strings.Contains(v, "127.0.0.1") || strings.Contains(v, testKey) {
				t.Errorf("label %s has the value %q, which a client chose", label, v)
			}
		}
	}
	if !values["zone"]["dyn.example.org."] || !values["hook"]["note"] || !values["zone"]["other"] {
		t.Errorf("what should be there is not: %v", values)
	}
}
