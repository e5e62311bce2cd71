package dns_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// recipe is a fenced block of a page in docs, found by the last word of the line
// that opens it.
func recipe(t testing.TB, page, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	var block strings.Builder
	inside, found := false, 0
	for line := range strings.Lines(string(text)) {
		switch {
		case !strings.HasPrefix(line, "~~~"):
			if inside {
				block.WriteString(line)
			}
		case inside:
			inside = false
		default:
			words := strings.Fields(line)
			if len(words) > 1 && words[len(words)-1] == name {
				inside = true
				found++
			}
		}
	}
	if found != 1 {
		t.Fatalf("docs/%s has %d blocks %q, want one", page, found, name)
	}
	return block.String()
}

// adapt puts a test's own values in the place of the example's. Each of the
// latter must be there, so that no recipe drifts away from its test.
func adapt(t testing.TB, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the recipe has no %q:\n%s", pairs[i], text)
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// command is the first line of a shell recipe that begins with a program's name,
// with the lines that continue it, split as a shell would where nothing is quoted
// but whole words.
func command(t testing.TB, script, program string) []string {
	t.Helper()
	script = strings.ReplaceAll(script, "\\\n", " ")
	for line := range strings.Lines(script) {
		words := strings.Fields(line)
		i := slices.Index(words, program)
		if i < 0 {
			continue
		}
		for k := range words {
			words[k] = strings.Trim(words[k], `'"`)
		}
		return words
	}
	t.Fatalf("no line runs %s:\n%s", program, script)
	return nil
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}

// corefile is the nth Corefile of a page.
func corefile(t testing.TB, page string, n int) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(text), "\n~~~ corefile\n")
	if len(blocks) < n+2 {
		t.Fatalf("docs/%s has %d Corefiles", page, len(blocks)-1)
	}
	block, _, _ := strings.Cut(blocks[n+1], "\n~~~")
	return block + "\n"
}
