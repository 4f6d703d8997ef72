package transcript

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/fit"
	"parley/conversation/option"
	"parley/conversation/policy"
)

// CheckContext refuses limits that cannot hold for one of the agents, because
// its prompt and tools alone take too much.
func CheckContext(r *policy.Rules) error {
	if err := r.Policy.Context.Check(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Agents)) {
		if err := r.CheckRoom(name, r.AlwaysOf(name, 0, ToolsFor).Tokens); err != nil {
			return err
		}
	}
	return nil
}

// CheckWindows refuses models that cannot hold what an agent always shows them, with room
// for a conversation: each once, for the agent that needs most.
func CheckWindows(r *policy.Rules) []option.FieldError {
	agents, fixed := slices.Sorted(maps.Keys(r.Agents)), map[conversation.AgentName]int{}
	for _, name := range agents {
		fixed[name] = r.AlwaysOf(name, 0, ToolsFor).Tokens
	}
	slices.SortStableFunc(agents, func(a, b conversation.AgentName) int { return fixed[b] - fixed[a] })
	var wrong []option.FieldError
	for _, name := range agents {
		for _, w := range r.CheckWindows(name, fixed[name]) {
			if !slices.ContainsFunc(wrong, func(other option.FieldError) bool { return other.Key == w.Key }) {
				wrong = append(wrong, w)
			}
		}
	}
	return wrong
}

// cutResult is a call's result as a model is shown it: head and tail of a long
// one, and between them where the whole is.
func cutResult(session conversation.SessionID, call conversation.CallID, text string, limit int) string {
	if limit <= 0 || len(text) <= limit {
		return text
	}
	where := fmt.Sprintf("\n[… %d bytes left out; call %s: whole result at GET /api/sessions/%s/calls/%s …]\n",
		len(text)-limit, call, url.PathEscape(string(session)), call)
	return headAndTail(text, limit, where)
}

// headAndTail keeps limit bytes of a text, three quarters of them from its start.
func headAndTail(text string, limit int, between string) string {
	tail := limit / 4
	head := limit - tail
	for head > 0 && !utf8.RuneStart(text[head]) {
		head--
	}
	from := len(text) - tail
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return text[:head] + between + text[from:]
}

// fit cuts a request's entries down to the budget; see package fit. It is the transcript's
// own slice when nothing must go, and never written to. For a small model long results
// are cut first.
func (t *Transcript) fit(task conversation.TaskID, budget int, small bool) []conversation.Entry {
	tokens, hidden := t.visible(task)
	entries := t.entries[:len(t.entries):len(t.entries)]
	weigh := func(i int) int { return t.traces[i].counts.Tokens }
	if small {
		entries = fit.Results(entries, budget, t.voices.Named)
		for i := range entries {
			if len(entries[i].Text) != len(t.entries[i].Text) && (hidden == nil || !hidden[i]) {
				tokens += entries[i].Tokens() - t.traces[i].counts.Tokens
			}
		}
		weigh = func(i int) int { return entries[i].Tokens() }
	}
	if t.shown, t.left = tokens, 0; budget <= 0 && hidden == nil {
		return entries
	}
	if budget <= 0 {
		budget = tokens
	}
	cut := fit.Cut{
		Entries: entries, Task: task, Hidden: hidden, Tokens: weigh, Over: t.over,
		Pinned: func(i int) bool { return t.traces[i].pin != pinNone },
	}
	entries, t.shown, t.left = cut.To(budget, tokens)
	return entries
}

// over is true for tasks that have ended, and for what belongs to none.
func (t *Transcript) over(task conversation.TaskID) bool {
	_, ended := t.ended[task]
	return ended || task == ""
}

// Size estimates the tokens of the whole context: the transcript, with the
// prompt, the tools and the generated entries of the last request.
func (t *Transcript) Size() int { return t.fixed + t.counts.Tokens }

// Shown estimates the tokens of the last request as it was made, and says how many entries
// were left out of it.
func (t *Transcript) Shown() (tokens, left int) { return t.shown, t.left }
