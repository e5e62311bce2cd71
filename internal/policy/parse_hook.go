package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
)

func (p *Policy) parseHook(r *lines) error {
	args, err := r.header("hook NAME {", 1)
	if err != nil {
		return err
	}
	h := &Hook{Name: args[0], Line: r.no}
	if err := checkBlockName(h.Name); err != nil {
		return r.errorf("hook: %s", err)
	}
	what := "hook " + h.Name
	if other, ok := p.byHook[h.Name]; ok {
		return r.errorf("%s: the name is taken by line %d", what, other.Line)
	}
	if len(p.hooks) == maxHooks {
		return r.errorf("%s: more than %d hooks", what, maxHooks)
	}
	seen := make(map[string]bool)
	err = r.block(what, func(property string, args []string) error {
		parse, ok := hookProperties[property]
		if !ok {
			return fmt.Errorf("unknown property %s: expected command, user, group, cwd, timeout, env, allow_env, on, match, types or root", quote(property))
		}
		if seen[property] && property != "env" && property != "allow_env" && property != "match" {
			return errTwice(property)
		}
		seen[property] = true
		if err := parse(h, args); err != nil {
			return fmt.Errorf("%s: %w", property, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	// These are about the block: its first line is the place.
	r.no = h.Line
	switch {
	case h.Command == nil:
		return r.errorf("%s: no command", what)
	case h.User == "root" && !h.Root:
		return r.errorf("%s: user root needs the word root on a line of its own", what)
	case h.Group == "root" && !h.Root:
		return r.errorf("%s: group root needs the word root on a line of its own", what)
	}
	if h.On == nil {
		h.On = []string{Added, Changed, Removed}
	}
	if !seen["types"] {
		h.Types = slices.Clone(addresses.types)
	}
	p.hooks = append(p.hooks, h)
	p.byHook[h.Name] = h
	return nil
}

var hookProperties = map[string]func(*Hook, []string) error{
	"command":   (*Hook).parseCommand,
	"user":      func(h *Hook, args []string) error { return parseAccount(&h.User, args) },
	"group":     func(h *Hook, args []string) error { return parseAccount(&h.Group, args) },
	"cwd":       (*Hook).parseCwd,
	"timeout":   (*Hook).parseTimeout,
	"env":       (*Hook).parseEnv,
	"allow_env": (*Hook).parseAllowEnv,
	"on":        (*Hook).parseOn,
	"match":     (*Hook).parseMatch,
	"types":     (*Hook).parseHookTypes,
	"root":      (*Hook).parseRoot,
}

func (h *Hook) parseCommand(args []string) error {
	if len(args) == 0 {
		return errors.New("expected PATH [ARGS...]")
	}
	if err := checkPath(args[0]); err != nil {
		return err
	}
	size := 0
	for _, a := range args {
		size += len(a)
	}
	if len(args) > maxArgs || size > maxArgBytes {
		return fmt.Errorf("more than %d arguments or %d octets", maxArgs, maxArgBytes)
	}
	h.Command = slices.Clone(args)
	return nil
}

// checkPath wants the path that will be used, as it will be used: what the
// runner checks must be what the operator read.
func checkPath(s string) error {
	switch {
	case !path.IsAbs(s):
		return fmt.Errorf("%s is not an absolute path", quote(s))
	case path.Clean(s) != s:
		return fmt.Errorf("%s is not a clean path: write %s", quote(s), quote(path.Clean(s)))
	}
	return nil
}

// parseAccount reads the name of a user or group. A number is refused: it may be
// no account at all, and has no supplementary groups.
func parseAccount(to *string, args []string) error {
	if len(args) != 1 {
		return errors.New("expected one NAME")
	}
	s := args[0]
	switch {
	case s != "" && strings.Trim(s, "0123456789") == "":
		return fmt.Errorf("%s is a number: give the name", quote(s))
	case !isAccount(s):
		return fmt.Errorf("%s is not the name of an account", quote(s))
	}
	*to = s
	return nil
}

// isAccount is the form that useradd(8) accepts, capitals and dots included, up
// to the 32 octets of utmp.
func isAccount(s string) bool {
	s = strings.TrimSuffix(s, "$")
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c != '-' && c != '.' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

func (h *Hook) parseCwd(args []string) error {
	if len(args) != 1 {
		return errors.New("expected one PATH")
	}
	h.Cwd = args[0]
	return checkPath(h.Cwd)
}

func (h *Hook) parseTimeout(args []string) error {
	if len(args) != 1 {
		return errors.New("expected one duration")
	}
	d, err := time.ParseDuration(args[0])
	switch {
	case err != nil:
		return fmt.Errorf("%s is not a duration such as 30s", quote(args[0]))
	case d < time.Second || d > time.Hour:
		return fmt.Errorf("%s is not between 1s and 1h", quote(args[0]))
	case d%time.Second != 0: // hooks.v1 carries whole seconds
		return fmt.Errorf("%s is not a whole number of seconds", quote(args[0]))
	}
	h.Timeout = d
	return nil
}

func (h *Hook) parseEnv(args []string) error {
	if len(args) != 2 {
		return errors.New("expected NAME VALUE, the value in quotes when it has spaces")
	}
	if err := CheckEnvName(args[0]); err != nil {
		return err
	}
	if _, ok := h.Env[args[0]]; ok {
		return fmt.Errorf("%s given twice", quote(args[0]))
	}
	if h.Env == nil {
		h.Env = make(map[string]string)
	}
	h.Env[args[0]] = args[1]
	size := 0
	for k, v := range h.Env {
		size += len(k) + len(v)
	}
	if len(h.Env) > maxArgs || size > maxArgBytes {
		return fmt.Errorf("more than %d variables or %d octets", maxArgs, maxArgBytes)
	}
	return nil
}

func (h *Hook) parseAllowEnv(args []string) error {
	if len(args) == 0 {
		return errors.New("expected NAME|PREFIX*...")
	}
	for _, a := range args {
		if err := checkEnvPattern(a); err != nil {
			return err
		}
		if slices.Contains(h.AllowEnv, a) {
			return fmt.Errorf("%s given twice", quote(a))
		}
		if len(h.AllowEnv) == maxArgs {
			return fmt.Errorf("more than %d variables", maxArgs)
		}
		h.AllowEnv = append(h.AllowEnv, a)
	}
	return nil
}

func (h *Hook) parseOn(args []string) error {
	if len(args) == 0 {
		return errors.New("expected some of added, changed and removed")
	}
	want := make(map[string]bool)
	for _, a := range args {
		switch {
		case a != Added && a != Changed && a != Removed:
			return fmt.Errorf("%s is not an event: expected added, changed or removed", quote(a))
		case want[a]:
			return fmt.Errorf("%s given twice", quote(a))
		}
		want[a] = true
	}
	for _, e := range []string{Added, Changed, Removed} {
		if want[e] {
			h.On = append(h.On, e)
		}
	}
	return nil
}

func (h *Hook) parseMatch(args []string) error {
	if len(args) == 0 {
		return errors.New("expected OWNER...")
	}
	for _, a := range args {
		p, err := ParsePattern(a)
		if err != nil {
			return err
		}
		h.Match = append(h.Match, p)
	}
	return nil
}

func (h *Hook) parseHookTypes(args []string) error {
	if len(args) == 0 {
		return errors.New("expected TYPES...")
	}
	for _, a := range args {
		if strings.EqualFold(a, "ANY") || strings.EqualFold(a, "TYPE255") {
			return fmt.Errorf("%s is not a type of record: every type is *", quote(a))
		}
	}
	s, err := parseTypes(args)
	if err != nil {
		return err
	}
	h.Types, h.AnyType = s.types, s.every
	return nil
}

func (h *Hook) parseRoot(args []string) error {
	if len(args) > 0 {
		return errors.New("takes no argument")
	}
	h.Root = true
	return nil
}
