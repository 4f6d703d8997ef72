package machine

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
)

// counts says how often a run has met each case of the rules: a property that
// nothing has put to the test holds for nothing.
type counts map[string]int

// judge fails a run that has not met a case although it was long enough to meet it
// twenty times.
func (c counts) judge(t *testing.T, commands int) {
	t.Helper()
	for _, what := range slices.Sorted(maps.Keys(worldCases)) {
		if often := worldCases[what]; c[what] == 0 && commands > 20*often {
			t.Errorf("%d commands have not met once: %s (usually once in %d)", commands, what, often)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(c)) {
		if _, listed := worldCases[what]; !listed {
			t.Logf("not in the list: %q: %d,", what, max(1, commands/c[what]))
		}
	}
}

func (c counts) see(words ...string) { c[strings.TrimSpace(strings.Join(words, " "))]++ }

// decision counts what a command met, by its answer.
func (c counts) decision(cmd conversation.Command, d conversation.Decided) {
	switch {
	case d.Err != nil:
		c.see("refused", cmd.Name(), string(d.Err.Code))
	case d.Receipt.Duplicate:
		c.see("again", cmd.Name())
	}
}

// event counts what an event shows, of a log as it was before it.
func (c counts) event(j *logJudge, e conversation.Event) {
	kind := e.Body.Kind().String()
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		c.see(kind, b.Disposition.String())
		switch {
		case b.Deferred:
			c.see(kind, "kept for a question")
		case b.Preempts:
			c.see(kind, "interrupts")
		case !b.NotBefore.IsZero():
			c.see(kind, "collects")
		case b.Disposition == conversation.Joined && j.tasks[e.Task] != nil:
			c.see(kind, "joins a task that is", j.tasks[e.Task].status.String())
		}
	case conversation.MessageWithdrawn:
		if b.NewTrigger != "" {
			c.see(kind, "with an heir")
		}
	case conversation.MessageMoved:
		if b.Before == "" {
			c.see(kind, "to the front")
		} else {
			c.see(kind, "before another")
		}
	case conversation.MessageResolved:
		c.see(kind, b.How.String())
	case conversation.TaskStatusChanged:
		c.status(j, e, b)
	case conversation.TaskCancelling:
		c.see(kind, "by", b.By.String())
		if b.Drop {
			c.see(kind, "drops what waits")
		}
	case conversation.StepStarted:
		c.step(j, e, b)
	case conversation.StepFinished:
		c.see(kind, b.Outcome.String())
	case conversation.CoverageNudge:
		c.see(kind, b.Form.String())
	case conversation.Response:
		if b.Promoted {
			c.see(kind, "promoted")
		} else {
			c.see(kind, b.ResponseKind.String())
		}
	case conversation.Asked:
		c.asked(b)
	case conversation.QuestionAnswered:
		c.answer(j, b)
	case conversation.QuestionClosed:
		c.see(kind, b.Reason.String())
	case conversation.ToolFinished:
		c.see(kind, b.Status.String())
	case conversation.DelegationFinished:
		c.see(kind, b.Status.String())
	default:
		c.see(kind)
	}
}

func (c counts) status(j *logJudge, e conversation.Event, b conversation.TaskStatusChanged) {
	switch {
	case b.Old == 0:
		c.see("task of leftovers")
	case b.New == conversation.TaskAwaiting:
		why := "an answer to its delegations"
		for _, q := range j.questions {
			if q.task == e.Task && !q.closed && q.Delegation == "" {
				why = "an answer"
				if q.Blocking {
					why = "a blocking question"
					break
				}
			}
		}
		c.see("task waits for", why)
	case b.Error != nil:
		c.see("task", b.New.String(), string(b.Error.Code))
	default:
		c.see("task", b.Old.String(), b.New.String())
	}
}

func (c counts) step(j *logJudge, e conversation.Event, b conversation.StepStarted) {
	switch {
	case b.Attempt > 1:
		c.see("step again after", b.Cause.String())
	case b.WrapUp:
		c.see("step wraps up")
	case len(b.Read) > 1:
		c.see("step reads several messages")
	case len(b.Read) == 0:
		c.see("step reads nothing new")
	}
}

func (c counts) asked(b conversation.Asked) {
	words := []string{"question"}
	if b.Blocking {
		words = append(words, "blocking")
	}
	if b.Approval != nil {
		words = append(words, "approval")
	}
	if b.Call != "" {
		words = append(words, "of a tool")
	}
	if n := strings.Count(string(b.Question), "."); n > 0 {
		words = append(words, "of a delegation")
		if n > 1 {
			words = append(words, "of a delegation")
		}
	}
	c.see(words...)
}

func (c counts) answer(j *logJudge, b conversation.QuestionAnswered) {
	m := j.messages[b.Message]
	if j.questions[b.Question].Call != "" {
		c.see("tool answered")
	}
	switch {
	case m == nil:
		c.see("question answered by its default")
	case m.accepted.Deferred:
		c.see("question answered by a kept reply")
	case m.accepted.Disposition != conversation.Answered:
		c.see("question answered by a message that was read")
	default:
		c.see("question answered")
	}
}

// worldCases are what a run must meet, with the number of commands in which each is
// usually met once.
var worldCases = map[string]int{
	"again add_part":                400,
	"again answer":                  500,
	"again cancel":                  500,
	"again send":                    40,
	"again tell":                    40,
	"cleared":                       900,
	"context_cleared":               900,
	"context_compacted":             50,
	"coverage_nudge alone":          400,
	"coverage_nudge closing":        1000,
	"coverage_nudge judged":         4000,
	"delegation_finished cancelled": 200,
	"delegation_finished failed":    3000,
	"delegation_finished ok":        200,
	"delegation_finished timeout":   400,
	"delegation_started":            60,
	"message_accepted answered":     70,
	"message_accepted collects":     200,
	"message_accepted interrupts":   90,
	"message_accepted joined":       20,
	"message_accepted joins a task that is AWAITING_RESPONSE":    6000,
	"message_accepted joins a task that is QUEUED":               200,
	"message_accepted joins a task that is RUNNING":              20,
	"message_accepted kept for a question":                       200,
	"message_accepted queued":                                    30,
	"message_accepted started":                                   30,
	"message_edited":                                             100,
	"message_moved before another":                               700,
	"message_moved to the front":                                 400,
	"message_resolved answered":                                  20,
	"message_resolved cancelled":                                 30,
	"message_resolved dismissed":                                 700,
	"message_resolved failed":                                    200,
	"message_resolved merged":                                    60,
	"message_resolved unanswered":                                30,
	"message_resolved withdrawn":                                 100,
	"message_withdrawn with an heir":                             3000,
	"partial_response":                                           40,
	"question":                                                   200,
	"question answered":                                          70,
	"question answered by a kept reply":                          2000,
	"question answered by a message that was read":               20000,
	"question answered by its default":                           1000,
	"question blocking":                                          200,
	"question blocking of a tool":                                300,
	"question blocking approval":                                 200,
	"question blocking approval of a delegation":                 3000,
	"question blocking approval of a delegation of a delegation": 20000,
	"question blocking of a delegation":                          600,
	"question blocking of a delegation of a delegation":          2000,
	"question_closed cancelled":                                  200,
	"question_closed expired":                                    900,
	"refused add_part conflict":                                  2000,
	"refused hand_out conflict":                                  2000,
	"refused runtime_says conflict":                              1000,
	"runtime_status":                                             500,
	"step_finished unknown":                                      4000,
	"refused answer bad_request":                                 2000,
	"refused answer question_closed":                             6000,
	"refused cancel not_found":                                   300,
	"refused create bad_request":                                 600,
	"refused edit conflict":                                      300,
	"refused edit not_found":                                     200,
	"refused move bad_request":                                   300,
	"refused move conflict":                                      200,
	"refused move not_found":                                     200,
	"refused reply bad_request":                                  3000,
	"refused reply inbox_full":                                   4000,
	"refused reply task_not_awaiting":                            200,
	"refused seen bad_request":                                   4000,
	"refused send bad_request":                                   4000,
	"refused send conflict":                                      30000,
	"refused send inbox_full":                                    300,
	"refused send question_closed":                               200,
	"refused send session_closed":                                800,
	"refused send session_busy":                                  200,
	"refused update bad_request":                                 2000,
	"refused withdraw conflict":                                  300,
	"refused withdraw not_found":                                 200,
	"response":                                                   30,
	"response empty":                                             300,
	"response error":                                             200,
	"response limit":                                             200,
	"response promoted":                                          600,
	"rested":                                                     100,
	"session_closed":                                             6000,
	"session_created":                                            50,
	"session_updated":                                            200,
	"step again after drain":                                     200,
	"step again after error":                                     200,
	"step again after interrupted":                               60,
	"step reads nothing new":                                     40,
	"step reads several messages":                                70,
	"step wraps up":                                              200,
	"step_finished cancelled":                                    60,
	"step_finished error":                                        200,
	"step_finished ok":                                           9,
	"task AWAITING_RESPONSE CANCELLED":                           600,
	"task AWAITING_RESPONSE QUEUED":                              100,
	"task ERROR forbidden":                                       800,
	"task ERROR overloaded":                                      30000,
	"task ERROR timeout":                                         200,
	"task ERROR unavailable":                                     2000,
	"task QUEUED CANCELLED":                                      90,
	"task QUEUED RUNNING":                                        20,
	"task RUNNING CANCELLED":                                     50,
	"task RUNNING COMPLETE":                                      20,
	"task of leftovers":                                          70,
	"task waits for a blocking question":                         100,
	"task waits for an answer":                                   2000,
	"task waits for an answer to its delegations":                2000,
	"task_cancelling by error":                                   200,
	"task_cancelling by interrupt":                               200,
	"task_cancelling by parent":                                  200,
	"task_cancelling by user":                                    50,
	"task_cancelling drops what waits":                           300,
	"tool answered":                                              800,
	"tool_finished cancelled":                                    400,
	"tool_finished denied":                                       800,
	"tool_finished error":                                        30,
	"tool_finished ok":                                           300,
	"tool_finished timeout":                                      300,
	"tool_finished unknown":                                      400,
	"tool_started":                                               20,
}
