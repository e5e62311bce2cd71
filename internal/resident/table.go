package resident

import (
	"errors"
	"fmt"
	"sync"
)

// Table keeps things that are opened once and shared, by key. The zero value is
// ready; it must not be copied.
type Table[K comparable, T any] struct {
	mu      sync.Mutex
	entries map[K]*entry[T] // guarded by mu
}

type entry[T any] struct {
	refs int           // guarded by the table's mu
	gone chan struct{} // guarded by the table's mu; set when closing began, closed when it ended

	opened chan struct{} // closed when the fields below are set
	value  T
	close  func() error
	err    error
}

// Lease is one holder's claim on a thing in a Table.
type Lease[T any] struct {
	value   T
	once    sync.Once
	release func() error
	err     error
}

// Acquire returns a lease on the thing with this key, which open makes when
// nobody holds one; at most one open or close of a key runs at a time, and the
// table is not locked meanwhile. An error of open is returned to everyone who
// waited for it and nothing is kept. The lease is released when g is dropped; a
// nil g never is.
func (t *Table[K, T]) Acquire(g *Generation, key K, open func() (value T, close func() error, err error)) (*Lease[T], error) {
	if g != nil && g.Dropped() {
		return nil, ErrDropped
	}
	e, err := t.entry(key, open)
	if err != nil {
		return nil, err
	}
	l := &Lease[T]{value: e.value, release: func() error { return t.release(key, e) }}
	if g != nil {
		if err := g.OnDrop(l.Release); err != nil {
			return nil, err
		}
		if g.Dropped() { // while we opened
			return nil, errors.Join(ErrDropped, l.Release())
		}
	}
	return l, nil
}

// entry returns the opened entry of key with one more reference.
func (t *Table[K, T]) entry(key K, open func() (T, func() error, error)) (*entry[T], error) {
	for {
		t.mu.Lock()
		e := t.entries[key]
		switch {
		case e == nil:
			e = &entry[T]{refs: 1, opened: make(chan struct{})}
			if t.entries == nil {
				t.entries = make(map[K]*entry[T])
			}
			t.entries[key] = e
			t.mu.Unlock()
			t.open(key, e, open)
		case e.gone != nil:
			gone := e.gone
			t.mu.Unlock()
			<-gone
			continue
		default:
			e.refs++
			t.mu.Unlock()
			<-e.opened
		}
		return e, e.err
	}
}

func (t *Table[K, T]) open(key K, e *entry[T], open func() (T, func() error, error)) {
	e.err = fmt.Errorf("opening %v: panic", key) // stands if open does not return
	defer func() {
		if e.err != nil {
			t.mu.Lock()
			delete(t.entries, key)
			t.mu.Unlock()
		}
		close(e.opened)
	}()
	e.value, e.close, e.err = open()
}

func (t *Table[K, T]) release(key K, e *entry[T]) error {
	t.mu.Lock()
	e.refs--
	if e.refs > 0 {
		t.mu.Unlock()
		return nil
	}
	e.gone = make(chan struct{})
	t.mu.Unlock()
	defer func() {
		t.mu.Lock()
		delete(t.entries, key)
		t.mu.Unlock()
		close(e.gone)
	}()
	if e.close == nil {
		return nil
	}
	return e.close()
}

// Len counts the things that are open, being opened or being closed.
func (t *Table[K, T]) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries)
}

// Value is the thing itself. It must not be used after Release.
func (l *Lease[T]) Value() T { return l.value }

// Release gives the lease up; the last one closes the thing and returns the
// error of that. Calls after the first return the same and do nothing.
func (l *Lease[T]) Release() error {
	l.once.Do(func() { l.err = l.release() })
	return l.err
}
