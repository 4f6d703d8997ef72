package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/option"
	"parley/conversation/tokens"
)

// Policy says how a session behaves where the requirements leave a choice
// (docs/POLICIES.md). The zero value is not usable: DefaultPolicy.
//
// A Policy is read by decisions only, never by Apply: a log means the same under
// every configuration, and a changed one holds from the next command on.
//
// What is configured is a ceiling for what a session sets for itself. The tag ceiling says
// which way below is:
//
//	max     less is below; with none:"0" a 0 is no limit at all, and so the largest
//	modes   the configured one and those of inbox.allowed_modes
//	size    a list of so many texts and bytes
//	any     no value is above another
//	server  a session has none of its own
type Policy struct {
	Mode          conversation.Mode      `key:"inbox.mode" choices:"steer,queue,collect,interrupt,reject" ceiling:"modes"`
	CollectWindow time.Duration          `key:"inbox.collect_window" min:"1ms" max:"1h" ceiling:"max"`
	MaxQueued     int                    `key:"inbox.max_queued" min:"0" max:"1000000" ceiling:"max" none:"0"` // waiting messages of one session; 0 = no limit
	Read          Read                   `key:"inbox.read" choices:"auto,one,all" ceiling:"any"`               // messages that a step reads at once
	TriageAgent   conversation.AgentName `key:"inbox.triage_agent" ceiling:"any"`                              // "" = none
	AllowedModes  []string               `key:"inbox.allowed_modes" ceiling:"server"`                          // that sessions and messages may choose besides Mode
	Coverage      Coverage               `key:"coverage.mode" choices:"strict,seen,off" ceiling:"any"`
	MaxNudges     int                    `key:"coverage.max_nudges" min:"0" max:"100" ceiling:"max"` // per task
	MaxSteps      int                    `key:"task.max_steps" min:"1" max:"100000" ceiling:"max"`
	ReplyOnBusy   ReplyOnBusy            `key:"reply.on_busy" choices:"conflict,queue" ceiling:"any"`
	EmptyAnswer   EmptyAnswer            `key:"empty_answer" choices:"apologise,silent,retry" ceiling:"any"`
	Sentinels     []string               `key:"no_reply.sentinels" ceiling:"size"`
	Fallback      bool                   `key:"no_reply.fallback" ceiling:"any"` // sentinels are shown as they are
	PartsEnabled  bool                   `key:"parts.enabled" ceiling:"any"`
	MaxAttempts   int                    `key:"retry.max_attempts" min:"1" max:"100" ceiling:"max"`
	MaxInterrupts int                    `key:"retry.max_interrupted" min:"0" max:"1000" ceiling:"max"`
	MaxMoved      int                    `key:"retry.max_moved" min:"0" max:"10000" ceiling:"max"`
	BackoffMin    time.Duration          `key:"retry.backoff_min" min:"0s" ceiling:"max"`
	BackoffMax    time.Duration          `key:"retry.backoff_max" min:"0s" ceiling:"max"`
	MaxRetryAfter time.Duration          `key:"retry.max_retry_after" min:"0s" max:"24h" ceiling:"server"` // a provider's wish to be left alone for longer is not waited for
	CancelGrace   time.Duration          `key:"cancel.grace" min:"0s" ceiling:"max"`
	ToolTimeout   time.Duration          `key:"tools.timeout" min:"1ms" ceiling:"max"`
	MaxTools      int                    `key:"tools.max_parallel" min:"1" max:"1000" ceiling:"max"`  // calls of tools that run in a task at once
	MaxAsks       int                    `key:"tools.max_questions" min:"0" max:"1000" ceiling:"max"` // that one call may ask the user; 0 = none
	DelegateTime  time.Duration          `key:"delegation.timeout" min:"1ms" ceiling:"max"`
	MaxDepth      int                    `key:"delegation.max_depth" min:"0" max:"16" ceiling:"max"`
	MaxParallel   int                    `key:"delegation.max_parallel" min:"1" max:"1000" ceiling:"max"` // per task
	MaxWait       time.Duration          `key:"admission.max_wait" min:"0s" ceiling:"server"`             // 0 = no limit
	AskDetect     AskDetect              `key:"ask.detect" choices:"off,question" ceiling:"any"`
	CutAnswer     CutAnswer              `key:"cut_answer" choices:"continue,mark" ceiling:"any"`
	OutsideLease  time.Duration          `key:"outside.lease" min:"0s" ceiling:"max" none:"0"` // 0 = a runtime's hand-out never ends by itself
	Context       Context
	Texts         Texts

	// What a session brings of its own is only bounded here (Own).
	MaxCaller       int  `key:"tools.max_caller" min:"0" max:"1024" ceiling:"server"`                        // tools of its caller; 0 = none may be brought
	MaxCallerBytes  int  `key:"tools.max_caller_bytes" min:"0" max:"1048576" unit:"bytes" ceiling:"server"`  // of their names, descriptions and parameters together
	MaxInstructions int  `key:"session.max_instructions" min:"0" max:"262144" unit:"bytes" ceiling:"server"` // 0 = none may be brought
	Own             *Own // by tools.caller and instructions; nil = nothing, as in the configuration

	// Channels are the modes of messages by the channel that they come through,
	// where a channel has one of its own: above Mode, below a session's inbox.mode
	// and what the message itself says. Shared and never written; nil = none.
	Channels map[conversation.Via]conversation.Mode
}

// Context bounds what a model is shown, in tokens as tokens.Of estimates them. A
// session cannot have limits of its own: they belong to the models. The zero
// value is no limit at all.
type Context struct {
	Budget     int `key:"context.budget" min:"0"`                   // a larger request is shown less of what is oldest; 0 = no limit
	Threshold  int `key:"context.threshold" min:"0"`                // a larger context is summarised; 0 = never
	Keep       int `key:"context.keep" min:"0"`                     // of ended tasks, what stays verbatim when the rest is summarised
	Summary    int `key:"context.summary" min:"0"`                  // a longer summary is cut
	ToolResult int `key:"context.tool_result" min:"0" unit:"bytes"` // bytes of a call's result that are shown; 0 = all of it

	FileText     int `key:"context.file_text" min:"0" unit:"bytes"`     // bytes of one file's text that are shown; 0 = files are only named
	FileTexts    int `key:"context.file_texts" min:"0" unit:"bytes"`    // of all files' texts in a request, the newest
	Pictures     int `key:"context.pictures" min:"0"`                   // pictures in a request, the newest; 0 = they are only named
	PictureBytes int `key:"context.picture_bytes" min:"0" unit:"bytes"` // of all of them
}

// FileLimits bound what a model is given of what is attached to messages, as Context says it.
type FileLimits struct {
	Text, Texts            int
	Pictures, PictureBytes int
}

// Files are the limits for a model that holds so many tokens, 0 = any number: texts and
// pictures take at most a third of them each.
func (c Context) Files(holds int) FileLimits {
	f := FileLimits{c.FileText, c.FileTexts, c.Pictures, c.PictureBytes}
	if holds > 0 {
		f.Texts, f.Pictures = min(f.Texts, holds/3*tokens.BytesEach), min(f.Pictures, holds/3/tokens.PerPicture)
	}
	f.Text = min(f.Text, f.Texts)
	return f
}

// Texts are the sentences that the engine itself says to users. All else that
// users read comes from a model, or is an Error.
type Texts struct {
	Busy       string `key:"texts.busy"`       // inbox.mode=reject
	Overloaded string `key:"texts.overloaded"` // admission.on_full=reject
	Empty      string `key:"texts.empty"`      // empty_answer=apologise
	Failed     string `key:"texts.failed"`     // a task that ends in ERROR
	Limit      string `key:"texts.limit"`      // task.max_steps reached and no wrap-up came

	Interrupted string `key:"texts.interrupted"` // a model that acts was interrupted
	Filtered    string `key:"texts.filtered"`    // a model's provider has withheld the whole answer
	Withheld    string `key:"texts.withheld"`    // ends an answer of which the provider has withheld the rest
}

// Read says how many of the messages that wait a step reads.
type Read uint8

// The choices. Stored: do not reorder.
const (
	ReadAuto Read = iota // one, until the agent's model has named a message in the session; then all
	ReadOne
	ReadAll
)

var readNames = [...]string{"auto", "one", "all"}

func (r Read) String() string { return name(readNames[:], int(r)) }

// UnmarshalText reads what String writes.
func (r *Read) UnmarshalText(text []byte) error {
	i := slices.Index(readNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no choice of inbox.read", text)
	}
	*r = Read(i)
	return nil
}

// Coverage says whether a task may finish with messages that it has not addressed.
// The zero value is the default: it may not, as long as reminders are left.
type Coverage uint8

// The coverage modes. Stored: do not reorder.
const (
	CoverageStrict Coverage = iota
	CoverageSeen
	CoverageOff
)

var coverageNames = [...]string{"strict", "seen", "off"}

func (c Coverage) String() string { return name(coverageNames[:], int(c)) }

// UnmarshalText reads what String writes.
func (c *Coverage) UnmarshalText(text []byte) error {
	i := slices.Index(coverageNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no coverage mode", text)
	}
	*c = Coverage(i)
	return nil
}

// ReplyOnBusy says what becomes of a reply to a task that does not wait for one.
type ReplyOnBusy uint8

// The choices. Stored: do not reorder.
const (
	ReplyConflict ReplyOnBusy = iota
	ReplyQueue
)

var replyOnBusyNames = [...]string{"conflict", "queue"}

func (r ReplyOnBusy) String() string { return name(replyOnBusyNames[:], int(r)) }

// UnmarshalText reads what String writes.
func (r *ReplyOnBusy) UnmarshalText(text []byte) error {
	i := slices.Index(replyOnBusyNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no choice of reply.on_busy", text)
	}
	*r = ReplyOnBusy(i)
	return nil
}

// EmptyAnswer says what becomes of a task that has shown nothing and gets an
// empty answer.
type EmptyAnswer uint8

// The choices. Stored: do not reorder.
const (
	EmptyApologise EmptyAnswer = iota
	EmptySilent
	EmptyRetry
)

var emptyAnswerNames = [...]string{"apologise", "silent", "retry"}

func (e EmptyAnswer) String() string { return name(emptyAnswerNames[:], int(e)) }

// UnmarshalText reads what String writes.
func (e *EmptyAnswer) UnmarshalText(text []byte) error {
	i := slices.Index(emptyAnswerNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no choice of empty_answer", text)
	}
	*e = EmptyAnswer(i)
	return nil
}

// AskDetect says whether a final text that ends with a question makes the task wait
// for an answer.
type AskDetect uint8

// The choices. Stored: do not reorder.
const (
	AskDetectOff AskDetect = iota
	AskDetectQuestion
)

var askDetectNames = [...]string{"off", "question"}

func (a AskDetect) String() string { return name(askDetectNames[:], int(a)) }

// UnmarshalText reads what String writes.
func (a *AskDetect) UnmarshalText(text []byte) error {
	i := slices.Index(askDetectNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no choice of ask.detect", text)
	}
	*a = AskDetect(i)
	return nil
}

// CutAnswer says what becomes of an answer that ended at the model's limit of
// tokens.
type CutAnswer uint8

// The choices. Stored: do not reorder.
const (
	CutContinue CutAnswer = iota // the model is asked to go on, three times at most
	CutMark                      // the text is marked as cut, and that is its end
)

var cutAnswerNames = [...]string{"continue", "mark"}

func (c CutAnswer) String() string { return name(cutAnswerNames[:], int(c)) }

// UnmarshalText reads what String writes.
func (c *CutAnswer) UnmarshalText(text []byte) error {
	i := slices.Index(cutAnswerNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no choice of cut_answer", text)
	}
	*c = CutAnswer(i)
	return nil
}

// name is the i-th of the names; a number that this program does not know is shown as it is.
func name(names []string, i int) string {
	if i >= len(names) {
		return fmt.Sprintf("unknown(%d)", i)
	}
	return names[i]
}

// DefaultPolicy is the policy of a configuration that says nothing.
func DefaultPolicy() Policy {
	return Policy{
		Mode:          conversation.ModeSteer,
		CollectWindow: 2 * time.Second,
		MaxQueued:     1000,
		AllowedModes:  modeNames(),
		Coverage:      CoverageStrict,
		MaxNudges:     1,
		MaxSteps:      30,
		EmptyAnswer:   EmptyApologise,
		Sentinels:     []string{"NO_REPLY", "HEARTBEAT_OK"},
		PartsEnabled:  true,
		MaxAttempts:   3,
		MaxInterrupts: 5,
		MaxMoved:      50,
		OutsideLease:  10 * time.Minute,
		BackoffMin:    time.Second,
		BackoffMax:    30 * time.Second,
		MaxRetryAfter: 5 * time.Minute,
		CancelGrace:   7 * time.Second,
		ToolTimeout:   60 * time.Second,
		MaxTools:      32,
		MaxAsks:       20,
		DelegateTime:  10 * time.Minute,
		MaxDepth:      3,
		MaxParallel:   8,

		MaxCaller: 64, MaxCallerBytes: 64 << 10, MaxInstructions: 16 << 10,

		Context: Context{Budget: 100_000, Threshold: 80_000, Keep: 20_000, Summary: 2_000, ToolResult: 16 << 10, FileText: 64 << 10, FileTexts: 128 << 10, Pictures: 20, PictureBytes: 10 << 20},
		Texts: Texts{
			Busy:       "Please wait, I'm still thinking…",
			Overloaded: "AI is busy, please try again in a moment",
			Empty:      "I wasn't able to generate a response",
			Failed:     "I encountered an error while working on this. Please try again.",
			Limit:      "I stopped here: this task reached its limit of steps.",

			Interrupted: "I was interrupted; what was done is not known",
			Filtered:    "The model's provider withheld the answer.",
			Withheld:    "[...withheld by the model's provider]",
		},
	}
}

// Backoff is exponential with full jitter, within retry.backoff_max, and at least what
// the provider has asked for.
func (p Policy) Backoff(retries int, jitter float64, retryAfter time.Duration) time.Duration {
	limit := p.BackoffMin
	for range retries {
		limit = min(2*limit, p.BackoffMax)
	}
	limit = min(limit, p.BackoffMax)
	wait := time.Duration(jitter * float64(limit)).Round(time.Millisecond)
	if asked := retryAfter.Truncate(time.Millisecond); asked < retryAfter {
		retryAfter = asked + time.Millisecond // times are stored in milliseconds
	}
	return max(wait, retryAfter)
}

// TooLate says of a failure after which the model wants to be left alone for longer than
// retry.max_retry_after that it is the last one; ok is false for any other.
func (p Policy) TooLate(f conversation.Failure, retryAfter time.Duration) (last conversation.Failure, ok bool) {
	if retryAfter <= p.MaxRetryAfter {
		return f, false
	}
	f.Message += fmt.Sprintf("; it may be asked again in %s, and the server waits %s at most", retryAfter.Round(time.Second), p.MaxRetryAfter)
	return f, true
}

// IsSentinel is true for a text that means "nothing to say": exactly one of the
// policy's words, after optional leading mentions.
func (p Policy) IsSentinel(text string) bool {
	if p.Fallback {
		return false
	}
	rest := strings.TrimSpace(text)
	for strings.HasPrefix(rest, "@") {
		i := strings.IndexAny(rest, " \t\r\n")
		if i < 0 {
			return false
		}
		rest = strings.TrimSpace(rest[i:])
	}
	for _, word := range p.Sentinels {
		if rest == word {
			return true
		}
	}
	return false
}

// SentinelPrefix is true while streamed text may still turn out to be a
// no-reply sentinel, so that it is held back from the screen.
func (p Policy) SentinelPrefix(text string) bool {
	if p.Fallback || len(p.Sentinels) == 0 {
		return false
	}
	rest := strings.TrimSpace(text)
	for strings.HasPrefix(rest, "@") {
		i := strings.IndexAny(rest, " \t\r\n")
		if i < 0 {
			return true
		}
		rest = strings.TrimSpace(rest[i:])
	}
	for _, word := range p.Sentinels {
		if strings.HasPrefix(word, rest) {
			return true
		}
	}
	return false
}

// Validate says what is wrong with the policy by itself: bounds, and values that
// contradict each other or that a person would see as an empty message.
func (p Policy) Validate() []option.FieldError {
	wrong := option.OutOfBounds(p)
	if p.BackoffMin > p.BackoffMax {
		wrong = append(wrong, option.FieldError{Key: "retry.backoff_min", AtMost: "retry.backoff_max"})
	}
	var context option.FieldError
	if errors.As(p.Context.Check(), &context) {
		wrong = append(wrong, context)
	}
	if slices.ContainsFunc(p.Sentinels, conversation.IsBlank) {
		wrong = append(wrong, option.FieldError{Key: "no_reply.sentinels", Sentence: "holds a blank text; leave the list empty to have none"})
	}
	for _, mode := range p.AllowedModes {
		if !slices.Contains(modeNames(), mode) {
			wrong = append(wrong, option.FieldError{Key: "inbox.allowed_modes", Value: mode, Sentence: "must hold only " + strings.Join(modeNames(), ", ")})
		}
	}
	for _, t := range []struct{ key, text string }{
		{"texts.busy", p.Texts.Busy},
		{"texts.overloaded", p.Texts.Overloaded},
		{"texts.empty", p.Texts.Empty},
		{"texts.failed", p.Texts.Failed},
		{"texts.limit", p.Texts.Limit},
		{"texts.interrupted", p.Texts.Interrupted},
		{"texts.filtered", p.Texts.Filtered},
		{"texts.withheld", p.Texts.Withheld},
	} {
		if conversation.IsBlank(t.text) {
			wrong = append(wrong, option.FieldError{Key: t.key, Sentence: "must not be blank: a person would see an empty message"})
		}
	}
	return wrong
}

// Check refuses limits that contradict each other: a compaction at the threshold
// must leave the context below it, or the next one would follow at once. Its
// error is a option.FieldError, the first that is found.
func (c Context) Check() error {
	if wrong := option.OutOfBounds(c); wrong != nil {
		return wrong[0]
	}
	refuse := func(key string, value int, format string, args ...any) error {
		return option.FieldError{Key: key, Value: value, Sentence: fmt.Sprintf(format, args...)}
	}
	switch {
	case c.Budget > 0 && c.ToolResult/tokens.BytesEach >= c.Budget:
		return refuse("context.tool_result", c.ToolResult, "a single result would fill context.budget, which is %d tokens", c.Budget)
	case c.Threshold == 0:
		return nil
	case c.Budget > 0 && c.Threshold >= c.Budget:
		return refuse("context.threshold", c.Threshold,
			"must be less than context.budget, which is %d: a compaction takes time, and what is said meanwhile needs room", c.Budget)
	case c.Summary == 0:
		return refuse("context.summary", 0, "must be at least 1 while context.threshold is set")
	case c.Keep+c.Summary >= c.Threshold:
		return refuse("context.keep", c.Keep, "what stays after a compaction (keep and context.summary, which is %d) must be less than context.threshold, which is %d",
			c.Summary, c.Threshold)
	}
	return nil
}
