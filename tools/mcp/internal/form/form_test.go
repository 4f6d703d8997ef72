package form

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
)

// user answers questions one after the other.
type user struct {
	answers []string
	asked   []conversation.ToolQuestion
}

func (u *user) ask(ctx context.Context, q conversation.ToolQuestion) (string, error) {
	u.asked = append(u.asked, q)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if len(u.answers) < len(u.asked) {
		return "", conversation.ErrNoAnswer
	}
	return u.answers[len(u.asked)-1], nil
}

func object(properties string, required ...string) json.RawMessage {
	raw, _ := json.Marshal(required)
	return json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":` + string(raw) + `}`)
}

func TestFields(t *testing.T) {
	const (
		name    = `"n":{"type":"string"}`
		colour  = `"c":{"type":"string","oneOf":[{"const":"#f00","title":"Red"},{"const":"#0f0","title":"Green"}]}`
		named   = `"c":{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]}`
		twice   = `"c":{"type":"string","enum":["r","g"],"enumNames":["Same","Same"]}`
		sure    = `"b":{"type":"boolean","default":true}`
		age     = `"a":{"type":"integer","minimum":0,"maximum":150}`
		price   = `"p":{"type":"number","minimum":0.5}`
		several = `"s":{"type":"array","minItems":1,"maxItems":2,"items":{"anyOf":[{"const":"a","title":"Ann"},{"const":"b","title":"Bob"},{"const":"c","title":"Cy"}]}}`
		plain   = `"s":{"type":"array","items":{"type":"string","enum":["a","b"]}}`
		clash   = `"c":{"type":"string","enum":["Skip","Decline"]}`
	)
	type content = map[string]any
	for about, c := range map[string]struct {
		schema  json.RawMessage
		answers string // with | between them
		action  Action
		content content
		asked   int
	}{
		"a text":                        {object(name, "n"), " Ann ", Accept, content{"n": "Ann"}, 1},
		"no blank where it is wanted":   {object(name, "n"), " |Ann", Accept, content{"n": "Ann"}, 2},
		"skipped":                       {object(name), "Skip.", Accept, content{}, 1},
		"not to be skipped":             {object(`"n":{"type":"string","minLength":5}`, "n"), "skip|skip|skip", Cancel, nil, 3},
		"the word itself":               {object(name), `"skip"`, Accept, content{"n": "skip"}, 1},
		"declined":                      {object(name+","+age, "n", "a"), "Ann|Decline", Decline, nil, 2},
		"closed":                        {object(name+","+age, "n", "a"), "Ann", Cancel, nil, 2},
		"three wrong ones":              {object(age, "a"), "x|-1|1.5", Cancel, nil, 3},
		"the third is right":            {object(age, "a"), "x|151|150", Accept, content{"a": 150.0}, 3},
		"at the lower end":              {object(age, "a"), "0", Accept, content{"a": 0.0}, 1},
		"a number":                      {object(price, "p"), "0.49|0.5", Accept, content{"p": 0.5}, 2},
		"no number":                     {object(price, "p"), "NaN|Inf|1e3", Accept, content{"p": 1000.0}, 3},
		"a title":                       {object(colour, "c"), "green", Accept, content{"c": "#0f0"}, 1},
		"a value":                       {object(colour, "c"), "blue|#f00", Accept, content{"c": "#f00"}, 2},
		"old names":                     {object(named, "c"), "Red", Accept, content{"c": "r"}, 1},
		"titles that are the same":      {object(twice, "c"), "g", Accept, content{"c": "g"}, 1},
		"yes":                           {object(sure, "b"), "Yes!", Accept, content{"b": true}, 1},
		"no":                            {object(sure, "b"), "no", Accept, content{"b": false}, 1},
		"what is there if skipped":      {object(sure), "skip", Accept, content{"b": true}, 1},
		"options named as the words":    {object(clash), "Skip", Accept, content{"c": "Skip"}, 1},
		"the words beside them":         {object(clash), "skip this question", Accept, content{}, 1},
		"several":                       {object(several, "s"), "ann, c, Ann", Accept, content{"s": []string{"a", "c"}}, 1},
		"too many, none, an unknown":    {object(several, "s"), "a,b,c|,|Dee", Cancel, nil, 3},
		"several of values":             {object(plain, "s"), "b,a", Accept, content{"s": []string{"b", "a"}}, 1},
		"required first":                {object(name+`,"z":{"type":"boolean"}`, "z"), "no|Ann", Accept, content{"z": false, "n": "Ann"}, 2},
		"nothing to fill in":            {object(""), "accept", Accept, content{}, 1},
		"nothing, declined":             {nil, "decline", Decline, nil, 1},
		"nothing, and another answer":   {nil, "hm", Cancel, nil, 1},
		"an e-mail address":             {object(`"e":{"type":"string","format":"email"}`, "e"), "a|Ann <a@b.c>|a@b.c", Accept, content{"e": "a@b.c"}, 3},
		"an address":                    {object(`"e":{"type":"string","format":"uri"}`, "e"), "a.b/c|https://a.b/c", Accept, content{"e": "https://a.b/c"}, 2},
		"a date":                        {object(`"e":{"type":"string","format":"date"}`, "e"), "31.1.2026|2026-02-30|2026-01-31", Accept, content{"e": "2026-01-31"}, 3},
		"a time":                        {object(`"e":{"type":"string","format":"date-time"}`, "e"), "2026-01-31|2026-01-31T18:00:00Z", Accept, content{"e": "2026-01-31T18:00:00Z"}, 2},
		"characters, not bytes":         {object(`"n":{"type":"string","minLength":2,"maxLength":2}`, "n"), "日|日本語|日本", Accept, content{"n": "日本"}, 3},
		"a required one that is no one": {object(name, "n", "ghost"), "Ann", Accept, content{"n": "Ann"}, 1},
	} {
		u := &user{}
		if c.answers != "" {
			u.answers = strings.Split(c.answers, "|")
		}
		action, got, err := Fill(t.Context(), u.ask, "The server x", "Who are you?", c.schema)
		if err != nil || action != c.action || !reflect.DeepEqual(got, c.content) || len(u.asked) != c.asked {
			t.Errorf("%s: %s %v, %v after %d questions", about, action, got, err, len(u.asked))
		}
	}
}

func TestQuestions(t *testing.T) {
	u := &user{answers: []string{"blue", "red", "5", "skip"}}
	schema := object(`"colour":{"type":"string","enum":["red"]},"n":{"type":"integer","title":"Number","description":"How many?","minimum":1,"maximum":9},`+
		`"mail":{"type":"string","format":"email","default":"a@b.c"}`, "colour", "n")
	action, content, err := Fill(t.Context(), u.ask, `The server "x"`, "Order", schema)
	if err != nil || action != Accept || content["mail"] != "a@b.c" {
		t.Errorf("%s %v %v", action, content, err)
	}
	want := []conversation.ToolQuestion{
		{Text: "The server \"x\" asks: Order\ncolour", Choices: []string{"red", "decline"}},
		{Text: "That does not fit: \"blue\" is none of the choices.\nThe server \"x\" asks: Order\ncolour", Choices: []string{"red", "decline"}},
		{Text: "The server \"x\" asks, 2 of 3:\nNumber: How many? (a whole number, at least 1, at most 9)\nSay \"decline\" to refuse."},
		{Text: "The server \"x\" asks, 3 of 3:\nmail (an e-mail address) [if you skip it: a@b.c]\nSay \"skip\" to leave it out, \"decline\" to refuse."},
	}
	for i, q := range u.asked {
		if q.Text != want[i].Text || !slices.Equal(q.Choices, want[i].Choices) {
			t.Errorf("question %d is %q %q", i, q.Text, q.Choices)
		}
	}
}

// A field that is required twice is asked for once: a form has no more questions than fields.
func TestRequiredTwice(t *testing.T) {
	u := &user{answers: []string{"x", "y"}}
	action, content, err := Fill(t.Context(), u.ask, "x", "y", json.RawMessage(`{"properties":{"a":{"type":"string"}},"required":["a","a","b"]}`))
	if err != nil || action != Accept || content["a"] != "x" || len(u.asked) != 1 {
		t.Errorf("%s %v %v, asked %q", action, content, err, u.asked)
	}
}

// What cannot be asked for is an error, and so is an end of the call.
func TestForms(t *testing.T) {
	many := []string{}
	for i := range maxFields + 1 {
		many = append(many, `"f`+string(rune('a'+i))+`":{"type":"string"}`)
	}
	for schema, want := range map[string]string{
		`[]`: "cannot be read", `{"properties":{"a":{"type":"object"}}}`: "of a kind that cannot", `{"properties":{"a":{"type":"array"}}}`: "no options",
		`{"properties":{` + strings.Join(many, ",") + `}}`: "21 fields", `{"properties":{"a":{"type":"string","minLength":"x"}}}`: "cannot be read",
	} {
		u := &user{}
		if _, _, err := Fill(t.Context(), u.ask, "x", "y", json.RawMessage(schema)); err == nil || !strings.Contains(err.Error(), want) || len(u.asked) > 0 {
			t.Errorf("%.60s: %v", schema, err)
		}
	}
	if _, _, err := Fill(t.Context(), (&user{answers: make([]string, 99)}).ask, "x", "y", json.RawMessage(`{"properties":{`+strings.Join(many[1:], ",")+`}}`)); err != nil {
		t.Errorf("%d fields: %v", maxFields, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if action, _, err := Fill(ctx, (&user{}).ask, "x", "y", nil); !errors.Is(err, context.Canceled) || action != "" {
		t.Errorf("%s, %v", action, err)
	}
}

func TestVisit(t *testing.T) {
	for answer, want := range map[string]Action{"done": Accept, "Decline": Decline, "what?": Cancel, "": Cancel} {
		u := &user{answers: []string{answer}}
		got, err := Visit(t.Context(), u.ask, "The server x", "Sign in", "https://example.org/in")
		if err != nil || got != want || !strings.Contains(u.asked[0].Text, "\nhttps://example.org/in\n") || !slices.Equal(u.asked[0].Choices, []string{"done", "decline"}) {
			t.Errorf("%q: %s, %v, %+v", answer, got, err, u.asked)
		}
	}
	if got, err := Visit(t.Context(), (&user{}).ask, "x", "y", "z"); got != Cancel || err != nil {
		t.Errorf("closed: %s, %v", got, err)
	}
}
