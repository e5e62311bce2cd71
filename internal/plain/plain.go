// Package plain reads files that the operator names, at a start and while a server
// runs. Whatever is found under such a name, it neither waits nor reads without end: a
// pipe without a writer would hold up every later reload, and the end of the process.
package plain

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Certificates bounds a file of certificates or a key, in octets: all the authorities
// that a distribution trusts come to a sixteenth of it.
const Certificates = 4 << 20

// ErrIrregular is wrapped by the error of what is no regular file: a directory, a pipe,
// a device.
var ErrIrregular = errors.New("not a regular file")

// Open opens a regular file for reading. Its errors are *fs.PathError.
func Open(path string) (*os.File, fs.FileInfo, error) {
	// To open a pipe would wait for a writer without it. Regular files do not mind.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		if errors.Is(err, syscall.ENXIO) { // a socket
			err = &fs.PathError{Op: "open", Path: path, Err: ErrIrregular}
		}
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: ErrIrregular}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Read returns what is in a regular file of at most so many octets. Its errors are
// *fs.PathError.
func Read(path string, most int64) ([]byte, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tooLarge := &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("larger than %d octets", most)}
	if info.Size() > most {
		return nil, tooLarge
	}
	// Its size is only where to begin: it may be growing.
	text := make([]byte, 0, info.Size()+1)
	for {
		n, err := f.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case int64(len(text)) > most:
			return nil, tooLarge
		case err == io.EOF:
			return text, nil
		case err != nil:
			return nil, err
		case len(text) == cap(text):
			text = append(text, 0)[:len(text)]
		}
	}
}
