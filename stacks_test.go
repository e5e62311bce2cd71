package ddns_test

import (
	"runtime"
	"testing"
	"unsafe"
)

// A goroutine that begins while a server runs has room for what answers a packet.
func TestPacketsBeginWithTheStackTheyNeed(t *testing.T) {
	start(t, options{store: "memory"})
	runtime.Gosched()
	runtime.GC() // sees those that stand for packets
	moved := make(chan bool)
	go func() {
		var here byte
		before := uintptr(unsafe.Pointer(&here))
		deep()
		moved <- uintptr(unsafe.Pointer(&here)) != before
	}()
	if <-moved {
		t.Error("the stack of a new goroutine had to grow for 6 KiB")
	}
}

//go:noinline
func deep() byte {
	var frame [6 << 10]byte
	return frame[runtime.NumCPU()]
}
