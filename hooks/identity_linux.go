package hooks

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Identity is who a command runs as.
type Identity struct {
	Name, Home string
	UID, GID   uint32
	Groups     []uint32 // all supplementary groups, sorted
	own        bool     // already the identity of this process: nothing is to be switched
}

// identify resolves the words of a definition. The accounts are read at each run:
// a group that a user has left must not be handed out until the next restart. The
// error is ErrIdentity when the account exists and this process cannot or may not
// become it.
func identify(name, group string, root bool) (Identity, error) {
	id, err := lookupUser(name)
	if err != nil {
		return id, err
	}
	if group != "" {
		gid, err := lookupGroup(group)
		if err != nil {
			return id, err
		}
		id.GID = gid
	}
	if id.UID == 0 && !root {
		return id, fmt.Errorf("%w root: the definition of the hook does not say `root`", ErrIdentity)
	}
	if (id.GID == 0 || slices.Contains(id.Groups, 0)) && !root {
		return id, fmt.Errorf("%w %s: it is in the group of number 0, and the definition of the hook does not say `root`", ErrIdentity, id.Name)
	}
	return id, id.reachable()
}

func lookupUser(name string) (Identity, error) {
	if name == "" {
		return ownIdentity()
	}
	var u *user.User
	var err error
	if numeric(name) {
		if err := checkNumber("user", name); err != nil {
			return Identity{}, err
		}
		// A number without an account has no groups and no home that could be known.
		u, err = user.LookupId(name)
	} else {
		u, err = user.Lookup(name)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("looking up the user %s: %w", name, err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return Identity{}, fmt.Errorf("looking up the user %s: its number is %q", name, u.Uid)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return Identity{}, fmt.Errorf("looking up the user %s: its group is %q", name, u.Gid)
	}
	list, err := u.GroupIds()
	if err != nil {
		return Identity{}, fmt.Errorf("looking up the groups of the user %s: %w", name, err)
	}
	id := Identity{Name: u.Username, Home: u.HomeDir, UID: uint32(uid), GID: uint32(gid)}
	for _, s := range list {
		g, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return Identity{}, fmt.Errorf("looking up the groups of the user %s: one is %q", name, s)
		}
		id.Groups = append(id.Groups, uint32(g))
	}
	slices.Sort(id.Groups)
	id.Groups = slices.Compact(id.Groups)
	if id.Home == "" {
		id.Home = "/"
	}
	return id, nil
}

// ownIdentity is this process as it is, groups and all, whatever the account
// database says; a container often has no account for its number.
func ownIdentity() (Identity, error) {
	id := Identity{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: "/", own: true}
	id.Name = strconv.Itoa(int(id.UID))
	if u, err := user.LookupId(id.Name); err == nil {
		id.Name = u.Username
		if u.HomeDir != "" {
			id.Home = u.HomeDir
		}
	}
	groups, err := ownGroups()
	if err != nil {
		return id, err
	}
	id.Groups = groups
	return id, nil
}

func ownGroups() ([]uint32, error) {
	list, err := os.Getgroups()
	if err != nil {
		return nil, fmt.Errorf("reading the groups of this process: %w", err)
	}
	groups := make([]uint32, len(list))
	for i, g := range list {
		groups[i] = uint32(g)
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}

func lookupGroup(name string) (uint32, error) {
	var g *user.Group
	var err error
	if numeric(name) {
		if err := checkNumber("group", name); err != nil {
			return 0, err
		}
		g, err = user.LookupGroupId(name)
	} else {
		g, err = user.LookupGroup(name)
	}
	if err != nil {
		return 0, fmt.Errorf("looking up the group %s: %w", name, err)
	}
	gid, err := strconv.ParseUint(g.Gid, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("looking up the group %s: its number is %q", name, g.Gid)
	}
	return uint32(gid), nil
}

func numeric(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// checkNumber refuses what does not fit: with cgo, os/user would look up the low
// 32 bits, and 4294967296 would be root. The highest number means "unchanged" to
// setresuid(2).
func checkNumber(what, s string) error {
	if n, err := strconv.ParseUint(s, 10, 32); err != nil || n == 1<<32-1 {
		return fmt.Errorf("looking up the %s %.40s: not a number from 0 to 4294967294", what, s)
	}
	return nil
}

// reachable says whether this process can become id, and marks an id that it
// already is.
func (id *Identity) reachable() error {
	if canSwitchUsers() == nil {
		id.own = false // switching to oneself also drops the groups that are not one's own
		return nil
	}
	if id.UID != uint32(os.Geteuid()) || id.UID != uint32(os.Getuid()) || id.GID != uint32(os.Getegid()) {
		return fmt.Errorf("%w %s (uid %d, gid %d): this process is uid %d, gid %d and %w", ErrIdentity,
			id.Name, id.UID, id.GID, os.Geteuid(), os.Getegid(), canSwitchUsers())
	}
	if id.own {
		return nil
	}
	have, err := ownGroups()
	if err != nil {
		return err
	}
	// The primary group may or may not be in the list of supplementary groups:
	// it gives no other right.
	if !slices.Equal(addGroup(have, id.GID), addGroup(id.Groups, id.GID)) {
		return fmt.Errorf("%w %s: its groups are %v, this process has %v and %w; leave out `user` to run with those of this process",
			ErrIdentity, id.Name, id.Groups, have, canSwitchUsers())
	}
	id.own = true
	return nil
}

func addGroup(list []uint32, g uint32) []uint32 {
	list = append(slices.Clone(list), g)
	slices.Sort(list)
	return slices.Compact(list)
}

// credential is what makes the child id; nil when there is nothing to switch.
// Groups is never nil: a nil list would be read as "no supplementary groups".
func (id *Identity) credential() *syscall.Credential {
	if id.own {
		return nil
	}
	return &syscall.Credential{Uid: id.UID, Gid: id.GID, Groups: slices.Clone(id.Groups)}
}

var errNoCapability = errors.New("has not the capabilities to switch users (CAP_SETUID, CAP_SETGID, CAP_KILL)")

// canSwitchUsers returns nil when this process may become any user, and kill what
// it started as one.
func canSwitchUsers() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return fmt.Errorf("cannot read its capabilities: %w", err)
	}
	const need = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL
	if data[0].Effective&need != need {
		return errNoCapability
	}
	return nil
}

func ownUID() uint32 { return uint32(os.Geteuid()) }
