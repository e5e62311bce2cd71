package store

import (
	"fmt"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// Next returns the state a zone has once c is written to it in state s; found is
// false when the store does not have the zone. It is the arithmetic every backend
// shares, and it refuses, before anything is written, what Load would refuse
// afterwards: ErrConflict when c was made for another position, ErrRefused when
// serials, changesets and nodes do not fit together. CheckCommit comes first.
func (c *ZoneCommit) Next(s State, found bool) (State, error) {
	if !found {
		s = State{Oldest: 1}
	}
	if c.After != s.Last {
		return State{}, fmt.Errorf("%w: zone %s is at %d, the commit follows %d", ErrConflict, c.Origin, s.Last, c.After)
	}
	if err := c.chain(s, found); err != nil {
		return State{}, err
	}
	if err := c.apex(s, found); err != nil {
		return State{}, err
	}
	s.Last += Position(len(c.Changesets))
	s.Serial = c.Serial
	if c.Static != "" {
		s.Static = c.Static
	}
	if c.TrimBefore > s.Last+1 {
		return State{}, fmt.Errorf("%w: zone %s: trimming before %d, past the last entry %d", ErrRefused, c.Origin, c.TrimBefore, s.Last)
	}
	s.Oldest = max(s.Oldest, c.TrimBefore)
	return s, nil
}

// chain checks that the changesets lead from the stored serial to c.Serial.
func (c *ZoneCommit) chain(s State, found bool) error {
	at, known := s.Serial, found
	for i, cs := range c.Changesets {
		// Before a zone's first SOA there is no serial to come from.
		if from, ok := SOASerial(cs.From); known && (!ok || from != at) {
			return fmt.Errorf("%w: zone %s: changeset %d does not start at serial %d", ErrRefused, c.Origin, c.After+Position(i)+1, at)
		}
		to, ok := SOASerial(cs.To)
		if !ok {
			return fmt.Errorf("%w: zone %s: changeset %d does not end in an SOA", ErrRefused, c.Origin, c.After+Position(i)+1)
		}
		at, known = to, true
	}
	if known && at != c.Serial {
		return fmt.Errorf("%w: zone %s: commit of serial %d, its changesets end at %d", ErrRefused, c.Origin, c.Serial, at)
	}
	return nil
}

// apex checks that the zone's SOA has c.Serial after the commit.
func (c *ZoneCommit) apex(s State, found bool) error {
	apex, touched := c.Nodes[c.Origin]
	if !touched {
		if !found || c.Serial != s.Serial {
			return fmt.Errorf("%w: zone %s: commit of serial %d without the SOA", ErrRefused, c.Origin, c.Serial)
		}
		return nil
	}
	serial, ok := ApexSerial(c.Origin, apex)
	if !ok || serial != c.Serial {
		return fmt.Errorf("%w: zone %s: commit of serial %d whose SOA says otherwise", ErrRefused, c.Origin, c.Serial)
	}
	return nil
}

// CheckCommit refuses what no state of the store could make right: a zone named
// twice, or not at all, a missing changeset, an owner outside its zone.
func CheckCommit(zones []ZoneCommit) error {
	seen := make(map[zone.Name]bool, len(zones))
	for _, c := range zones {
		if c.Origin == "" {
			return fmt.Errorf("%w: commit to a zone without a name", ErrRefused)
		}
		if seen[c.Origin] {
			return fmt.Errorf("%w: zone %s twice in one commit", ErrRefused, c.Origin)
		}
		seen[c.Origin] = true
		for i, cs := range c.Changesets {
			if cs == nil {
				return fmt.Errorf("%w: zone %s: changeset %d is nil", ErrRefused, c.Origin, c.After+Position(i)+1)
			}
		}
		for owner := range c.Nodes {
			if !owner.Within(c.Origin) {
				return fmt.Errorf("%w: zone %s: %s is not in it", ErrRefused, c.Origin, owner)
			}
		}
	}
	return nil
}

// Limits of followers' items, the same in every backend.
const (
	MaxKey   = 1024    // octets in the name of a follower and in an item's key
	MaxValue = 1 << 24 // octets in an item's value
)

// Check refuses an Advance that no backend would keep.
func (a *Advance) Check() error {
	if err := CheckFollower(a.Follower); err != nil {
		return err
	}
	key := func(k string) error {
		if k == "" || len(k) > MaxKey {
			return fmt.Errorf("%w: follower %s: item key of %d octets, from 1 to %d are kept", ErrRefused, a.Follower, len(k), MaxKey)
		}
		return nil
	}
	for _, k := range a.Delete {
		if err := key(k); err != nil {
			return err
		}
	}
	for _, it := range a.Put {
		if err := key(it.Key); err != nil {
			return err
		}
		if len(it.Value) > MaxValue {
			return fmt.Errorf("%w: follower %s: item %q of %d octets, at most %d are kept", ErrRefused, a.Follower, it.Key, len(it.Value), MaxValue)
		}
	}
	return nil
}

// CheckFollower refuses a name that no backend would keep.
func CheckFollower(name string) error {
	if name == "" || len(name) > MaxKey {
		return fmt.Errorf("%w: follower name of %d octets, from 1 to %d are kept", ErrRefused, len(name), MaxKey)
	}
	return nil
}

// typeSOA is RFC 1035, section 3.2.2; the contract needs no more of a DNS library.
const typeSOA = 6

// SOASerial reads the serial of an SOA RRset of one record; ok is false for
// anything else. The serial is followed by four more fields of four octets (RFC
// 1035, section 3.3.13).
func SOASerial(set zone.RRset) (s zone.Serial, ok bool) {
	if set.Type != typeSOA || set.Len() != 1 {
		return 0, false
	}
	for d := range set.Data() {
		if len(d) < 2+20 { // two root names and the five numbers
			return 0, false
		}
		f := d[len(d)-20:]
		return zone.Serial(f[0])<<24 | zone.Serial(f[1])<<16 | zone.Serial(f[2])<<8 | zone.Serial(f[3]), true
	}
	return 0, false
}

// ApexSerial reads the serial of the SOA in the apex node of a zone.
func ApexSerial(origin zone.Name, apex zone.Node) (zone.Serial, bool) {
	soa, _ := apex.RRset(origin, typeSOA)
	return SOASerial(soa)
}
