package hooks

// What the tests reach into: decoders of what the kernel and commands write.
var (
	OwnCgroup = ownCgroup
	LastLine  = lastLine
)

// ParseStat returns the fields of /proc/PID/stat that are used.
func ParseStat(b []byte) (state byte, ppid, pgrp, session int, start uint64, err error) {
	s, err := parseStat(1, b)
	return s.state, s.ppid, s.pgrp, s.session, s.start, err
}

// Output is an output for tests.
type Output struct{ output }

// Missing is how many octets String leaves out.
func (o *Output) Missing() int64 { return o.missing() }
