package titling

import (
	"strings"
	"time"
	"unicode"

	"parley/actors/internal/modelcall"
	"parley/actors/internal/observe"
	"parley/conversation"
	"parley/conversation/transcript"
	"parley/metrics"
)

// Early is true for the first tasks of a session: behind them it may be given a title. There
// are several, because one may fail, or its model.
func Early(task conversation.TaskID) bool { return conversation.Ordinal(string(task), 't') <= 3 }

// Ask asks a model for a title; give is called with the command that brings it, from any
// goroutine, or never. model may be nil; meter counts what it costs.
func Ask(env *modelcall.Env, meter *metrics.Model, key conversation.SessionKey, owner conversation.UserID, limit time.Duration, model conversation.Model, t *transcript.Transcript, give func(conversation.Command)) {
	r, ok := t.Naming(key)
	if model == nil || !ok {
		return
	}
	modelcall.Once(env, key, "a title", limit, model, r, func(answer *conversation.ModelAnswer, err error) {
		title := ""
		if err == nil {
			observe.Tokens(meter, string(key.Tenant), answer.Usage)
			title = Read(answer.Items)
		}
		outcome := "ok"
		switch {
		case err != nil:
			outcome = "failed"
			observe.Failed(meter, string(key.Tenant), err)
			env.Log.Warn("a session could not be named by its model", "session", key.Session, "tenant", key.Tenant, "model", model.Label(), "error", err)
		case title == "":
			outcome = "empty"
		default:
			give(conversation.Update{By: owner, Title: &title, Unnamed: true})
		}
		env.Metrics.Titles.WithLabelValues(outcome).Inc()
	})
}

const zwnj, zwj = '\u200c', '\u200d'

// MaxTitle is the longest title that is taken from a model, in code points.
const MaxTitle = 80

// Read is the title in an answer: its first line that says something, without what models
// put around a name. What moves the text around it on a screen is left out.
func Read(items []conversation.Item) string {
	for _, item := range items {
		if item.Kind != conversation.ItemText {
			continue
		}
		for line := range strings.Lines(strings.ToValidUTF8(item.Text, "")) {
			line = strings.Map(func(r rune) rune {
				switch {
				case unicode.IsSpace(r):
					return ' '
				case r == zwnj, r == zwj: // spelling in some scripts, and one sign of several emoji
					return r
				case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
					return -1
				}
				return r
			}, line)
			line = strings.Join(strings.Fields(line), " ")
			line = strings.Trim(strings.TrimPrefix(line, "Title:"), " \"'*#_`.“”„«»\u200c\u200d")
			if line == "" {
				continue
			}
			if runes := []rune(line); len(runes) > MaxTitle {
				line = strings.TrimRight(string(runes[:MaxTitle-1]), " \u200c\u200d") + "…"
			}
			return line
		}
	}
	return ""
}
