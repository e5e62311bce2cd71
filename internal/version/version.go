// Package version says which build of ddns is running.
//
// Its one invariant: String is never empty and never guesses. It is the version
// the linker was told, else what the Go toolchain recorded, else "unknown".
package version

import (
	"runtime/debug"
	"strings"
	"sync"
)

const module = "github.com/coredns-ddns/ddns"

// tag is what "git describe" said of the checkout that was built; the Makefile
// sets it with -ldflags "-X github.com/coredns-ddns/ddns/internal/version.tag=…".
var tag string

// String is the version of ddns in this binary, without the leading "v":
// "1.2.0", "1.2.0-3-g7dcba1f-dirty", "7dcba1f" for a checkout without tags, or
// "unknown".
var String = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return resolve(tag, info)
})

// resolve prefers the linker's word, because a build from a checkout records
// only "(devel)". In a CoreDNS built through plugin.cfg this module is one of
// the dependencies, and there the module version is the truth.
func resolve(tag string, info *debug.BuildInfo) string {
	if tag != "" {
		return strings.TrimPrefix(tag, "v")
	}
	if info == nil {
		return "unknown"
	}
	if info.Main.Path == module {
		if known(info.Main.Version) {
			return strings.TrimPrefix(info.Main.Version, "v")
		}
		return revision(info.Settings)
	}
	for _, dep := range info.Deps {
		if dep.Path == module && dep.Replace == nil && known(dep.Version) {
			return strings.TrimPrefix(dep.Version, "v")
		}
	}
	return "unknown"
}

// known reports whether v names a version: a replaced or local module has none.
func known(v string) bool { return v != "" && v != "(devel)" }

// revision is the commit that the toolchain recorded, abbreviated as git does.
func revision(settings []debug.BuildSetting) string {
	rev, dirty := "unknown", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 7:
			rev = s.Value[:7]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if rev == "unknown" {
		return rev
	}
	return rev + dirty
}
