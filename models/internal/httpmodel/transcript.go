package httpmodel

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/conversation"
)

// Turn holds the words of one side: a user's text, or an assistant's items with a
// result for each call among them.
type Turn struct {
	Role    conversation.EntryRole // RoleUser or RoleAssistant
	Text    string
	Shown   []conversation.Picture // of a user, behind Text
	Note    string                 // of the last turn: the engine's note behind Text and Shown
	Items   []conversation.Item
	Results []Result
}

// Result is the result of a call: the provider's id of the call, and the text.
type Result struct {
	ID, Text string
	Note     string // of the last result: the engine's note behind Text
}

// Whole is the text with the note, for wires that have one text in a turn.
func (t *Turn) Whole() string { return whole(t.Text, t.Note) }

// Whole is the text with the note, for wires that have one text in a result.
func (r *Result) Whole() string { return whole(r.Text, r.Note) }

func whole(text, note string) string {
	if note == "" {
		return text
	}
	return text + "\n\n" + note
}

// noResult stands for a result that the transcript does not have: providers
// refuse a call without one.
const noResult = "no result"

// Turns folds the request's transcript as the wire formats want it: each call is
// followed by its result, there are no blank texts, and a result whose call is gone
// becomes a plain text. Only items of the same origin keep their Opaque, and of the
// same task unless it stays. The
// request's note stands behind the last result, or the last text of the user: what
// comes before it is the same in the next request, as providers cache by prefix.
func Turns(r *conversation.Request, origin string) []Turn {
	return withNote(turns(r, origin), r.Note)
}

// withNote appends the note to the last turn, or in a turn of its own where there is
// nothing to append it to.
func withNote(list []Turn, note string) []Turn {
	if note == "" {
		return list
	}
	if n := len(list); n > 0 {
		last := &list[n-1]
		if last.Role == conversation.RoleUser {
			last.Note = note
			return list
		}
		if k := len(last.Results); k > 0 {
			last.Results[k-1].Note = note
			return list
		}
	}
	return append(list, Turn{Role: conversation.RoleUser, Text: note})
}

func turns(r *conversation.Request, origin string) []Turn {
	entries := r.All()
	var list []Turn
	for i := 0; i < len(entries); i++ {
		e := &entries[i]
		switch e.Role {
		case conversation.RoleUser:
			if strings.TrimSpace(e.Text) != "" || len(e.Pictures) > 0 {
				list = append(list, userTurn(e.Text, ofMessage, e.Pictures))
			}
		case conversation.RoleAssistant:
			t := Turn{Role: conversation.RoleAssistant}
			for _, item := range e.Items {
				if item.OpaqueBy != origin || e.Task != r.Task && !item.OpaqueStays {
					item.Opaque, item.OpaqueBy, item.OpaqueStays = "", "", false
				}
				switch {
				case item.Kind == conversation.ItemCall:
					if !json.Valid([]byte(item.Args)) {
						item.Args = "{}" // the result says what was wrong with them
					}
					t.Items = append(t.Items, item)
					t.Results = append(t.Results, Result{ID: item.ID, Text: noResult})
				case strings.TrimSpace(item.Text) != "":
					t.Items = append(t.Items, item)
				}
			}
			var strays []Turn
			for ; i+1 < len(entries) && entries[i+1].Role == conversation.RoleTool; i++ {
				result := &entries[i+1]
				if stray := t.setResult(result); stray != nil {
					strays = append(strays, *stray)
				} else if len(result.Pictures) > 0 {
					strays = append(strays, userTurn("", ofResult, result.Pictures))
				}
			}
			if len(t.Items) > 0 {
				list = append(list, t)
			}
			list = append(list, strays...)
		case conversation.RoleTool:
			list = append(list, *orphanResult(e))
		}
	}
	return list
}

// setResult puts a result at its call. Without such a call it returns a turn for it.
func (t *Turn) setResult(e *conversation.Entry) *Turn {
	for i := range t.Results {
		if t.Results[i].ID == e.CallID {
			t.Results[i].Text = e.Text
			if strings.TrimSpace(e.Text) == "" {
				t.Results[i].Text = "(no output)"
			}
			return nil
		}
	}
	return orphanResult(e)
}

func orphanResult(e *conversation.Entry) *Turn {
	t := userTurn(fmt.Sprintf("[result of call %s: %s]", e.CallID, e.Text), ofResult, e.Pictures)
	return &t
}

// Texts for pictures that have none. Those of a result stand behind all results: not all
// wires have pictures in results, but all have them in what users say.
const (
	ofResult  = "[the pictures that the result above tells of]"
	ofMessage = "[pictures]"
)

func userTurn(text, blank string, shown []conversation.Picture) Turn {
	if strings.TrimSpace(text) == "" {
		text = blank
	}
	return Turn{Role: conversation.RoleUser, Text: text, Shown: shown}
}
