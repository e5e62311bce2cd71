package hooks

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A stat is what /proc/PID/stat says of a process; proc(5).
type stat struct {
	pid, ppid, pgrp, session int
	state                    byte
	start                    uint64 // clock ticks after boot
}

func (s *stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, err
	}
	return parseStat(pid, b)
}

// parseStat reads the fields after the last parenthesis: the name before it may
// hold anything, spaces and parentheses too.
func parseStat(pid int, b []byte) (stat, error) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return stat{}, fmt.Errorf("/proc/%d/stat has no name", pid)
	}
	f := bytes.Fields(b[i+1:])
	if len(f) < 20 || len(f[0]) != 1 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	s := stat{pid: pid, state: f[0][0]}
	var errs [4]error
	s.ppid, errs[0] = strconv.Atoi(string(f[1]))
	s.pgrp, errs[1] = strconv.Atoi(string(f[2]))
	s.session, errs[2] = strconv.Atoi(string(f[3]))
	s.start, errs[3] = strconv.ParseUint(string(f[19]), 10, 64)
	return s, errors.Join(errs[:]...)
}

// processes reads every process; those that end meanwhile are left out.
func processes() (map[int]stat, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := make(map[int]stat, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			all[pid] = s
		}
	}
	return all, nil
}

// realUID returns the real uid of a process, also of a zombie.
func realUID(pid int) (uint32, bool) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0, false
	}
	_, rest, ok := bytes.Cut(b, []byte("\nUid:"))
	if !ok {
		return 0, false
	}
	f := bytes.Fields(rest)
	if len(f) == 0 {
		return 0, false
	}
	uid, err := strconv.ParseUint(string(f[0]), 10, 32)
	return uint32(uid), err == nil
}

// hold opens the process that pid and start name together, so that a signal
// cannot reach another that got the number meanwhile.
func hold(pid int, start uint64) (pidfd int, err error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, err
	}
	if s, err := readStat(pid); err != nil || s.start != start {
		unix.Close(fd)
		return -1, unix.ESRCH
	}
	return fd, nil
}

func signalProcess(pid int, start uint64, sig unix.Signal) {
	fd, err := hold(pid, start)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	unix.PidfdSendSignal(fd, sig, nil, 0)
}

// reap takes the exit status of an adopted zombie.
func reap(pid int, start uint64) bool {
	fd, err := hold(pid, start)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var info unix.Siginfo
	return unix.Waitid(unix.P_PIDFD, fd, &info, unix.WEXITED|unix.WNOHANG, nil) == nil
}
