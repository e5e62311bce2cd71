//go:build linux

package hooks_test

import (
	"fmt"
	"testing"

	"github.com/coredns-ddns/ddns/hooks"
)

// One run of /bin/true: what a hook costs beside what it does.
func BenchmarkRun(b *testing.B) {
	for _, groups := range []bool{false, true} {
		b.Run(fmt.Sprintf("ProcessGroups=%v", groups), func(b *testing.B) {
			r := hooks.NewRunner(hooks.RunnerOptions{ProcessGroups: groups})
			defer r.Close(b.Context())
			s := hooks.Spec{Hook: "bench", Command: []string{"/bin/true"}, User: "nobody"}
			for b.Loop() {
				if o := r.Run(b.Context(), s); o.Sentence() != "" {
					b.Fatal(o.Sentence())
				}
			}
		})
	}
}
