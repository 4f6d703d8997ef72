package finite

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A schema in which the check of a value would never end, or in years, has no place here:
// the library's recursion would end the process.
func TestCheck(t *testing.T) {
	doubling := func(levels int) string {
		var defs []string
		for i := range levels {
			defs = append(defs, fmt.Sprintf(`"a%d":{"allOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]}`, i, i+1, i+1))
		}
		return fmt.Sprintf(`{"properties":{"x":{"$ref":"#/$defs/a0"}},"$defs":{%s,"a%d":{}}}`, strings.Join(defs, ","), levels)
	}
	chain := func(places int) string { return strings.Repeat(`{"not":`, places) + "{}" + strings.Repeat("}", places) }
	for schema, want := range map[string]string{
		`{"$ref":"#"}`: "without end",
		`{"properties":{"x":{"$ref":"#/properties/x"}}}`:                                                                     "without end",
		`{"properties":{"x":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/a~1b"}]}},"$defs":{"a/b":{"$ref":"#/properties/x"}}}`: "without end",
		`{"$defs":{"a":{"not":{"$ref":"#/$defs/b/if"}},"b":{"if":{"allOf":[{"$ref":"#/$defs/a"}]}}}}`:                        "without end",
		`{"$defs":{"a":{"$anchor":"a","oneOf":[{"$ref":"#a"}]}}}`:                                                            "without end",
		`{"$defs":{"a":{"dependentSchemas":{"k":{"$dynamicRef":"#d"}},"$dynamicAnchor":"d"}}}`:                               "without end",
		`{"$defs":{"a":{"$id":"https://x.example/a","then":{"$ref":"#/else"},"else":{"$ref":"#/then"}}}}`:                    "without end",
		`{"$defs":{"%":{"$ref":"#/$defs/%25"}}}`:                                                                             "without end",
		chain(maxDeep):                                                                                                       "behind each other",
		chain(maxDeep - 1):                                                                                                   "",
		doubling(12):                                                                                                         "more than 10000",
		doubling(11):                                                                                                         "",
		// Into the value it may go: a tree.
		`{"properties":{"children":{"type":"array","items":{"$ref":"#"}},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}}`: "",
		`{"properties":{"$ref":{"type":"string"},"x":{"const":{"$ref":"#"},"default":{"$ref":"#/properties/x"}}}}`:          "",
	} {
		var place map[string]any
		if err := json.Unmarshal([]byte(schema), &place); err != nil {
			t.Fatal(err)
		}
		err := Check(place)
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.90s: %v", schema, err)
		}
	}
}

func TestNested(t *testing.T) {
	for raw, want := range map[string]int{`1`: 0, `{}`: 0, `{"a":[1],"b":[{"c":2}]}`: 3} {
		var value any
		if err := json.Unmarshal([]byte(raw), &value); err != nil {
			t.Fatal(err)
		}
		if got := Nested(value); got != want {
			t.Errorf("%s is nested %d deep", raw, got)
		}
	}
}

func TestSteps(t *testing.T) {
	for _, c := range []struct {
		schema, value string
		limit, want   int
	}{
		{`{}`, `1`, 9, 1},
		{`{"allOf":[{},{"not":{}}]}`, `1`, 9, 4},
		{`{"properties":{"a":{}},"additionalProperties":{},"patternProperties":{"x":{}},"propertyNames":{}}`, `{"a":1,"b":2}`, 99, 8},
		{`{"items":{"items":{}},"contains":{}}`, `[[1],2]`, 99, 6},
		{`{"prefixItems":[{"not":{}}],"additionalItems":{}}`, `[1,2]`, 99, 5},
		{`{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`, `{"a":{"a":{}}}`, 99, 27},
		{`{"items":{}}`, `[1,2,3]`, 2, 3},
	} {
		var schema map[string]any
		var value any
		if err := errors.Join(json.Unmarshal([]byte(c.schema), &schema), json.Unmarshal([]byte(c.value), &value)); err != nil {
			t.Fatal(err)
		}
		if got := Steps(schema, value, c.limit); got != c.want {
			t.Errorf("%s takes %d steps with %s, not %d", c.value, got, c.schema, c.want)
		}
	}
}
