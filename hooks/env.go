package hooks

import (
	"fmt"
	"sort"
	"strings"

	"github.com/coredns-ddns/ddns/internal/policy"
)

// basePath is the PATH of every hook.
const basePath = "/usr/local/bin:/usr/bin:/bin"

// checkEnv returns an error, which is errInvalid, for variables that execve(2) or
// this package does not take.
func checkEnv(env map[string]string) error {
	if len(env) > MaxEnv {
		return fmt.Errorf("%w: env has %d variables, at most %d are taken", errInvalid, len(env), MaxEnv)
	}
	total := 0
	for name, value := range env {
		switch {
		case len(name) > MaxEnvName:
			return fmt.Errorf("%w: env has a variable whose name has %d octets, at most %d are taken", errInvalid, len(name), MaxEnvName)
		case !eventVariable(name) && policy.CheckEnvName(name) != nil:
			return fmt.Errorf("%w: env: %w", errInvalid, policy.CheckEnvName(name))
		case strings.IndexByte(value, 0) >= 0:
			return fmt.Errorf("%w: env sets %s to a value with a NUL", errInvalid, name)
		case len(value) > MaxEnvValue:
			return fmt.Errorf("%w: env sets %s to %d octets, at most %d are taken", errInvalid, name, len(value), MaxEnvValue)
		}
		total += len(name) + len(value) + 2
	}
	if total > MaxEnvTotal {
		return fmt.Errorf("%w: env has %d octets, at most %d are taken", errInvalid, total, MaxEnvTotal)
	}
	return nil
}

// eventVariable reports whether name is one of those that describe an event.
func eventVariable(name string) bool {
	rest, ok := strings.CutPrefix(name, "DDNS_")
	for i := 0; i < len(rest); i++ {
		if c := rest[i]; c != '_' && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return false
		}
	}
	return ok && rest != ""
}

// environ returns the whole environment of a command: the clean base and env,
// sorted. Nothing of this process's own is in it.
func environ(id Identity, env map[string]string) []string {
	all := map[string]string{
		"PATH": basePath, "HOME": id.Home, "USER": id.Name, "LOGNAME": id.Name, "LANG": "C.UTF-8",
	}
	for name, value := range env {
		all[name] = value
	}
	list := make([]string, 0, len(all))
	for name, value := range all {
		list = append(list, name+"="+value)
	}
	sort.Strings(list)
	return list
}
