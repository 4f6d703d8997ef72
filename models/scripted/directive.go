package scripted

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
)

// verb is the kind of an action.
type verb uint8

const (
	verbSay      verb = iota + 1
	verbPartial       // respondToUser
	verbParts         // several text items
	verbAsk           // askUser, blocking
	verbAskOpen       // askUser, not blocking
	verbTool          // a tool call
	verbDelegate      // delegate
	verbParallel      // delegateParallel
	verbStream        // one word many times
	verbCover         // coverMessage
	verbAmend         // amend
	verbEmpty         // an answer without items
	verbNoReply       // NO_REPLY
	verbLoop          // tool calls without end
	verbPass          // nothing: carries what stands before the end, without a next line
	verbChange        // scripts only: the message changes what is being worked on
	verbAnswer        // no directive: the message answers an open question
	verbRedo          // no directive: the change came too late, the work is done again
)

// Limits of what one directive may ask for, so that a line of text cannot make
// an answer of any size.
const (
	maxStreamWords = 100_000
	maxStreamBytes = 1 << 20
)

// action is one thing that one model call answers, with the modifiers before it.
type action struct {
	verb    verb
	line    int      // its line in the message, from 1: with the message's id, its mark
	text    string   // a template: may hold $result and $reply
	name    string   // the tool or agent
	as      string   // verbCover: amendment, duplicate or dismissed
	n       int      // verbCover, verbAmend: which one; verbStream: how often
	choices []string // verbAsk, verbAskOpen
	jobs    []job    // verbParallel
	modifier
}

// job is one delegation of a /parallel.
type job struct{ agent, objective string }

// modifier is the effect of /wait, /fail and /preamble on the next line, or of /ignore
// on the lines after it.
type modifier struct {
	delay  time.Duration
	fails  []string // a kind for each attempt that fails first
	beside []string // plain texts that stand before what the line is answered with: templates
	ignore bool
}

// and adds what another modifier does to the same line.
func (m modifier) and(n modifier) modifier {
	return modifier{m.delay + n.delay, append(m.fails, n.fails...), append(m.beside, n.beside...), m.ignore || n.ignore}
}

// The kinds of /fail.
const (
	failRateLimit = "429"
	failServer    = "500"
	failTimeout   = "timeout"
	failCut       = "truncated"
)

// parser reads the rest of a directive's line. It returns an action or a
// modifier, or an error that says how the directive is used.
type parser func(rest string) (action, modifier, error)

// directives returns the whole language, by name.
func directives() language {
	return language{
		"say":      withText(verbSay, "/say TEXT"),
		"partial":  withText(verbPartial, "/partial TEXT"),
		"parts":    parseParts,
		"preamble": parsePreamble,
		"ask":      question(verbAsk, "/ask TEXT [A/B]"),
		"askopen":  question(verbAskOpen, "/askopen TEXT [A/B]"),
		"tool":     parseTool,
		"delegate": parseDelegate,
		"parallel": parseParallel,
		"wait":     parseWait,
		"stream":   parseStream,
		"cover":    parseCover,
		"amend":    parseAmend,
		"ignore":   alone(modifier{ignore: true}, action{}, "/ignore"),
		"empty":    alone(modifier{}, action{verb: verbEmpty}, "/empty"),
		"noreply":  alone(modifier{}, action{verb: verbNoReply}, "/noreply"),
		"fail":     parseFail,
		"loop":     alone(modifier{}, action{verb: verbLoop}, "/loop"),
	}
}

// language is the set of directives that a text may use.
type language map[string]parser

// named returns the word that makes a line a directive: a slash, letters, and then
// white space or the end. "" = the line is none.
func named(line string) string {
	if line == "" || line[0] != '/' {
		return ""
	}
	end := 1
	for end < len(line) && line[end] >= 'a' && line[end] <= 'z' {
		end++
	}
	if end < len(line) && !strings.ContainsRune(" \t\n\r\f", rune(line[end])) {
		return ""
	}
	return line[1:end]
}

// has reports whether the line begins with a directive of the language.
func (l language) has(line string) bool { return l[named(line)] != nil }

// program splits a message into its lines if it is a program: if its first
// line is a directive. In a sub-session " && " separates lines as well.
func (l language) program(text string, delegated bool) ([]string, bool) {
	if !l.has(strings.TrimSpace(text)) {
		return nil, false
	}
	var lines []string
	for line := range strings.Lines(text) {
		pieces := []string{line}
		if delegated {
			pieces = strings.Split(line, " && ")
		}
		for _, piece := range pieces {
			if piece = strings.TrimSpace(piece); piece != "" {
				lines = append(lines, piece)
			}
		}
	}
	return lines, true
}

// parse reads one line.
func (l language) parse(line string) (action, modifier, error) {
	name := named(line)
	if name == "" {
		return action{}, modifier{}, fmt.Errorf("%s is not a directive", quote(line))
	}
	p := l[name]
	if p == nil {
		return action{}, modifier{}, fmt.Errorf("there is no directive /%s", name)
	}
	return p(strings.TrimSpace(line[len(name)+1:]))
}

// compile turns lines into actions, numbered from first. A line that cannot be read
// becomes an action that says what is wrong, so that the author of a program sees it.
func (l language) compile(lines []string, first int) []action {
	var (
		actions []action
		before  modifier
	)
	add := func(a action, line int) {
		a.line, a.modifier = line, before
		actions, before = append(actions, a), modifier{}
	}
	for i, line := range lines {
		a, m, err := l.parse(line)
		switch {
		case err != nil:
			add(action{verb: verbSay, text: fmt.Sprintf("I cannot follow line %d: %v.", i+1, err)}, first+i)
		case m.ignore:
			lines = lines[:i+1]
		case a.verb == 0:
			before = before.and(m)
		default:
			add(a, first+i)
		}
		if m.ignore {
			break
		}
	}
	if len(before.fails)+len(before.beside) > 0 {
		add(action{verb: verbPass}, first+len(lines)-1)
	}
	return actions
}

func withText(v verb, usage string) parser {
	return func(rest string) (action, modifier, error) {
		if rest == "" {
			return action{}, modifier{}, usageError(usage)
		}
		return action{verb: v, text: rest}, modifier{}, nil
	}
}

func alone(m modifier, a action, usage string) parser {
	return func(rest string) (action, modifier, error) {
		if rest != "" {
			return action{}, modifier{}, usageError(usage)
		}
		return a, m, nil
	}
}

// parseParts keeps the text whole: it is split when it is answered, after
// nothing of it has been replaced, so that a result with a bar in it stays one part.
func parseParts(rest string) (action, modifier, error) {
	return action{verb: verbParts, text: rest}, modifier{}, nil
}

func parsePreamble(rest string) (action, modifier, error) {
	if rest == "" {
		return action{}, modifier{}, usageError("/preamble TEXT")
	}
	return action{}, modifier{beside: []string{rest}}, nil
}

var trailingChoices = regexp.MustCompile(`\s*\[([^\[\]/]+(?:/[^\[\]/]+)+)\]$`)

func question(v verb, usage string) parser {
	return func(rest string) (action, modifier, error) {
		a := action{verb: v, text: rest}
		if m := trailingChoices.FindStringSubmatch(rest); m != nil {
			a.text = strings.TrimSuffix(rest, m[0])
			for choice := range strings.SplitSeq(m[1], "/") {
				a.choices = append(a.choices, strings.TrimSpace(choice))
			}
		}
		if a.text == "" {
			return action{}, modifier{}, usageError(usage)
		}
		return a, modifier{}, nil
	}
}

func parseTool(rest string) (action, modifier, error) {
	name, args := cutField(rest)
	if name == "" {
		return action{}, modifier{}, usageError("/tool NAME {json}")
	}
	if args == "" {
		args = "{}"
	}
	return action{verb: verbTool, name: name, text: args}, modifier{}, nil
}

func parseDelegate(rest string) (action, modifier, error) {
	agent, objective := cutField(rest)
	if objective == "" {
		return action{}, modifier{}, usageError("/delegate AGENT TEXT")
	}
	return action{verb: verbDelegate, name: agent, text: objective}, modifier{}, nil
}

func parseParallel(rest string) (action, modifier, error) {
	a := action{verb: verbParallel}
	for one := range strings.SplitSeq(rest, "||") {
		agent, objective := cutField(strings.TrimSpace(one))
		if objective == "" {
			return action{}, modifier{}, usageError("/parallel AGENT TEXT || AGENT TEXT")
		}
		a.jobs = append(a.jobs, job{agent, objective})
	}
	return a, modifier{}, nil
}

func parseWait(rest string) (action, modifier, error) {
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 {
		return action{}, modifier{}, usageError("/wait DURATION, for example /wait 2s")
	}
	return action{}, modifier{delay: d}, nil
}

func parseStream(rest string) (action, modifier, error) {
	count, word := cutField(rest)
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || word == "" || strings.ContainsAny(word, " \t") {
		return action{}, modifier{}, usageError("/stream N WORD")
	}
	if n > maxStreamWords || n > maxStreamBytes/(len(word)+1) {
		return action{}, modifier{}, fmt.Errorf("/stream answers at most %d words and %d bytes", maxStreamWords, maxStreamBytes)
	}
	return action{verb: verbStream, n: n, text: word}, modifier{}, nil
}

func parseCover(rest string) (action, modifier, error) {
	count, as := cutField(rest)
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || (as != "amendment" && as != "duplicate" && as != "dismissed") {
		return action{}, modifier{}, usageError("/cover N amendment|duplicate|dismissed")
	}
	return action{verb: verbCover, n: n, as: as}, modifier{}, nil
}

func parseAmend(rest string) (action, modifier, error) {
	count, text := cutField(rest)
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || text == "" {
		return action{}, modifier{}, usageError("/amend N TEXT")
	}
	return action{verb: verbAmend, n: n, text: text}, modifier{}, nil
}

// maxFails bounds N of /fail: no policy asks more often.
const maxFails = 1000

func parseFail(rest string) (action, modifier, error) {
	usage := fmt.Errorf("it is used as /fail KIND [N], KIND being %s, %s, %s or %s and N at most %d",
		failRateLimit, failServer, failTimeout, failCut, maxFails)
	kind, count := cutField(rest)
	switch kind {
	case failRateLimit, failServer, failTimeout, failCut:
	default:
		return action{}, modifier{}, usage
	}
	n := 1
	if count != "" {
		var err error
		if n, err = strconv.Atoi(count); err != nil || n < 1 || n > maxFails {
			return action{}, modifier{}, usage
		}
	}
	var m modifier
	for range n {
		m.fails = append(m.fails, kind)
	}
	return action{}, m, nil
}

func usageError(usage string) error { return fmt.Errorf("it is used as %s", usage) }

// cutField splits off the first word.
func cutField(s string) (field, rest string) {
	if i := strings.IndexAny(s, " \t\n"); i >= 0 {
		return s[:i], strings.TrimSpace(s[i:])
	}
	return s, ""
}

// variable is a name that a template may hold.
var variable = regexp.MustCompile(`\$(?:[a-z]+|[1-9])`)

// expand replaces the variables that lookup knows, in one pass: variables in the
// replacements stay.
func expand(template string, lookup func(name string) (string, bool)) string {
	if strings.IndexByte(template, '$') < 0 {
		return template // most are plain text
	}
	return variable.ReplaceAllStringFunc(template, func(name string) string {
		if value, ok := lookup(name[1:]); ok {
			return value
		}
		return name
	})
}

// uses reports whether the template holds the variable.
func uses(template, name string) bool {
	found := false
	expand(template, func(n string) (string, bool) {
		found = found || n == name
		return "", false
	})
	return found
}

// produces reports whether the variable stands for this action's result in later lines.
// All kinds of questions count.
func (a *action) produces(variable string) bool {
	switch a.verb {
	case verbTool:
		return variable == "result" || variable == "reply" && a.name == conversation.ToolAsk
	case verbDelegate, verbParallel:
		return variable == "result"
	case verbAsk, verbAskOpen:
		return variable == "reply"
	default:
		return false
	}
}

// visible returns the end of the part of an objective in which the delegating program's
// variables count. Lines of the objective itself may produce results; from
// there on the variable is the delegate's own.
func (l language) visible(objective, name string) (upto int) {
	if !l.has(objective) {
		return len(objective)
	}
	at := 0
	for piece := range strings.SplitSeq(objective, " && ") {
		at += len(piece)
		if a, _, err := l.parse(strings.TrimSpace(piece)); err == nil && a.produces(name) {
			return at
		}
		at += len(" && ")
	}
	return len(objective)
}
