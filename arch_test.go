package ddns_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// The rules of the house about imports. Tests are free in what they import.

const module = "github.com/coredns-ddns/ddns"

// listed is what "go list -json" says of one package of this module.
type listed struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

// name is the package's place below the module: "" for the root.
func (p listed) name() string { return place(p.ImportPath) }

func place(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

func ours(importPath string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

// standard reports whether importPath belongs to the standard library, whose
// paths alone have no dot in their first element.
func standard(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// in reports whether importPath is one of roots or below one.
func in(importPath string, roots ...string) bool {
	for _, r := range roots {
		if importPath == r || strings.HasPrefix(importPath, r+"/") {
			return true
		}
	}
	return false
}

// floor is where a package stands; imports point to lower floors only.
func floor(name string) int {
	switch {
	case in(name, "internal/zone", "internal/version", "internal/wal", "internal/accept", "internal/plain", "internal/loopback", "proto"):
		return 0
	case in(name, "internal/store", "internal/policy", "internal/resident"):
		return 1
	case in(name, "internal/zonedb"):
		return 2
	case in(name, "internal", "hooks"):
		return 3
	case name == "":
		return 4
	default: // cmd, bench
		return 5
	}
}

// protocol reports whether name is one of the leaves that speak one protocol:
// whatever stands in internal and is no other floor.
func protocol(name string) bool { return in(name, "internal") && floor(name) == 3 }

// pure is what a package without I/O, clock, goroutine or lock cannot need.
var pure = []string{
	"context", "crypto/rand", "database", "io/fs", "io/ioutil", "log", "math/rand", "net",
	"os", "path/filepath", "plugin", "runtime", "sync", "syscall", "time", "unsafe",
}

// engines are what a store may link beside the standard library.
var engines = map[string][]string{
	"internal/store":           nil,
	"internal/store/mem":       nil,
	"internal/store/storetest": nil,
	"internal/store/bolt":      {"go.etcd.io/bbolt"},
	"internal/store/etcd":      {"go.etcd.io/etcd"},
}

// owners says who alone may import a package from elsewhere.
var owners = []struct {
	imports []string
	allowed []string // a name; "cmd/*" is every command
}{
	{[]string{"github.com/coredns/coredns", "github.com/coredns/caddy"}, []string{"", "cmd/coredns", "bench"}},
	{[]string{"github.com/prometheus"}, []string{"", "cmd/coredns", "bench"}},
	{[]string{"os/exec"}, []string{"hooks", "cmd/*", "bench"}},
	{[]string{"go.etcd.io/etcd"}, []string{"internal/store/etcd"}},
	{[]string{"go.etcd.io/bbolt"}, []string{"internal/store/bolt"}},
	{[]string{"google.golang.org/grpc"}, []string{"", "hooks", "proto", "cmd/*"}},
}

// exceptions to owners: the policy file is Corefile syntax, read with caddy's
// own lexer, which depends on nothing else of caddy's.
var exceptions = map[string]string{"internal/policy": "github.com/coredns/caddy/caddyfile"}

// importViolations is one sentence for each import that breaks a rule.
func importViolations(pkgs []listed) []string {
	var out []string
	for _, p := range pkgs {
		for _, imp := range p.Imports {
			if why := refused(p.name(), imp); why != "" {
				out = append(out, fmt.Sprintf("%s imports %s: %s", p.ImportPath, imp, why))
			}
		}
	}
	return out
}

func refused(name, imp string) string {
	if ours(imp) {
		return refusedOurs(name, place(imp))
	}
	if name == "internal/zone" {
		if !standard(imp) && !in(imp, "github.com/miekg/dns") {
			return "zone imports the standard library and miekg/dns only"
		}
		if in(imp, pure...) && imp != "net/netip" {
			return "zone has no I/O, clock, goroutine or lock"
		}
	}
	if in(name, "internal/store") && !standard(imp) {
		engine, known := engines[name]
		if !known {
			return "a new store: say in engines what it may link"
		}
		if !in(imp, engine...) {
			return "a store imports zone, the contract and its engine only"
		}
	}
	for _, o := range owners {
		if in(imp, o.imports...) && exceptions[name] != imp && !slices.ContainsFunc(o.allowed, func(a string) bool {
			return name == a || a != "" && in(name, strings.TrimSuffix(a, "/*"))
		}) {
			return fmt.Sprintf("that belongs to %q", o.allowed)
		}
	}
	return ""
}

func refusedOurs(name, imp string) string {
	switch {
	case imp == "internal/loopback" && name != "bench":
		return "that is for tests and benchmarks"
	case in(name, "internal/store") && imp == "internal/store":
		return "" // a backend implements the contract beside it
	case in(name, "cmd", "bench") && in(imp, "cmd", "bench"):
		return "commands do not import each other"
	case protocol(name) && in(imp, "internal/store"):
		return "a protocol does not know stores"
	case protocol(name) && protocol(imp):
		return "protocols do not know each other"
	case floor(imp) >= floor(name):
		return fmt.Sprintf("imports point down only, and that is floor %d seen from floor %d", floor(imp), floor(name))
	}
	return ""
}

func TestImportsPointDown(t *testing.T) {
	pkgs := list(t, "./...")
	if len(pkgs) < 5 {
		t.Fatalf("go list found only %d packages", len(pkgs))
	}
	for _, v := range importViolations(pkgs) {
		t.Error(v)
	}
}

func TestImportRulesBite(t *testing.T) {
	tests := []struct {
		name, imp string
		refused   bool
	}{
		{"internal/zone", "github.com/miekg/dns", false},
		{"internal/zone", "net/netip", false},
		{"internal/zone", "net", true},
		{"internal/zone", "sync/atomic", true},
		{"internal/zone", "time", true},
		{"internal/zone", "golang.org/x/net/idna", true},
		{"internal/zone", module + "/internal/store", true},
		{"internal/store/bolt", "go.etcd.io/bbolt", false},
		{"internal/store/bolt", module + "/internal/store", false},
		{"internal/store/bolt", module + "/internal/store/mem", true},
		{"internal/store/mem", "go.etcd.io/bbolt", true},
		{"internal/store/redis", "example.org/redis", true},
		{"internal/policy", "github.com/coredns/caddy/caddyfile", false},
		{"internal/policy", "github.com/coredns/caddy", true},
		{"internal/policy", module + "/internal/store", true},
		{"internal/zonedb", module + "/internal/store", false},
		{"internal/zonedb", module, true},
		{"internal/zonedb", module + "/internal/loopback", true},
		{"", module + "/internal/loopback", true},
		{"bench", module + "/internal/loopback", false},
		{"internal/zonedb", "github.com/prometheus/client_golang/prometheus", true},
		{"internal/dyndns2", module + "/internal/zonedb", false},
		{"internal/dyndns2", module + "/internal/store", true},
		{"internal/dyndns2", module + "/internal/acmedns", true},
		{"internal/dyndns2", "os/exec", true},
		{"hooks", "os/exec", false},
		{"hooks", "github.com/coredns/coredns/plugin", true},
		{"", "os/exec", true},
		{"", "github.com/coredns/coredns/plugin", false},
		{"", module + "/hooks", false},
		{"cmd/ddns-hookd", "os/exec", false},
		{"cmd/ddns-hookd", "github.com/coredns/coredns/plugin", true},
		{"cmd/coredns", module, false},
	}
	for _, tc := range tests {
		got := importViolations([]listed{{ImportPath: path.Join(module, tc.name), Imports: []string{tc.imp}}})
		if (len(got) > 0) != tc.refused {
			t.Errorf("%q importing %s: got %v, want refused %v", tc.name, tc.imp, got, tc.refused)
		}
	}
}

// The commands stay free of what only large deployments of CoreDNS need, and a
// privileged one free of CoreDNS altogether.
func TestWhatCommandsLink(t *testing.T) {
	// Of AWS only what the stock dnssec plugin brings: it can read its keys from
	// AWS Secrets Manager, and there is no building it without.
	clouds := []string{
		"cloud.google.com", "github.com/Azure", "github.com/aws/aws-sdk-go-v2/service/route53", "github.com/DataDog",
		"github.com/hashicorp/nomad", "github.com/openzipkin", "google.golang.org/api", "k8s.io",
	}
	host := []string{"github.com/aws", "github.com/coredns/coredns", "github.com/prometheus", "go.etcd.io"}
	for command, forbidden := range map[string][]string{
		"coredns":    clouds,
		"ddns-hookd": append(host, clouds...),
		"ddns-token": append(host, clouds...),
	} {
		linked := list(t, "-deps", "./cmd/"+command)
		if len(linked) < 50 {
			t.Errorf("cmd/%s links only %d packages: is it there?", command, len(linked))
		}
		for _, p := range linked {
			if in(p.ImportPath, forbidden...) {
				t.Errorf("cmd/%s links %s", command, p.ImportPath)
			}
		}
	}
}

// list runs go list in the root of the module.
func list(t *testing.T, args ...string) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-json=ImportPath,Imports,Standard"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v", strings.Join(args, " "), err)
	}
	var pkgs []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}
