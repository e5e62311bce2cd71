package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Other processes on a core, or on the disk, make a measurement worthless, and a
// shared machine is never quiet for long. So each measurement also looks at who used
// the two cores, and how fast the disk is before and after it.
const (
	slower  = 4    // times the usual: a disk that somebody else uses
	foreign = 0.15 // of a core: more than that disturbs
	again   = 1    // how often a disturbed measurement is made again
)

// quietly runs measure, once more when somebody else, or the host below a virtual
// machine, took too much of the server's or the load's core. The kernel's own work
// for the disk counts as somebody else's.
func (b *bench) quietly(measure func()) {
	b.taken++
	for try := range again + 1 {
		b.settle()
		slow := b.diskSlow()
		before := b.usage()
		measure()
		after := b.usage()
		server, load := before.foreign(after)
		slow = b.diskSlow() || slow
		if max(server, load) <= foreign && !slow {
			return
		}
		if try == 0 {
			b.disturbed++
		}
		if try == again {
			b.loud++
			return
		}
	}
}

// settle waits until this machine gets the processor when it asks for it: a virtual
// one may be held back for many seconds once it has used its share.
func (b *bench) settle() {
	for b.waited < patienceForAll {
		stolen, begun := stolenTicks(), time.Now()
		for time.Since(begun) < 100*time.Millisecond {
		}
		if stolenTicks()-stolen <= 2 {
			return
		}
		time.Sleep(2 * time.Second)
		b.waited += time.Since(begun)
	}
}

// patienceForAll bounds what a run waits for the processor in all.
const patienceForAll = 2 * time.Minute

// stolenTicks is what the host did not give to any of our cores.
func stolenTicks() int {
	if f := strings.Fields(contents("/proc/stat")); len(f) > 8 {
		n, _ := strconv.Atoi(f[8])
		return n
	}
	return 0
}

// diskSlow appends and syncs 4 KiB a few times, as the stores do at the least for
// one update, and compares with the median of this run so far. That median is also
// what the disk allows.
func (b *bench) diskSlow() bool {
	f, err := os.OpenFile(filepath.Join(b.dir, "probe"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	defer f.Close()
	const syncs = 5
	block := make([]byte, 4096)
	begun := time.Now()
	for range syncs {
		if _, err := f.Write(block); err != nil || unix.Fdatasync(int(f.Fd())) != nil {
			return false
		}
	}
	took := time.Since(begun).Seconds() / syncs
	b.disk = append(b.disk, took)
	return took > slower*median(b.disk)
}

// usage is processor time in ticks: of the two cores, and of the processes that
// belong on them.
type usage struct {
	at           time.Time
	cores, owned [2]int
}

func (b *bench) usage() usage {
	u := usage{at: time.Now()}
	for line := range strings.Lines(contents("/proc/stat")) {
		f := strings.Fields(line)
		for i, core := range []int{b.serverCore, b.loadCore} {
			if len(f) > 8 && f[0] == fmt.Sprintf("cpu%d", core) {
				// Not idle, waiting for the disk, or interrupts, which are the network's.
				for _, n := range []int{1, 2, 3, 8} {
					v, _ := strconv.Atoi(f[n])
					u.cores[i] += v
				}
			}
		}
	}
	for _, r := range b.running {
		if r.cmd != nil {
			for _, pid := range family(r.cmd.Process.Pid) {
				u.owned[0] += processTicks(pid)
			}
		}
	}
	u.owned[1] = processTicks(os.Getpid())
	return u
}

func processTicks(pid int) int {
	_, rest, ok := strings.Cut(contents(fmt.Sprintf("/proc/%d/stat", pid)), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return user + system
}

// foreign is the share of each core that nobody we know used.
func (u usage) foreign(after usage) (server, load float64) {
	const ticks = 100 // per second: USER_HZ, the same on every Linux of today
	share := func(i int) float64 {
		return float64((after.cores[i]-u.cores[i])-(after.owned[i]-u.owned[i])) / ticks / after.at.Sub(u.at).Seconds()
	}
	return share(0), share(1)
}
