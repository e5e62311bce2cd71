package ddns

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/coredns/coredns/plugin/pkg/fall"

	"github.com/coredns-ddns/ddns/internal/zone"
)

// config is one validated stanza. It is complete after parse and never changes.
type config struct {
	zones     []zone.Name // in the order given
	files     map[zone.Name]string
	seeds     map[zone.Name]string
	servers   []nameServer
	store     storeConfig
	policy    string // path; empty: nobody may update
	http      httpConfig
	grpc      grpcConfig
	hooks     string // "local", or the address of a hook server
	ttl       ttlConfig
	sourceIP  sourceIPMode
	addresses addressMode
	proxies   []netip.Prefix
	limits    limitConfig
	fall      fall.F

	oneLine bool // the block closes on the line of a property
}

// nameServer is one `ns` property.
type nameServer struct {
	name      zone.Name
	addresses []netip.Addr
}

type storeConfig struct {
	kind string // "bolt" or "memory"
	path string // of a bolt file, absolute
}

// isNew reports whether opening the store will make it.
func (s storeConfig) isNew() bool {
	if s.kind == "memory" {
		return true
	}
	_, err := os.Stat(s.path)
	return errors.Is(err, fs.ErrNotExist)
}

type httpConfig struct {
	off           bool
	address       string
	cert, key, ca string
}

type grpcConfig struct {
	address       string // empty: off
	cert, key, ca string
	reflection    bool
}

// ttlConfig holds seconds. Updates outside of least and most are brought
// to them.
type ttlConfig struct {
	standard, least, most uint32
}

type limitConfig struct {
	names    int // owners in a zone
	records  int // records in one RRset
	update   rate
	failures rate
	journal  int // changesets kept per zone
	given    map[string]bool
}

// rate is so many per duration; the zero value is no limit.
type rate struct {
	count int
	per   time.Duration
}

// Defaults, also in the README.
const (
	defaultHTTP     = "127.0.0.1:8053"
	defaultStore    = "ddns.db"
	defaultTTL      = 60
	defaultMostTTL  = 86400
	defaultNames    = 2_000_000
	defaultRecords  = 256
	defaultJournal  = 20_000
	rrsetsPerName   = 64
	defaultFailures = 30
)

func defaults() *config {
	return &config{
		files:  make(map[zone.Name]string),
		seeds:  make(map[zone.Name]string),
		http:   httpConfig{address: defaultHTTP},
		hooks:  "local",
		ttl:    ttlConfig{standard: defaultTTL, least: 0, most: defaultMostTTL},
		limits: limitConfig{names: defaultNames, records: defaultRecords, journal: defaultJournal, failures: rate{defaultFailures, time.Minute}},
	}
}

// zoneLimits are the limits an update of this stanza's zones is held to.
func (c *config) zoneLimits() zone.Limits {
	return zone.Limits{Names: c.limits.names, RecordsPerSet: c.limits.records, RRsetsPerName: rrsetsPerName}
}
