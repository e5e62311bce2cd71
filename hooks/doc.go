// Package hooks runs commands when a DNS name has changed: the Dispatcher keeps
// what has still to be told, the Runner runs one command as the user its
// definition names, and Server and Client put a socket between the two.
//
// Its one invariant: when a run is reported as ended, every process it started is
// gone.
package hooks
