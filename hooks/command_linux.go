package hooks

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many symbolic links a path may go through, as in the kernel.
const maxLinks = 40

// checkExecutable refuses a program that somebody other than root and uid could
// have put there. What it finds stays true until the start: only those two could
// change it.
func checkExecutable(path string, uid uint32) error {
	real, fi, err := walk(path, uid)
	if err != nil {
		return fmt.Errorf("the command %s: %w", path, err)
	}
	switch {
	case !fi.Mode().IsRegular():
		return fmt.Errorf("the command %s is not a regular file", real)
	case fi.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0:
		return fmt.Errorf("the command %s is setuid or setgid: a hook runs as the user its definition names", real)
	case fi.Mode()&0o111 == 0:
		return fmt.Errorf("the command %s is not executable", real)
	}
	return nil
}

// checkCwd refuses a directory that is missing or that somebody else can write:
// programs look for things in their working directory.
func checkCwd(path string, uid uint32) error {
	real, fi, err := walk(path, uid)
	if err != nil {
		return fmt.Errorf("the directory %s: %w", path, err)
	}
	if !fi.IsDir() {
		return fmt.Errorf("the directory %s is not a directory", real)
	}
	if fi.Mode()&0o022 != 0 {
		return fmt.Errorf("the directory %s can be written by others (mode %04o)", real, fi.Mode().Perm())
	}
	return nil
}

// CheckFile refuses a configuration file that somebody other than root and the
// user of this process could have written, or put another in its place.
func CheckFile(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	real, fi, err := walk(abs, ownUID())
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", real)
	}
	return nil
}

// walk goes to path component by component, through symbolic links, and refuses
// each that is not owned by root or uid, or that others can write. A sticky
// directory may be: in it nobody can replace what is not theirs.
func walk(path string, uid uint32) (string, os.FileInfo, error) {
	at, rest, links := "/", strings.Split(path, "/"), 0
	fi, err := os.Lstat(at)
	if err != nil {
		return "", nil, err
	}
	if err := trusted(at, fi, uid, true); err != nil {
		return "", nil, err
	}
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			if fi, err = os.Lstat(at); err != nil {
				return "", nil, err
			}
			continue
		}
		next := filepath.Join(at, part)
		if fi, err = os.Lstat(next); err != nil {
			return "", nil, err
		}
		if err := trusted(next, fi, uid, len(rest) > 0); err != nil {
			return "", nil, err
		}
		if fi.Mode()&os.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil, fmt.Errorf("%s goes through too many symbolic links", path)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
		if fi, err = os.Lstat(at); err != nil {
			return "", nil, err
		}
	}
	return at, fi, nil
}

func trusted(path string, fi os.FileInfo, uid uint32, parent bool) error {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("%s has no owner that can be read", path)
	}
	if st.Uid != 0 && st.Uid != uid {
		if uid == 0 {
			return fmt.Errorf("%s is owned by uid %d: it must be owned by root", path, st.Uid)
		}
		return fmt.Errorf("%s is owned by uid %d: it must be owned by root or uid %d", path, st.Uid, uid)
	}
	if fi.Mode()&os.ModeSymlink != 0 {
		return nil // its mode means nothing; its directory has been checked
	}
	if fi.Mode()&0o022 != 0 && !(fi.IsDir() && parent && fi.Mode()&os.ModeSticky != 0) {
		return fmt.Errorf("%s can be written by others (mode %04o)", path, fi.Mode().Perm())
	}
	return nil
}
