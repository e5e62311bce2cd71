package zone

// Changeset is a fact: the one step from a version of a zone to the next, as an
// IXFR sends it (RFC 1995, section 4). Applied to the version whose SOA is From
// it gives the version whose SOA is To; its Inverse goes back.
type Changeset struct {
	From, To RRset // SOA RRsets of one record; From is empty for a zone's first
	// Deleted and Added hold, per owner and type, just the records that go and
	// come; the SOA is in From and To only. A change of TTL or of the static
	// mark deletes the records and adds them again. Sorted by owner, then type.
	Deleted, Added []RRset
	Cause          Cause
}

// Inverse returns the changeset that undoes c.
func (c *Changeset) Inverse() *Changeset {
	return &Changeset{From: c.To, To: c.From, Deleted: c.Added, Added: c.Deleted, Cause: c.Cause}
}
