package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
)

// left are the stock plugins that this binary leaves out, with what each links.
var left = map[string]string{
	"azure":        "Azure SDK",
	"clouddns":     "Google Cloud SDK",
	"etcd":         "etcd client",
	"k8s_external": "Kubernetes client",
	"kubernetes":   "Kubernetes client",
	"nomad":        "Nomad client",
	"route53":      "AWS SDK",
	"trace":        "DataDog and Zipkin clients",
}

func TestDirectivesFollowCoreDNS(t *testing.T) {
	// main has not run, so this is still the list of the released module.
	var want []string
	for _, name := range dnsserver.Directives {
		if left[name] != "" {
			continue
		}
		want = append(want, name)
		if name == "dynupdate" {
			want = append(want, "ddns")
		}
	}
	if len(want)+len(left) != len(dnsserver.Directives)+1 {
		t.Errorf("a plugin in the list of those left out is not one of CoreDNS's, or dynupdate is gone")
	}
	if !slices.Equal(directives, want) {
		t.Errorf("directives differ from CoreDNS's order\n got %v\nwant %v", directives, want)
	}
}

func TestEveryDirectiveIsLinked(t *testing.T) {
	linked := strings.Fields(caddy.DescribePlugins())
	for _, name := range directives {
		if !slices.Contains(linked, name) {
			t.Errorf("directive %s: no plugin registered under that name", name)
		}
	}
	for _, name := range linked {
		if !slices.Contains(directives, name) {
			t.Errorf("plugin %s is linked, but has no place in directives", name)
		}
	}
}
