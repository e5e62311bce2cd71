package ddns

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns-ddns/ddns/hooks"
	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/resident"
	"github.com/coredns-ddns/ddns/internal/store"
	"github.com/coredns-ddns/ddns/internal/store/bolt"
	"github.com/coredns-ddns/ddns/internal/store/mem"
	"github.com/coredns-ddns/ddns/internal/zone"
	"github.com/coredns-ddns/ddns/internal/zonedb"
)

// instance is one stanza of one load of the Corefile, from OnStartup to
// OnShutdown. What it serves is resident and may be older than it.
type instance struct {
	cfg        *config
	generation *resident.Generation
	nesting    *nesting

	// set by start, immutable afterwards
	store *resident.Lease[*zonedb.DB]
	zones map[zone.Name]*zonedb.Zone
	// signer is the dnssec plugin in front of us, or nil.
	signer signer

	policy    atomic.Pointer[policy.Policy]
	reloading sync.Mutex    // held while /reload works
	over      atomic.Bool   // stop has begun: neither /reload nor UPDATE may change anything any more
	specs     []zonedb.Spec // not merged yet; guarded by reloading after start
	load      *load
	stopped   sync.Once
	notifier  *notifier
	site      *resident.Site[*httpSite] // nil without HTTP
	tls       *tls.Config               // guarded by reloading after start

	dispatcher    atomic.Pointer[resident.Lease[*dispatching]] // nil without hooks
	executor      atomic.Pointer[hooks.Executor]
	closeExecutor func() error                 // may be nil
	grpc          *resident.Lease[*hookServer] // nil without the hook server
}

// stores are the databases of the process by file, or by zones for memory.
var stores resident.Table[string, *zonedb.DB]

// live are the instances between start and stop.
var live struct {
	mu      sync.Mutex
	started map[*instance]bool // false until start is through, for Ready
	// unmerged are those whose zone files wait for the reload that is under way:
	// it may yet fail, and then the zones must be as they were.
	unmerged map[*instance]bool
}

func newInstance(cfg *config, l *load) *instance {
	i := &instance{cfg: cfg, generation: l.generation, load: l, nesting: nestingOf(cfg.zones)}
	l.instances = append(l.instances, i)
	return i
}

// load is one load of the Corefile with all its stanzas.
type load struct {
	generation *resident.Generation
	instances  []*instance // complete once setup is done
	begun      bool
}

// begin registers the instances as those that Ready waits for: all of them before
// the first starts, because the ready plugin asks meanwhile, and only until it is
// told yes.
func (l *load) begin() error {
	if l.begun {
		return nil
	}
	l.begun = true
	if err := l.agree(); err != nil {
		return err
	}
	live.mu.Lock()
	if live.started == nil {
		live.started = make(map[*instance]bool)
	}
	for _, i := range l.instances {
		live.started[i] = false
	}
	live.mu.Unlock()
	return l.generation.OnDrop(func() error {
		for _, i := range l.instances {
			i.end()
		}
		return nil
	})
}

// agree refuses stanzas that share a store and give one of its zones different
// records: each would take the other's out, at each start and each reload. And it
// refuses those that share an HTTP address and a zone, but not its store: an update
// would go to one of them, and be missing from what the other answers.
func (l *load) agree() error {
	type served struct {
		http string
		zone zone.Name
	}
	takes := make(map[served]*instance)
	for _, i := range l.instances {
		if i.cfg.http.off {
			continue
		}
		for _, z := range i.cfg.zones {
			at := served{i.cfg.http.address, z}
			if one := takes[at]; one == nil {
				takes[at] = i
			} else if one.storeKey() != i.storeKey() {
				return fmt.Errorf("zone %s is in two stanzas with the HTTP address %s and a store each: updates would reach one of them only; give both the same 'store', or one of them 'http off'", z, at.http)
			}
		}
	}
	type place struct {
		store string
		zone  zone.Name
	}
	first := make(map[place]*instance)
	for _, i := range l.instances {
		for _, z := range i.cfg.zones {
			at := place{i.storeKey(), z}
			switch one := first[at]; {
			case one == nil:
				first[at] = i
			case one.cfg.files[z] != i.cfg.files[z] || one.cfg.seeds[z] != i.cfg.seeds[z],
				i.cfg.files[z] == "" && i.cfg.seeds[z] == "" && !reflect.DeepEqual(one.cfg.servers, i.cfg.servers):
				return fmt.Errorf("zone %s has different records in two stanzas that share the store %s: give both the same 'file', 'seed' or 'ns', or each a store of its own", z, at.store)
			}
		}
	}
	return nil
}

func allStarted() bool {
	live.mu.Lock()
	defer live.mu.Unlock()
	for _, started := range live.started {
		if !started {
			return false
		}
	}
	return len(live.started) > 0
}

// start acquires everything the stanza needs. After an error nothing of it
// stays: the caller drops the generation.
func (i *instance) start() error {
	outliveLog()
	holdStacks() // before the collections of the load
	if err := i.load.begin(); err != nil {
		return err
	}
	loaded, err := i.read()
	if err != nil {
		return err
	}
	if i.cfg.store.isNew() {
		if err := loaded.parse(); err != nil {
			return err
		}
	}
	if err := i.startStore(loaded.specs); err != nil {
		return err
	}
	i.tls = loaded.tls
	loaded.specs = nil // with all that was read
	if !i.generation.Successor() {
		i.returnMemory()
	}
	i.policy.Store(loaded.policy)
	for _, w := range loaded.policy.Warnings() {
		log.Warningf("%s", w)
	}
	if err := i.startHooks(loaded); err != nil {
		return err
	}
	if err := i.startGRPC(loaded); err != nil {
		return err
	}
	if err := i.startHTTP(loaded); err != nil {
		return err
	}
	live.mu.Lock()
	live.started[i] = true
	live.mu.Unlock()
	return nil
}

func (i *instance) end() {
	live.mu.Lock()
	defer live.mu.Unlock()
	delete(live.started, i)
	delete(live.unmerged, i)
}

// startStore opens the database or joins it, and brings our zones into memory.
func (i *instance) startStore(specs []zonedb.Spec) error {
	lease, err := stores.Acquire(i.generation, i.storeKey(), i.openStore)
	if err != nil {
		return err
	}
	i.store = lease
	db := lease.Value()
	created, err := db.Attach(context.Background(), specs)
	if err != nil {
		return err
	}
	origins := make([]zone.Name, len(specs))
	i.zones = make(map[zone.Name]*zonedb.Zone, len(specs))
	for k, spec := range specs {
		origins[k] = spec.Origin
		i.zones[spec.Origin] = db.Zone(spec.Origin)
	}
	if err := i.generation.OnDrop(func() error { db.Detach(origins); return nil }); err != nil {
		return err
	}
	for _, origin := range created {
		log.Infof("Created zone=%s serial=%d", origin, i.zones[origin].Version().Serial())
	}
	// Said now, while it can still stop the start.
	if err := db.Check(specs); err != nil {
		return err
	}
	if i.generation.Successor() {
		live.mu.Lock()
		defer live.mu.Unlock()
		if live.unmerged == nil {
			live.unmerged = make(map[*instance]bool)
		}
		live.unmerged[i] = true
		i.specs = specs
		return nil
	}
	_, err = i.merge(specs)
	return err
}

// manyNames is from when on what loading leaves behind is worth a collection, which
// takes a moment itself.
const manyNames = 100_000

// returnMemory gives back to the system what loading needed beside the zones: twice
// what they take. The next collection may be far away, and would be due at
// a multiple of the garbage.
func (i *instance) returnMemory() {
	names := 0
	for _, z := range i.zones {
		names += z.Version().Counts().Names
	}
	if names >= manyNames {
		debug.FreeOSMemory()
	}
}

func (i *instance) storeKey() string {
	if i.cfg.store.kind == "memory" {
		return fmt.Sprintf("memory %v", i.cfg.zones)
	}
	return canonicalPath(i.cfg.store.path)
}

func (i *instance) openStore() (*zonedb.DB, func() error, error) {
	var s store.Store
	switch i.cfg.store.kind {
	case "memory":
		s = mem.New()
	default:
		b, err := bolt.Open(i.cfg.store.path, bolt.Options{Warn: func(s string) { log.Warning(s) }})
		if err != nil {
			return nil, nil, err
		}
		s = b
	}
	db, err := zonedb.Open(s, zonedb.Options{
		Observer: &storeObserver{kind: i.cfg.store.kind},
		Log:      logStore,
	})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return db, db.Close, nil
}

// merge brings the operator's records of our zones up to date.
func (i *instance) merge(specs []zonedb.Spec) ([]zonedb.Merged, error) {
	merged, err := i.store.Value().Merge(context.Background(), specs)
	if err != nil {
		return nil, err
	}
	for k, m := range merged {
		for _, n := range m.TakenOver {
			log.Warningf("Zone file took over a dynamic name zone=%s name=%s", specs[k].Origin, n)
		}
		if m.Changed {
			logChange(specs[k].Origin, m.Changeset)
		}
	}
	return merged, nil
}

// shutdown is stop for the host's callbacks. Its error is not returned: it would
// make the host take a reload that has succeeded for one that failed.
func (i *instance) shutdown() {
	i.stopped.Do(func() {
		if err := i.stop(); err != nil {
			log.Errorf("Stopping: %v", err)
		}
		i.generation.Shutdown()
	})
}

// stop ends the instance. When a newer load took its place, that one's files are
// merged now. Otherwise the process is going down: queries are answered from
// memory to the end, and updates are refused.
func (i *instance) stop() error {
	replaced := i.generation.Replaced()
	err := i.stopHTTP()
	i.over.Store(true)
	if replaced {
		// What a /reload of ours puts into the zones must not come after what the
		// newer load does. At the end of the process the store refuses it.
		i.reloading.Lock()
		defer i.reloading.Unlock()
	}
	err = errors.Join(err, i.stopGRPC(), i.stopHooks(replaced))
	i.notifier.close()
	i.end()
	if i.store == nil {
		return err
	}
	if replaced {
		mergePending()
		i.store.Value().Detach(keys(i.zones))
	}
	return errors.Join(err, i.store.Release())
}

// mergePending merges the files of the instances that have come to serve.
func mergePending() {
	live.mu.Lock()
	pending := live.unmerged
	live.unmerged = nil
	live.mu.Unlock()
	for i := range pending {
		i.mergeLate()
	}
}

// mergePause is the first pause of mergeLate between two attempts, and
// mergePatience about the sum of all.
const (
	mergePause    = 50 * time.Millisecond
	mergePatience = 3 * time.Second
)

// mergeLate merges the files once the reload cannot fail any more. So when they
// cannot be merged, not even a moment later, all that is left is to say so.
func (i *instance) mergeLate() {
	i.reloading.Lock()
	defer i.reloading.Unlock()
	for pause := mergePause; ; pause *= 2 {
		_, err := i.merge(i.specs)
		switch {
		case err == nil:
			i.specs = nil
			return
		case pause < mergePatience/2 && (errors.Is(err, zonedb.ErrBusy) || errors.Is(err, zonedb.ErrUnavailable)):
			time.Sleep(pause)
			continue
		}
		reloadsTotal.WithLabelValues("unmerged").Inc()
		log.Errorf("The Corefile was reloaded, but the records of its zone files are not in force zones=%v: %v: mend it and call /reload", names(i.cfg.zones), err)
		return
	}
}

func keys(zones map[zone.Name]*zonedb.Zone) []zone.Name {
	var names []zone.Name
	for n := range zones {
		names = append(names, n)
	}
	return names
}

// canonicalPath gives one spelling to a file reached by several, whether or not
// it exists yet.
func canonicalPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if real, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(real, filepath.Base(path))
	}
	return path
}
