package scripted

import (
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/author"
)

// unheaded is a request without the lines that say who wrote what: directives and rules
// are about the texts alone.
func unheaded(r *conversation.Request) *conversation.Request {
	if !r.Named {
		return r
	}
	bare := *r
	bare.Entries = slices.Clone(r.Entries)
	for i := range bare.Entries {
		if e := &bare.Entries[i]; e.Role != conversation.RoleAssistant {
			_, e.Text = author.Cut(e.Text)
		}
	}
	return &bare
}

// tellWho gives a program the variable $from: who wrote its message, as this model was told.
// In a session with one author it is no variable, as nobody says who that is.
func (t *reading) tellWho(p *program) {
	header, _ := author.Cut(t.shown.Entries[p.at].Text)
	if !t.shown.Named || header == "" {
		return
	}
	if p.vars == nil {
		p.vars = map[string]string{}
	}
	p.vars["from"] = strings.TrimSuffix(strings.TrimPrefix(header, "[from "), "]")
}
