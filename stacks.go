package ddns

import "sync"

// CoreDNS has a goroutine for each packet, and one that began with 2 KiB would grow its
// stack twice on the way to the answer, for a quarter of the processor's time. The
// runtime begins goroutines with as much stack as those have on average that it finds
// at a collection (GODEBUG=adaptivestackstart=0 ends that); a packet's is gone by
// then. So some that wait for ever stand for those of packets. docs/adr/0005-stacks.md.
const (
	packetStack  = 7000 // octets; together with the runtime's own, less than the 8 KiB to begin with
	packetStacks = 256  // outweigh as many others, which are small
)

// holdStacks begins them, once in a process.
var holdStacks = sync.OnceFunc(func() {
	for range packetStacks {
		go holdStack(never)
	}
})

var never = make(chan struct{}) // a variable of the package, so that waiting for it is no leak

//go:noinline
func holdStack(until <-chan struct{}) byte {
	var frame [packetStack]byte
	frame[len(until)] = 1
	<-until
	return frame[len(until)] // so that it is kept
}
