// Package bolt keeps the zones of one deployment in one bbolt file.
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
// # After a failed write
//
// bbolt's error does not mean that nothing was written, and what the page cache
// holds after a failed sync need not be on the disk. So the handle is given up. The
// next call drops the page cache, checks the file and opens it again, and proves
// with an empty transaction that it takes writes; until then every call
// fails. Meanwhile a lock of our own keeps other processes away.
package bolt
