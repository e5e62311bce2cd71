package ddns

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// outliveLog keeps the process from ending when whoever read its output has gone: by
// default the first line after that would kill it (package os/signal, "SIGPIPE"), and
// each update writes one. Hooks begin with the default again, because what is handled
// is not inherited.
var outliveLog = sync.OnceFunc(func() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
})
