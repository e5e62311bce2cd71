// Package policy says who may do what: tokens, TSIG keys, what each may update,
// and the definitions of hooks. It reads the policy file and nothing else.
//
// Its one invariant: a *Policy never changes after it was returned, so that a
// request which takes it once is judged by one policy throughout. Everything is
// denied unless a line of the file grants it.
//
// A policy file is written in the syntax of a Corefile, without import and
// without environment variables, so that the file's text is the whole policy:
//
//	token NAME sha256:HEX {
//	    update OWNER [TYPES...]      # repeatable
//	    from ADDRESS|CIDR...         # peers it may come from; default any
//	    expires 2006-01-02|RFC3339   # refused from then on; a date is its first second in UTC
//	    reload                       # may call /reload and see hooks
//	}
//	key NAME {
//	    update OWNER [TYPES...]
//	    self [TYPES...]              # the owner that has the key's own name
//	    from ADDRESS|CIDR...
//	    expires DATE
//	}
//	hook NAME {
//	    command PATH [ARGS...]
//	    user NAME
//	    group NAME
//	    cwd PATH
//	    timeout 1s..1h
//	    env NAME VALUE               # repeatable
//	    allow_env NAME|PREFIX*...    # what a request may set besides DDNS_*
//	    on added changed removed     # default all three
//	    match OWNER...               # default every name
//	    types TYPES...
//	    root                         # may run as root
//	}
//
// OWNER is a full name, or *.x for every name below x, underscore names
// included. *.x covers neither x nor a name with a label "*" below x: the
// wildcard record itself, which answers for names nobody was granted, is
// granted by the escaped spelling \*.x. TYPES are mnemonics, TYPEnnn or * for
// every type, by default A and AAAA. ANY allows deleting all RRsets of a name
// at once and nothing more.
package policy
