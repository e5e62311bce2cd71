// Package resident holds what outlives a reload of the configuration: the open
// store, the listening sockets, whatever else must not be closed and opened
// again while clients are using it.
//
// Its one invariant: a thing that some live configuration holds is open, and is
// the same thing for all that hold it; nothing is ever opened twice.
//
// # Generations
//
// Each load of the configuration is a [Generation], shared by all stanzas of the
// load. The host runs a reload like this: OnRestart of the old configuration,
// setup of the new one, OnStartup of the new one, then OnShutdown of the old one.
// From OnStartup to OnShutdown both are alive at once, so what both want is
// never without a holder. When the reload fails, wherever that happens, the old
// configuration is told by OnRestartFailed and the new one is not told at all:
// the old generation has to take back what the new one acquired. The duties:
//
//	setup            NewGeneration, once per load, kept where all stanzas of it find it
//	OnStartup        Acquire from tables and listeners with that generation; after
//	                 an error of its own, Generation.Drop
//	OnRestart        Generation.Restart
//	OnRestartFailed  Generation.RestartFailed, unless the new configuration is
//	                 running all the same: the host also calls OnRestartFailed
//	                 when the old one's OnShutdown returned an error. Then it is
//	                 a shutdown.
//	OnShutdown       Release what the stanza acquired, then Generation.Shutdown
//	OnFinalShutdown  Listeners.Shutdown
//
// All of these may be called any number of times; a stanza need not know what
// its neighbours did.
//
// # Listeners
//
// A socket is bound when its address is first acquired and stays open while any
// generation has a site on it; a reload that keeps the address changes only what
// answers, so no connection is ever refused. When the last site goes because a
// newer configuration took over without the address, the socket is closed and
// running requests are finished. When it goes because the process is about to
// end (OnShutdown without a preceding OnRestart), the socket stays open and the
// site is marked as stopping, so that clients get a proper "503, try again" for
// as long as DNS goes on answering, instead of a refused connection.
//
// BUG: a configuration without any stanza of ours has no generation, so nobody
// takes back what a failed reload from it to one with stanzas acquired: those
// sockets and stores stay open until the process ends or a later load uses them.
package resident
