package wal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
)

// Record is one record as Scan found it.
type Record struct {
	Number  uint64
	Payload []byte
}

// Scan reads the epoch of the log at path and its records with numbers after the given
// one, in order; found is false when there is no file. A record whose append was
// cut short is not among them. An error means that the file cannot be read, is no
// log, or that a record is missing among those found; ErrHeader is told apart.
func Scan(path string, after uint64) (epoch uint64, records []Record, found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil, false, nil
	}
	if err != nil {
		return 0, nil, false, err
	}
	defer f.Close()
	if epoch, err = readHeader(f); err != nil {
		return 0, nil, true, fmt.Errorf("%s: %w", path, err)
	}
	fi, err := f.Stat()
	if err != nil {
		return 0, nil, true, err
	}
	data := make([]byte, min(fi.Size(), MaxSize))
	if _, err := io.ReadFull(f, data); err != nil {
		return 0, nil, true, fmt.Errorf("reading %s: %w", path, err)
	}
	records = parse(data, epoch, after)
	for i, r := range records {
		if i > 0 && r.Number != records[i-1].Number+1 {
			return 0, nil, true, fmt.Errorf("%s is damaged: record %d comes after %d, what was between them cannot be read", path, r.Number, records[i-1].Number)
		}
	}
	return epoch, records, true, nil
}

// parse finds the records in the octets of a file.
func parse(data []byte, epoch, after uint64) []Record {
	var records []Record
	for at := int64(Block); at+headerSize <= int64(len(data)); {
		r, n := parseRecord(data[at:], epoch)
		if n == 0 {
			at += Block
			continue
		}
		if r.Number > after {
			r.Payload = bytes.Clone(r.Payload)
			records = append(records, r)
		}
		at += n
	}
	slices.SortFunc(records, func(a, b Record) int { return cmp.Compare(a.Number, b.Number) })
	return records
}

// parseRecord reads a record at the start of b; n is what it takes in the file, 0 when
// there is none.
func parseRecord(b []byte, epoch uint64) (r Record, n int64) {
	if !bytes.Equal(b[:4], recordMagic[:]) || binary.BigEndian.Uint64(b[8:]) != epoch {
		return Record{}, 0
	}
	length := int64(binary.BigEndian.Uint32(b[4:]))
	if length > int64(len(b))-headerSize {
		return Record{}, 0
	}
	r = Record{Number: binary.BigEndian.Uint64(b[16:]), Payload: b[headerSize : headerSize+length]}
	sum := crc32.Update(crc32.Checksum(b[4:24], castagnoli), castagnoli, r.Payload)
	if sum != binary.BigEndian.Uint32(b[24:]) {
		return Record{}, 0
	}
	return r, octets(int(length))
}
