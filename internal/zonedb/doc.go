// Package zonedb is the heart of ddns: the one write path that every change to a
// zone takes, whatever protocol asked for it.
//
// Its one invariant is an order. A change is planned, checked, made durable,
// published, announced, and only then answered; no step is taken before the
// one in front of it is done. So an acknowledged change is durable, a visible one
// is durable, an announced one is visible, and a failed one is invisible.
package zonedb

import "errors"

// ErrUnavailable is wrapped by the errors of updates that the store could not
// take. For an update that was in the failed commit the outcome is unknown: it may
// turn out durable once the store has recovered. The caller may try again.
var ErrUnavailable = errors.New("store unavailable")

// ErrBusy means that the queue of updates is full. Nothing was done.
var ErrBusy = errors.New("too many updates are waiting")

// ErrStopped means that the database no longer takes updates because the
// process is going down. Nothing was done.
var ErrStopped = errors.New("shutting down")

// ErrNoZone means that the zone is not loaded.
var ErrNoZone = errors.New("zone not loaded")
