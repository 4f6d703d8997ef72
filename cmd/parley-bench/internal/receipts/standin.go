package receipts

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The stand-in is a chat model made of rules: a server of Chat Completions that reads
// the request as a real model would, the open messages from the engine's note, what was
// done from the calls and their results. So the real adapter and the real tools are in
// the path, and nobody needs a key. The careful one knows what each message of the
// conversations asks for, and answers each by name. The others answer badly: they show
// that the judge is not content with any answer.
const (
	careful  = "careful"
	plain    = "plain"    // as the careful one, but answers all that is open in one text
	repeats  = "repeats"  // says its first answer again and again
	sentence = "sentence" // has one sentence for everything
)

const oneSentence = "I have taken care of it."

// delegateTime is how long the stand-in works as a delegate, so that there is a
// moment at which a delegation runs.
const delegateTime = 300 * time.Millisecond

// thinkTime is how long it thinks about an everyday question: the next one may come.
const thinkTime = 50 * time.Millisecond

// startStandIn serves on a port of the loopback until end is called.
func startStandIn(kind string, talks []talk) (address string, end func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &standIn{kind: kind, programs: map[string]string{}}
	for _, t := range talks {
		for _, u := range t.Turns {
			if u.truth != nil {
				continue // it has to read that in its instructions
			}
			s.programs[u.Say] = u.Play
		}
	}
	server := &http.Server{Handler: s}
	go server.Serve(listener) //nolint:errcheck // ends with Close
	return listener.Addr().String(), func() { server.Close() }, nil
}

func standInConfig(address string) string {
	return "[model]\ndefault = \"standin\"\n[models.standin]\nprovider = \"openai\"\napi = \"chat\"\nmodel = \"stand-in\"\nbase_url = \"http://" + address + "/v1\"\n"
}

// standIn answers requests. It remembers nothing that its answers depend on.
type standIn struct {
	kind     string
	programs map[string]string // what a good model does, by the text of the message

	mu    sync.Mutex
	asked []string // the last requests: what a new one begins with as they did, a provider has in its cache
}

// remembered is how many requests the stand-in for a provider's cache holds.
const remembered = 32

// cached counts the bytes of a request that a provider would have in its cache: its
// tools, which stand before all else there, and then what an earlier one begins with.
func (s *standIn) cached(body string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := 0
	for _, before := range s.asked {
		tools := toolsIn(body)
		if tools != toolsIn(before) {
			continue
		}
		n := 0
		for n < min(len(body), len(before)) && body[n] == before[n] {
			n++
		}
		most = max(most, n+len(tools))
	}
	s.asked = append(s.asked, body)
	if len(s.asked) > remembered {
		s.asked = s.asked[1:]
	}
	return min(most, len(body))
}

// toolsIn is the part of a request that lists the tools: all behind its messages.
func toolsIn(body string) string {
	_, tools, _ := strings.Cut(body, `,"tools":[`)
	return tools
}

type chatMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type chatCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatRequest struct {
	Messages []chatMessage `json:"messages"`
	Choice   string        `json:"tool_choice"`
	Tools    []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, asked *http.Request) {
	body, err := io.ReadAll(asked.Body)
	if err != nil {
		return // the server has given up
	}
	var r chatRequest
	if err := json.Unmarshal(body, &r); err != nil || len(r.Messages) == 0 {
		http.Error(w, "no chat request", http.StatusBadRequest)
		return
	}
	c := read(&r, s.programs)
	if c.facts && !passes(asked, thinkTime) {
		return
	}
	answer := chatMessage{Role: "assistant"}
	switch {
	case s.kind == sentence:
		answer.Content = oneSentence
	case s.kind == repeats:
		answer.Content = c.first()
	case c.delegated:
		if !passes(asked, delegateTime) {
			return
		}
		answer.Content = "Done: " + strings.Join(c.users, " ")
	case r.Choice == "required":
		answer.ToolCalls = c.closing()
	default:
		answer.Content, answer.ToolCalls = c.answer(s.kind == plain)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, stream(answer, len(body), s.cached(string(body))))
}

// passes waits, unless the server gives up before.
func passes(asked *http.Request, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-asked.Context().Done():
		return false
	}
}

// stream writes an answer as providers do, with one token for four bytes.
func stream(answer chatMessage, asked, cached int) string {
	said, _ := json.Marshal(answer) // texts
	reason := "stop"
	if len(answer.ToolCalls) > 0 {
		reason = "tool_calls"
	}
	chunk := func(delta, reason, usage string) string {
		return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"stand-in","choices":[{"index":0,"delta":` + delta +
			`,"finish_reason":` + reason + `}]` + usage + "}\n\n"
	}
	return chunk(string(said), "null", "") +
		chunk("{}", strconv.Quote(reason), fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, asked/4, len(said)/4, cached/4)) +
		"data: [DONE]\n\n"
}

// reading is what a request says about the conversation.
type reading struct {
	programs  map[string]string
	facts     bool              // the programs are those of its instructions
	delegated bool              // it is asked as a delegate
	users     []string          // what users said
	results   map[string]string // of calls, by id
	finished  map[string]string // of delegations, by id
	question  string            // the text of the last one
	open      []openMessage
	said      []saidText // what the engine says was said, where it asks what became of messages
}

// saidText is a text that was shown, with its number.
type saidText struct{ part, text string }

// openMessage is a message that nobody has answered yet.
type openMessage struct {
	ordinal string
	text    string
}

var (
	noteEntry  = regexp.MustCompile(`\[(\d+)\] ("(?:[^"\\]|\\.)*")`)
	saidEntry  = regexp.MustCompile(`\((\d+)\) ("(?:[^"\\]|\\.)*")`)
	started    = regexp.MustCompile(`^delegation (\S+) \(`)
	isFinished = regexp.MustCompile(`(?s)^\[delegation (\S+) \([^)]*\) finished: (.*)\]$`)
)

const (
	noteHead     = "Open messages:"
	reminderHead = "[reminder: "
)

// read finds in a request what a model must know.
func read(r *chatRequest, programs map[string]string) *reading {
	c := &reading{programs: programs, delegated: true, results: map[string]string{}, finished: map[string]string{}}
	for _, t := range r.Tools {
		if t.Function.Name == "coverMessage" {
			c.delegated = false
		}
	}
	last := r.Messages[len(r.Messages)-1]
	note := ""
	for _, head := range []string{noteHead, reminderHead} { // a reminder has the last word
		if i := strings.LastIndex(last.Content, head); i >= 0 && last.Role != "assistant" {
			note = last.Content[i:]
		}
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		m.Content = withoutNotes(m.Role, m.Content)
		switch m.Role {
		case "system":
			if facts := factsIn(m.Content); facts != nil {
				c.programs, c.facts = facts, true
			}
		case "user":
			if done := isFinished.FindStringSubmatch(m.Content); done != nil {
				c.finished[done[1]] = done[2]
			} else if m.Content != "" && !strings.HasPrefix(m.Content, "[") {
				c.users = append(c.users, m.Content)
			}
		case "tool":
			c.results[m.ToolCallID] = m.Content
		case "assistant":
			for _, call := range m.ToolCalls {
				var args struct{ Question string }
				if json.Unmarshal([]byte(call.Function.Arguments), &args) == nil && call.Function.Name == "askUser" {
					c.question = args.Question
				}
			}
		}
	}
	for _, entry := range noteEntry.FindAllStringSubmatch(note, -1) {
		quote, err := strconv.Unquote(entry[2])
		if err != nil {
			continue
		}
		c.open = append(c.open, openMessage{entry[1], c.whole(strings.TrimSuffix(quote, "…"))})
	}
	for _, entry := range saidEntry.FindAllStringSubmatch(note, -1) {
		if quote, err := strconv.Unquote(entry[2]); err == nil {
			c.said = append(c.said, saidText{entry[1], quote})
		}
	}
	if note == "" && last.Role == "user" && len(c.users) > 0 {
		c.open = []openMessage{{"1", c.users[len(c.users)-1]}} // the note is left out where it says nothing more
	}
	return c
}

// withoutNotes is what a user has said, or a tool has given, without the engine's own words.
func withoutNotes(role, content string) string {
	if role != "user" && role != "tool" {
		return content
	}
	var said []string
	for _, block := range strings.Split(content, "\n\n") {
		if !strings.HasPrefix(block, noteHead) && !strings.HasPrefix(block, reminderHead) {
			said = append(said, block)
		}
	}
	return strings.Join(said, "\n\n")
}

// closing says of each open message which text has answered it, or that none has.
func (c *reading) closing() (calls []chatCall) {
	for _, m := range c.open {
		args := map[string]any{"messageId": m.ordinal, "as": "open"}
		for line := range strings.Lines(c.programs[m.text]) {
			answer, says := strings.CutPrefix(strings.TrimSpace(line), "/say ")
			for _, s := range c.said {
				if says && strings.Contains(s.text, answer) {
					args["as"], args["part"] = "answered", s.part
				}
			}
		}
		call := c.call(m, "closing", "coverMessage", args)
		call.Index = len(calls)
		calls = append(calls, call)
	}
	return calls
}

// whole is the newest message that begins so.
func (c *reading) whole(beginning string) string {
	for i := len(c.users) - 1; i >= 0; i-- {
		if strings.HasPrefix(c.users[i], beginning) {
			return c.users[i]
		}
	}
	return beginning
}

// first is the answer to the first message of the conversation that has one.
func (c *reading) first() string {
	for _, u := range c.users {
		for line := range strings.Lines(c.programs[u]) {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "/say "); ok {
				return text
			}
		}
	}
	return oneSentence
}

// answer does the next thing for every open message. With together it says in one text
// what it has to say.
func (c *reading) answer(together bool) (text string, calls []chatCall) {
	var says []string
	waits := 0
	for _, m := range c.open {
		call, said, wait := c.next(m)
		switch {
		case wait:
			waits++
			continue
		case said != "":
			says = append(says, said)
			if together {
				continue
			}
		}
		call.Index = len(calls)
		calls = append(calls, call)
	}
	switch {
	case together && len(says) > 0 && len(calls) == 0:
		return strings.Join(says, " "), nil
	case len(says) == 1 && len(calls) == 1 && waits == 0:
		return says[0], nil // the last thing to say ends the task
	case len(calls) == 0:
		return "NO_REPLY", nil
	}
	return "", calls
}

// next is the next call for a message. said is what it says, if it answers the message;
// wait is true if something must come first.
func (c *reading) next(m openMessage) (call chatCall, said string, wait bool) {
	program := c.programs[m.text]
	if !strings.HasPrefix(program, "/") { // the answer to a question
		return c.call(m, "answer", "coverMessage", map[string]any{"messageId": m.ordinal, "as": "answer", "question": c.question}), "", false
	}
	result, reply := "", ""
	for line := range strings.Lines(program) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.NewReplacer("$result", result, "$reply", reply).Replace(rest)
		tool, args := "", map[string]any{}
		switch verb {
		case "/wait":
			continue
		case "/say", "/partial":
			return c.call(m, verb, "respondToUser", map[string]any{"message": rest, "inReplyTo": m.ordinal}), rest, false
		case "/tool":
			var raw string
			tool, raw, _ = strings.Cut(rest, " ")
			_ = json.Unmarshal([]byte(raw), &args) // a mistake shows as a bad call
		case "/delegate":
			agent, objective, _ := strings.Cut(rest, " ")
			tool, args = "delegate", map[string]any{"agent": agent, "objective": objective}
		case "/ask", "/askopen":
			tool, args = "askUser", map[string]any{"question": strings.TrimSpace(strings.Split(rest, "[")[0]), "blocking": verb == "/ask", "inReplyTo": m.ordinal}
		case "/amend":
			n, words, _ := strings.Cut(rest, " ")
			tool, args = "amend", map[string]any{"delegation": c.running(n), "text": words}
		case "/cover":
			_, as, _ := strings.Cut(rest, " ") // the program counts from 1; the note knows better
			tool, args = "coverMessage", map[string]any{"messageId": m.ordinal, "as": as}
		}
		call = c.call(m, verb, tool, args)
		done, ok := c.results[call.ID]
		if !ok {
			return call, "", false
		}
		switch verb {
		case "/delegate":
			if d := started.FindStringSubmatch(done); d != nil {
				if done, ok = c.finished[d[1]]; !ok {
					return call, "", true
				}
			}
			result = done
		case "/ask":
			reply = done
		case "/askopen":
			if reply = c.answerTo(m.text); reply == "" {
				return call, "", true
			}
		default:
			result = done
		}
	}
	return call, "", true
}

// running is the id of the n-th delegation, which is what the engine has called it.
func (c *reading) running(n string) string { return "d" + n }

// answerTo is what a user said to a question: the message behind the one that made the
// model ask that is no request.
func (c *reading) answerTo(asker string) string {
	behind := false
	for _, u := range c.users {
		program, known := c.programs[u]
		if behind && known && !strings.HasPrefix(program, "/") {
			return u
		}
		behind = behind || u == asker
	}
	return ""
}

// call has an id by which its result is found again: of the message and the line.
func (c *reading) call(m openMessage, verb, tool string, args map[string]any) chatCall {
	raw, _ := json.Marshal(args) // texts
	call := chatCall{ID: fmt.Sprintf("call_%x_%s", uint32(hash(m.text)), strings.TrimPrefix(verb, "/")), Type: "function"}
	call.Function.Name, call.Function.Arguments = tool, string(raw)
	return call
}
