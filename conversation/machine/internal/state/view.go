package state

import (
	"maps"
	"slices"

	"parley/conversation"
	"parley/conversation/listing"
)

// View shows what is open, without Log and Drafts.
func (st *State) View() conversation.View {

	v := conversation.View{
		Key: st.Key, Head: st.Head, Title: st.title(), Agent: st.Agent, Owner: st.Owner, Access: st.Access, Members: maps.Clone(st.Members),
		Policy: st.Policy, Closed: st.Closed, CreatedAt: st.Created,
	}
	for _, t := range st.inOrder() {
		id := t.id
		v.Tasks = append(v.Tasks, conversation.TaskView{
			Task: id, Status: t.Status, Trigger: t.Trigger, Cancelling: t.Cancelling != nil, Steps: t.Steps, CreatedAt: t.Created,
		})
		for _, m := range t.Messages {
			if m.Read == 0 {
				v.Inbox = append(v.Inbox, conversation.InboxView{Message: m.ID, Task: id, Author: m.Author, Excerpt: conversation.Excerpt(m.Text, ExcerptLength), AcceptedAt: m.At, Files: m.Files})
			}
		}
		for _, q := range t.Questions {
			v.Questions = append(v.Questions, conversation.QuestionView{Task: id, Asked: q.Asked, At: q.At})
		}
		for _, c := range t.Calls {
			if c.Held && !c.Caller {
				continue
			}
			cv := conversation.CallView{Task: id, Call: c.ID, Tool: c.Tool, Agent: c.Agent, Deadline: c.Deadline, Caller: c.Caller}
			if c.Delegation() {
				cv.Session = st.Key.Session + "/" + conversation.SessionID(c.ID)
			}
			v.Calls = append(v.Calls, cv)
		}
	}
	return v
}

// inOrder lists the open tasks as they will run: the RUNNING one, then the
// QUEUED ones, then those that wait for an answer.
func (st *State) inOrder() []*Task {
	rank := func(t *Task) int {
		switch t.Status {
		case conversation.TaskRunning:
			return -10
		case conversation.TaskQueued:
			return -int(t.Order)
		default:
			return 10
		}
	}
	tasks := slices.Clone(st.Tasks)
	slices.SortStableFunc(tasks, func(a, b *Task) int { return rank(a) - rank(b) })
	return tasks
}

// Summary is the session's entry in lists.
func (st *State) Summary() conversation.Summary {

	sum := conversation.Summary{
		Key: st.Key, Title: st.title(), Agent: st.Agent, Owner: st.Owner, Access: st.Access, Members: maps.Clone(st.Members), Closed: st.Closed,
		CreatedAt: st.Created, Activity: st.Activity, Last: st.Head, Open: len(st.Tasks),
		Work: listing.Work{Parts: st.LastParts},
	}
	for _, t := range Active(st) {
		switch t.Status {
		case conversation.TaskAwaiting:
			sum.Awaiting++
		case conversation.TaskRunning:
			sum.Running++
		}
		sum.Asking += len(t.Questions)
	}
	return sum
}
