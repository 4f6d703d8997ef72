package conversation

import "fmt"

// Via is the channel that a message came through.
type Via uint8

// The channels. Stored: do not reorder.
const (
	ViaWebSocket Via = iota + 1
	ViaHTTP
	ViaSlack
	ViaDiscord
	ViaTelegram
	ViaOpenAI
	ViaRuntime
	ViaDelegation
	ViaUIStream
	ViaAGUI
	ViaACP
	ViaMCP
	ViaA2A
)

var viaNames = [...]string{"", "websocket", "http", "slack", "discord", "telegram", "openai", "runtime", "delegation", "ui_stream", "ag_ui", "acp", "mcp", "a2a"}

func (v Via) String() string { return name(viaNames[:], int(v)) }

// Mode tells what a message does that arrives while a task runs (policy inbox.mode):
// it joins the task (steer), waits for its own turn (queue), waits to be worked on
// together with those that follow soon (collect), ends the task and goes first
// (interrupt), or is refused (reject).
type Mode uint8

// The modes. Stored: do not reorder. ModeDefault leaves the choice to the
// session's policy, then the channel's, then the configuration.
const (
	ModeDefault Mode = iota
	ModeSteer
	ModeQueue
	ModeCollect
	ModeInterrupt
	ModeReject
)

var modeNames = [...]string{"", "steer", "queue", "collect", "interrupt", "reject"}

func (m Mode) String() string { return name(modeNames[:], int(m)) }

// ParseMode reads a mode's name; "" is ModeDefault.
func ParseMode(s string) (Mode, bool) {
	i, ok := index(modeNames[:], s)
	return Mode(i), ok
}

// UnmarshalText reads what String writes; "" is ModeDefault.
func (m *Mode) UnmarshalText(text []byte) error {
	mode, ok := ParseMode(string(text))
	if !ok {
		return fmt.Errorf("%q is no mode", text)
	}
	*m = mode
	return nil
}

// Disposition tells what an accepted message did at once.
type Disposition uint8

// The dispositions. Stored: do not reorder.
const (
	Started  Disposition = iota + 1 // its own task, RUNNING in the same commit
	Queued                          // its own task, QUEUED
	Joined                          // belongs to a task that was there
	Answered                        // taken as the answer to a question
)

var dispositionNames = [...]string{"", "started", "queued", "joined", "answered"}

func (d Disposition) String() string { return name(dispositionNames[:], int(d)) }

// Resolution tells how a message ended; each accepted message gets exactly one.
type Resolution uint8

// The resolutions. Stored: do not reorder.
const (
	ResolvedAnswered Resolution = iota + 1
	ResolvedMerged
	ResolvedDismissed
	ResolvedWithdrawn
	ResolvedCancelled
	ResolvedFailed
	ResolvedUnanswered
)

var resolutionNames = [...]string{"", "answered", "merged", "dismissed", "withdrawn", "cancelled", "failed", "unanswered"}

func (r Resolution) String() string { return name(resolutionNames[:], int(r)) }

// Evidence says how it is known that a message was answered (docs/MACHINE.md,
// section 8). A guess is none.
type Evidence uint8

// The kinds of evidence. Stored: do not reorder.
const (
	EvidenceNamed  Evidence = iota + 1 // a part names it
	EvidenceOnly                       // it was the only open message when a text was given
	EvidenceAsked                      // as EvidenceOnly, after the model was reminded of it
	EvidenceWords                      // the text has the words that this message alone has; in old logs only
	EvidenceSeen                       // coverage is "seen": whatever was read counts
	EvidenceJudged                     // the model of receipts.judge says so
)

var evidenceNames = [...]string{"", "named", "only", "asked", "words", "seen", "judged"}

func (e Evidence) String() string { return name(evidenceNames[:], int(e)) }

// TaskStatus is the phase of a task. It is born QUEUED and ends in one of the last
// three; a reply brings it back from AWAITING_RESPONSE to QUEUED. At most one task of
// a session is RUNNING.
type TaskStatus uint8

// The statuses. Stored: do not reorder.
const (
	TaskQueued TaskStatus = iota + 1
	TaskRunning
	TaskAwaiting
	TaskComplete
	TaskError
	TaskCancelled
)

var statusNames = [...]string{"", "QUEUED", "RUNNING", "AWAITING_RESPONSE", "COMPLETE", "ERROR", "CANCELLED"}

func (s TaskStatus) String() string { return name(statusNames[:], int(s)) }

// Ended is true for the three statuses that a task never leaves.
func (s TaskStatus) Ended() bool { return s >= TaskComplete }

// ParseTaskStatus reads a status word of the protocol.
func ParseTaskStatus(s string) (TaskStatus, bool) {
	i, ok := index(statusNames[:], s)
	return TaskStatus(i), ok && i > 0
}

// Access says who of the tenant may see a session, and speak in it. Users of other
// tenants never can.
type Access uint8

// The access levels. Stored: do not reorder.
const (
	AccessPrivate Access = iota // its owner only
	AccessTenant                // every user of the tenant
)

var accessNames = [...]string{"private", "tenant"}

func (a Access) String() string { return name(accessNames[:], int(a)) }

// ParseAccess reads an access level; "" is AccessPrivate.
func ParseAccess(s string) (Access, bool) {
	if s == "" {
		return AccessPrivate, true
	}
	i, ok := index(accessNames[:], s)
	return Access(i), ok
}
