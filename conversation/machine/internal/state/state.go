package state

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/attached"
	"parley/conversation/author"
	"parley/conversation/listing"
	"parley/conversation/machine/internal/receipts"
)

// State is everything a session remembers. It holds what is open and short
// excerpts; texts stay in the log, with three exceptions that end with their
// task: the last part shown (a promotion repeats it), open questions, and the
// answers to a running delegation's questions.
//
// It is stored as JSON in snapshots: a snapshot is a cache of the log, so a
// program that cannot read one replays the log instead.
type State struct {
	Key conversation.SessionKey `json:"-"` // which session it is; given on loading

	Title    string                 `json:",omitempty"`
	Agent    conversation.AgentName `json:",omitempty"`
	Owner    conversation.UserID    `json:",omitempty"`
	Policy   conversation.Overrides `json:",omitempty"`
	Lifted   []string               `json:",omitempty"` // keys of Policy that hold above what is configured
	Created  time.Time
	Activity time.Time // of the last message or part
	Last     time.Time // of the last event
	Head     conversation.Seq

	// How many of each kind have been named so far; the next id is one more.
	Messages, Parts, TaskCount, Questions, Calls, Delegations uint32
	Step                                                      conversation.StepNumber

	Version   uint8
	Access    conversation.Access                 `json:",omitempty"`
	Closed    bool                                `json:",omitempty"`
	Forgotten bool                                `json:",omitempty"` // client ids have left Recent
	Members   map[conversation.UserID]access.Role `json:",omitempty"` // besides the owner
	Voices    author.Voices                       `json:",omitzero"`
	Opening   *opening                            `json:",omitempty"` // nil: there was no message

	Tasks     []*Task     `json:",omitempty"` // that have not ended, in the order in which they were born or moved
	waitOnly  int         // how many of them, at the end, only wait (queue.go)
	Recent    dedupWindow `json:",omitzero"`  // the last client ids
	Withdrawn []uint32    `json:",omitempty"` // the last withdrawn messages, so that withdrawing again is harmless
	// Of an outside session: the last messages that have ended.
	EndedMessages *endedMessages `json:",omitempty"`

	LastParts listing.Parts `json:",omitempty"`

	Heard *heard `json:",omitempty"` // nil: no message was answered by a text of its own

	FreeSince time.Time // when a task last stopped being RUNNING
	Final     *Final    `json:",omitempty"` // of a sub-session: how its only task ended

	// Where a transcript begins (log_ranges.go). A snapshot of before they were kept
	// lacks them: its session is shown the window, without the original request.
	Origin    *origin          `json:",omitempty"`
	Compacted *compaction      `json:",omitempty"`
	Cleared   conversation.Seq `json:",omitempty"` // the last context_cleared: what was before is shown to its own task only
	Ended     []endedTasks     `json:",omitempty"` // the last tasks that ended, oldest first
}

// snapshotVersion changes with the meaning of state, and with each new field: a program that
// does not know the field leaves it out of what it writes, and the log alone has it then.
const snapshotVersion = 5

// Final says how the only task of a sub-session ended.
type Final struct {
	Status   conversation.CallStatus
	Response conversation.Seq // its last response; 0 = none was shown
}

// Task is a task that has not ended.
type Task struct {
	id          conversation.TaskID // from N, made once: it is in each event
	waits       bool                // it was counted in State.waitOnly
	N           uint32              // "t<N>-<session>"
	Status      conversation.TaskStatus
	Trigger     conversation.MessageID
	Order       Order     `json:",omitempty"`
	Steer       bool      `json:",omitempty"` // put into the queue by a steer message: more may join
	Replied     bool      `json:",omitempty"` // put into the queue by a reply: more may join, wherever it is moved to
	Collect     bool      `json:",omitempty"` // put into the queue by a collect message: more join until it starts
	NotBefore   time.Time `json:",omitzero"`  // it does not start before; zero = at once
	Created     time.Time
	Updated     time.Time               // of the last change of its status
	First       conversation.Seq        // the event that created it
	Last        conversation.Seq        // the last event of its status
	Events      []span                  // where its events are, those of its messages among them
	Messages    []*Message              `json:",omitempty"` // not resolved yet; the read ones come first
	Step        *Step                   `json:",omitempty"` // the open step; nil = no model call is in flight
	LastStep    conversation.StepNumber `json:",omitempty"` // the last one that was started
	Steps       int                     `json:",omitempty"` // how many were started
	StepsSince  int                     `json:",omitempty"` // since the step that last read a message or an answer from outside, that one included
	Cancelling  *Cancelling             `json:",omitempty"`
	Interrupted bool                    `json:",omitempty"` // its model acts, and nobody knows what it has done
	Calls       []*Call                 `json:",omitempty"` // without a result yet
	Questions   []*Question             `json:",omitempty"` // open, oldest first

	// They say that the next step has something new for the model. Its start sets them to false.
	UnseenResults bool `json:"Round,omitempty"` // a result of the last step's own calls
	UnseenInput   bool `json:"News,omitempty"`  // something from outside that round: a late result, a default, a nudge (answers and unread messages aside)
	UnseenAnswer  bool `json:",omitempty"`      // somebody's answer to a question of the task
	Allowed       bool `json:",omitempty"`      // somebody has allowed or declined a call, or answered its tool; what became of it is a result

	Nudges       int                    `json:",omitempty"`        // coverage nudges in the task's life
	NudgeFailed  bool                   `json:",omitempty"`        // the model call of one has failed: there is no other
	EmptyAnswers int                    `json:"Empties,omitempty"` // answers that said and asked for nothing since the task last read a message or an answer
	Cuts         int                    `json:",omitempty"`        // answers in a row that ended at the limit of tokens, and are gone on with
	Pieces       receipts.Words         `json:",omitempty"`        // of what they said: the last piece is tried with all before it
	NextPart     conversation.PartIndex `json:",omitempty"`
	LastPart     *conversation.Part     `json:",omitempty"` // the last part shown, whole: a promotion repeats it
	Lease        *Lease                 `json:",omitempty"` // the last hand-out to an outside runtime; nil = none

	// What a text that names no message is judged by (receipts.go).
	Shown    []Shown                `json:",omitempty"` // unattributed parts, oldest first
	Unnamed  []Unnamed              `json:",omitempty"` // what the last answer said by respondToUser without a name
	Saying   []uint32               `json:",omitempty"` // hashes of what the last answer says by respondToUser
	About    conversation.MessageID `json:",omitempty"` // what the answered question was about that opened the last step
	NextOf   conversation.MessageID `json:",omitempty"` // the same of the next step
	Numbered int                    `json:",omitempty"` // messages that were read: the last one's number
	Form     conversation.NudgeForm `json:",omitempty"` // of the nudge that the next step is opened by
	Alone    conversation.MessageID `json:",omitempty"` // the message that the model is asked for alone, until it is resolved or another is read
	Retold   receipts.Words         `json:",omitempty"` // what the model answered when it was asked for that message alone
}

// Order is why a QUEUED task goes before others. Stored in snapshots only.
type Order uint8

// The orders; a higher one goes first. Stored in snapshots: do not reorder.
const (
	OrderFIFO     Order = iota
	OrderLeftover       // of messages that an earlier task left unread
	OrderReplied        // it ran before, and has its answer
	OrderFirst          // an interrupt
)

// Message is an accepted message without a resolution.
type Message struct {
	ID     conversation.MessageID
	Author conversation.UserID
	Via    conversation.Via `json:",omitempty"`

	AuthorName string `json:",omitempty"` // of an outside session, for who claims the message

	Seq       conversation.Seq
	At        time.Time
	Edited    conversation.Seq        `json:",omitempty"` // the last message_edited
	Read      conversation.Seq        `json:",omitempty"` // the step_started that showed it to a model; 0 = unread
	ReadBy    conversation.StepNumber `json:",omitempty"`
	Deferred  bool                    `json:"Kept,omitempty"` // waits for the task's next question instead of a step
	Text      string                  // whole for a kept reply, else at most RememberedText characters of it
	Nudged    int                     `json:",omitempty"` // how often the model was reminded of it
	Clarified bool                    `json:",omitempty"` // the model was asked whether it answers an open question
	Closing   bool                    `json:",omitempty"` // the model was asked, by a closing nudge, what became of it
	Number    int                     `json:",omitempty"` // by which the model may name it: from 1 in its task, as read; 0 = unread
	Words     receipts.Words          `json:",omitempty"` // its words
	Files     []attached.File         `json:",omitempty"` // until it is read
}

// Step is an open step.
type Step struct {
	N          conversation.StepNumber
	Attempt    int
	Seq        conversation.Seq         // of attempt 1: what the model is shown ends here
	Read       []conversation.MessageID `json:",omitempty"`
	Agent      conversation.AgentName
	NotBefore  time.Time `json:",omitzero"`
	Errors     int       `json:",omitempty"` // attempts after the first, by cause
	Interrupts int       `json:",omitempty"`
	Moves      int       `json:",omitempty"`
	Parked     bool      `json:",omitempty"` // stopped by a drain, not begun again
	WrapUp     bool      `json:",omitempty"`

	Form conversation.NudgeForm `json:",omitempty"` // of the nudge that opened it
}

// Name is the attempt that the step is at.
func (st *Step) Name() conversation.Attempt {
	return conversation.Attempt{Step: st.N, N: st.Attempt}
}

// Cancelling is the first phase of an early end.
type Cancelling struct {
	By    conversation.CancelBy
	Until time.Time
	Error *conversation.Failure `json:",omitempty"`
	Drop  bool                  `json:",omitempty"`
	Seq   conversation.Seq
}

// Call is a tool call or delegation without a result.
type Call struct {
	ID         conversation.CallID
	Step       conversation.StepNumber
	Tool       string                 `json:",omitempty"` // "" for a delegation
	Agent      conversation.AgentName `json:",omitempty"`
	Held       bool                   `json:",omitempty"` // waits for a question alone: for its approval, or for what its caller brings; nothing of ours runs
	Idempotent bool                   `json:",omitempty"`
	Caller     bool                   `json:",omitempty"` // the session's caller runs the tool
	Seq        conversation.Seq
	At         time.Time
	Deadline   time.Time                         `json:",omitzero"`  // later by the time that it has stood still
	Stands     time.Time                         `json:",omitzero"`  // the deadline stands still since then: the call waits for an answer; zero = it does not
	Asked      int                               `json:",omitempty"` // questions that a tool has asked in this call
	Target     conversation.CallID               `json:",omitempty"` // amend: the delegation
	Answers    map[conversation.QuestionID]reply `json:",omitempty"` // delegation: answers given, by the sub-session's id
}

// Delegation is true for a delegation, false for a tool call.
func (c *Call) Delegation() bool { return c.Tool == "" }

// reply is an answer that was routed down.
type reply struct {
	Text string
	By   conversation.UserID
}

// Question is an open question.
type Question struct {
	Asked conversation.Asked
	Seq   conversation.Seq
	At    time.Time
	Step  conversation.StepNumber // of the task's own questions
}

// Own is true for a question of the task itself, false for one of its delegations.
func (q *Question) Own() bool { return q.Asked.Delegation == "" }

// New is the state before the first event.
func New(key conversation.SessionKey) State { return State{Key: key, Version: snapshotVersion} }

// Restore is the state whose snapshot data is. An error means that the
// snapshot is of no use and the log must be replayed from its start.
func Restore(key conversation.SessionKey, data []byte) (State, error) {
	var st State // without a version: one that is not there must not look like ours
	if err := json.Unmarshal(data, &st); err != nil {
		return State{}, fmt.Errorf("snapshot of %s: %w", key, err)
	}
	if st.Version != snapshotVersion {
		return State{}, fmt.Errorf("snapshot of %s: version %d instead of %d", key, st.Version, snapshotVersion)
	}
	st.Key = key
	for _, t := range st.Tasks {
		t.id = st.TaskID(t.N)
	}
	countWaiters(&st)
	return st, nil
}

// Snapshot is the state after the last applied event, for Restore. An error
// means that the state holds what JSON cannot say; the log, from which it comes,
// is as good without.
func (st *State) Snapshot() ([]byte, error) {
	data, err := json.Marshal(st)
	if err != nil {
		return nil, fmt.Errorf("snapshot of %s: %w", st.Key, err)
	}
	return data, nil
}

// Ids are counters with the session's id: unique in the server without a look-up.

// MessageID is the id of the n-th accepted message.
func (st *State) MessageID(n uint32) conversation.MessageID {
	return conversation.MessageID(numbered('m', n, st.Key.Session))
}

// PartID is the id of the n-th part.
func (st *State) PartID(n uint32) conversation.MessageID {
	return conversation.MessageID(numbered('p', n, st.Key.Session))
}

// TaskID is the id of the n-th task.
func (st *State) TaskID(n uint32) conversation.TaskID {
	return conversation.TaskID(numbered('t', n, st.Key.Session))
}

// numbered is an id, in one piece of memory for sessions of usual names.
func numbered(letter byte, n uint32, session conversation.SessionID) string {
	id := append(make([]byte, 0, 64), letter)
	id = append(strconv.AppendUint(id, uint64(n), 10), '-')
	return string(append(id, session...))
}

// ID is the task's id.
func (t *Task) ID() conversation.TaskID { return t.id }

// QuestionID is the id of the n-th question.
func (st *State) QuestionID(n uint32) conversation.QuestionID {
	return conversation.QuestionID("q" + strconv.FormatUint(uint64(n), 10))
}

// Task finds an open task; nil if there is none.
func (st *State) Task(id conversation.TaskID) *Task {
	n, tasks := conversation.Ordinal(string(id), 't'), st.Tasks
	// Most stand as they were born: the place of the first one tells that of this one.
	if len(tasks) > 0 && n > tasks[0].N && int(n-tasks[0].N) < len(tasks) {
		if t := tasks[n-tasks[0].N]; t.id == id {
			return t
		}
	}
	if n > st.TaskCount {
		return nil // it is about to be born
	}
	for _, t := range tasks {
		if t.N == n && t.id == id {
			return t
		}
	}
	return nil
}

// Running is the task that is RUNNING, also while it is being cancelled.
func (st *State) Running() *Task {
	for _, t := range Active(st) {
		if t.Status == conversation.TaskRunning {
			return t
		}
	}
	return nil
}

// Message finds a message without a resolution, and its task.
func (st *State) Message(id conversation.MessageID) (*Task, *Message) {
	for _, t := range st.Tasks {
		if m := t.Message(id); m != nil {
			return t, m
		}
	}
	return nil, nil
}

// Message finds a message of the task without a resolution; nil if there is none.
func (t *Task) Message(id conversation.MessageID) *Message {
	for _, m := range t.Messages {
		if m.ID == id {
			return m
		}
	}
	return nil
}

func (t *Task) drop(id conversation.MessageID) {
	for i, m := range t.Messages {
		if m.ID == id {
			t.Messages = without(t.Messages, i)
			return
		}
	}
}

// without leaves the list as it is for those who still go through it. The first
// one goes most often, and without a copy.
func without[T any](list []*T, i int) []*T {
	if i == 0 {
		return list[1:]
	}
	return append(list[:i:i], list[i+1:]...)
}

// Call finds an open call of the task; nil if there is none.
func (t *Task) Call(id conversation.CallID) *Call {
	for _, c := range t.Calls {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// Question finds an open question of the task; nil if there is none.
func (t *Task) Question(id conversation.QuestionID) *Question {
	for _, q := range t.Questions {
		if q.Asked.Question == id {
			return q
		}
	}
	return nil
}

// Call finds an open call, and its task.
func (st *State) Call(id conversation.CallID) (*Task, *Call) {
	for _, t := range Active(st) {
		if c := t.Call(id); c != nil {
			return t, c
		}
	}
	return nil, nil
}

// Question finds an open question, and its task.
func (st *State) Question(id conversation.QuestionID) (*Task, *Question) {
	for _, t := range Active(st) {
		if q := t.Question(id); q != nil {
			return t, q
		}
	}
	return nil, nil
}

// Unread is true when a step would read something: kept replies wait for a question.
func (t *Task) Unread() bool {
	for i := len(t.Messages) - 1; i >= 0; i-- {
		if m := t.Messages[i]; m.Read != 0 {
			return false
		} else if !m.Deferred {
			return true
		}
	}
	return false
}

// News is true when something from outside the last round is unseen.
// Rule 2.12.
func (t *Task) News() bool { return t.UnseenInput || t.UnseenAnswer || t.Unread() }

// Spoken is true when the next step reads what somebody has said.
// Rule 7.1.
func (t *Task) Spoken() bool { return t.UnseenAnswer || t.Allowed || t.Unread() }

// UnreadMessages are those that a step would read.
func (t *Task) UnreadMessages() []*Message {
	var unread []*Message
	for _, m := range t.Messages {
		if m.Read == 0 && !m.Deferred {
			unread = append(unread, m)
		}
	}
	return unread
}

// Waiting counts the accepted messages of the session that nothing has read.
func (st *State) Waiting() int {
	n := 0
	for _, t := range st.Tasks {
		for i := len(t.Messages) - 1; i >= 0 && t.Messages[i].Read == 0; i-- {
			n++
		}
	}
	return n
}

// Ran is true once a step of the task was started.
func (t *Task) Ran() bool { return t.Steps > 0 }
