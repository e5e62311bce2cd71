package ddns_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/reload"
	"github.com/miekg/dns"

	"github.com/coredns-ddns/ddns"
)

// fence is a fenced block of a document.
type fence struct {
	file string
	line int
	tag  string // the first word after the fence
	text string
}

// fences reads the blocks between ~~~ or ``` lines.
func fences(t *testing.T, file string) []fence {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []fence
	var open string // what closes the block, "" outside of one
	for n, line := range strings.Split(string(text), "\n") {
		word := strings.TrimSpace(line)
		switch {
		case open == "" && (strings.HasPrefix(word, "~~~") || strings.HasPrefix(word, "```")):
			open = word[:3]
			tag, _, _ := strings.Cut(strings.TrimSpace(word[3:]), " ")
			all = append(all, fence{file: file, line: n + 1, tag: strings.ToLower(tag)})
		case open != "" && word == open:
			open = ""
		case open != "":
			all[len(all)-1].text += line + "\n"
		}
	}
	if open != "" {
		t.Errorf("%s: the last fence is not closed", file)
	}
	return all
}

// documents are README.md and what is below docs.
func documents(t *testing.T) []string {
	t.Helper()
	files := []string{"README.md"}
	err := filepath.WalkDir("docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var (
	fenceBlock  = regexp.MustCompile(`(?m)^(\S[^\n{]*?)[ \t]*\{[ \t]*$`)
	fenceStanza = regexp.MustCompile(`(?m)^\s+ddns\b[^\n]*\{[ \t]*$`)
	fenceHTTP   = regexp.MustCompile(`(?m)^(\s+http )(\S+)`)
	fenceFile   = regexp.MustCompile(`(?m)^\s+(file|seed) (\S+)(?:[ \t]+(\S+))?[ \t]*$`)
	fenceSide   = regexp.MustCompile(`(?m)^(\s+(?:health|ready|prometheus))\b[^\n{]*`)
	fenceTo     = regexp.MustCompile(`(?m)^(\s+to)((?:[ \t]+[0-9a-f.:]+)+)[ \t]*$`)
)

const fenceZone = "$TTL 300\n@ SOA ns1 hostmaster 1 3600 600 86400 60\n@ NS ns1\nns1 A 192.0.2.1\n"

// TestEveryCorefileOfTheDocumentsStarts starts them as they stand, but for the
// addresses, which others may have, and with the files that they name.
func TestEveryCorefileOfTheDocumentsStarts(t *testing.T) {
	count := 0
	for _, file := range documents(t) {
		for _, f := range fences(t, file) {
			if f.tag != "corefile" {
				if f.tag == "" {
					t.Errorf("%s:%d: the fence does not say what it holds", f.file, f.line)
				}
				continue
			}
			count++
			t.Run(fmt.Sprintf("%s line %d", file, f.line), func(t *testing.T) { startFence(t, f) })
		}
	}
	if count < 5 {
		t.Errorf("found %d Corefiles", count)
	}
}

func startFence(t *testing.T, f fence) {
	s := &server{t: t, dir: t.TempDir(), dns: freeAddress(t)}
	text := fenceBlock.ReplaceAllStringFunc(f.text, func(head string) string {
		var keys []string
		for _, key := range strings.Fields(strings.TrimSuffix(strings.TrimSpace(head), "{")) {
			keys = append(keys, strings.TrimSuffix(key, ":53")+":"+port(s.dns))
		}
		return strings.Join(keys, " ") + " {\n    bind 127.0.0.1\n    root " + s.dir
	})
	var apex string
	if keys := fenceBlock.FindStringSubmatch(f.text); keys != nil {
		apex = strings.Fields(keys[1])[0]
	}
	if fenceHTTP.MatchString(text) {
		text = fenceHTTP.ReplaceAllString(text, "${1}127.0.0.1:0")
	} else {
		text = fenceStanza.ReplaceAllString(text, "$0\n        http 127.0.0.1:0")
	}
	text = fenceSide.ReplaceAllString(text, "$1 127.0.0.1:0 ")
	text = fenceTo.ReplaceAllString(text, "$1 "+s.dns) // no NOTIFY leaves this machine
	for _, m := range fenceFile.FindAllStringSubmatch(text, -1) {
		s.write(m[2], fenceZone)
	}
	s.write("policy", "")
	s.corefile = text
	s.run()
	r := s.ask(apex, dns.TypeSOA)
	if r.Rcode != dns.RcodeSuccess || len(r.Answer) == 0 || r.Answer[0].Header().Rrtype != dns.TypeSOA {
		t.Errorf("asked for the SOA of %s, got\n%v", apex, r)
	}
}

// section is what a document has below a heading of the second level.
func section(t *testing.T, file, heading string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut("\n"+string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", file, heading)
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}

// TestReadmeIsAManualPage holds it to the sections of CoreDNS's plugins, in their order.
func TestReadmeIsAManualPage(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(text), "# ddns\n") {
		t.Error("the title is not the plugin's name")
	}
	last := -1
	for _, heading := range []string{"Name", "Description", "Syntax", "Metrics", "Ready", "Examples", "Bugs", "See Also"} {
		at := strings.Index(string(text), "\n## "+heading+"\n")
		if at < 0 {
			t.Errorf("no section %s", heading)
		} else if at < last {
			t.Errorf("section %s is out of order", heading)
		}
		last = max(last, at)
		if body := section(t, "README.md", heading); strings.TrimSpace(body) == "" {
			t.Errorf("section %s is empty", heading)
		}
	}
	if name := section(t, "README.md", "Name"); !strings.HasPrefix(strings.TrimSpace(name), "*ddns* - ") {
		t.Errorf("section Name: got %q", name)
	}
}

// TestReadmeSyntaxIsWhatIsParsed compares the synopsis with the words that the
// parser knows, and wants a word of explanation for each.
func TestReadmeSyntaxIsWhatIsParsed(t *testing.T) {
	syntax := section(t, "README.md", "Syntax")
	var synopsis string
	for _, f := range fences(t, "README.md") {
		if strings.HasPrefix(f.text, "ddns [ZONES...] {\n") {
			synopsis = f.text
		}
	}
	if !strings.Contains(syntax, synopsis) || synopsis == "" {
		t.Fatal("section Syntax has no synopsis")
	}
	var written []string
	for line := range strings.Lines(synopsis) {
		if words := strings.Fields(line); len(words) > 0 && strings.HasPrefix(line, "    ") {
			written = append(written, words[0])
		}
	}
	slices.Sort(written)
	if want := ddns.Properties(); !slices.Equal(slices.Compact(written), want) {
		t.Errorf("the synopsis has %v, the parser knows %v", written, want)
	}
	for _, word := range ddns.Properties() {
		if !regexp.MustCompile("(?m)^\\* `" + word + "\\b").MatchString(syntax) {
			t.Errorf("section Syntax does not explain %s", word)
		}
	}
}
