package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
)

// The zone that every server serves: an apex, and hosts h0 to h(n-1), each with
// an A and an AAAA record. Everything about a host follows from its number, so
// that each answer can be judged without a table.
const (
	origin    = "bench.example."
	keyName   = "bench-key."
	keySecret = "c2l4dGVlbiBvY3RldHMgb2YgYSBzZWNyZXQga2V5IQ=="
)

// apexRecords are the records of the zone that belong to no host; a transfer has
// the SOA twice.
const apexRecords = 3

func hostLabel(i int) string { return "h" + strconv.Itoa(i) }

func hostName(i int) string { return hostLabel(i) + "." + origin }

// Address is a host's IPv4 address: its number in the lower 20 bits, above them
// how often it was changed. Any address of the host says whose it is, also while
// updates run.
func address(i, generation int) netip.Addr {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], 10<<24|uint32(generation&0xf)<<20|uint32(i))
	return netip.AddrFrom4(a)
}

// ownerOf is the number of the host that an address belongs to.
func ownerOf(a [4]byte) int {
	if a[0] != 10 {
		return -1
	}
	return int(binary.BigEndian.Uint32(a[:]) & 0xfffff)
}

// spread visits all hosts in an order without locality: n is never a multiple of
// this prime.
func spread(k, n int) int { return int(uint64(k) * 7_368_787 % uint64(n)) }

// writeZone writes the zone as RFC 1035 text, and writeHosts as /etc/hosts.
func writeZone(path string, n int) error {
	return write(path, func(w *bufio.Writer) {
		fmt.Fprintf(w, "$ORIGIN %s\n$TTL 60\n@ 3600 IN SOA ns hostmaster 1 7200 900 1209600 60\n@ 3600 IN NS ns\nns 3600 IN A 127.0.0.1\n", origin)
		for i := range n {
			fmt.Fprintf(w, "%s IN A %s\n%s IN AAAA 2001:db8::%x:%x\n", hostLabel(i), address(i, 0), hostLabel(i), i>>16, i&0xffff)
		}
	})
}

func writeHosts(path string, n int) error {
	return write(path, func(w *bufio.Writer) {
		name := origin[:len(origin)-1]
		for i := range n {
			fmt.Fprintf(w, "%s %s.%s\n2001:db8::%x:%x %s.%s\n", address(i, 0), hostLabel(i), name, i>>16, i&0xffff, hostLabel(i), name)
		}
	})
}

// write makes a file that is either complete or not there.
func write(path string, fill func(w *bufio.Writer)) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	fill(w)
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// zoneFile and hostsFile are those of n hosts, made once.
func (b *bench) zoneFile(n int) (string, error) { return b.dataFile("zone", n, writeZone) }

func (b *bench) hostsFile(n int) (string, error) { return b.dataFile("hosts", n, writeHosts) }

func (b *bench) dataFile(kind string, n int, make func(string, int) error) (string, error) {
	path := filepath.Join(b.dir, fmt.Sprintf("%s-%d", kind, n))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, make(path, n)
}
