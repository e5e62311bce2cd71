package zone

// Update is a request to change a zone: intent, not yet fact. Candidate.Plan
// turns it into a Changeset.
type Update struct {
	Prerequisites []Prerequisite
	Operations    []Operation

	// Permission decides what the requester may touch; nil permits everything.
	Permission Permission
	// Static marks the operator's own zone file speaking (see StaticUpdate). It
	// alone may create, change and remove static RRsets: those that it adds carry
	// the mark of the operation's RRset. The rules by which RFC 2136 ignores an
	// operation are not for it: a file that cannot be had as it stands is an error.
	Static bool
	Limits Limits
	Cause  Cause
	// Malformed, when set, is the error of the message's update section; it is
	// answered at the prescan step, after prerequisites and permission.
	// RFC 2136, section 3.4.1.
	Malformed *Error
}

// Cause says where a change came from. It is kept in the journal, for hooks and
// the log.
type Cause struct {
	Source  string // "http", "update", "file", "seed", …
	Actor   string // token id or TSIG key name; empty for the operator's files
	Request string // request id, for the log
	Unix    int64  // when it was accepted, seconds
}

// Permission is what a grant says of one owner and type. Implementations are
// immutable, so that a request is judged by one policy throughout.
type Permission interface {
	// Knows reports whether some grant touches this owner, whatever the type. A
	// requester may test prerequisites on such names only: the outcome tells what
	// the zone holds.
	Knows(owner Name) bool
	// Permits reports whether records of this type at this owner may be added,
	// replaced and deleted. For dns.TypeANY: whether all RRsets of the name may
	// be deleted at once.
	Permits(owner Name, typ uint16) bool
}

// Limits bound the zone that results from an update; 0 is no limit. An update is
// refused when it makes a number grow past its limit, so that a zone which is
// above a limit that was lowered can still shrink.
type Limits struct {
	Names          int // owners in the zone
	RecordsPerSet  int // records in one RRset
	RRsetsPerName  int // RRsets of one owner
	RecordsPerZone int // records in the zone
}

// PrerequisiteKind is one of the five of RFC 2136, section 2.4.
type PrerequisiteKind uint8

// Kinds of prerequisite.
const (
	RRsetExists      PrerequisiteKind = iota // value independent, 2.4.1
	RRsetExistsValue                         // value dependent, 2.4.2
	RRsetAbsent                              // 2.4.3
	NameInUse                                // 2.4.4
	NameNotInUse                             // 2.4.5
)

// Prerequisite is a condition on the zone as it was before the update.
type Prerequisite struct {
	Kind  PrerequisiteKind
	Owner Name
	Type  uint16
	RRset RRset // RRsetExistsValue: the whole RRset, TTL ignored
}

// OperationKind is one of the four of RFC 2136, section 2.5.
type OperationKind uint8

// Kinds of operation.
const (
	AddRecords    OperationKind = iota // 2.5.1
	DeleteRRset                        // 2.5.2
	DeleteName                         // 2.5.3
	DeleteRecords                      // 2.5.4
)

// Operation is one step of an update; steps apply in order.
type Operation struct {
	Kind  OperationKind
	Owner Name
	Type  uint16 // not for DeleteName
	RRset RRset  // AddRecords, DeleteRecords
}

// ReplaceRRset is the pair of operations that leaves exactly set at its owner
// and type. When it already was so, the plan finds that nothing differs.
func ReplaceRRset(set RRset) []Operation {
	return []Operation{
		{Kind: DeleteRRset, Owner: set.Owner, Type: set.Type},
		{Kind: AddRecords, Owner: set.Owner, Type: set.Type, RRset: set},
	}
}
