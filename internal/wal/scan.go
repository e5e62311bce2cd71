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

// Contents is what Scan found.
type Contents struct {
	Epoch   uint64
	Records []Record    // in order
	File    os.FileInfo // what was read, and how long it is
}

// Scan reads the log at path and its records with numbers after the given one; nil
// without an error means that there is no file. A record whose append was cut short is
// not among them. An error means that the file cannot be read, is no log, or that a
// record is missing among those found or after them; with ErrHeader there are Contents
// without records.
func Scan(path string, after uint64) (*Contents, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := new(Contents)
	if c.File, err = f.Stat(); err != nil {
		return nil, err
	}
	if c.Epoch, err = readHeader(f); err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	data := make([]byte, min(c.File.Size(), MaxSize))
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	records, broken := parse(data, c.Epoch, after)
	last := after
	for i, r := range records {
		if i > 0 && r.Number != last+1 {
			return nil, fmt.Errorf("%s is damaged: record %d comes after %d, what was between them cannot be read", path, r.Number, last)
		}
		last = r.Number
	}
	// The next one may have been cut short. One after it was appended when that was
	// on stable storage.
	if broken > last+1 {
		return nil, fmt.Errorf("%s is damaged: its records end with %d, and those up to %d cannot be read", path, last, broken)
	}
	c.Records = records
	return c, nil
}

// parse finds the records in the octets of a file, and the highest number of those that
// are not as they were written.
func parse(data []byte, epoch, after uint64) (records []Record, broken uint64) {
	for at := int64(Block); at+headerSize <= int64(len(data)); {
		r, n := parseRecord(data[at:], epoch)
		if n == 0 {
			broken = max(broken, r.Number)
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
	return records, broken
}

// parseRecord reads a record at the start of b; n is what it takes in the file, 0 when
// there is none. Of one that is not as it was written only the number is told.
func parseRecord(b []byte, epoch uint64) (r Record, n int64) {
	if !bytes.Equal(b[:4], recordMagic[:]) || binary.BigEndian.Uint64(b[8:]) != epoch {
		return Record{}, 0
	}
	r.Number = binary.BigEndian.Uint64(b[16:])
	length := int64(binary.BigEndian.Uint32(b[4:]))
	if length > int64(len(b))-headerSize {
		return r, 0
	}
	payload := b[headerSize : headerSize+length]
	sum := crc32.Update(crc32.Checksum(b[4:24], castagnoli), castagnoli, payload)
	if sum != binary.BigEndian.Uint32(b[24:]) {
		return r, 0
	}
	r.Payload = payload
	return r, octets(int(length))
}
