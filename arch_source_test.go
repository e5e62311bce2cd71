package ddns_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// The rules of the house about source files.

const longest = 500 // lines of a file that is neither a test nor generated

var (
	generated  = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
)

func TestSourceKeepsTheHouseRules(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "run" || strings.HasPrefix(d.Name(), ".") && file != ".") {
			return fs.SkipDir
		}
		if d.IsDir() || path.Ext(file) != ".go" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		seen++
		for _, v := range sourceViolations(filepath.ToSlash(file), text) {
			t.Error(v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Errorf("only %d Go files looked at", seen)
	}
}

// sourceViolations is one sentence for each rule that a source file breaks.
func sourceViolations(file string, text []byte) []string {
	if generated.Match(text) {
		return nil
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}
	}
	var out []string
	say := func(pos token.Pos, format string, args ...any) {
		out = append(out, fset.Position(pos).String()+": "+fmt.Sprintf(format, args...))
	}
	if m := unfinished.Find(text); m != nil {
		say(tree.Package, "a bare %s: do it, or write what it costs as BUG", m)
	}
	if strings.HasSuffix(file, "_test.go") {
		return out
	}
	if n := strings.Count(string(text), "\n"); n > longest {
		say(tree.Package, "%d lines, more than %d: two ideas?", n, longest)
	}
	dir := path.Dir(file)
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if dir == "internal/zone" {
				say(n.Pos(), "zone starts no goroutine")
			}
		case *ast.CallExpr:
			if prints(n.Fun) && !in(dir, "cmd", "bench") {
				say(n.Pos(), "prints: return an error, or log through CoreDNS")
			}
			if message := logMessage(n); message != "" && unicode.IsLower([]rune(message)[0]) {
				say(n.Pos(), "log message %q starts with a lower-case letter", message)
			}
		}
		return true
	})
	return out
}

// prints reports whether fun writes to the standard streams behind CoreDNS's
// back, which would break -log-format json.
func prints(fun ast.Expr) bool {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name == "print" || f.Name == "println"
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		if !ok {
			return false
		}
		return (x.Name == "fmt" || x.Name == "log") && strings.HasPrefix(f.Sel.Name, "Print") ||
			x.Name == "slog" && slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Log"}, f.Sel.Name)
	}
	return false
}

var logMethod = regexp.MustCompile(`^(Debug|Info|Warning|Error|Fatal)f?$`)

// logMessage is the literal that a call such as log.Infof("…") logs, or "".
func logMessage(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !logMethod.MatchString(sel.Sel.Name) || len(call.Args) == 0 {
		return ""
	}
	receiver := ""
	switch x := sel.X.(type) {
	case *ast.Ident:
		receiver = x.Name
	case *ast.SelectorExpr:
		receiver = x.Sel.Name
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING || !slices.Contains([]string{"log", "clog", "Log", "logger"}, receiver) {
		return ""
	}
	message, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return message
}

func TestSourceRulesBite(t *testing.T) {
	body := func(s string) string { return "package p\n\nfunc f() {\n\t" + s + "\n}\n" }
	tests := []struct {
		name, file, text string
		want             string // in the only violation; "" for none
	}{
		{"a goroutine in zone", "internal/zone/a.go", body("go f()"), "zone starts no goroutine"},
		{"a goroutine elsewhere", "internal/zonedb/a.go", body("go f()"), ""},
		{"fmt.Println in a library", "hooks/a.go", body(`fmt.Println("x")`), "prints"},
		{"fmt.Println in a command", "cmd/coredns/a.go", body(`fmt.Println("x")`), ""},
		{"fmt.Sprintf", "hooks/a.go", body(`_ = fmt.Sprintf("x")`), ""},
		{"the builtin println", "a.go", body(`println("x")`), "prints"},
		{"a logger made for net/http", "a.go", body(`_ = log.New(nil, "", 0)`), ""},
		{"log.Printf", "a.go", body(`log.Printf("Started")`), "prints"},
		{"slog.Info", "a.go", body(`slog.Info("Started")`), "prints"},
		{"a log message in lower case", "a.go", body(`log.Infof("started %d", 1)`), "lower-case"},
		{"a log message through a field", "a.go", body(`x.log.Warning("started")`), "lower-case"},
		{"a log message as it should be", "a.go", body(`log.Infof("Started %d", 1)`), ""},
		{"an error in lower case", "a.go", body(`_ = fmt.Errorf("committing")`), ""},
		{"an unfinished thought", "a.go", "package p\n\n// TO" + "DO: later\n", "do it"},
		{"an unfinished thought in a test", "a_test.go", "package p\n\n// FIX" + "ME\n", "do it"},
		{"a long file", "a.go", "package p\n" + strings.Repeat("\n", longest), "two ideas"},
		{"a long test", "a_test.go", "package p\n" + strings.Repeat("\n", longest), ""},
		{"a long generated file", "a.go", "// Code generated by x. DO NOT EDIT.\n\npackage p\n" + strings.Repeat("\n", longest), ""},
		{"a file that does not parse", "a.go", "package", "expected"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := sourceViolations(tc.file, []byte(tc.text))
			switch {
			case tc.want == "" && len(got) > 0:
				t.Errorf("got %q, want no violation", got)
			case tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)):
				t.Errorf("got %q, want one violation with %q", got, tc.want)
			}
		})
	}
}
