package policy

import (
	"fmt"
	"strings"
)

// refusedEnv are the variables by which a loader, libc, shell or interpreter is
// told to run or read something else: no definition or request may set them. A
// final * stands for any rest. The list is glibc's of variables unsafe for
// setuid programs, sudo's env_delete, and the interpreters'.
var refusedEnv = []string{
	"LD_*", "_RLD*", "DYLD_*", "LIBPATH", "SHLIB_PATH", "GLIBC_TUNABLES", "MALLOC_*", "GCONV_PATH", "GETCONF_DIR",
	"LOCPATH", "NLSPATH", "PATH_LOCALE", "HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS", "RESOLV_HOST_CONF",
	"NIS_PATH", "TZDIR", "TERMINFO", "TERMINFO_DIRS", "TERMPATH", "TERMCAP",
	"PATH", "IFS", "ENV", "BASH_*", "BASHOPTS", "SHELLOPTS", "CDPATH", "GLOBIGNORE", "PS4", "PROMPT_COMMAND",
	"FPATH", "ZDOTDIR", "NULLCMD", "READNULLCMD", "TMPPREFIX",
	"PYTHON*", "PERL*", "RUBYLIB", "RUBYOPT", "NODE_OPTIONS", "NODE_PATH", "LUA_PATH*", "LUA_CPATH*", "LUA_INIT*", "GODEBUG",
	"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH",
}

// reservedEnv belongs to the event that a hook is told about.
const reservedEnv = "DDNS_*"

// CheckEnvName returns an error unless a definition, or a request that a
// definition allows it, may set the variable: a letter or underscore, then
// letters, digits and underscores, not DDNS_* and none that makes a loader, shell
// or interpreter run something else.
func CheckEnvName(name string) error {
	if !isEnvName(name) {
		return fmt.Errorf("%s is not a name of an environment variable", quote(name))
	}
	if envCovers(reservedEnv, name) {
		return fmt.Errorf("%s is reserved: %s describes the event", quote(name), reservedEnv)
	}
	for _, r := range refusedEnv {
		if envCovers(r, name) {
			return fmt.Errorf("%s is refused: it would change what program runs", quote(name))
		}
	}
	return nil
}

// checkEnvPattern is CheckEnvName for NAME or PREFIX*. A prefix must not reach
// any variable that is refused by name.
func checkEnvPattern(pattern string) error {
	prefix, wild := strings.CutSuffix(pattern, "*")
	if !wild {
		return CheckEnvName(pattern)
	}
	if !isEnvName(prefix) {
		return fmt.Errorf("%s is not a prefix of environment variables", quote(pattern))
	}
	for _, r := range append([]string{reservedEnv}, refusedEnv...) {
		if envCovers(pattern, strings.TrimSuffix(r, "*")) || envCovers(r, prefix) {
			return fmt.Errorf("%s would allow %s, which is refused", quote(pattern), r)
		}
	}
	return nil
}

// envCovers reports whether NAME or PREFIX* is or begins name.
func envCovers(pattern, name string) bool {
	if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
		return strings.HasPrefix(name, prefix)
	}
	return name == pattern
}

// isEnvName is POSIX's portable form, either case.
func isEnvName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
