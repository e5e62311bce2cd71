package wal

import (
	"encoding/binary"
	"hash/crc32"
)

// Seams for the tests of the stored form.
var (
	Parse        = parse
	PutRecord    = putRecord
	AppendHeader = appendHeader
)

// Sum appends the checksum of a header.
func Sum(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}
