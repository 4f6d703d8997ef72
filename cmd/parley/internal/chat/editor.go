package chat

import (
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// editor is the line that is typed: before and behind the cursor.
type editor struct{ before, behind string }

func (e *editor) empty() bool     { return e.before == "" && e.behind == "" }
func (e *editor) text() string    { return e.before + e.behind }
func (e *editor) set(text string) { e.before, e.behind = text, "" }

func (e *editor) insert(text string) { e.before += text }

// key takes a key that is not the model's; the cursor moves over what a person takes
// for one character.
func (e *editor) key(name, text string) {
	switch name {
	case "backspace":
		head, _ := lastCharacter(e.before)
		e.before = head
	case "delete":
		_, e.behind = firstCharacter(e.behind)
	case "left":
		head, last := lastCharacter(e.before)
		e.before, e.behind = head, last+e.behind
	case "right":
		first, rest := firstCharacter(e.behind)
		e.before, e.behind = e.before+first, rest
	case "home", "ctrl+a":
		e.before, e.behind = "", e.text()
	case "end", "ctrl+e":
		e.set(e.text())
	case "ctrl+u":
		e.before = ""
	case "ctrl+k":
		e.behind = ""
	case "ctrl+w":
		for e.before != "" && e.before[len(e.before)-1] == ' ' {
			e.before = e.before[:len(e.before)-1]
		}
		for e.before != "" && e.before[len(e.before)-1] != ' ' {
			_, size := utf8.DecodeLastRuneInString(e.before)
			e.before = e.before[:len(e.before)-size]
		}
	default:
		e.insert(text)
	}
}

func firstCharacter(s string) (first, rest string) {
	first, rest, _, _ = uniseg.FirstGraphemeClusterInString(s, -1)
	return first, rest
}

func lastCharacter(s string) (head, last string) {
	rest := s
	for rest != "" {
		last, rest = firstCharacter(rest)
	}
	return s[:len(s)-len(last)], last
}
