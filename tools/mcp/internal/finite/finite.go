package finite

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
)

// What one value may meet in a schema.
const (
	maxPlaces = 10_000 // that it has to fit
	maxDeep   = 100    // of those, behind each other
)

// MaxNested is how deep a value may be nested that is checked. Each step in takes as
// many calls of the library as there are places behind each other, and the stack has an end.
const MaxNested = 100

// Check says why values cannot be checked against a schema: a place that leads back to
// itself without going into the value, as {"$ref":"#"}, has no end, and the library's
// recursion would be that of the process; references that multiply take too long. What it
// cannot follow exactly, such as an anchor, may lead to any place that has a name.
func Check(schema map[string]any) error {
	p := newPlaces(schema)
	var err error
	p.each(schema, func(place map[string]any) {
		if err == nil {
			_, err = p.size(place)
		}
	})
	return err
}

type places struct {
	root  map[string]any
	named []map[string]any
	sizes map[uintptr]size // by the place; zero: it is being counted
}

// size is what a value meets that has to fit a place.
type size struct{ places, deep int }

func newPlaces(schema map[string]any) places {
	p := places{root: schema, sizes: map[uintptr]size{}}
	p.each(schema, func(place map[string]any) {
		for _, word := range []string{"$id", "$anchor", "$dynamicAnchor"} {
			if _, named := place[word].(string); named {
				p.named = append(p.named, place)
				return
			}
		}
	})
	return p
}

// each calls do for everything in a schema that may be a place of it.
func (p *places) each(node any, do func(place map[string]any)) {
	switch node := node.(type) {
	case []any:
		for _, child := range node {
			p.each(child, do)
		}
	case map[string]any:
		do(node)
		for word, child := range node {
			switch word {
			case "const", "enum", "default", "examples": // values, not schemas
			default:
				p.each(child, do)
			}
		}
	}
}

func (p *places) size(place map[string]any) (size, error) {
	id := reflect.ValueOf(place).Pointer()
	if known, met := p.sizes[id]; met {
		if known == (size{}) {
			return known, errors.New("its schema refers to itself without end")
		}
		return known, nil
	}
	p.sizes[id] = size{}
	all := size{1, 1}
	for _, other := range p.sameValue(place) {
		more, err := p.size(other)
		if err != nil {
			return size{}, err
		}
		all = size{all.places + more.places, max(all.deep, more.deep+1)}
		if all.places > maxPlaces || all.deep > maxDeep {
			return size{}, fmt.Errorf("its schema has more than %d places for one value, or more than %d behind each other", maxPlaces, maxDeep)
		}
	}
	p.sizes[id] = all
	return all, nil
}

// sameValue are the places that the value of a place has to fit, too, or is tried against.
func (p *places) sameValue(place map[string]any) (list []map[string]any) {
	add := func(v any) {
		if other, is := v.(map[string]any); is {
			list = append(list, other)
		}
	}
	for word, v := range place {
		switch word {
		case "$ref", "$dynamicRef":
			if ref, is := v.(string); is {
				list = append(list, p.targets(ref)...)
			}
		case "allOf", "anyOf", "oneOf":
			all, _ := v.([]any)
			for _, one := range all {
				add(one)
			}
		case "not", "if", "then", "else":
			add(v)
		case "dependentSchemas", "dependencies":
			all, _ := v.(map[string]any)
			for _, one := range all {
				add(one)
			}
		}
	}
	return list
}

// targets are the places that a reference may lead to.
func (p *places) targets(ref string) (list []map[string]any) {
	path, local := strings.CutPrefix(ref, "#")
	if unescaped, err := url.PathUnescape(path); err == nil {
		path = unescaped
	}
	if !local || path != "" && path[0] != '/' {
		return append(p.named, p.root)
	}
	for _, base := range append([]map[string]any{p.root}, p.named...) {
		if found, is := pointed(base, path).(map[string]any); is {
			list = append(list, found)
		}
	}
	return list
}

// pointed is what a JSON pointer points to; nil = nothing.
func pointed(at any, path string) any {
	for _, name := range strings.Split(path, "/")[1:] {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		switch v := at.(type) {
		case map[string]any:
			at = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	return at
}

// Nested is how deep a value is nested.
func Nested(value any) int {
	deepest := 0
	switch v := value.(type) {
	case map[string]any:
		for _, inner := range v {
			deepest = max(deepest, Nested(inner)+1)
		}
	case []any:
		for _, inner := range v {
			deepest = max(deepest, Nested(inner)+1)
		}
	}
	return deepest
}
