package httpmodel

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The forms of tool schemas that Options.Schema names.
const (
	SchemaFull  = "full"
	SchemaPlain = "plain"
)

// PlainSchema returns a JSON schema of a tool's arguments in the few words that every
// server takes. Gemini, for one, refuses a whole request for one word that it does
// not know. What is left of each place:
//
//   - type (exactly one), description, nullable, enum (of strings), properties, required
//     (of properties that are there), items, and a format that goes with the type; an empty
//     list of properties is left out, because Gemini refuses it, and no other server that
//     needs a plain schema misses it; an empty list of the required ones is there,
//     because Kimi refuses an object without one;
//   - a reference to another place of the schema is replaced by what stands there,
//     one that leads back into itself by an object without properties;
//   - of several types, and of anyOf and oneOf, the first that is not null is taken, but
//     objects are put together, and texts with a fixed value become an enum;
//     allOf is put together;
//   - bounds, and fixed values that are no strings, become words of the description.
//
// Arguments that fit the result fit the schema that was given, as far as bounds are
// kept, or are refused by the tool with its reason. It is a pure function.
func PlainSchema(raw json.RawMessage) map[string]any {
	var root map[string]any
	_ = json.Unmarshal(raw, &root)
	p := plainer{root: root, left: maxPlaces}
	plain := p.place(root, nil)
	if plain["type"] != "object" {
		plain = anyArguments() // arguments have names
	}
	return plain
}

// anyArguments is an object of which nothing is known.
func anyArguments() map[string]any { return map[string]any{"type": "object", "required": []any{}} }

// maxPlaces bounds the places of a plain schema: references may multiply them.
const maxPlaces = 2000

type plainer struct {
	root map[string]any
	left int
}

// place returns one place of the schema in plain words. inside are the references that
// led here.
func (p *plainer) place(given any, inside []string) map[string]any {
	schema, is := given.(map[string]any)
	if p.left--; !is || p.left < 0 {
		return map[string]any{"type": "string"} // true: anything
	}
	schema, inside, ok := p.resolved(schema, inside)
	if !ok {
		return described(anyArguments(), schema)
	}
	schema, inside = p.oneOfAll(schema, inside)
	kind, nullable := typeOf(schema)
	if !slices.Contains(kinds, kind) {
		kind = "string" // null alone, or a word that is no type
	}
	plain := map[string]any{"type": kind}
	if nullable {
		plain["nullable"] = true
	}
	switch kind {
	case "object":
		p.properties(plain, schema, inside)
	case "array":
		items := schema["items"]
		if list, is := schema["prefixItems"].([]any); is && len(list) > 0 {
			items = list[0]
		}
		if list, is := items.([]any); is && len(list) > 0 {
			items = list[0]
		}
		plain["items"] = p.place(items, inside)
	case "string":
		if values := stringsIn(fixedValues(schema)); len(values) > 0 {
			plain["enum"] = values
		}
	}
	if format, is := schema["format"].(string); is && slices.Contains(formats[kind], format) {
		plain["format"] = format
	}
	return described(plain, schema)
}

var kinds = []string{"string", "integer", "number", "boolean", "array", "object"}

// formats are those that go with a type.
var formats = map[string][]string{
	"string": {"date-time"}, "integer": {"int32", "int64"}, "number": {"float", "double"},
}

func (p *plainer) properties(plain, schema map[string]any, inside []string) {
	given, _ := schema["properties"].(map[string]any)
	properties := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if given[name] != false { // false: it may not be given
			properties[name] = p.place(given[name], inside)
		}
	}
	if len(properties) > 0 {
		plain["properties"] = properties
	}
	plain["required"] = slices.DeleteFunc(namesIn(schema["required"]), func(name any) bool { return properties[name.(string)] == nil })
}

// resolved follows the reference of a place. What stands beside it counts more than
// what it leads to. A reference that leads back into itself, or nowhere, is not ok.
func (p *plainer) resolved(schema map[string]any, inside []string) (map[string]any, []string, bool) {
	for {
		ref, is := schema["$ref"].(string)
		if !is {
			return schema, inside, true
		}
		target, found := p.lookUp(ref)
		if !found || slices.Contains(inside, ref) {
			return schema, inside, false
		}
		inside = append(slices.Clone(inside), ref)
		merged := maps.Clone(target)
		for name, value := range schema {
			if name != "$ref" {
				merged[name] = value
			}
		}
		schema = merged
	}
}

// lookUp finds the place that a reference such as #/$defs/Job names.
func (p *plainer) lookUp(ref string) (map[string]any, bool) {
	path, local := strings.CutPrefix(ref, "#")
	if !local || path != "" && path[0] != '/' {
		return nil, false
	}
	var at any = p.root
	for _, name := range strings.Split(path, "/")[1:] {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			at = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			at = v[i]
		default:
			return nil, false
		}
	}
	found, is := at.(map[string]any)
	return found, is
}

// oneOfAll puts what a place says by anyOf, oneOf and allOf into the place itself. The
// references that led there count for all that is inside of it.
func (p *plainer) oneOfAll(schema map[string]any, inside []string) (map[string]any, []string) {
	one, led := maps.Clone(schema), inside
	for _, word := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := schema[word].([]any)
		delete(one, word)
		var choices []map[string]any
		for _, v := range list {
			choice, is := v.(map[string]any)
			if !is || p.left < 0 {
				continue
			}
			p.left--
			choice, within, ok := p.resolved(choice, inside)
			if !ok {
				choice = map[string]any{"type": "object"}
			} else {
				choice, within = p.oneOfAll(choice, within)
				led = append(slices.Clone(led), within[len(inside):]...)
			}
			choices = append(choices, choice)
		}
		if word == "allOf" {
			for _, choice := range choices {
				one = both(one, choice)
			}
			continue
		}
		one = anyOf(one, choices)
	}
	return one, led
}

// both is a place that must be as each of two says.
func both(a, b map[string]any) map[string]any {
	one := maps.Clone(b)
	maps.Copy(one, a)
	if properties := joinedMaps(b["properties"], a["properties"]); properties != nil {
		one["properties"] = properties
	}
	if required := append(namesIn(a["required"]), namesIn(b["required"])...); len(required) > 0 {
		one["required"] = required
	}
	return one
}

// anyOf is a place that may be as one of several say.
func anyOf(one map[string]any, choices []map[string]any) map[string]any {
	var some []map[string]any
	for _, choice := range choices {
		if kind, nullable := typeOf(choice); kind == "null" {
			one["nullable"] = true
		} else {
			if nullable {
				one["nullable"] = true
			}
			some = append(some, choice)
		}
	}
	if len(some) == 0 {
		return one
	}
	first, _ := typeOf(some[0])
	alike := func(c map[string]any) bool { kind, _ := typeOf(c); return kind == first }
	switch {
	case len(some) > 1 && first == "object" && !slices.ContainsFunc(some, func(c map[string]any) bool { return !alike(c) }):
		return both(one, anyObject(some))
	case len(some) > 1 && first == "string":
		var values []any
		for _, c := range some {
			fixed := stringsIn(fixedValues(c))
			if !alike(c) || len(fixed) == 0 {
				values = nil
				break
			}
			for _, v := range fixed {
				values = append(values, v)
			}
		}
		chosen := maps.Clone(some[0])
		delete(chosen, "const")
		delete(chosen, "enum")
		if values != nil {
			chosen["enum"] = values
		}
		return both(one, chosen)
	}
	return both(one, some[0])
}

// anyObject is an object with the properties of several, of which those are required
// that all require. A property that they describe differently is one of the
// descriptions.
func anyObject(choices []map[string]any) map[string]any {
	one := maps.Clone(choices[0])
	properties, requiring := map[string]any{}, map[any]int{} // by how many a name is required
	for _, c := range choices {
		for _, name := range namesIn(c["required"]) {
			requiring[name]++
		}
		given, _ := c["properties"].(map[string]any)
		for name, v := range given {
			if old, there := properties[name]; there {
				v = map[string]any{"anyOf": []any{old, v}}
			}
			properties[name] = v
		}
	}
	one["properties"] = properties
	one["required"] = slices.DeleteFunc(namesIn(one["required"]), func(name any) bool { return requiring[name] < len(choices) })
	return one
}

// namesIn are the names in a list of required properties.
func namesIn(list any) []any {
	names := []any{}
	given, _ := list.([]any)
	for _, text := range stringsIn(given) {
		names = append(names, text)
	}
	return names
}

func joinedMaps(a, b any) any {
	first, is := a.(map[string]any)
	second, too := b.(map[string]any)
	if !is && !too {
		return nil
	}
	one := map[string]any{}
	maps.Copy(one, first)
	maps.Copy(one, second)
	return one
}

// typeOf returns the one type of a place, and whether it may be null. Of several types
// it is a string, if that is one of them: all can be written as such.
func typeOf(schema map[string]any) (kind string, nullable bool) {
	nullable, _ = schema["nullable"].(bool)
	var list []string
	switch v := schema["type"].(type) {
	case string:
		list = []string{v}
	case []any:
		for _, one := range v {
			if text, is := one.(string); is && text == "null" {
				nullable = true
			} else if is {
				list = append(list, text)
			}
		}
		if len(list) == 0 && nullable {
			return "null", true
		}
	}
	values := fixedValues(schema)
	if slices.Contains(values, nil) {
		nullable = true
	}
	switch {
	case slices.Contains(list, "string"):
		return "string", nullable
	case len(list) > 0:
		return list[0], nullable
	case schema["properties"] != nil || schema["additionalProperties"] != nil || schema["required"] != nil:
		return "object", nullable
	case schema["items"] != nil || schema["prefixItems"] != nil:
		return "array", nullable
	}
	for _, v := range values {
		switch n := v.(type) {
		case bool:
			return "boolean", nullable
		case float64:
			if n == float64(int64(n)) {
				return "integer", nullable
			}
			return "number", nullable
		}
	}
	return "string", nullable
}

// fixedValues are the values that a place may have, if they are fixed.
func fixedValues(schema map[string]any) []any {
	if value, fixed := schema["const"]; fixed {
		return []any{value}
	}
	list, _ := schema["enum"].([]any)
	return list
}

// stringsIn are the strings of a list that are not empty: an empty one is refused.
func stringsIn(list []any) []string {
	var texts []string
	seen := map[string]bool{}
	for _, v := range list {
		if text, is := v.(string); is && text != "" && !seen[text] {
			seen[text] = true
			texts = append(texts, text)
		}
	}
	return texts
}

// bounds are words of a schema that become words of its description.
var bounds = []struct{ word, says string }{
	{"minimum", "at least %v"}, {"exclusiveMinimum", "more than %v"}, {"maximum", "at most %v"}, {"exclusiveMaximum", "less than %v"},
	{"multipleOf", "a multiple of %v"}, {"minLength", "at least %v characters"}, {"maxLength", "at most %v characters"}, {"pattern", "matching %v"},
	{"minItems", "at least %v of them"}, {"maxItems", "at most %v of them"},
}

// described gives a place its description, with what can be said in no other words.
func described(plain, schema map[string]any) map[string]any {
	var notes []string
	for _, b := range bounds {
		switch v := schema[b.word].(type) {
		case float64:
			if v >= 1<<53-1 || v <= -(1<<53-1) {
				continue // a program's bound
			}
			notes = append(notes, fmt.Sprintf(b.says, strconv.FormatFloat(v, 'f', -1, 64)))
		case string:
			if b.word == "pattern" {
				notes = append(notes, fmt.Sprintf(b.says, v))
			}
		}
	}
	if plain["type"] != "string" {
		var values []string
		for _, v := range fixedValues(schema) {
			if raw, err := json.Marshal(v); err == nil && v != nil {
				values = append(values, string(raw))
			}
		}
		if len(values) > 0 {
			notes = append(notes, "one of "+strings.Join(values, ", "))
		}
	}
	text, _ := schema["description"].(string)
	if format, is := schema["format"].(string); is && plain["format"] == nil {
		notes = append(notes, "format "+format)
	}
	if len(notes) > 0 {
		text = strings.TrimSpace(text + " (" + strings.Join(notes, "; ") + ")")
	}
	if text != "" {
		plain["description"] = text
	}
	return plain
}
