//go:build linux

package hooks_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coredns-ddns/ddns/hooks"
)

func TestOwnCgroup(t *testing.T) {
	const (
		unified = "29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
		hybrid  = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n37 31 0:34 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n"
		part    = "29 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
		spaced  = "29 23 0:26 / /mnt/c\\040g rw - cgroup2 none rw\n"
	)
	for _, c := range []struct {
		name, own, mounts string
		dir, path         string // "" dir is an error
	}{
		{"unified", "0::/system.slice/hookd.service\n", unified, "/sys/fs/cgroup/system.slice/hookd.service", "/system.slice/hookd.service"},
		{"unified, at the root", "0::/\n", unified, "/sys/fs/cgroup", "/"},
		{"hybrid", "8:pids:/x\n1:name=systemd:/y\n0::/z\n", hybrid, "/sys/fs/cgroup/unified/z", "/z"},
		{"a part of the hierarchy is mounted", "0::/docker/abc/sub\n", part, "/sys/fs/cgroup/sub", "/docker/abc/sub"},
		{"another part is mounted", "0::/docker/abcd\n", part, "", ""},
		{"a mount point with a space", "0::/a\n", spaced, "/mnt/c g/a", "/a"},
		{"outside of its namespace", "0::/../other\n", unified, "", ""},
		{"version 1 only", "8:pids:/x\n", "37 31 0:34 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n", "", ""},
		{"nothing is mounted", "0::/\n", "", "", ""},
		{"nonsense", "\n::\n0:\n", "- - -\n - cgroup2\n", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, path, err := hooks.OwnCgroup(c.own, c.mounts)
			if (err != nil) != (c.dir == "") || err == nil && (dir != c.dir || path != c.path) {
				t.Errorf("got %q, %q, %v; want %q, %q", dir, path, err, c.dir, c.path)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	state, ppid, pgrp, session, start, err := hooks.ParseStat([]byte("7 (a) R (x) b)) S 3 5 6 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711 9 9\n"))
	if err != nil || state != 'S' || ppid != 3 || pgrp != 5 || session != 6 || start != 4711 {
		t.Errorf("got %c %d %d %d %d, %v", state, ppid, pgrp, session, start, err)
	}
	for _, bad := range []string{"", "7", "7 (a)", "7 (a) S 1", strings.Repeat("x ", 30), "7 (a) S x 5 6 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4711"} {
		if _, _, _, _, _, err := hooks.ParseStat([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// The ring against the plain thing, with writes of every size.
func FuzzOutput(f *testing.F) {
	f.Add(uint16(1), uint16(100))
	f.Add(uint16(4096), uint16(17))
	f.Add(uint16(4097), uint16(40))
	f.Add(uint16(65535), uint16(3))
	f.Add(uint16(61440), uint16(2))
	f.Fuzz(func(t *testing.T, size, times uint16) {
		if times > 200 {
			times %= 200
		}
		var o hooks.Output
		var all bytes.Buffer
		for i := range int(times) {
			chunk := []byte(strings.Repeat(string(rune('a'+i%26)), int(size)+i%3))
			o.Write(chunk)
			all.Write(chunk)
		}
		b := all.Bytes()
		want := string(b)
		if cut := len(b) - 64<<10; cut > 0 {
			want = string(b[:4<<10]) + fmt.Sprintf("\n[... %d octets left out ...]\n", cut) + string(b[len(b)-60<<10:])
		}
		if got := o.String(); got != want || o.Missing() != int64(max(0, len(b)-64<<10)) {
			t.Errorf("%d writes of %d: got %d octets and %d missing, want %d", times, size, len(got), o.Missing(), len(want))
		}
	})
}

func FuzzLastLine(f *testing.F) {
	f.Add("no such table\n", 512)
	f.Add("a\nlevel=error forged\r\x1b[2Jb\u2028c", 512)
	f.Add("\xff\xfe", 1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, min(limit, 4096))
		s = strings.ToValidUTF8(s, "\uFFFD")
		got := hooks.LastLine(s, limit)
		if len(got) > limit || strings.ContainsAny(got, "\n\r\x1b\x00\u2028") || !utf8.ValidString(got) {
			t.Errorf("%q: got %q", s, got)
		}
	})
}
