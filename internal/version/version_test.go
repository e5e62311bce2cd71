package version

import (
	"runtime/debug"
	"testing"
)

func TestResolve(t *testing.T) {
	tests := []struct {
		name string
		tag  string
		info *debug.BuildInfo
		want string
	}{
		{"the linker's tag wins over the module version", "v1.2.0", &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.9.0"}}, "1.2.0"},
		{"a binary installed by go install has its module version", "", &debug.BuildInfo{Main: debug.Module{Path: module, Version: "v1.2.3"}}, "1.2.3"},
		{"a plain go build in a checkout has its commit", "", &debug.BuildInfo{
			Main:     debug.Module{Path: module, Version: "(devel)"},
			Settings: []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}, {Key: "vcs.revision", Value: "7dcba1f0123456789"}},
		}, "7dcba1f-dirty"},
		{"a dirty flag without a commit says nothing", "", &debug.BuildInfo{
			Main:     debug.Module{Path: module, Version: "(devel)"},
			Settings: []debug.BuildSetting{{Key: "vcs.modified", Value: "true"}},
		}, "unknown"},
		{"a CoreDNS built through plugin.cfg has it as a dependency", "", &debug.BuildInfo{
			Main: debug.Module{Path: "github.com/coredns/coredns", Version: "(devel)"},
			Deps: []*debug.Module{{Path: "github.com/miekg/dns", Version: "v1.1.73"}, {Path: module, Version: "v1.2.3"}},
		}, "1.2.3"},
		{"a dependency replaced by a checkout has no version", "", &debug.BuildInfo{
			Main: debug.Module{Path: "github.com/coredns/coredns", Version: "(devel)"},
			Deps: []*debug.Module{{Path: module, Version: "v0.0.0", Replace: &debug.Module{Path: "../ddns"}}},
		}, "unknown"},
		{"no build information at all", "", nil, "unknown"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := resolve(tc.tag, tc.info); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
