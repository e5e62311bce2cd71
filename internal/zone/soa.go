package zone

// Serial is the serial of the Candidate's SOA, 0 without one.
func (c *Candidate) Serial() Serial { return c.now.serial }

// Serial is the serial of the version that c leads to.
func (c *Changeset) Serial() Serial { return soaSerial(c.To) }

// FromSerial is the serial of the version that c leads away from, 0 for the
// first changeset of a zone.
func (c *Changeset) FromSerial() Serial { return soaSerial(c.From) }
