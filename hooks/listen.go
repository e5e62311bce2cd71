package hooks

import "os"

// UnixOptions say who can reach a unix socket, besides the peer credentials that
// the Server checks.
type UnixOptions struct {
	Mode     os.FileMode // 0600 when 0
	UID, GID int         // its owner; -1 or 0 is that of this process
}
