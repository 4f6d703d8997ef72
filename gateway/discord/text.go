package discord

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/gateway/chat"
)

// span is a part of a text: code, which Discord shows as it is, or not.
type span struct {
	text string
	code bool
}

// spans cuts a text into code between backticks and the rest. A run of backticks ends at the
// next run of the same length; without one it is plain text.
func spans(text string) []span {
	var all []span
	plain := 0 // where the plain text begins that is not in all yet
	for at := 0; at < len(text); {
		if text[at] == '\\' { // an escaped backtick opens nothing
			at += 2
			continue
		}
		n := run1(text[at:])
		if n == 0 {
			at++
			continue
		}
		end := closing(text, at+n, n)
		if end < 0 {
			at += n
			continue
		}
		if plain < at {
			all = append(all, span{text[plain:at], false})
		}
		all = append(all, span{text[at:end], true})
		at, plain = end, end
	}
	if plain < len(text) {
		all = append(all, span{text[plain:], false})
	}
	return all
}

// run1 is how many backticks a text begins with.
func run1(s string) int { return len(s) - len(strings.TrimLeft(s, "`")) }

// closing is where the code ends that was opened by n backticks before from; -1 = nowhere.
func closing(text string, from, n int) int {
	for at := from; at < len(text); {
		next := strings.IndexByte(text[at:], '`')
		if next < 0 {
			return -1
		}
		at += next
		m := run1(text[at:])
		at += m
		if m == n || n >= 3 && m > n {
			return at
		}
	}
	return -1
}

// mention is a mention of a person, as Discord has it in texts.
var mention = regexp.MustCompile(`<@!?(\d{1,20})>`)

// encode makes of an agent's text what Discord is sent: Markdown as it is. Where the text
// names one of people with an @ that becomes a mention; what looks like one already is made
// plain, so that no model pings anybody by an id. Code stays as it is.
func encode(text string, people []chat.Person) string {
	names := handles(people)
	var b strings.Builder
	for _, s := range spans(text) {
		if s.code {
			b.WriteString(s.text)
			continue
		}
		named(&b, s.text, names)
	}
	return b.String()
}

// handle is one way to write to a person.
type handle struct{ text, id string }

// handles are all ways to write to people, the longest first. What would mean two of them
// means nobody.
func handles(people []chat.Person) []handle {
	whose := map[string]string{}
	for _, p := range people {
		if !isID(p.ID) {
			continue
		}
		for _, name := range []string{p.Name, p.Handle} {
			if name == "" {
				continue
			}
			if id, taken := whose[name]; taken && id != p.ID {
				whose[name] = ""
				continue
			}
			whose[name] = p.ID
		}
	}
	var all []handle
	for name, id := range whose {
		if id != "" {
			all = append(all, handle{name, id})
		}
	}
	slices.SortFunc(all, func(a, b handle) int {
		if len(a.text) != len(b.text) {
			return len(b.text) - len(a.text)
		}
		return strings.Compare(a.text, b.text)
	})
	return all
}

// named writes text with its @names as mentions.
func named(b *strings.Builder, text string, names []handle) {
	before := ' ' // the character before at
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRuneInString(text[at:])
		switch {
		case r == '<' && strings.HasPrefix(text[at+1:], "@") && before != '\\':
			b.WriteByte('\\')
		case r == '@' && !wordly(before) && before != '<':
			if h := handleAt(text[at+1:], names); h.id != "" {
				b.WriteString("<@" + h.id + ">")
				at += 1 + len(h.text)
				before = '>'
				continue
			}
		}
		b.WriteString(text[at : at+n])
		at += n
		before = r
	}
}

// handleAt is the handle that a text begins with, as whole words.
func handleAt(text string, names []handle) handle {
	for _, h := range names {
		if !strings.HasPrefix(text, h.text) {
			continue
		}
		if next, _ := utf8.DecodeRuneInString(text[len(h.text):]); len(text) == len(h.text) || !wordly(next) {
			return h
		}
	}
	return handle{}
}

func wordly(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// pinged are the people whom an encoded text mentions: the only ones whom Discord may ping.
func pinged(encoded string) []string {
	ids := []string{}
	for _, s := range spans(encoded) {
		if s.code {
			continue
		}
		for _, at := range mention.FindAllStringSubmatchIndex(s.text, -1) {
			if at[0] > 0 && s.text[at[0]-1] == '\\' {
				continue
			}
			if id := s.text[at[2]:at[3]]; !slices.Contains(ids, id) && len(ids) < 100 {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

var (
	channelMention = regexp.MustCompile(`<#(\d{1,20})>`)
	customEmoji    = regexp.MustCompile(`<a?:(\w{1,64}):\d{1,20}>`)
)

// plain makes of the content of a message what a person reads: mentions as @NAME and #NAME,
// emojis by name. The bot's own mention is taken off at both ends; in between it is its name.
func plain(content string, me *self, users map[string]string, channelName func(id string) string) (text string, mentioned bool) {
	own := func(id string) bool { return id == me.ID }
	for {
		trimmed := strings.TrimSpace(content)
		all := mention.FindAllStringSubmatchIndex(trimmed, -1)
		if len(all) > 0 && all[0][0] == 0 && own(trimmed[all[0][2]:all[0][3]]) {
			content, mentioned = strings.TrimLeft(trimmed[all[0][1]:], ":, "), true
			continue
		}
		if n := len(all); n > 0 && all[n-1][1] == len(trimmed) && own(trimmed[all[n-1][2]:all[n-1][3]]) {
			content, mentioned = trimmed[:all[n-1][0]], true
			continue
		}
		content = trimmed
		break
	}
	content = mention.ReplaceAllStringFunc(content, func(m string) string {
		id := mention.FindStringSubmatch(m)[1]
		if own(id) {
			mentioned = true
			return "@" + me.Name
		}
		if name := users[id]; name != "" {
			return "@" + name
		}
		return m
	})
	content = channelMention.ReplaceAllStringFunc(content, func(m string) string {
		if name := channelName(channelMention.FindStringSubmatch(m)[1]); name != "" {
			return "#" + name
		}
		return m
	})
	return customEmoji.ReplaceAllString(content, ":$1:"), mentioned
}
