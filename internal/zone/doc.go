// Package zone is the pure core of ddns: names, RRsets, immutable versions of a
// zone, lookup, RFC 2136 planning, changesets and transfer streams.
//
// Its one invariant: a *Version never changes after it was returned. Everything
// that alters a zone does so through a Candidate, which shares structure with
// the Version it came from and is frozen into the next one.
//
// The package has no I/O, clock, goroutine or lock; time is passed in.
package zone
