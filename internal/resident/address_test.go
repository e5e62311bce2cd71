package resident_test

import (
	"testing"

	"github.com/coredns-ddns/ddns/internal/resident"
)

func TestParseAddress(t *testing.T) {
	tests := []struct {
		in, want string // want empty: refused
		loopback bool
	}{
		{in: "127.0.0.1:8053", want: "127.0.0.1:8053", loopback: true},
		{in: "localhost:8053", want: "127.0.0.1:8053", loopback: true},
		{in: "LocalHost:08053", want: "127.0.0.1:8053", loopback: true},
		{in: "[::ffff:127.0.0.1]:8053", want: "127.0.0.1:8053", loopback: true},
		{in: "[0:0:0:0:0:0:0:1]:8053", want: "[::1]:8053", loopback: true},
		{in: "[fe80::1%eth0]:80", want: "[fe80::1%eth0]:80"},
		{in: ":8053", want: ":8053"},
		{in: "0.0.0.0:8053", want: "0.0.0.0:8053"},
		{in: "Box.Example.org:8053", want: "box.example.org:8053"},
		{in: "127.0.0.1:0", want: "127.0.0.1:0", loopback: true},
		{in: "unix:///run/ddns//http.sock", want: "unix:///run/ddns/http.sock", loopback: true},
		{in: "unix://run/http.sock"},
		{in: "127.0.0.1"},
		{in: "127.0.0.1:http"},
		{in: "127.0.0.1:65536"},
		{in: "127.0.0.256:80"},
		{in: "127.1:80"},
		{in: "*:80"},
		{in: "http://127.0.0.1:80"},
		{in: "a..b:80"},
		{in: ""},
	}
	for _, tc := range tests {
		got, err := resident.ParseAddress(tc.in)
		if string(got) != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("ParseAddress(%q): got %q, %v, want %q", tc.in, got, err, tc.want)
		}
		if err == nil && got.Loopback() != tc.loopback {
			t.Errorf("%q: got Loopback %v, want %v", tc.in, got.Loopback(), tc.loopback)
		}
	}
}
