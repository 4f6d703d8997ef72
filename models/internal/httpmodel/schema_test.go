package httpmodel

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestPlainSchema(t *testing.T) {
	for name, c := range map[string]struct{ given, want string }{
		"nothing":           {``, `{"type":"object"}`},
		"no object":         {`{"type":"string"}`, `{"type":"object"}`},
		"no properties":     {`{"type":"object","properties":{},"required":["a"]}`, `{"type":"object"}`},
		"words of no use":   {`{"$schema":"x","$id":"y","title":"t","type":"object","properties":{"a":{"type":"string","title":"A","default":"x","examples":["y"]}},"additionalProperties":false,"patternProperties":{"x":{}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		"of several types":  {`{"properties":{"a":{"type":["integer","string","null"]},"b":{"type":["integer","null"]},"c":{"type":["number","array"]},"d":{"type":["null"]}}}`, `{"type":"object","properties":{"a":{"type":"string","nullable":true},"b":{"type":"integer","nullable":true},"c":{"type":"number"},"d":{"type":"string","nullable":true}}}`},
		"without a type":    {`{"properties":{"a":{"enum":["x","y",""]},"b":{"const":"x"},"c":{"enum":[1,2]},"d":{"const":true},"e":{},"f":true,"g":{"items":{"type":"integer"}},"h":{"properties":{"i":{"enum":[1.5]}}},"j":false,"k":{"enum":["x",null]}}}`, `{"type":"object","properties":{"a":{"type":"string","enum":["x","y"]},"b":{"type":"string","enum":["x"]},"c":{"type":"integer","description":"(one of 1, 2)"},"d":{"type":"boolean","description":"(one of true)"},"e":{"type":"string"},"f":{"type":"string"},"g":{"type":"array","items":{"type":"integer"}},"h":{"type":"object","properties":{"i":{"type":"number","description":"(one of 1.5)"}}},"k":{"type":"string","enum":["x"],"nullable":true}}}`},
		"bounds":            {`{"properties":{"n":{"type":"integer","description":"How many.","exclusiveMinimum":0,"maximum":9007199254740991},"s":{"type":"string","minLength":1,"maxLength":10,"pattern":"^a"},"l":{"type":"array","minItems":1,"uniqueItems":true}}}`, `{"type":"object","properties":{"n":{"type":"integer","description":"How many. (more than 0)"},"s":{"type":"string","description":"(at least 1 characters; at most 10 characters; matching ^a)"},"l":{"type":"array","items":{"type":"string"},"description":"(at least 1 of them)"}}}`},
		"formats":           {`{"properties":{"a":{"type":"string","format":"date-time"},"b":{"type":"string","format":"uri"},"c":{"type":"integer","format":"int64"},"d":{"type":"integer","format":"uint8"}}}`, `{"type":"object","properties":{"a":{"type":"string","format":"date-time"},"b":{"type":"string","description":"(format uri)"},"c":{"type":"integer","format":"int64"},"d":{"type":"integer","description":"(format uint8)"}}}`},
		"references":        {`{"properties":{"a":{"$ref":"#/$defs/A","description":"mine"},"b":{"type":"array","items":{"$ref":"#/definitions/B"}},"c":{"$ref":"https://elsewhere"},"d":{"$ref":"#anchor"}},"$defs":{"A":{"$ref":"#/$defs/A~1B"},"A/B":{"type":"integer","description":"theirs"}},"definitions":{"B":{"type":"boolean"}}}`, `{"type":"object","properties":{"a":{"type":"integer","description":"mine"},"b":{"type":"array","items":{"type":"boolean"}},"c":{"type":"object"},"d":{"type":"object"}}}`},
		"a circle":          {`{"properties":{"tree":{"$ref":"#/$defs/Node"}},"$defs":{"Node":{"properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}}}}}`, `{"type":"object","properties":{"tree":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"type":"object"}}}}}}`},
		"itself":            {`{"$ref":"#"}`, `{"type":"object"}`},
		"itself by choice":  {`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}}`, `{"type":"object","properties":{"a":{"type":"object","nullable":true,"properties":{"a":{"type":"object","nullable":true}}}}}`},
		"anyOf":             {`{"properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}],"description":"d"},"b":{"oneOf":[{"const":"x"},{"enum":["y"]}]},"c":{"anyOf":[{"type":"string"},{"type":"integer"}]},"d":{"anyOf":[{"enum":["x"]},{"type":"integer"}]},"e":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"string"}]},"f":{"anyOf":[]}}}`, `{"type":"object","properties":{"a":{"type":"integer","nullable":true,"description":"d"},"b":{"type":"string","enum":["x","y"]},"c":{"type":"string"},"d":{"type":"string"},"e":{"type":"array","items":{"type":"string"}},"f":{"type":"string"}}}`},
		"anyOf objects":     {`{"type":"object","properties":{"k":{"type":"string"}},"required":["k"],"anyOf":[{"properties":{"a":{"const":"x"},"b":{"type":"string"}},"required":["a","b"]},{"properties":{"a":{"const":"y"},"c":{"type":"integer"}},"required":["a","c"]}]}`, `{"type":"object","properties":{"k":{"type":"string"},"a":{"type":"string","enum":["x","y"]},"b":{"type":"string"},"c":{"type":"integer"}},"required":["k","a"]}`},
		"one or the other":  {`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`},
		"allOf":             {`{"allOf":[{"$ref":"#/$defs/A"},{"properties":{"b":{"type":"integer"}},"required":["b"]}],"$defs":{"A":{"type":"object","properties":{"a":{"type":"string"}},"required":["a","lost"]}}}`, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["a","b"]}`},
		"words of no sense": {`{"properties":{"a":{"type":7,"enum":"x","required":[{"a":1}],"properties":[],"anyOf":{},"$ref":3,"items":[],"description":[]},"b":{"type":"file"}},"required":[1,{"x":[]},"a","a"]}`, `{"type":"object","properties":{"a":{"type":"object"},"b":{"type":"string"}},"required":["a"]}`},
		"a list of places":  {`{"properties":{"a":{"type":"array","prefixItems":[{"type":"integer"}]},"b":{"type":"array","items":[{"type":"boolean"}]},"c":{"type":"object","additionalProperties":{"type":"string"}}}}`, `{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}},"b":{"type":"array","items":{"type":"boolean"}},"c":{"type":"object"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := PlainSchema(json.RawMessage(c.given))
			raw, err := json.Marshal(got)
			if err != nil || !sameJSON(t, string(raw), withRequired(t, c.want)) {
				t.Errorf("plain is\n%s (%v), not\n%s", raw, err, c.want)
			}
			if again, _ := json.Marshal(PlainSchema(raw)); !sameJSON(t, string(again), string(raw)) {
				t.Errorf("plainer than plain is %s", again)
			}
		})
	}
	// References that multiply are bounded.
	wide := `{"$defs":{"L":{"type":"string"}`
	for i := 1; i <= 40; i++ {
		below := strings.Repeat("x", i-1)
		wide += `,"L` + strings.Repeat("x", i) + `":{"anyOf":[{"properties":{"a":{"$ref":"#/$defs/L` + below + `"}}},{"properties":{"a":{"$ref":"#/$defs/L` + below + `"},"b":{"$ref":"#/$defs/L` + below + `"}}}]}`
	}
	wide += `},"properties":{"a":{"$ref":"#/$defs/L` + strings.Repeat("x", 40) + `"}}}`
	if raw, err := json.Marshal(PlainSchema(json.RawMessage(wide))); err != nil || len(raw) > 1<<20 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
}

// withRequired gives each object of a plain schema the list that it always has.
func withRequired(t *testing.T, schema string) string {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal([]byte(schema), &root); err != nil {
		t.Fatal(err)
	}
	var fill func(v any)
	fill = func(v any) {
		place, is := v.(map[string]any)
		if !is {
			return
		}
		if place["type"] == "object" && place["required"] == nil {
			place["required"] = []any{}
		}
		fill(place["items"])
		properties, _ := place["properties"].(map[string]any)
		for _, p := range properties {
			fill(p)
		}
	}
	fill(root)
	raw, _ := json.Marshal(root)
	return string(raw)
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	norm := func(s string) string {
		var v any
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		raw, _ := json.Marshal(v)
		return string(raw)
	}
	return norm(a) == norm(b)
}

// A schema of a server may be 64 KiB, and is read again for each request: twice the names
// cost twice the work, not four or eight times.
func TestWorkGrowsWithTheSchema(t *testing.T) {
	work := func(names int) float64 {
		var list []string
		for i := range names {
			list = append(list, fmt.Sprintf("n%d", i))
		}
		raw, _ := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"x": map[string]any{"anyOf": []any{
			map[string]any{"type": "object", "required": list}, map[string]any{"type": "object", "required": list},
		}}}})
		return testing.AllocsPerRun(3, func() { PlainSchema(raw) })
	}
	if small, large := work(50), work(100); large > 3*small {
		t.Errorf("50 names take %.0f allocations, 100 take %.0f", small, large)
	}
}

// Any bytes give a schema that is plain.
func FuzzPlainSchema(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"$ref":"#/properties/a/items","items":{"anyOf":[{"$ref":"#"},{"type":["x",null]}]}}},"required":[1,"a"]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		assertPlain(t, PlainSchema(raw))
	})
}

func assertPlain(t *testing.T, schema map[string]any) {
	t.Helper()
	properties, given := schema["properties"].(map[string]any)
	if given && len(properties) == 0 {
		t.Fatalf("the object %v has an empty list", schema)
	}
	if schema["type"] == "object" && schema["required"] == nil {
		t.Fatalf("the object %v has no list of what is required", schema)
	}
	for word, v := range schema {
		switch word {
		case "type", "description", "format":
			if text, is := v.(string); !is || text == "" {
				t.Fatalf("%s is %v", word, v)
			}
		case "nullable", "enum":
		case "required":
			for _, name := range v.([]any) {
				if schema["properties"].(map[string]any)[name.(string)] == nil {
					t.Fatalf("%v is required and not there", name)
				}
			}
		case "items":
			assertPlain(t, v.(map[string]any))
		case "properties":
			for _, p := range v.(map[string]any) {
				assertPlain(t, p.(map[string]any))
			}
		default:
			t.Fatalf("the word %s in %v", word, schema)
		}
	}
}
