package finite

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
)

// maxPlaces is how many places of a schema one value may have to fit.
const maxPlaces = 10_000

// Check says why values cannot be checked against a schema: a place that leads back to
// itself without going into the value, as {"$ref":"#"}, has no end, and the library's
// recursion would be that of the process; references that multiply take too long. What it
// cannot follow exactly, such as an anchor, may lead to any place that has a name.
func Check(schema map[string]any) error {
	p := places{root: schema, counts: map[uintptr]int{}}
	p.each(schema, func(place map[string]any) {
		for _, word := range []string{"$id", "$anchor", "$dynamicAnchor"} {
			if _, named := place[word].(string); named {
				p.named = append(p.named, place)
				return
			}
		}
	})
	var err error
	p.each(schema, func(place map[string]any) {
		if err == nil {
			_, err = p.count(place)
		}
	})
	return err
}

type places struct {
	root   map[string]any
	named  []map[string]any
	counts map[uintptr]int // by the place; 0: it is being counted
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

// count is the number of places that a value has to fit which has to fit this one.
func (p *places) count(place map[string]any) (n int, err error) {
	id := reflect.ValueOf(place).Pointer()
	if n, known := p.counts[id]; known {
		if n == 0 {
			return 0, errors.New("its schema refers to itself without end")
		}
		return n, nil
	}
	p.counts[id] = 0
	n = 1
	for _, other := range p.sameValue(place) {
		more, err := p.count(other)
		if err != nil {
			return 0, err
		}
		if n += more; n > maxPlaces {
			return 0, fmt.Errorf("its schema has more than %d places for one value", maxPlaces)
		}
	}
	p.counts[id] = n
	return n, nil
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
