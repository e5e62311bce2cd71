package test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/miekg/dns"
)

// operation is one thing that a client did to a name: it wrote a value, or it
// read one.
type operation struct {
	name    string
	write   bool
	value   int64 // written; 0 withdraws the name
	unknown bool  // nobody was told whether it happened
}

// register is what a name is to its clients: a query sees the last update. A write
// of unknown outcome has happened or has not.
var register = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byName := make(map[string][]porcupine.Operation)
		for _, o := range history {
			name := o.Input.(operation).name
			byName[name] = append(byName[name], o)
		}
		var parts [][]porcupine.Operation
		for _, part := range byName {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []any { return []any{int64(0)} },
	Step: func(state, input, output any) []any {
		switch o := input.(operation); {
		case o.unknown:
			return []any{state, o.value}
		case o.write:
			return []any{o.value}
		case state == output:
			return []any{state}
		}
		return nil
	},
	DescribeOperation: func(input, output any) string {
		switch o := input.(operation); {
		case o.unknown:
			return fmt.Sprintf("write %d, perhaps", o.value)
		case o.write:
			return fmt.Sprintf("write %d", o.value)
		}
		return fmt.Sprintf("read %d", output)
	},
}).ToModel()

// recorder is the history of what was asked and answered.
type recorder struct {
	began time.Time
	mu    sync.Mutex
	all   []porcupine.Operation // guarded by mu
	open  []int                 // guarded by mu; writes of unknown outcome that may still happen
	lost  int                   // guarded by mu; all of those there were
}

func (r *recorder) now() int64 { return int64(time.Since(r.began)) }

func (r *recorder) add(client int, o operation, output, call int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.unknown {
		r.open = append(r.open, len(r.all))
		r.lost++
	}
	r.all = append(r.all, porcupine.Operation{ClientId: client, Input: o, Output: output, Call: call, Return: r.now()})
}

// settle ends the writes of unknown outcome: the process that could have made them
// happen is gone, or its store has been read again. Those that did not happen by
// now must not.
func (r *recorder) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.open {
		r.all[i].Return = r.now()
	}
	r.open = nil
}

// TestNamesAreLinearizable has clients update, withdraw and query a few names
// at the same time while the program is killed, reloaded, and its disk fails, records
// what each was told and when, and has a checker look for an order of all of it
// that one single register would have given.
func TestNamesAreLinearizable(t *testing.T) {
	names, clients, rounds := 4, 3, 8
	length := 400 * time.Millisecond
	if long() {
		names, clients, rounds = 8, 4, 100
	}
	p := prepare(t)
	p.start()
	r := &recorder{began: time.Now()}
	var value atomic.Int64
	for round := range rounds {
		stop := make(chan struct{})
		var running sync.WaitGroup
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 10 * time.Second}
		for n := range names {
			for c := range clients {
				running.Go(func() {
					name, id := fmt.Sprintf("reg%d", n), n*clients+c
					for {
						select {
						case <-stop:
							return
						default:
						}
						call := r.now()
						switch dice := rand.IntN(10); {
						case dice < 5:
							got, err := p.query("udp", name+".dyn.example.org", dns.TypeA)
							if err != nil {
								continue // it told nothing
							}
							v := int64(0)
							for _, rr := range got.Answer {
								v = number(rr.(*dns.A).A.String())
							}
							r.add(id, operation{name: name}, v, call)
						case dice < 9:
							o := operation{name: name, write: true, value: value.Add(1)}
							_, err := p.update(client, name, v4(o.value))
							o.unknown = err != nil
							r.add(id, o, 0, call)
							if o.unknown {
								return
							}
						default:
							o := operation{name: name, write: true}
							a, err := p.call("DELETE", "/update?fqdn="+name+".dyn.example.org", client)
							o.unknown = err != nil || a.status != http.StatusOK
							r.add(id, o, 0, call)
							if o.unknown {
								return
							}
						}
					}
				})
			}
		}
		time.Sleep(length/4 + time.Duration(rand.Int64N(int64(length)))) // the random moment
		switch round % 4 {
		case 0, 1:
			p.kill()
		case 2:
			if _, err := p.call("GET", "/reload", nil); err != nil {
				t.Error(err)
			}
		case 3:
			in := p.inject(straced{"fdatasync", "error=EIO", "3+4"})
			time.Sleep(length / 2)
			in.end()
		}
		close(stop)
		running.Wait()
		client.CloseIdleConnections()
		if round%4 < 2 {
			p.start()
		} else {
			p.recovered(t)
		}
		r.settle()
	}
	history := r.all
	t.Logf("%d operations, %d of them writes of unknown outcome", len(history), r.lost)
	if len(history) < 100 || r.lost == 0 {
		t.Error("that is too little to prove anything")
	}
	switch porcupine.CheckOperationsTimeout(register, history, time.Minute) {
	case porcupine.Illegal:
		_, info := porcupine.CheckOperationsVerbose(register, history, time.Minute)
		picture := filepath.Join(os.TempDir(), "ddns-history.html")
		if err := porcupine.VisualizePath(register, info, picture); err == nil {
			t.Logf("a picture of it: %s", picture)
		}
		t.Error("no order of these operations explains what was answered")
	case porcupine.Unknown:
		t.Error("the checker did not come to an end")
	}
}

// TestCheckerFindsAStaleRead shows that the checker would notice.
func TestCheckerFindsAStaleRead(t *testing.T) {
	write := func(v, call, end int64) porcupine.Operation {
		return porcupine.Operation{Input: operation{name: "a", write: true, value: v}, Call: call, Return: end}
	}
	perhaps := func(v, call, end int64) porcupine.Operation {
		return porcupine.Operation{ClientId: 2, Input: operation{name: "a", write: true, value: v, unknown: true}, Call: call, Return: end}
	}
	read := func(v, call, end int64) porcupine.Operation {
		return porcupine.Operation{ClientId: 1, Input: operation{name: "a"}, Output: v, Call: call, Return: end}
	}
	for name, test := range map[string]struct {
		history []porcupine.Operation
		want    bool
	}{
		"a read after a write":                       {[]porcupine.Operation{write(1, 0, 1), read(1, 2, 3)}, true},
		"a read during a write":                      {[]porcupine.Operation{write(1, 0, 5), read(0, 2, 3)}, true},
		"an acknowledged write is not read":          {[]porcupine.Operation{write(1, 0, 1), read(0, 2, 3)}, false},
		"a write is read, and then is not":           {[]porcupine.Operation{write(1, 0, 9), read(1, 2, 3), read(0, 4, 5)}, false},
		"a write of unknown outcome is not there":    {[]porcupine.Operation{perhaps(1, 0, 1), read(0, 2, 3)}, true},
		"a write of unknown outcome comes, and goes": {[]porcupine.Operation{perhaps(1, 0, 9), read(1, 2, 3), read(0, 4, 5)}, false},
		"a write comes after its process is gone":    {[]porcupine.Operation{perhaps(1, 0, 1), read(0, 2, 3), read(1, 4, 5)}, false},
		"a value that nobody wrote":                  {[]porcupine.Operation{write(1, 0, 1), read(7, 2, 3)}, false},
	} {
		if got := porcupine.CheckOperations(register, test.history); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
