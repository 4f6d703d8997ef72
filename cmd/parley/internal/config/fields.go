package config

import (
	"cmp"
	"encoding"
	"fmt"
	"iter"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"parley/cmd/parley/internal/config/internal/written"
	"parley/tools/mcp/secret"
)

// A field is one key of a configuration struct: where it lives and what it allows.
type field struct {
	key     string // dotted: "inbox.mode"
	index   []int  // for reflect.Value.FieldByIndex
	typ     reflect.Type
	choices []string // allowed texts; nil = any
	min     string   // smallest value, as written; "" = none
	max     string   // largest value, as written; "" = none
	auto    string   // the number that "auto" stands for; "" = "auto" is not allowed
	bytes   bool     // the number is a size
	secret  bool     // masked by "config print"
	inline  bool     // masked unless it says where the secret is
	blocks  string   // the providers whose [models.NAME] blocks have it, with commas; "" = all
	after   string   // the key of the block behind which it is printed; "" = in its place
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	stringsType  = reflect.TypeFor[[]string]()
	textsType    = reflect.TypeFor[map[string]string]()
	anyType      = reflect.TypeFor[map[string]any]()
	numberType   = reflect.TypeFor[*float64]()
)

// fieldsOf lists the keys of a struct in the order of its fields, with those of
// the structs in it; a field without a key tag has no key. A prefix tag of such a
// struct stands before its keys, a for tag is that of its keys.
func fieldsOf(t reflect.Type) []field {
	var list []field
	for i := range t.NumField() {
		f := t.Field(i)
		key, ok := f.Tag.Lookup("key")
		switch {
		case ok:
			fd := field{
				key: key, index: []int{i}, typ: f.Type,
				min: f.Tag.Get("min"), max: f.Tag.Get("max"), auto: f.Tag.Get("auto"), bytes: f.Tag.Get("unit") == "bytes",
				secret: f.Tag.Get("secret") == "true", inline: f.Tag.Get("secret") == "inline", blocks: f.Tag.Get("for"), after: f.Tag.Get("after"),
			}
			if c, ok := f.Tag.Lookup("choices"); ok {
				fd.choices = strings.Split(c, ",")
			}
			list = append(list, fd)
		case f.Type.Kind() == reflect.Struct:
			for _, sub := range fieldsOf(f.Type) {
				sub.key, sub.index = f.Tag.Get("prefix")+sub.key, append([]int{i}, sub.index...)
				sub.blocks = cmp.Or(sub.blocks, f.Tag.Get("for"))
				list = append(list, sub)
			}
		}
	}
	return list
}

// named is true for a type that reads its own texts.
func (f field) named() bool { return reflect.PointerTo(f.typ).Implements(textType) }

// env is the environment variable of the key.
func (f field) env() string {
	return "PARLEY_" + strings.ToUpper(strings.ReplaceAll(f.key, ".", "_"))
}

// want says in words what the field takes.
func (f field) want() string {
	var s string
	switch {
	case f.choices != nil:
		named := make([]string, 0, len(f.choices))
		for _, c := range f.choices {
			named = append(named, strconv.Quote(c))
		}
		return "one of " + strings.Join(named, ", ")
	case f.typ == durationType:
		s = `a duration such as "1.5s" or "10m"`
	case f.bytes:
		s = `a number of bytes or a size such as "256 KiB"`
	case f.typ == stringsType:
		return `a list of texts such as ["a", "b"]`
	case f.typ == textsType:
		return `a table of texts such as { name = "value" }`
	case f.typ == anyType:
		return `a table such as { name = "value" }`
	case f.typ == numberType:
		s = "a number"
	case f.typ.Kind() == reflect.Bool:
		return "true or false"
	case f.whole():
		s = "a whole number"
	default:
		return "a text"
	}
	switch {
	case f.min != "" && f.max != "":
		s += " from " + f.min + " to " + f.max
	case f.min != "":
		s += " of at least " + f.min
	}
	if f.auto != "" {
		s += `, or "auto"`
	}
	return s
}

// set puts a TOML value (as go-toml decodes it into any) into the field.
func (f field) set(root reflect.Value, v any) error {
	target := root.FieldByIndex(f.index)
	switch {
	case f.typ == durationType:
		d, err := f.duration(v)
		if err != nil {
			return err
		}
		target.SetInt(int64(d))
	case f.bytes:
		b, err := f.size(v)
		if err != nil {
			return err
		}
		target.SetInt(b)
	case f.typ == stringsType:
		list, ok := v.([]any)
		if !ok {
			return f.mismatch()
		}
		texts := make([]string, 0, len(list))
		for _, item := range list {
			s, ok := item.(string)
			if !ok {
				return f.mismatch()
			}
			texts = append(texts, s)
		}
		target.Set(reflect.ValueOf(texts))
	case f.typ == textsType:
		table, ok := v.(map[string]any)
		if !ok {
			return f.mismatch()
		}
		texts := map[string]string{}
		for k, item := range table {
			if texts[k], ok = item.(string); !ok {
				return f.mismatch()
			}
		}
		target.Set(reflect.ValueOf(texts))
	case f.typ == anyType:
		table, ok := v.(map[string]any)
		if !ok {
			return f.mismatch()
		}
		target.Set(reflect.ValueOf(table))
	case f.typ == numberType:
		n, ok := v.(float64)
		if whole, is := v.(int64); is {
			n, ok = float64(whole), true
		}
		low, _ := strconv.ParseFloat(f.min, 64)
		high, err := strconv.ParseFloat(f.max, 64)
		if !ok || math.IsNaN(n) || f.min != "" && n < low || err == nil && n > high {
			return f.mismatch()
		}
		target.Set(reflect.ValueOf(&n))
	case f.typ.Kind() == reflect.Bool:
		b, ok := v.(bool)
		if !ok {
			return f.mismatch()
		}
		target.SetBool(b)
	case f.whole():
		n, ok := v.(int64)
		if !ok || !f.within(n, func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }) {
			return f.mismatch()
		}
		if f.typ.Kind() == reflect.Float64 {
			target.SetFloat(float64(n))
			break
		}
		target.SetInt(n)
	default:
		s, ok := v.(string)
		if !ok || (f.choices != nil && !slices.Contains(f.choices, s)) {
			return f.mismatch()
		}
		if !f.named() {
			target.SetString(s)
		} else if target.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(s)) != nil {
			return f.mismatch()
		}
	}
	return nil
}

// whole is true for a whole number that is neither a time nor a size.
func (f field) whole() bool {
	k := f.typ.Kind()
	return !f.named() && !f.bytes && f.typ != durationType && (k == reflect.Int || k == reflect.Int64 || k == reflect.Float64)
}

func (f field) mismatch() error { return fmt.Errorf("must be %s", f.want()) }

func (f field) duration(v any) (time.Duration, error) {
	s, ok := v.(string)
	if v == int64(0) {
		s, ok = "0s", true // 0 needs no unit
	}
	if !ok {
		return 0, f.mismatch()
	}
	d, err := time.ParseDuration(s)
	parse := func(s string) int64 { d, _ := time.ParseDuration(s); return int64(d) }
	if err != nil || !f.within(int64(d), parse) {
		return 0, f.mismatch()
	}
	return d, nil
}

func (f field) size(v any) (int64, error) {
	var b int64
	switch v := v.(type) {
	case int64:
		b = v
	case string:
		if f.auto != "" && v == "auto" {
			return strconv.ParseInt(f.auto, 10, 64)
		}
		var ok bool
		if b, ok = written.ParseBytes(v); !ok {
			return 0, f.mismatch()
		}
	default:
		return 0, f.mismatch()
	}
	if !f.within(b, func(s string) int64 { b, _ := written.ParseBytes(s); return b }) {
		return 0, f.mismatch()
	}
	return b, nil
}

func (f field) within(n int64, parse func(string) int64) bool {
	return (f.min == "" || n >= parse(f.min)) && (f.max == "" || n <= parse(f.max))
}

// setText puts a value into the field that came as plain text, from the
// environment or the command line. A list is written as in TOML or with commas.
func (f field) setText(root reflect.Value, s string) error {
	var v any = s
	switch {
	case f.typ == stringsType:
		if strings.HasPrefix(strings.TrimSpace(s), "[") {
			var doc map[string]any
			if err := toml.Unmarshal([]byte("v = "+s), &doc); err != nil {
				return f.mismatch()
			}
			v = doc["v"]
			break
		}
		list := []any{}
		for item := range strings.SplitSeq(s, ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		v = list
	case f.typ.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return f.mismatch()
		}
		v = b
	case f.whole():
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return f.mismatch()
		}
		v = n
	}
	return f.set(root, v)
}

// text is the field's value as TOML writes it.
func (f field) text(root reflect.Value) string {
	v := root.FieldByIndex(f.index)
	if !v.IsZero() && (f.secret || f.inline && !refers(v.String())) {
		return `"***"`
	}
	switch {
	case f.bytes && f.auto != "" && f.auto == strconv.FormatInt(v.Int(), 10):
		return `"auto"`
	case f.bytes:
		return written.Bytes(v.Int())
	case v.Kind() == reflect.String && f.named():
		return written.String(v.String())
	case v.Kind() == reflect.String:
		return written.String(secret.WithoutPasswords(v.String()))
	case f.named():
		return written.String(fmt.Sprint(v.Interface()))
	}
	switch v := v.Interface().(type) {
	case time.Duration:
		return strconv.Quote(written.Duration(v))
	case []string:
		quoted := make([]string, 0, len(v))
		if f.key == "args" {
			v = ShownArgs(v)
		}
		for _, s := range v {
			quoted = append(quoted, written.String(s))
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case map[string]string:
		return written.Table(v, func(name, value string) string { return written.String(secret.Masked(name, value)) })
	case map[string]any:
		return written.Table(v, func(_ string, value any) string { return written.Value(value) })
	case *float64:
		return written.Value(*v)
	case float64: // a whole number: with an exponent it would not be read again
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// EachKeyChanged yields each key with a configuration that differs from Default in
// that key alone, for tests of what reads the configuration. The values are of
// the right type; whether they make sense together is not looked at.
func EachKeyChanged() iter.Seq2[string, Config] {
	return func(yield func(string, Config) bool) {
		for _, f := range fieldsOf(reflect.TypeFor[Config]()) {
			c := Default()
			f.change(reflect.ValueOf(&c).Elem())
			if !yield(f.key, c) {
				return
			}
		}
	}
}

// change gives the field another value.
func (f field) change(root reflect.Value) {
	v := root.FieldByIndex(f.index)
	switch {
	case f.named():
		_ = v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(f.choices[len(f.choices)-1]))
	case f.choices != nil:
		v.SetString(f.choices[len(f.choices)-1])
	case v.Kind() == reflect.String:
		v.SetString("changed")
	case v.Kind() == reflect.Float64:
		v.SetFloat(v.Float() + 12345)
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.ValueOf([]string{"changed"}))
	case f.typ == textsType:
		v.Set(reflect.ValueOf(map[string]string{"name": "changed"}))
	case f.typ == numberType:
		v.Set(reflect.ValueOf(new(float64)))
	default:
		v.SetInt(v.Int() + 12345)
	}
}

// unset is true for a field without a value that TOML could write.
func (f field) unset(root reflect.Value) bool {
	v := root.FieldByIndex(f.index)
	return (v.Kind() == reflect.Pointer || v.Kind() == reflect.Map) && (v.IsNil() || v.Kind() == reflect.Map && v.Len() == 0)
}
