package zone

// Serial is an SOA serial. It is compared only by the arithmetic of RFC 1982.
type Serial uint32

// Order is the outcome of comparing two serials. RFC 1982, section 3.2 leaves
// serials exactly half the space apart without an order.
type Order int8

// The four outcomes of Serial.Compare.
const (
	Lower Order = iota
	Equal
	Greater
	Incomparable
)

// Compare tells where s stands relative to t.
func (s Serial) Compare(t Serial) Order {
	switch d := int32(s - t); {
	case s == t:
		return Equal
	case d == -1<<31:
		return Incomparable
	case d < 0:
		return Lower
	default:
		return Greater
	}
}

// Newer reports whether s is greater than t.
func (s Serial) Newer(t Serial) bool { return s.Compare(t) == Greater }

// Next returns the serial of the changeset after s at Unix time now: the later of
// now and s+1, and never 0, which some secondaries take for "no zone". Taking the
// time means that a primary which lost its database does not strand its
// secondaries on a larger serial.
func (s Serial) Next(now uint32) Serial {
	n := s + 1
	if n == 0 {
		n = 1
	}
	// Newer than n is not enough: what is 2^31 above s has no order to it, and
	// would never reach a secondary.
	if t := Serial(now); t != 0 && t.Newer(n) && t.Newer(s) {
		n = t
	}
	return n
}
