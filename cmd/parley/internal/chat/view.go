package chat

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	parley "parley/clients/go"
)

// What this package says to a terminal; nothing else does.
const (
	bold, dim, italic, plain = "\x1b[1m", "\x1b[2m", "\x1b[3m", "\x1b[0m"

	cursor = "\x1b[7m"
)

func (m model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	v.WindowTitle = strings.TrimSpace("parley " + m.title)
	return v
}

// screen are the lines of the terminal: the transcript, and below it what is open.
func (m model) screen() []string {
	below := m.below()
	return append(m.window(len(below)), below...)
}

// wrap breaks a text into lines of the terminal's width; wide characters count as two.
// A style goes on behind the break.
func wrap(text string, width int) []string {
	text = strings.ReplaceAll(text, "\t", "    ")
	return strings.Split(ansi.Wrap(text, width, ""), "\n")
}

// below is what stays at the bottom; a line of the transcript is left above it.
func (m *model) below() []string {
	var lines []string
	for i, w := range m.waiting {
		if i == 5 {
			lines = append(lines, m.cut(dim+fmt.Sprintf("  and %d more wait", len(m.waiting)-5)+plain))
			break
		}
		lines = append(lines, m.cut(dim+fmt.Sprintf("  waits %d. ", i+1)+line(w.Excerpt)+plain))
	}
	for i, o := range m.outgoing {
		if i == 5 {
			lines = append(lines, m.cut(dim+fmt.Sprintf("  and %d more are not sent yet", len(m.outgoing)-5)+plain))
			break
		}
		lines = append(lines, m.cut(dim+"  not sent yet: "+o.shown()+plain))
	}
	for _, f := range m.files {
		lines = append(lines, m.cut("  "+withFiles("", []parley.Attachment{f})))
	}
	lines = append(lines, m.asks()...)
	state := "/help"
	if m.title != "" {
		state = ansi.Truncate(m.title, max(1, m.width-12), "…") + "; /help"
	}
	switch {
	case m.notice != "":
		state = m.notice
	case m.status != "":
		state = m.status
	case m.task != "":
		state = strings.TrimSpace(m.doing + " (Ctrl+C stops it)")
	}
	if m.armed { // whatever the server says meanwhile, the key that leaves stays named
		state = "Ctrl+C again leaves"
		for _, more := range []string{m.notice, m.status} {
			if more != "" {
				state += "; " + more
			}
		}
	}
	for _, l := range m.few("── "+state, 3) {
		lines = append(lines, dim+l+plain)
	}
	input := wrap(bold+"> "+plain+m.input.before+cursor+cursorOn(m.input.behind), m.width)
	if most := max(1, m.height/3); len(input) > most { // the part with the cursor, and what is before it
		at := slices.IndexFunc(input, func(l string) bool { return strings.Contains(l, cursor) })
		from := max(0, at-most+1)
		input = input[from : from+most]
	}
	lines = append(lines, input...)
	return lines[max(0, len(lines)-(m.height-1)):]
}

// few is a text on so many lines at most.
func (m *model) few(text string, most int) []string {
	lines := wrap(text, m.width)
	if len(lines) > most {
		lines[most-1] = m.cut(strings.Join(lines[most-1:], " "))
		lines = lines[:most]
	}
	return lines
}

// cut is a text as one line of the terminal.
func (m *model) cut(text string) string { return ansi.Truncate(text, m.width, "…") }

// cursorOn shows the character under the cursor turned, and the rest behind it.
func cursorOn(behind string) string {
	first, rest := firstCharacter(behind)
	if first == "" || first == "\n" {
		return " " + plain + behind
	}
	return first + plain + rest
}

var (
	strong  = regexp.MustCompile(`\*\*([^*\n]+)\*\*`)
	code    = regexp.MustCompile("`([^`\n]+)`")
	heading = regexp.MustCompile(`^#{1,6} +`)
	bullet  = regexp.MustCompile(`^(\s*)[-*+] +`)
)

// markdown makes clean Markdown readable at a terminal: headings and strong words are
// bold, code is set apart, lists have bullets. What it does not know stays as it is.
func markdown(text string) string {
	var m marks
	return m.text(text)
}

// marks are what lines before have begun.
type marks struct{ fence string }

// text is the next lines.
func (m *marks) text(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		trimmed := strings.TrimLeft(l, " ")
		switch {
		case m.fence != "" && strings.HasPrefix(trimmed, m.fence):
			m.fence, lines[i] = "", dim+"└─"+plain
		case m.fence != "":
			lines[i] = dim + "│ " + plain + l
		case strings.HasPrefix(trimmed, "```"), strings.HasPrefix(trimmed, "~~~"):
			m.fence = trimmed[:3]
			lines[i] = dim + "┌─ " + strings.TrimSpace(trimmed[3:]) + plain
		case heading.MatchString(l):
			lines[i] = bold + heading.ReplaceAllString(l, "") + plain
		default:
			l = bullet.ReplaceAllString(l, "$1• ")
			l = code.ReplaceAllString(l, italic+"$1"+plain)
			lines[i] = strong.ReplaceAllString(l, bold+"$1"+plain)
		}
	}
	return strings.Join(lines, "\n")
}

// width is how many cells a line takes.
func width(l string) int { return ansi.StringWidth(l) }
