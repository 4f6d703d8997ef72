package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"parley/conversation"
)

// Log reads the records of a session, for search_session. A
// conversation.Store is one.
type Log interface {
	// Records iterates over stored records; it ends with an error value if the log cannot be read.
	Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error]
}

// Limits of a search.
const (
	defaultMatches = 5
	maxMatches     = 20
	maxRecords     = 20_000 // of the log, newest first: a search ends in well under a second
	maxExcerpt     = 240    // code points of a match
)

// search finds texts of the session that calls it, and of no other.
type search struct {
	argSchema
	log Log
}

var _ conversation.Tool = search{}

func newSearch(log Log) search {
	return search{log: log, argSchema: newArgSchema(conversation.ToolSpec{
		Name:        "search_session",
		Description: "Searches everything that was said in this session, newest first, for texts that hold all words of the query.",
		Schema: json.RawMessage(fmt.Sprintf(`{
			"type": "object",
			"properties": {
				"query": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Words that must all be in the text; case does not matter."},
				"limit": {"type": "integer", "minimum": 1, "maximum": %d, "description": "How many matches at most. Without it: %d."}
			},
			"required": ["query"],
			"additionalProperties": false
		}`, maxMatches, defaultMatches)),
		Idempotent: true,
	})}
}

type searchArgs struct {
	Query string  `json:"query"`
	Limit float64 `json:"limit"` // JSON's 5.0 is an integer, too
	words []string
}

func (s search) args(raw json.RawMessage) (searchArgs, error) {
	var in searchArgs
	if err := s.decode(raw, &in); err != nil {
		return in, err
	}
	if in.words = strings.Fields(strings.ToLower(in.Query)); len(in.words) == 0 {
		return in, errors.New("query must not be blank")
	}
	if in.Limit == 0 {
		in.Limit = defaultMatches
	}
	return in, nil
}

// Check refuses blank queries.
func (s search) Check(args json.RawMessage) error {
	_, err := s.args(args)
	return err
}

// Run searches the log of the session that called, backwards.
func (s search) Run(ctx context.Context, call conversation.ToolCall) (string, error) {
	in, err := s.args(call.Args)
	if err != nil {
		return "", err
	}
	var (
		found   []string
		records int
		later   = laterEdits{}
		within  = scope{task: call.Task}
	)
	for record, err := range s.log.Records(ctx, call.Key, conversation.Range{Reverse: true, Limit: maxRecords}) {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil {
			return "", errors.New("the session's log cannot be read at the moment")
		}
		records++
		for i := len(record.Events) - 1; i >= 0 && len(found) < int(in.Limit); i-- {
			e := record.Events[i]
			who, text := later.said(e)
			if !within.takes(e) {
				continue
			}
			if at, ok := holds(text, in.words); ok {
				found = append(found, fmt.Sprintf("#%d %s, %s: %s", e.Seq, e.At.UTC().Format(time.DateTime), who, excerptAround(text, at)))
			}
		}
		if len(found) >= int(in.Limit) || within.over {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	note := ""
	if records == maxRecords {
		note = fmt.Sprintf("\n(Only the newest %d records were searched.)", maxRecords)
	}
	if len(found) == 0 {
		return "Nothing was found." + note, nil
	}
	return fmt.Sprintf("%d found, newest first:\n%s", len(found), strings.Join(found, "\n")) + note, nil
}

// scope is what the calling task may know of the log, read backwards: everything since
// the context was cleared, and of before that its own.
type scope struct {
	task    conversation.TaskID
	cleared bool
	over    bool // what is older is not for this task
}

// takes is true for an event that the task may know of.
func (s *scope) takes(e conversation.Event) bool {
	own := s.task != "" && e.Task == s.task
	switch b := e.Body.(type) {
	case conversation.ContextCleared:
		s.cleared = true
		s.over = s.task == ""
	case conversation.MessageAccepted:
		s.over = s.over || own && s.cleared && b.Disposition == conversation.Started
	}
	return own || !s.cleared
}

// laterEdits are the newest texts of edited messages; the log is read
// backwards, so that it is known before the message is met.
type laterEdits map[conversation.MessageID]*string

// said returns the speaker and the text of an event; "" if it has no text.
func (later laterEdits) said(e conversation.Event) (who, text string) {
	switch b := e.Body.(type) {
	case conversation.MessageEdited:
		if _, known := later[b.Message]; !known {
			later[b.Message] = &b.Text
		}
	case conversation.MessageWithdrawn:
		later[b.Message] = nil
	case conversation.MessageAccepted:
		text = b.Text
		if edited, known := later[b.Message]; known {
			if edited == nil {
				return "", ""
			}
			text = *edited
		}
		return "user " + string(b.Author), text
	case conversation.PartialResponse:
		return "agent", b.Text
	case conversation.Response:
		if !b.Promoted { // shown before
			return "agent", b.Text
		}
	case conversation.Asked:
		return "agent asked", b.Text
	case conversation.DelegationFinished:
		return "delegation " + string(b.Delegation), b.Summary
	}
	return "", ""
}

// holds finds the first word of the query in a text that has them all.
func holds(text string, words []string) (at int, ok bool) {
	if text == "" {
		return 0, false
	}
	lower := strings.ToLower(text)
	for _, word := range words {
		if !strings.Contains(lower, word) {
			return 0, false
		}
	}
	return strings.Index(lower, words[0]), true
}

// excerptAround cuts a text to the part near a place. The place is one of the text in
// lower case, which may have another length; near is good enough.
func excerptAround(text string, at int) string {
	text = strings.ToValidUTF8(text, "�")
	const before = 80 // bytes
	start := min(max(0, at-before), len(text))
	for start > 0 && start < len(text) && !utf8.RuneStart(text[start]) {
		start--
	}
	prefix := ""
	if start > 0 {
		prefix = "…"
	}
	return prefix + conversation.Excerpt(strings.Join(strings.Fields(text[start:]), " "), maxExcerpt)
}
