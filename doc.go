// Package ddns is a CoreDNS plugin that turns CoreDNS into a complete dynamic
// DNS service: it owns zones, answers for them from memory, and accepts changes
// over HTTP and DNS UPDATE.
//
// Its one invariant: everything that changes a zone passes through the write
// path of internal/zonedb, so an acknowledged change is durable and visible.
package ddns
