package ddns

import (
	"context"
	"slices"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/plugin"
	"github.com/coredns/coredns/plugin/transfer"
	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns/internal/resident"
)

func init() { plugin.Register(pluginName, setup) }

// setup reads the stanza and hangs the instance's callbacks into the server's
// life. It has no effect outside of the new configuration, which may be thrown
// away without a word when a reload fails: everything happens in OnStartup.
func setup(c *caddy.Controller) error {
	cfg, err := parse(c)
	if err != nil {
		return plugin.Error(pluginName, err)
	}
	i := newInstance(cfg, loadOf(c))
	var host *caddy.Instance // the one that this load makes
	if all := caddy.Instances(); len(all) > 0 {
		host = all[len(all)-1]
	}
	config := dnsserver.GetConfig(c)
	if cfg.policy != "" {
		config.AllowOpcode(dns.OpcodeUpdate)
	}
	config.Plugin = append([]plugin.Plugin{func(next plugin.Handler) plugin.Handler {
		return &front{Next: next, instance: i}
	}}, config.Plugin...)
	config.AddPlugin(func(next plugin.Handler) plugin.Handler {
		return &DDNS{Next: next, instance: i}
	})

	c.OnStartup(func() error {
		i.signer, _ = config.Handler("dnssec").(signer)
		err := i.checkNested()
		if err == nil {
			err = i.start()
		}
		if err != nil {
			if undo := i.generation.Drop(); undo != nil {
				log.Warningf("Giving up what was started: %v", undo)
			}
			return plugin.Error(pluginName, err)
		}
		if t, ok := config.Handler("transfer").(*transfer.Transfer); ok {
			return i.startNotifier(t)
		}
		return nil
	})
	c.OnRestart(func() error { i.generation.Restart(); return nil })
	c.OnRestartFailed(func() error {
		if host != nil && !slices.Contains(caddy.Instances(), host) {
			// The new configuration runs and this one was stopped: what failed is
			// only another plugin's OnShutdown, before or after ours was called.
			i.shutdown()
			return nil
		}
		if err := i.generation.RestartFailed(); err != nil {
			return plugin.Error(pluginName, err)
		}
		return nil
	})
	c.OnShutdown(func() error { i.shutdown(); return nil })
	c.OnFinalShutdown(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), httpGrace)
		defer cancel()
		return httpListeners.Shutdown(ctx)
	})
	return nil
}

// loadKey is where the stanzas of one load find each other.
type loadKey struct{}

func loadOf(c *caddy.Controller) *load {
	if l, ok := c.Get(loadKey{}).(*load); ok {
		return l
	}
	l := &load{generation: resident.NewGeneration()}
	c.Set(loadKey{}, l)
	return l
}
