package scripted

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"parley/conversation"
)

//go:embed script.toml
var embedded []byte

// script holds the rules for plain text, in the order in which they are tried. It does
// not change after it was read.
type script struct {
	rules      []rule
	delegation string // the answer of a delegate when no rule fits
	session    string // what everybody else says when no rule fits
	missing    string // the answer when a rule needs a tool that is not there
	changes    string // how $changes names them
	language   language
}

// rule turns a text into a program.
type rule struct {
	name      string
	match     *regexp.Regexp
	needles   needles
	place     string // "session", "delegation", "" = both
	agents    []conversation.AgentName
	needs     []string // tools
	do        []action
	otherwise []action // when a needed tool is missing; or when /change finds nothing to change
}

// otherwiseFrom numbers the lines of a rule's other program, so that the marks
// of the two are never taken for each other.
const otherwiseFrom = 101

// scriptFile is script.toml as it is written.
type scriptFile struct {
	WorkTime     string `toml:"work_time"`
	WorkTimeFast string `toml:"work_time_fast"`
	Changes      string `toml:"changes"`
	Missing      string `toml:"missing_tool"`
	Unknown      struct {
		Session    string `toml:"session"`
		Delegation string `toml:"delegation"`
	} `toml:"unknown"`
	Rules []struct {
		Name      string   `toml:"name"`
		Match     string   `toml:"match"`
		In        string   `toml:"in"`
		Agents    []string `toml:"agents"`
		Needs     []string `toml:"needs"`
		Do        []string `toml:"do"`
		Otherwise []string `toml:"otherwise"`
	} `toml:"rule"`
}

// scriptVariables are the names that a script's templates may use.
var scriptVariables = []string{
	"text", "quote", "first", "agent", "changes", "tool", "args", "result", "reply",
	"1", "2", "3", "4", "5", "6", "7", "8", "9",
}

// readScript reads a script. Errors name the line.
func readScript(data []byte, fast bool) (*script, error) {
	var file scriptFile
	decoder := toml.NewDecoder(bytes.NewReader(data)).DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, tomlError(err)
	}
	for _, key := range [][2]string{
		{"work_time", file.WorkTime},
		{"work_time_fast", file.WorkTimeFast},
		{"changes", file.Changes},
		{"missing_tool", file.Missing},
		{"unknown.session", file.Unknown.Session},
		{"unknown.delegation", file.Unknown.Delegation},
	} {
		if strings.TrimSpace(key[1]) == "" {
			return nil, fmt.Errorf("script: %s is missing", key[0])
		}
	}
	work := file.WorkTime
	if fast {
		work = file.WorkTimeFast
	}
	for _, d := range []string{file.WorkTime, file.WorkTimeFast} {
		if parsed, err := time.ParseDuration(d); err != nil || parsed < 0 {
			return nil, fmt.Errorf("script: a work time is a duration such as \"2s\", not %q", d)
		}
	}

	s := &script{
		delegation: file.Unknown.Delegation, session: file.Unknown.Session,
		missing: file.Missing, changes: file.Changes, language: directives(),
	}
	scripts := directives() // rules may say one thing more than messages
	scripts["change"] = alone(modifier{}, action{verb: verbChange}, "/change")
	headers := ruleLines(data)
	for i, r := range file.Rules {
		where := fmt.Sprintf("script: rule %d (%s)", i+1, r.Name)
		if i < len(headers) {
			where = fmt.Sprintf("script: line %d: rule %q", headers[i], r.Name)
		}
		match, err := regexp.Compile("(?is)" + r.Match)
		switch {
		case r.Name == "":
			return nil, fmt.Errorf("%s has no name", where)
		case r.Match == "":
			return nil, fmt.Errorf("%s has no match", where)
		case err != nil:
			return nil, fmt.Errorf("%s: match: %w", where, err)
		case r.In != "" && r.In != "session" && r.In != "delegation":
			return nil, fmt.Errorf(`%s: in is "session" or "delegation", not %q`, where, r.In)
		case len(r.Do) == 0:
			return nil, fmt.Errorf("%s has nothing to do", where)
		}
		out := rule{name: r.Name, match: match, needles: needlesOf("(?is)" + r.Match), place: r.In, needs: r.Needs}
		for _, agent := range r.Agents {
			out.agents = append(out.agents, conversation.AgentName(agent))
		}
		if out.do, err = scripts.compileStrict(r.Do, 1, work); err != nil {
			return nil, fmt.Errorf("%s: do: %w", where, err)
		}
		if out.otherwise, err = scripts.compileStrict(r.Otherwise, otherwiseFrom, work); err != nil {
			return nil, fmt.Errorf("%s: otherwise: %w", where, err)
		}
		if len(out.otherwise) == 0 {
			out.otherwise = []action{{verb: verbSay, line: otherwiseFrom, text: file.Missing}}
		}
		s.rules = append(s.rules, out)
	}
	return s, nil
}

// compileStrict is compile for a script: a wrong line is an error, not an answer.
func (l language) compileStrict(lines []string, first int, work string) ([]action, error) {
	if len(lines) >= otherwiseFrom-1 {
		return nil, fmt.Errorf("%d lines are too many", len(lines))
	}
	set := slices.Clone(lines)
	for i, line := range set {
		set[i] = strings.TrimSpace(strings.ReplaceAll(line, "$work", work))
		if _, _, err := l.parse(set[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", quote(line), err)
		}
		for _, name := range variable.FindAllString(set[i], -1) {
			if !slices.Contains(scriptVariables, name[1:]) {
				return nil, fmt.Errorf("%s: there is no variable %s", quote(line), name)
			}
		}
	}
	return l.compile(set, first), nil
}

func tomlError(err error) error {
	var unknown *toml.StrictMissingError
	if errors.As(err, &unknown) && len(unknown.Errors) > 0 {
		first := unknown.Errors[0]
		line, _ := first.Position()
		return fmt.Errorf("script: line %d: there is no key %q", line, strings.Join(first.Key(), "."))
	}
	var wrong *toml.DecodeError
	if errors.As(err, &wrong) {
		line, column := wrong.Position()
		return fmt.Errorf("script: line %d, column %d: %s", line, column, strings.TrimPrefix(wrong.Error(), "toml: "))
	}
	return fmt.Errorf("script: %w", err)
}

var ruleHeader = regexp.MustCompile(`^\s*\[\[\s*"?rule"?\s*\]\]`)

// ruleLines finds the lines at which rules begin, for error messages.
func ruleLines(data []byte) []int {
	var lines []int
	n := 0
	for line := range bytes.Lines(data) {
		if n++; ruleHeader.Match(line) {
			lines = append(lines, n)
		}
	}
	return lines
}

// find returns the first rule that fits the text, with its captures.
func (s *script) find(r *conversation.Request, text string) (*rule, []string) {
	place := "session"
	if r.Depth > 0 {
		place = "delegation"
	}
	hay := haystack{text: text}
	for i := range s.rules {
		rule := &s.rules[i]
		if rule.place != "" && rule.place != place {
			continue
		}
		if len(rule.agents) > 0 && !slices.Contains(rule.agents, r.Agent) {
			continue
		}
		if !hay.mayMatch(rule.needles) {
			continue
		}
		if groups := rule.match.FindStringSubmatch(text); groups != nil {
			return rule, groups
		}
	}
	return nil, nil
}

// offeredTool finds a tool: the one of that name, else the first of the tools room
// whose name holds it.
func offeredTool(r *conversation.Request, name string) (conversation.ToolSpec, bool) {
	for _, spec := range r.Tools {
		if spec.Name == name {
			return spec, true
		}
	}
	for _, spec := range r.Tools {
		if !isEngineTool(spec.Name) && strings.Contains(strings.ToLower(spec.Name), name) {
			return spec, true
		}
	}
	return conversation.ToolSpec{}, false
}

// argsFor gives value to the one text that a tool must be given; a tool that
// needs nothing, or more than a rule can know, gets nothing.
func argsFor(schema json.RawMessage, value string) string {
	var shape struct {
		Required   []string `json:"required"`
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &shape) != nil || len(shape.Required) != 1 || shape.Properties[shape.Required[0]].Type != "string" {
		return "{}"
	}
	return encode(map[string]string{shape.Required[0]: value})
}

// quote shortens text for a sentence of ours.
func quote(text string) string {
	return `"` + conversation.Excerpt(strings.Join(strings.Fields(text), " "), 200) + `"`
}

// encode writes JSON without escapes for <, > and &, as people would.
func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // maps and structs of text only: it cannot fail
		return "{}"
	}
	return strings.TrimSpace(b.String())
}
