// Package bolt keeps the zones of one deployment in one bbolt file, with a
// write-ahead log beside it.
//
// Its one invariant: what is read back is, to the octet, what one transaction
// wrote whole, or an error says that it is not. Every value carries a checksum,
// every zone the sum of its values' checksums, and the pages of a file are
// checked before bbolt, which trusts them, gets to see it.
//
// # The file
//
// Buckets at the root, all numbers big-endian:
//
//	ddns                  format -> version of this layout, one octet
//	                      log -> epoch of the log, 8 octets, and number of the
//	                      newest of its records that is in here, 8 octets
//	zones                 origin -> state of the zone (see appendState)
//	nodes ORIGIN          owner key -> zone.Node
//	journal ORIGIN        position, 8 octets -> zone.Changeset.Encode
//	cursors FOLLOWER      origin -> position, 8 octets
//	items FOLLOWER        key -> value
//
// where the last four kinds begin with one octet that tells them apart: n, j, c
// and i. Each value ends in the CRC-32C of its key and what comes before. Owner
// keys are relative to the origin, their labels in order from the root, so that a
// name and those below it are neighbours on a page.
//
// # The log
//
// FILE.wal (package wal) makes an ordinary commit durable with one write and one sync;
// bbolt needs two syncs and rewrites pages from leaf to root. What the log holds is
// kept in memory too, where readers see it on top of the database, and moved to the
// database a second later, some commits a transaction, or all of it in one when the
// log is half full. Every transaction of another kind moves it first, so that the
// database is never ahead of itself. A Close leaves the database alone.
//
// The database names its log by the epoch. Where they do not belong together, as
// when a backup was put in place beside the log of what it replaced, Open refuses.
//
// # After a failed write
//
// An error does not mean that nothing was written, and what the page cache holds
// after a failed sync need not be on the disk. So the handle is given up. The
// next call drops the page cache, checks the files and opens them again, moves what
// the log holds, and proves with a new epoch of it that both take writes; until then
// every call fails. Meanwhile a lock of our own keeps other processes away.
package bolt
