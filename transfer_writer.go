package ddns

import (
	"net"
	"time"

	"github.com/miekg/dns"
)

// transferPatience is how long a secondary may take to read one message of at
// most 64 KiB.
const transferPatience = 30 * time.Second

// transferWriter ends a transfer whose secondary does not read: CoreDNS sets no
// deadline for writing, so that a handful of such connections would hold
// every slot for as long as they like.
type transferWriter struct{ dns.ResponseWriter }

// WriteMsg implements dns.ResponseWriter.
func (w *transferWriter) WriteMsg(m *dns.Msg) error {
	return writeWithin(w.ResponseWriter, m, transferPatience, func() {
		log.Warningf("Ended a transfer peer=%s: it has read nothing for %v", w.RemoteAddr(), transferPatience)
	})
}

// answerPatience is how long a client may take to read an ordinary answer.
const answerPatience = 10 * time.Second

// writeAnswer writes an answer, and over TCP ends the connection of a client that
// asks and does not read, which would hold it and a goroutine for as long as it likes.
func writeAnswer(w dns.ResponseWriter, m *dns.Msg) error {
	if _, tcp := w.RemoteAddr().(*net.TCPAddr); !tcp {
		return w.WriteMsg(m)
	}
	return writeWithin(w, m, answerPatience, func() {})
}

// writeWithin writes a message, or closes the connection when that takes too long:
// then the write returns with an error.
func writeWithin(w dns.ResponseWriter, m *dns.Msg, patience time.Duration, late func()) error {
	closed := make(chan struct{})
	t := time.AfterFunc(patience, func() {
		defer close(closed)
		late()
		w.Close()
	})
	err := w.WriteMsg(m)
	if !t.Stop() {
		<-closed // Close and the next write must not meet
	}
	return err
}
