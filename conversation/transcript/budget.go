package transcript

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/policy"
)

// CheckContext refuses limits that cannot hold for one of the agents, because
// its prompt and tools alone take too much.
func CheckContext(r *policy.Rules) error {
	c := r.Policy.Context
	if err := c.Check(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Agents)) {
		profile := r.Agents[name]
		fixed := conversation.Tokens(profile.Prompt) + conversation.ToolTokens(ToolsFor(r, profile, 0))
		if c.Threshold > 0 && fixed+c.Keep+c.Summary >= c.Threshold {
			return fmt.Errorf("context.threshold = %d: must be more than what is always there: %d tokens of prompt and tools of the agent %q, context.keep (%d) and context.summary (%d)",
				c.Threshold, fixed, name, c.Keep, c.Summary)
		}
		if c.Budget > 0 && fixed >= c.Budget {
			return fmt.Errorf("context.budget = %d: must be more than the %d tokens of prompt and tools of the agent %q", c.Budget, fixed, name)
		}
	}
	return nil
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

// fit cuts a request's entries down to the budget, in whole units. It
// leaves out tasks that have ended, the oldest first, then other tasks that wait,
// then answers of this task with all their results. Pinned entries stay, and so do
// this task's messages and its newest answer. The result is the transcript's own
// slice when nothing must go; it is never written to.
func (t *Transcript) fit(task conversation.TaskID, budget int) []conversation.Entry {
	tokens, gone := t.visible(task)
	defer func() { t.shown = tokens }()
	whole := t.entries[:len(t.entries):len(t.entries)]
	if fits := budget <= 0 || tokens <= budget; fits && gone == nil {
		return whole
	} else if fits {
		return without(whole, gone)
	}
	if gone == nil {
		gone = make([]bool, len(whole))
	}
	n, place := 0, -1
	drop := func(i int) {
		if !gone[i] && t.traces[i].pin == pinNone {
			gone[i] = true
			tokens -= t.traces[i].tokens
			if n++; place < 0 || i < place {
				place = i
			}
		}
	}
	tokens += leftOutTokens // the entry that says so
	goes := t.tasksToLeaveOut(task, gone, tokens-budget)
	for i := range whole {
		if goes[t.group(i)] {
			drop(i)
		}
	}
	newest := -1
	for i := range whole {
		if whole[i].Role == conversation.RoleAssistant && whole[i].Task == task {
			newest = i
		}
	}
	for i := 0; i < newest && tokens > budget; i++ {
		if whole[i].Role != conversation.RoleAssistant || whole[i].Task != task {
			continue
		}
		drop(i)
		for k := i + 1; k < len(whole) && whole[k].Role == conversation.RoleTool; k++ {
			drop(k)
		}
	}
	if n == 0 {
		return without(whole, gone)
	}
	said := conversation.Entry{Role: conversation.RoleUser, Text: fmt.Sprintf(leftOut, n)}
	kept := append(without(whole[:place], gone), said)
	return append(kept, without(whole[place:], gone[place:])...)
}

// without are the entries that are not gone.
func without(entries []conversation.Entry, gone []bool) []conversation.Entry {
	kept := make([]conversation.Entry, 0, len(entries)+1)
	for i := range entries {
		if !gone[i] {
			kept = append(kept, entries[i])
		}
	}
	return kept
}

// group names what is left out together: a task, or what an outside runtime
// said, which stands alone.
type group struct {
	task  conversation.TaskID
	entry int // where task is ""
}

func (t *Transcript) group(i int) group {
	if task := t.entries[i].Task; task != "" {
		return group{task: task}
	}
	return group{entry: i}
}

// tasksToLeaveOut chooses what else than a task must go so that a request is
// smaller by so many tokens: what has ended first, and the oldest first.
func (t *Transcript) tasksToLeaveOut(than conversation.TaskID, gone []bool, tokens int) map[group]bool {
	weigh, order := map[group]int{}, []group(nil)
	for i := range t.entries {
		if gone[i] || t.traces[i].pin != pinNone || t.entries[i].Task == than && than != "" {
			continue
		}
		g := t.group(i)
		if _, known := weigh[g]; !known {
			order = append(order, g)
		}
		weigh[g] += t.traces[i].tokens
	}
	goes := map[group]bool{}
	for _, ended := range []bool{true, false} {
		for _, g := range order {
			if tokens > 0 && t.over(g.task) == ended {
				goes[g] = true
				tokens -= weigh[g]
			}
		}
	}
	return goes
}

// over is true for tasks that have ended, and for what belongs to none.
func (t *Transcript) over(task conversation.TaskID) bool {
	_, ended := t.ended[task]
	return ended || task == ""
}

// Size estimates the tokens of the whole context: the transcript, with the
// prompt, the tools and the generated entries of the last request.
func (t *Transcript) Size() int { return t.fixed + t.tokens }

// Shown estimates the tokens of the last request as it was made.
func (t *Transcript) Shown() int { return t.shown }

// leftOut stands where the first entry was left out of a request.
const (
	leftOut       = "[%d earlier entries of the conversation are left out here]"
	leftOutTokens = conversation.EntryTokens + 20
)
