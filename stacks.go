package ddns

import "sync"

// The runtime starts a goroutine with as much stack as those have on average that it
// finds at a collection (GODEBUG adaptivestackstart), so that they need not
// grow theirs. CoreDNS has one goroutine for each packet, which lives some microseconds:
// no collection sees it, and all that it sees are small, so that every packet is begun
// with 2 KiB, which are copied twice on the way to the answer, for a quarter of
// the processor's time. These stand in for them.
const (
	// stackOfPacket is what a packet needs, less than the 8 KiB that shall be its start.
	stackOfPacket = 7000
	// stackHolders outweigh so many other goroutines and more; they take 2 MiB.
	stackHolders = 256
)

var holdStacks = sync.OnceFunc(func() {
	for range stackHolders {
		go holdStack(forever)
	}
})

var forever = make(chan struct{}) // nobody writes to it

//go:noinline
func holdStack(until <-chan struct{}) byte {
	var frame [stackOfPacket]byte
	frame[len(until)] = 1
	<-until
	return frame[len(until)]
}
