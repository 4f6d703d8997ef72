package machine

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"parley/conversation"
)

// speaker is a way in which models speak of the messages that they have read.
// None of them is friendly to the engine, but the first.
type speaker uint8

const (
	namesAll    speaker = iota // answers each message by its name, and ends with silence
	namesOthers                // answers each message by its name, and the last one with a text at the end
	overEager                  // names every message at once ("noted"), and answers later, in plain text
	plainOldest                // plain text, one message an answer, the oldest first
	plainNewest                // plain text, one message an answer, the newest first
	chatty                     // as plainOldest, and says something beside each call
	repeats                    // says of the first message of its task the same again and again, and of the others nothing
	paraphrases                // as repeats, but never twice in the same words
	unnamed                    // respondToUser without a name, the oldest first
)

var speakerNames = [...]string{
	"names each message", "names, ends with a text", "over-eager (\"noted\")", "plain, oldest first", "plain, newest first",
	"chatty", "repeats itself", "repeats in other words", "respondToUser, no name",
}

func (k speaker) String() string { return speakerNames[k] }

// speakers lists them all.
func speakers() []speaker {
	all := make([]speaker, len(speakerNames))
	for i := range all {
		all[i] = speaker(i)
	}
	return all
}

// hearing is what a model knows when it is asked: read from the log, so that it is the
// same in every attempt and after every crash.
type hearing struct {
	read     []conversation.MessageID // of the task, in the order in which they were read
	fresh    []conversation.MessageID // of them: newly seen by this step
	open     []conversation.MessageID // of them: without a resolution
	reminded []conversation.MessageID // by a nudge since the step before
	alone    conversation.MessageID   // it is asked for alone: the others that are open are not shown; "" = none
	running  int                      // delegations of the task
	spoken   map[conversation.MessageID]int
	texts    map[conversation.MessageID]string
	wrapUp   bool
}

// hear reads what the model call of a step is shown of its task.
func hear(log []conversation.Event, ask conversation.AskModel) hearing {
	h := hearing{spoken: map[conversation.MessageID]int{}, texts: map[conversation.MessageID]string{}, wrapUp: ask.WrapUp}
	resolved := map[conversation.MessageID]bool{}
	for _, e := range log {
		switch b := e.Body.(type) {
		case conversation.MessageAccepted:
			h.texts[b.Message] = b.Text
		case conversation.MessageEdited:
			h.texts[b.Message] = b.Text
		case conversation.MessageResolved:
			resolved[b.Message] = true
		}
		if e.Task != ask.Task {
			continue
		}
		switch b := e.Body.(type) {
		case conversation.StepStarted:
			if b.Attempt > 1 {
				break
			}
			if h.fresh = b.Read; b.Step != ask.Step {
				h.reminded = nil
			}
			if h.read = append(h.read, b.Read...); len(b.Read) > 0 {
				h.alone = ""
			}
		case conversation.StepFinished:
			for _, item := range b.Items {
				if m := isAbout(h.read, saidBy(item)); m != "" {
					h.spoken[m]++
				}
			}
		case conversation.DelegationStarted:
			h.running++
		case conversation.DelegationFinished:
			h.running--
		case conversation.CoverageNudge:
			if h.reminded, h.alone = b.Messages, ""; b.Form == conversation.NudgeAlone {
				h.alone = b.Messages[0]
			}
		}
	}
	if resolved[h.alone] {
		h.alone = ""
	}
	for _, m := range h.read {
		if !resolved[m] {
			h.open = append(h.open, m)
		}
	}
	return h
}

// saidBy is what an item of an answer says to the user.
func saidBy(item conversation.Item) string {
	if item.Kind == conversation.ItemText {
		return item.Text
	}
	var args struct{ Message string }
	if item.Tool == conversation.ToolRespond {
		_ = json.Unmarshal([]byte(item.Args), &args)
	}
	return args.Message
}

// A text says in its first word which message it is truly about: "#2 …". The
// engine takes no notice of a word that short.

// isAbout is the message that a text is truly about; "" if it is none of these.
func isAbout(of []conversation.MessageID, text string) conversation.MessageID {
	mark, _, _ := strings.Cut(text, " ")
	for _, m := range of {
		if mark == markOf(m) {
			return m
		}
	}
	return ""
}

func markOf(m conversation.MessageID) string {
	return "#" + strconv.Itoa(int(conversation.Ordinal(string(m), 'm')))
}

// round is what a model calls before it speaks.
type round uint8

const (
	noCall round = iota
	aTool
	twoTools
	aDelegation
)

// answer is what a model of this kind answers. It calls what the round asks for
// first, and asks for nothing in a round without calls.
func (k speaker) answer(h hearing, calls round, voice voice) []conversation.Item {
	var items []conversation.Item
	call := func(tool string, args map[string]any) {
		text, _ := json.Marshal(args)
		items = append(items, conversation.Item{Kind: conversation.ItemCall, ID: fmt.Sprintf("k%d", len(items)+1), Tool: tool, Args: string(text)})
	}
	text := func(text string) {
		items = append(items, conversation.Item{Kind: conversation.ItemText, Text: text})
	}
	if k == overEager && !h.wrapUp {
		for _, m := range h.fresh {
			call(conversation.ToolRespond, map[string]any{"message": "Noted, I come to that.", "inReplyTo": string(m)})
		}
	}
	if calls != noCall && !h.wrapUp {
		if k == chatty && len(h.read) > 0 {
			text("I look into it: " + h.texts[h.read[len(h.read)-1]])
		}
		switch calls {
		case aTool:
			call("clock", map[string]any{})
		case twoTools:
			call("clock", map[string]any{})
			call("mail", map[string]any{"to": "max"})
		case aDelegation:
			call(conversation.ToolDelegate, map[string]any{"agent": "developer", "objective": "Do it."})
		}
		return items
	}
	m := k.subject(h)
	switch k {
	case namesAll, namesOthers:
		for i, m := range h.open {
			switch {
			case h.spoken[m] > 0 && slices.Contains(h.reminded, m):
				call(conversation.ToolCover, map[string]any{"messageId": string(m), "as": "answered"})
			case h.spoken[m] > 0:
			case k == namesAll || i > 0:
				call(conversation.ToolRespond, map[string]any{"message": voice.about(h, m), "inReplyTo": string(m)})
			case len(h.open) == 1 && h.running == 0: // the work is done
				text(voice.about(h, m))
			}
		}
	case unnamed:
		if m != "" {
			call(conversation.ToolRespond, map[string]any{"message": voice.about(h, m)})
		}
	case repeats:
		if said := voice.again(h, m, 0); voice.r.IntN(5) == 0 && !h.wrapUp && h.spoken[m] < 3 {
			call(conversation.ToolRespond, map[string]any{"message": said})
		} else {
			text(said)
		}
	case paraphrases:
		text(voice.about(h, m))
	default:
		if m != "" {
			text(voice.about(h, m))
		}
	}
	return items
}

// subject is the message that a model of this kind speaks of now; "" = none is left.
func (k speaker) subject(h hearing) conversation.MessageID {
	if len(h.read) == 0 {
		return ""
	}
	if k == repeats || k == paraphrases {
		return h.read[0]
	}
	if h.alone != "" {
		return h.alone
	}
	left := slices.DeleteFunc(slices.Clone(h.read), func(m conversation.MessageID) bool { return h.spoken[m] > 0 })
	switch {
	case len(left) > 0 && k == plainNewest:
		return left[len(left)-1]
	case len(left) > 0:
		return left[0]
	case len(h.reminded) > 0:
		return h.reminded[0]
	case k == unnamed:
		return ""
	default:
		return h.read[len(h.read)-1]
	}
}

// voice finds the words of a conversation. The same message in the same conversation
// gets the same words.
type voice struct {
	seed  uint64
	r     *rand.Rand
	slips int // words of another message, in three of ten texts
}

// about speaks of a message: in words that no text about it had before.
func (v voice) about(h hearing, m conversation.MessageID) string {
	return v.again(h, m, h.spoken[m])
}

// again speaks of a message in the words of the n-th time. Half of the messages
// are spoken of in their own words, too.
func (v voice) again(h hearing, m conversation.MessageID, n int) string {
	ordinal := uint64(conversation.Ordinal(string(m), 'm'))
	r := rand.New(rand.NewPCG(v.seed, ordinal<<16|uint64(n)))
	said := []string{markOf(m)}
	for range 3 + r.IntN(4) {
		said = append(said, answerWord(r.IntN(vocabulary)))
	}
	own := significant(h.texts[m])
	if rand.New(rand.NewPCG(v.seed, ordinal)).IntN(2) == 0 && len(own) > 0 {
		some := (len(own) + 1) / 2
		said = append(said, own[:some+r.IntN(len(own)-some+1)]...)
	}
	if r.IntN(10) < 3 {
		var others []string
		for _, other := range h.read {
			if other != m {
				others = append(others, significant(h.texts[other])...)
			}
		}
		for i := range min(v.slips, len(others)) {
			said = append(said, others[(r.IntN(len(others))+i)%len(others)])
		}
	}
	return strings.Join(said, " ") + "."
}

// significant are the words of a text that are not small.
func significant(text string) []string {
	return slices.DeleteFunc(strings.Fields(strings.Trim(text, ".?!")), func(w string) bool { return len(w) < 4 || w == "Please" })
}

// vocabulary is the number of words that messages are made of, and that answers are.
const vocabulary = 300

func messageWord(n int) string { return madeWord("bdfgkl", n) }
func answerWord(n int) string  { return madeWord("mnprst", n) }

func madeWord(consonants string, n int) string {
	var w strings.Builder
	for range 4 {
		w.WriteByte(consonants[n%6])
		w.WriteByte("aeiou"[n%5])
		n = n*7/3 + 11
	}
	return w.String() + strconv.Itoa(n%10)
}
