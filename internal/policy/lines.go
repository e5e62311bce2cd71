package policy

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coredns/caddy/caddyfile"
)

// lines hands out the words of a policy file line by line. The words are those
// of caddy's own lexer; the Corefile's import and environment variables are the
// work of its parser, which is not used.
type lines struct {
	file  string
	lex   caddyfile.Dispenser
	more  bool // lex stands on a word not yet handed out
	words []string
	no    int // the line of words[0]
}

// newLines refuses text that the lexer would read other than it looks, before
// the lexer sees it.
func newLines(file string, text []byte) (*lines, error) {
	if len(text) > MaxFileSize {
		return nil, &ParseError{File: file, Text: fmt.Sprintf("larger than %d MiB", MaxFileSize>>20)}
	}
	if no, problem := scan(text); problem != "" {
		return nil, &ParseError{File: file, Line: no, Text: problem}
	}
	r := &lines{file: file, lex: caddyfile.NewDispenser(file, bytes.NewReader(text))}
	r.more = r.lex.Next()
	return r, nil
}

// next reads the next line that has words; false at the end of the file.
func (r *lines) next() bool {
	if !r.more {
		return false
	}
	r.words, r.no = r.words[:0], r.lex.Line()
	for end := r.no; r.more && r.lex.Line() == end; r.more = r.lex.Next() {
		w := r.lex.Val()
		r.words = append(r.words, w)
		end += strings.Count(w, "\n") // a quoted word may span lines
	}
	return true
}

// block calls property for each line of the block that the current line opens,
// and returns after the line that closes it. what names the block in errors.
func (r *lines) block(what string, property func(name string, args []string) error) error {
	opened := r.no
	for r.next() {
		for i, w := range r.words {
			switch {
			case w == "}" && len(r.words) == 1:
				return nil
			case w == "{" || w == "}" || w == "{}":
				return r.errorf("%s: unexpected %s: } closes a block on a line of its own", what, w)
			case strings.Contains(w, "{$") || strings.Contains(w, "{%"):
				return r.errorf("%s: %s: environment variables are not expanded in a policy file", what, quote(w))
			case w == "import" && i == 0:
				return r.errorf("import is not available in a policy file: one file is the whole policy")
			}
		}
		if err := property(r.words[0], r.words[1:]); err != nil {
			return r.errorf("%s: %s", what, err)
		}
	}
	r.no = opened
	return r.errorf("%s: the block is not closed: missing }", what)
}

// header checks a block's first line, WORD ARGS... {, and returns the arguments.
func (r *lines) header(usage string, args int) ([]string, error) {
	last := len(r.words) - 1
	if r.words[last] != "{" || last != args+1 {
		return nil, r.errorf("expected %s", usage)
	}
	return r.words[1:last], nil
}

func (r *lines) errorf(format string, args ...any) error {
	return &ParseError{File: r.file, Line: r.no, Text: fmt.Sprintf(format, args...)}
}

// scan follows the lexer through the text and reports the first place, if any,
// where what it does is not what a reader sees: it ends a word at a #, drops a
// carriage return, closes an open quote at the end of the file, and replaces
// what is not UTF-8.
func scan(text []byte) (line int, problem string) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	line = 1
	words, quoteLine := 0, 0
	var inWord, quoted, escaped, comment bool
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		i += size
		switch {
		case r == utf8.RuneError && size == 1:
			return line, "text is not UTF-8"
		case r == '\r' && (i == len(text) || text[i] != '\n'):
			return line, "carriage return without line feed"
		case r == '\n', r == '\t', r == '\r':
		case r == 0x200c || r == 0x200d: // the joiners that IDNA2008 knows
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return line, fmt.Sprintf("character %U is not allowed: it would not be seen", r)
		}
		if r == '\n' {
			line++
		}
		switch {
		case quoted:
			switch {
			case escaped:
				escaped = false
			case r == '\\':
				escaped = true
			case r == '"':
				quoted = false
			}
		case unicode.IsSpace(r):
			if r == '\n' {
				comment = false
			}
			inWord = inWord && r == '\r'
		case comment:
		case r == '#':
			if inWord {
				return line, `"#" inside a word would begin a comment: put a space before it, or the word in quotes`
			}
			comment = true
		case !inWord:
			if words++; words > maxWords {
				return line, fmt.Sprintf("more than %d words", maxWords)
			}
			if r == '"' {
				quoted, quoteLine = true, line
			} else {
				inWord = true
			}
		}
	}
	if quoted {
		return quoteLine, "quote is not closed"
	}
	return 0, ""
}

// quote shows a piece of outside text in an error: escaped, of bounded length,
// and without the secret of a token that stands in the wrong place.
func quote(s string) string {
	const most = 80
	if i := strings.Index(s, tokenPrefix); i >= 0 && len(s)-i >= MinTokenLength {
		s = s[:i] + tokenPrefix + "…"
	}
	if len(s) > most {
		cut := most
		for cut > most-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strconv.Quote(s)
}
