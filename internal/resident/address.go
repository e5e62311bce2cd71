package resident

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// Address is an address to listen on, in the one spelling that makes equal
// addresses equal: "127.0.0.1:8053", "[::1]:8053", ":8053" for every address of
// the machine, "name:8053", "unix:///path".
type Address string

const unixScheme = "unix://"

// ParseAddress reads HOST:PORT, :PORT or unix:///PATH. The port is a number; 0 has
// the system choose one, which is for tests.
func ParseAddress(s string) (Address, error) {
	if p, ok := strings.CutPrefix(s, unixScheme); ok {
		if !path.IsAbs(p) || strings.ContainsRune(p, 0) {
			return "", fmt.Errorf("address %q: want an absolute path, as in unix:///run/ddns/http.sock", s)
		}
		return Address(unixScheme + path.Clean(p)), nil
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", fmt.Errorf("address %q: want HOST:PORT, :PORT or unix:///PATH", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", fmt.Errorf("address %q: port %q is not a number from 0 to 65535", s, port)
	}
	port = strconv.FormatUint(n, 10)
	if host == "" {
		return Address(":" + port), nil
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return Address(net.JoinHostPort(ip.Unmap().String(), port)), nil
	}
	host = strings.ToLower(host)
	if host == "localhost" { // so that both spellings share the socket
		return Address("127.0.0.1:" + port), nil
	}
	if !isHostName(host) {
		return "", fmt.Errorf("address %q: %q is neither an IP address nor a host name", s, host)
	}
	return Address(net.JoinHostPort(host, port)), nil
}

// isHostName tells a name from a mistyped address, which has no letter.
func isHostName(s string) bool {
	letter := false
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" {
			return false
		}
		for _, c := range label {
			switch {
			case 'a' <= c && c <= 'z':
				letter = true
			case '0' <= c && c <= '9', c == '-', c == '_':
			default:
				return false
			}
		}
	}
	return letter
}

// Loopback reports whether only this machine can reach the address.
func (a Address) Loopback() bool {
	if strings.HasPrefix(string(a), unixScheme) {
		return true
	}
	host, _, err := net.SplitHostPort(string(a))
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

func (a Address) String() string { return string(a) }

// ephemeral reports whether the system chooses the port.
func (a Address) ephemeral() bool { return strings.HasSuffix(string(a), ":0") }

// socketMode lets the owner and group of a unix socket connect: the group is how
// a reverse proxy under another user gets in.
const socketMode = 0o660

// listen binds the address.
func (a Address) listen() (net.Listener, error) {
	p, ok := strings.CutPrefix(string(a), unixScheme)
	if !ok {
		// No SO_REUSEPORT: another process must not be able to take half of
		// the connections, nor two of ours each believe they have the port.
		return net.Listen("tcp", string(a))
	}
	if err := removeStale(p); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", p)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(p, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeStale removes the socket of a process that did not live to do so. A
// file that is no socket, or a socket that somebody listens on, stays.
func removeStale(p string) error {
	fi, err := os.Lstat(p)
	if err != nil || fi.Mode().Type() != os.ModeSocket {
		return nil // absent, or for net.Listen to complain about
	}
	c, err := net.Dial("unix", p)
	if err == nil {
		return errors.Join(fmt.Errorf("%s: another process listens on it", p), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return os.Remove(p)
}
