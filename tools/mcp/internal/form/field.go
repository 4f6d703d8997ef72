package form

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// field is one property of a form.
type field struct {
	name, title, description string
	kind                     string // string, number, integer, boolean, array
	format                   string
	required                 bool
	standard                 any      // the default; nil = none
	values, titles           []string // of its options
	least, most              *float64 // of the number, of the characters or of the options that are chosen
}

// option is a value with the title that a user sees.
type option struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// property is a field as schemas describe it.
type property struct {
	Type        string   `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Format      string   `json:"format"`
	Default     any      `json:"default"`
	Enum        []string `json:"enum"`
	EnumNames   []string `json:"enumNames"`
	OneOf       []option `json:"oneOf"`
	Minimum     *float64 `json:"minimum"`
	Maximum     *float64 `json:"maximum"`
	MinLength   *float64 `json:"minLength"`
	MaxLength   *float64 `json:"maxLength"`
	MinItems    *float64 `json:"minItems"`
	MaxItems    *float64 `json:"maxItems"`
	Items       struct {
		Enum  []string `json:"enum"`
		AnyOf []option `json:"anyOf"`
	} `json:"items"`
}

// parse reads a schema: the required fields as it lists them, then the others by name.
func parse(schema json.RawMessage) ([]*field, error) {
	var form struct {
		Properties map[string]property `json:"properties"`
		Required   []string            `json:"required"`
	}
	if len(schema) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(schema, &form); err != nil {
		return nil, errors.New("its schema cannot be read")
	}
	if len(form.Properties) > maxFields {
		return nil, fmt.Errorf("it has %d fields, more than %d", len(form.Properties), maxFields)
	}
	var names []string // each once, also where it is required twice
	for _, name := range append(form.Required, slices.Sorted(maps.Keys(form.Properties))...) {
		if _, there := form.Properties[name]; there && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var fields []*field
	for _, name := range names {
		f, err := form.Properties[name].field(name)
		if err != nil {
			return nil, err
		}
		f.required = slices.Contains(form.Required, name)
		fields = append(fields, f)
	}
	return fields, nil
}

func (p property) field(name string) (*field, error) {
	f := &field{name: name, title: name, description: strings.TrimSpace(p.Description), kind: p.Type, format: p.Format, standard: p.Default}
	if p.Title != "" {
		f.title = p.Title
	}
	values, titles, options := p.Enum, p.EnumNames, p.OneOf
	switch p.Type {
	case "string":
		f.least, f.most = p.MinLength, p.MaxLength
	case "number", "integer":
		f.least, f.most = p.Minimum, p.Maximum
	case "boolean":
		values = []string{"yes", "no"}
	case "array":
		f.least, f.most = p.MinItems, p.MaxItems
		if values, options = p.Items.Enum, p.Items.AnyOf; len(values)+len(options) == 0 {
			return nil, fmt.Errorf("its field %q has no options", name)
		}
	default:
		return nil, fmt.Errorf("its field %q is of a kind that cannot be asked for", name)
	}
	for _, o := range options {
		values, titles = append(values, o.Const), append(titles, o.Title)
	}
	f.values, f.titles = values, slices.Clone(values)
	for i, title := range titles {
		// A title that two options have tells nothing.
		if i < len(f.titles) && title != "" && !slices.Contains(f.titles, title) {
			f.titles[i] = title
		}
	}
	return f, nil
}

// choices is true for a field of which one option is chosen.
func (f *field) choices() bool { return f.kind != "array" && len(f.values) > 0 }

// hint says what fits.
func (f *field) hint() string {
	unit := ""
	var parts []string
	switch f.kind {
	case "string":
		unit = " characters"
		if known, ok := formats[f.format]; ok {
			parts = append(parts, known.hint)
		}
	case "number":
		parts = append(parts, "a number")
	case "integer":
		parts = append(parts, "a whole number")
	case "array":
		unit = " of them"
		parts = append(parts, "any of: "+strings.Join(f.titles, ", ")+"; with commas between them")
	}
	if f.choices() {
		return ""
	}
	if f.least != nil && *f.least != 0 || f.kind != "string" && f.least != nil {
		parts = append(parts, "at least "+number(*f.least)+unit)
	}
	if f.most != nil {
		parts = append(parts, "at most "+number(*f.most)+unit)
	}
	return strings.Join(parts, ", ")
}

// read makes the field's value of an answer, or says why it does not fit.
func (f *field) read(answer string) (value any, why string) {
	switch {
	case f.kind == "array":
		return f.several(answer)
	case f.choices():
		i := f.option(answer)
		switch {
		case i < 0:
			return nil, fmt.Sprintf("%q is none of the choices.", answer)
		case f.kind == "boolean":
			return i == 0, ""
		}
		return f.values[i], ""
	case f.kind == "string":
		if f.required && answer == "" {
			return nil, "it must not be blank."
		}
		if why := f.between(float64(utf8.RuneCountInString(answer)), "it has %s characters"); why != "" {
			return nil, why
		}
		if known, ok := formats[f.format]; ok && !known.fits(answer) {
			return nil, fmt.Sprintf("it must be %s.", known.hint)
		}
		return answer, ""
	}
	n, err := strconv.ParseFloat(answer, 64)
	switch {
	case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
		return nil, fmt.Sprintf("%q is not a number.", answer)
	case f.kind == "integer" && n != math.Trunc(n):
		return nil, answer + " is not a whole number."
	}
	if why := f.between(n, "it is %s"); why != "" {
		return nil, why
	}
	return n, ""
}

// several reads the options that are chosen.
func (f *field) several(answer string) (value any, why string) {
	chosen := []string{}
	for part := range strings.SplitSeq(answer, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		i := f.option(part)
		if i < 0 {
			return nil, fmt.Sprintf("%q is none of the options.", part)
		}
		if !slices.Contains(chosen, f.values[i]) {
			chosen = append(chosen, f.values[i])
		}
	}
	return chosen, f.between(float64(len(chosen)), "%s are chosen")
}

// option finds an option by its title, else by its value; -1 = there is none.
func (f *field) option(answer string) int {
	for _, list := range [][]string{f.titles, f.values} {
		if i := slices.IndexFunc(list, func(t string) bool { return strings.EqualFold(t, answer) || same(answer, t) }); i >= 0 {
			return i
		}
	}
	return -1
}

func (f *field) between(n float64, is string) string {
	switch {
	case f.least != nil && n < *f.least:
		return fmt.Sprintf(is+", and must be at least %s.", number(n), number(*f.least))
	case f.most != nil && n > *f.most:
		return fmt.Sprintf(is+", and must be at most %s.", number(n), number(*f.most))
	}
	return ""
}

// shown is a default as a user reads it.
func (f *field) shown(value any) string {
	switch v := value.(type) {
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case float64:
		return number(v)
	case string:
		if i := slices.Index(f.values, v); i >= 0 {
			return f.titles[i]
		}
		return v
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, f.shown(one))
		}
		return strings.Join(all, ", ")
	}
	return fmt.Sprint(value)
}

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// formats are the formats of texts that the protocol knows.
var formats = map[string]struct {
	hint string
	fits func(string) bool
}{
	"email": {"an e-mail address", func(s string) bool {
		a, err := mail.ParseAddress(s)
		return err == nil && a.Address == s
	}},
	"uri": {"an address such as https://example.org", func(s string) bool {
		u, err := url.Parse(s)
		return err == nil && u.IsAbs()
	}},
	"date":      {"a date such as 2026-01-31", func(s string) bool { _, err := time.Parse(time.DateOnly, s); return err == nil }},
	"date-time": {"a time such as 2026-01-31T18:00:00Z", func(s string) bool { _, err := time.Parse(time.RFC3339, s); return err == nil }},
}
