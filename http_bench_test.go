package ddns

import (
	"net/http"
	"testing"
)

// BenchmarkUpdate is what the HTTP side and the write path cost together without
// a disk and without a network: one name that gets another address each time.
func BenchmarkUpdate(b *testing.B) {
	w := newWorld(b, func(s *httpSite) { s.Log = nil })
	front := newHTTPFront()
	front.view.Store(w.view())
	requests := [2]*http.Request{updateRequest(b, laptopToken), updateRequest(b, laptopToken)}
	requests[1].URL.RawQuery = "fqdn=laptop.dyn.example.org&ip=192.0.2.2"
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		rec := newRecorder()
		front.ServeHTTP(rec, requests[i%2])
		if rec.Code != http.StatusOK {
			b.Fatal(rec.answer())
		}
	}
}

// BenchmarkUpdateRefused is the cost of a wrong token.
func BenchmarkUpdateRefused(b *testing.B) {
	w := newWorld(b, func(s *httpSite) { s.Log = nil })
	front := newHTTPFront()
	front.view.Store(w.view())
	r := updateRequest(b, wrongToken)
	b.ReportAllocs()
	for b.Loop() {
		front.ServeHTTP(newRecorder(), r)
	}
}
