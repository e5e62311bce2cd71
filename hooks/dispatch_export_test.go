package hooks

import "github.com/coredns-ddns/ddns/internal/zone"

// RecodeMark decodes a stored mark and encodes it again, for fuzzing.
func RecodeMark(b []byte) (key string, again []byte, err error) {
	hook, m, err := decodeMark(b)
	if err != nil {
		return "", nil, err
	}
	_ = m.event(hook).Env()
	return markKey{hook, m.owner, m.origin, m.typ}.item(), m.encode(hook), nil
}

// MarkKey is the key in the store of a mark.
func MarkKey(hook string, owner, origin zone.Name, typ uint16) string {
	return markKey{hook, owner, origin, typ}.item()
}
