// Package wal is a write-ahead log in one file: a ring of numbered records, each
// on stable storage once Append has returned nil.
//
// Its one invariant: a record that was appended is found by Scan, whole, until
// Release let go of it, or Scan says which one is missing. A record begins on
// a block of its own, and a block is not written again before all records in it
// were released; so an append that is cut short can damage nothing but itself.
//
// The blocks are written once when the file is made or grows: an append then
// changes no metadata of the file, and its sync is one write to the disk.
//
// # The file
//
// Block 0 begins with
//
//	magic    8   "ddns wal"
//	version  4   of this layout
//	epoch    8   a random number, new each time the log is taken into use
//	sum      4   CRC-32C of what comes before
//
// and every record begins on a multiple of 4096 octets:
//
//	magic    4   "dwal"
//	length   4   of the payload
//	epoch    8   as in block 0; a record of another epoch is a remainder
//	number   8   one more than that of the record before
//	sum      4   CRC-32C of length, epoch, number and payload
//	payload
//
// with numbers big-endian. What follows the payload up to the next block is
// zero. The epoch is not known to those whose data is in payloads, so that no part
// of a payload can pass for a record.
//
// It knows nothing of what is in a payload, and takes no lock: its caller does.
package wal
