// Command ddns-token makes a token for the policy file, and checks one, without
// a running server.
//
//	ddns-token [-o FILE] OWNER    # a token, and the block that lets it update OWNER
//	ddns-token -check             # reads a token from standard input
//
// Its one invariant: the token itself is written once, to standard output or to
// a new file that only its owner can read; the policy gets nothing but its hash.
package main

import (
	"bufio"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/coredns-ddns/ddns/internal/policy"
	"github.com/coredns-ddns/ddns/internal/version"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		if err != flag.ErrHelp {
			fmt.Fprintln(os.Stderr, "ddns-token:", err)
		}
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("ddns-token", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("o", "", "write the token to this new `file`, readable by its owner only, and print just the policy block")
	check := flags.Bool("check", false, "read a token from standard input and say whether it is well formed, and its hash")
	show := flags.Bool("version", false, "print the version")
	flags.Usage = func() {
		fmt.Fprint(stderr, "usage: ddns-token [-o file] OWNER\n       ddns-token -check < file\n\n"+
			"OWNER is what the token may update: a name, or *.NAME for every name below it.\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *show:
		_, err := fmt.Fprintln(stdout, "ddns-token", version.String())
		return err
	case *check && flags.NArg() == 0 && *out == "":
		return checkToken(stdin, stdout)
	case *check:
		return fmt.Errorf("-check reads the token from standard input and takes nothing else")
	case flags.NArg() != 1:
		flags.Usage()
		return fmt.Errorf("expected one OWNER, got %d", flags.NArg())
	}
	return generate(flags.Arg(0), *out, stdout)
}

func generate(owner, file string, stdout io.Writer) error {
	if _, err := policy.ParsePattern(owner); err != nil {
		return err
	}
	g, err := policy.Generate(rand.Reader)
	if err != nil {
		return err
	}
	if file == "" {
		_, err = fmt.Fprintf(stdout, "%s\n\n%s", g.Token, g.Policy(owner))
		return err
	}
	// An existing token is never overwritten: a device may be using it.
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintln(f, g.Token); err != nil {
		f.Close()
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	_, err = io.WriteString(stdout, g.Policy(owner))
	return err
}

func checkToken(stdin io.Reader, stdout io.Writer) error {
	line, err := bufio.NewReader(io.LimitReader(stdin, 1024)).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	token := strings.TrimRight(line, "\r\n")
	if err := policy.CheckToken(token); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "well formed,", policy.HashToken(token))
	return err
}
