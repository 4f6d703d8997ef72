package slack

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/slack-go/slack"

	"parley/gateway/chat"
)

// escape makes plain text of what Slack would read as markup. Whatever pings somebody stands
// in angle brackets: <!here>, <!channel>, <!everyone>, <@U1>, <!subteam^S1>.
var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

var unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")

// userID is what the id of a person looks like.
var userID = regexp.MustCompile(`^[UW][A-Z0-9]{2,30}$`)

// encode is Traits.Encode.
func encode(text string, people []chat.Person) string {
	type called struct{ name, id string }
	var names []called
	owner := map[string]string{} // the one who is called so; "" = several are
	for _, p := range people {
		if !userID.MatchString(p.ID) {
			continue
		}
		for _, name := range []string{p.Name, p.Handle} {
			key := strings.ToLower(name)
			if before, taken := owner[key]; taken && before != p.ID {
				owner[key] = "" // pinging nobody is better than pinging the wrong one
			} else if name != "" {
				owner[key] = p.ID
			}
		}
	}
	for name, id := range owner {
		if id != "" {
			names = append(names, called{name, id})
		}
	}
	if len(names) == 0 || !strings.Contains(text, "@") {
		return escape.Replace(text)
	}
	slices.SortFunc(names, func(a, b called) int { return len(b.name) - len(a.name) }) // "Anna Berg" before "Anna"
	var b strings.Builder
	before := ' '
	for rest := text; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		if r == '@' && !inWord(before) {
			at := slices.IndexFunc(names, func(c called) bool { return begins(rest[n:], c.name) })
			if at >= 0 {
				b.WriteString("<@" + names[at].id + ">")
				rest = rest[n+len(names[at].name):]
				before = 'x'
				continue
			}
		}
		b.WriteString(escape.Replace(rest[:n]))
		rest, before = rest[n:], r
	}
	return b.String()
}

// begins is true if text begins with a name, in whatever case, and the name ends there.
func begins(text, name string) bool {
	if len(text) < len(name) || !strings.EqualFold(text[:len(name)], name) {
		return false
	}
	next, _ := utf8.DecodeRuneInString(text[len(name):])
	return !inWord(next)
}

func inWord(r rune) bool {
	return r == '_' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// measure counts as Slack does, which is written in a language of UTF-16.
func measure(encoded string) int {
	n := 0
	for _, r := range encoded {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// markup is what stands in angle brackets in Slack's texts.
var markup = regexp.MustCompile(`<([^<>]*)>`)

// mentions lists the people whom a text of Slack mentions.
func mentions(text string) []string {
	var ids []string
	for _, m := range markup.FindAllStringSubmatch(text, -1) {
		if id, is := strings.CutPrefix(m[1], "@"); is {
			id, _, _ = strings.Cut(id, "|")
			ids = append(ids, id)
		}
	}
	return ids
}

// decode makes plain text of a text of Slack. self is the bot, whose mention is taken off;
// name says how others are called, "" = it is not known.
func decode(text, self string, name func(id string) string) string {
	var b strings.Builder
	at := 0
	for _, m := range markup.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(text[at:m[0]])
		at = m[1]
		inside := text[m[2]:m[3]]
		if id, _, _ := strings.Cut(inside, "|"); self != "" && id == "@"+self {
			if s := b.String(); s == "" || strings.HasSuffix(s, " ") || strings.HasSuffix(s, "\n") {
				for at < len(text) && text[at] == ' ' {
					at++
				}
			}
			continue
		}
		b.WriteString(inWords(inside, name))
	}
	b.WriteString(text[at:])
	return strings.TrimSpace(unescape.Replace(b.String()))
}

// inWords is what stands in angle brackets as a person would write it.
func inWords(inside string, name func(id string) string) string {
	what, label, labelled := strings.Cut(inside, "|")
	switch {
	case strings.HasPrefix(what, "@"):
		if known := name(what[1:]); known != "" {
			return "@" + escape.Replace(known)
		}
		if label != "" {
			return "@" + strings.TrimPrefix(label, "@")
		}
		return what
	case strings.HasPrefix(what, "#"):
		if label != "" {
			return "#" + label
		}
		return what
	case strings.HasPrefix(what, "!"):
		if labelled && !strings.HasPrefix(what, "!here") && !strings.HasPrefix(what, "!channel") && !strings.HasPrefix(what, "!everyone") {
			return label // a date, or a group of people
		}
		word, _, _ := strings.Cut(what[1:], "^")
		return "@" + word
	case labelled && label != "":
		bare := what
		for _, scheme := range []string{"https://", "http://", "mailto:", "tel:"} {
			bare = strings.TrimPrefix(bare, scheme)
		}
		switch label {
		case what:
			return what
		case bare: // Slack has made a link of what was written without a scheme
			return label
		}
		return label + " (" + what + ")"
	}
	return what
}

// spoken finds the mentions in an encoded text.
var spoken = regexp.MustCompile(`<@([UW][A-Z0-9]+)>`)

// richText shows an encoded text in a block, where only its mentions are more than text. The
// text of a message that has blocks is not shown.
func richText(encoded string) *slack.RichTextBlock {
	var all []slack.RichTextSectionElement
	add := func(s string) {
		if s != "" {
			all = append(all, slack.NewRichTextSectionTextElement(unescape.Replace(s), nil))
		}
	}
	at := 0
	for _, m := range spoken.FindAllStringSubmatchIndex(encoded, -1) {
		add(encoded[at:m[0]])
		all = append(all, slack.NewRichTextSectionUserElement(encoded[m[2]:m[3]], nil))
		at = m[1]
	}
	add(encoded[at:])
	return slack.NewRichTextBlock("", slack.NewRichTextSection(all...))
}
