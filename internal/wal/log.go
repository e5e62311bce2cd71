package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// Block is what a record begins on a multiple of, in octets: the least that file
// systems and disks write at once.
const Block = 4096

// MinSize and MaxSize bound a log's file, in octets.
const (
	MinSize = 64 << 10
	MaxSize = 1 << 30
)

const (
	fileMagic  = "ddns wal"
	version    = 1
	fileHeader = len(fileMagic) + 4 + 8 + 4
	headerSize = 4 + 4 + 8 + 8 + 4 // of a record
)

var recordMagic = [4]byte{'d', 'w', 'a', 'l'}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrHeader is wrapped when the first block of a log was not written whole, as when
// taking it into use is cut short. Its records are then of no use.
var ErrHeader = errors.New("its first block is damaged")

// ErrFull is Append's answer when records have to be released first. Nothing was
// written.
var ErrFull = errors.New("the log is full")

// Log is a log in use. Its methods may not be called at once, but for Extend.
type Log struct {
	file  *os.File
	info  os.FileInfo // of file, to know it by
	path  string
	epoch uint64
	size  int64 // octets that were written, so that appends change no metadata
	buf   []byte

	head    int64  // where the next record goes
	tail    int64  // where the oldest one not released begins
	last    uint64 // number of the newest record
	freed   uint64 // number of the newest one released
	wrapped bool   // head is before tail
}

// Create makes a log at path whose first record gets the number after last, or takes
// the one that is there into use, whose records are lost by it. The epoch must be
// one that was never used.
func Create(path string, size int64, epoch, last uint64) (*Log, error) {
	size = min(max(size, MinSize), MaxSize) / Block * Block
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		f, err = newFile(path, size, epoch)
	} else if err == nil {
		err = reuse(f, epoch)
	}
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Log{file: f, info: fi, path: path, epoch: epoch, size: fi.Size() / Block * Block, head: Block, tail: Block, last: last, freed: last}, nil
}

// reuse gives a file that is there another epoch.
func reuse(f *os.File, epoch uint64) error {
	if _, err := readHeader(f); err != nil && !errors.Is(err, ErrHeader) {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() < MinSize { // cut off by somebody
		if err := zero(f, fi.Size(), MinSize); err != nil {
			return err
		}
	}
	if _, err := f.WriteAt(appendHeader(nil, epoch), 0); err != nil {
		return err
	}
	return f.Sync()
}

// newFile makes an empty log that is there whole or not at all, also after a power
// cut: written under another name, synced, and renamed.
func newFile(path string, size int64, epoch uint64) (f *os.File, err error) {
	dir := filepath.Dir(path)
	// The same name each time: what a process left that was killed here is used again.
	f, err = os.OpenFile(filepath.Join(dir, "."+filepath.Base(path)+".new"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := zero(f, 0, size); err != nil {
		return f, err
	}
	if _, err := f.WriteAt(appendHeader(nil, epoch), 0); err != nil {
		return f, err
	}
	if err := f.Sync(); err != nil {
		return f, err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return f, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return f, err
	}
	return f, errors.Join(d.Sync(), d.Close())
}

func appendHeader(b []byte, epoch uint64) []byte {
	b = append(b, fileMagic...)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint64(b, epoch)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readHeader returns the epoch of a log, and refuses what is none, or one of a newer
// layout.
func readHeader(r io.ReaderAt) (epoch uint64, err error) {
	b := make([]byte, fileHeader)
	if n, err := r.ReadAt(b, 0); err != nil && (n < len(fileMagic) || !errors.Is(err, io.EOF)) {
		if !errors.Is(err, io.EOF) {
			return 0, err
		}
		return 0, fmt.Errorf("it is not a log of this program: %w", err)
	}
	if string(b[:len(fileMagic)]) != fileMagic {
		return 0, errors.New("it is not a log of this program")
	}
	body, sum := b[:fileHeader-4], binary.BigEndian.Uint32(b[fileHeader-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return 0, ErrHeader
	}
	if v := binary.BigEndian.Uint32(b[len(fileMagic):]); v != version {
		return 0, fmt.Errorf("it is a log of layout %d, this program knows %d", v, version)
	}
	return binary.BigEndian.Uint64(b[len(fileMagic)+4:]), nil
}

func zero(w io.WriterAt, from, to int64) error {
	zeros := make([]byte, 64<<10)
	for at := from; at < to; at += int64(len(zeros)) {
		if _, err := w.WriteAt(zeros[:min(int64(len(zeros)), to-at)], at); err != nil {
			return err
		}
	}
	return nil
}

// octets is what a record takes in the file.
func octets(payload int) int64 {
	return (int64(headerSize+payload) + Block - 1) / Block * Block
}

// Fits reports whether the log has room for several payloads of so many octets when
// it is empty. One that does not fit is better kept elsewhere.
func (l *Log) Fits(payload int) bool { return octets(payload) <= (l.size-Block)/4 }

// place finds room for a record and moves head there; ok is false when there is none.
func (l *Log) place(n int64) (ok bool) {
	switch {
	case l.last == l.freed: // empty: the same few blocks again and again
		l.head, l.tail, l.wrapped = Block, Block, false
		return l.head+n <= l.size
	case l.wrapped:
		return l.head+n <= l.tail
	case l.head+n <= l.size:
		return true
	case Block+n <= l.tail:
		l.head, l.wrapped = Block, true
		return true
	}
	return false
}

// Append writes a record. nil means that it is on stable storage; ErrFull that
// nothing was written. After any other error the outcome is unknown, and the log
// must not be used any more.
func (l *Log) Append(payload []byte) (number uint64, err error) {
	n := octets(len(payload))
	if !l.place(n) {
		return 0, ErrFull
	}
	if int64(cap(l.buf)) < n {
		l.buf = make([]byte, n, max(n, 64<<10))
	}
	b := l.buf[:n]
	used := putRecord(b, l.epoch, l.last+1, payload)
	clear(b[used:])
	if _, err := l.file.WriteAt(b, l.head); err != nil {
		return 0, err
	}
	if err := fdatasync(l.file); err != nil {
		return 0, &os.PathError{Op: "fdatasync", Path: l.path, Err: err}
	}
	l.head += n
	l.last++
	return l.last, nil
}

func putRecord(b []byte, epoch, number uint64, payload []byte) int {
	copy(b, recordMagic[:])
	binary.BigEndian.PutUint32(b[4:], uint32(len(payload)))
	binary.BigEndian.PutUint64(b[8:], epoch)
	binary.BigEndian.PutUint64(b[16:], number)
	sum := crc32.Update(crc32.Checksum(b[4:24], castagnoli), castagnoli, payload)
	binary.BigEndian.PutUint32(b[24:], sum)
	return headerSize + copy(b[headerSize:], payload)
}

// Mark is a place in the log: all records up to it.
type Mark struct {
	head int64
	last uint64
}

// Mark is the place after the newest record.
func (l *Log) Mark() Mark { return Mark{l.head, l.last} }

// Release lets go of the records up to a mark: their blocks may be written again.
func (l *Log) Release(m Mark) {
	if m.last <= l.freed {
		return
	}
	l.freed = m.last
	if m.head < l.tail {
		l.wrapped = false // the mark is behind the turn
	}
	l.tail = m.head
}

// Pending reports how many octets of the file are taken by records not
// released, and by what is lost at the turn.
func (l *Log) Pending() int64 {
	switch {
	case l.last == l.freed:
		return 0
	case l.wrapped:
		return l.size - l.tail + l.head - Block
	}
	return l.head - l.tail
}

// Size is the length of the file in octets.
func (l *Log) Size() int64 { return l.size }

// Extend writes the blocks up to size, which Grown then takes into use. It may run
// beside the other methods. It uses a descriptor of its own: an error of the disk is
// told once for each, and must not be taken from an Append.
func (l *Log) Extend(size int64) error {
	f, err := os.OpenFile(l.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if found, err := f.Stat(); err != nil || !os.SameFile(l.info, found) {
		return fmt.Errorf("%s has been replaced", l.path)
	}
	if err := zero(f, l.size, min(size, MaxSize)); err != nil {
		return err
	}
	return f.Sync()
}

// Shrink takes back what an Extend that failed has written.
func (l *Log) Shrink() { _ = l.file.Truncate(l.size) }

// Grown tells that Extend has been done up to size.
func (l *Log) Grown(size int64) { l.size = max(l.size, min(size, MaxSize)) }

// Present reports whether the file is still found under its name: what is written to
// one that was removed, moved or replaced would not be found at the next start.
func (l *Log) Present() bool {
	fi, err := os.Stat(l.path)
	return err == nil && os.SameFile(fi, l.info)
}

// File is what the log's file is known by.
func (l *Log) File() os.FileInfo { return l.info }

// Close gives up the file and leaves it where it is.
func (l *Log) Close() error { return l.file.Close() }
