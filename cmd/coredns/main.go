// Command coredns is CoreDNS with the ddns plugin compiled in.
//
// It takes CoreDNS's own flags (-conf, -dns.port, -plugins, -version, …) and runs
// every stock plugin except those that link the client library of a cloud or of
// a cluster; plugins.go holds the list. Its one invariant: directives run in
// CoreDNS's own order, with ddns directly after dynupdate.
package main

import (
	"fmt"
	"os"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	"github.com/coredns-ddns/ddns/internal/version"
)

func main() {
	// coremain has registered the server type in its init; Caddy reads the
	// list of directives only when it loads a Corefile, so this is in time.
	if err := dnsserver.SetDirectives(directives); err != nil {
		fmt.Fprintln(os.Stderr, "coredns:", err)
		os.Exit(1)
	}
	// CoreDNS shows this word after its own version and in the label
	// "revision" of coredns_build_info. Its commit would say nothing here: the
	// first line already names the released module that is linked in.
	coremain.GitCommit = "ddns-" + version.String()
	coremain.Run()
}
