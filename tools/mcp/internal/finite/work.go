package finite

import "reflect"

// Steps estimates from above how many steps a check of a value takes, as long as these are
// not more than limit: where each of three choices leads into the same member, eleven steps
// into the value take a second and twenty some hours. The schema has passed Check.
func Steps(schema map[string]any, value any, limit int) int {
	w := work{places: newPlaces(schema), limit: limit, known: map[meeting]int{}}
	return w.steps(schema, value)
}

// meeting is a value, not a plain one, that has to fit a place.
type meeting struct{ place, value uintptr }

type work struct {
	places
	limit int
	known map[meeting]int
	met   int // meetings that were looked at
}

func (w *work) steps(place map[string]any, value any) int {
	m := meeting{place: reflect.ValueOf(place).Pointer()}
	switch v := value.(type) {
	case map[string]any, []any:
		m.value = reflect.ValueOf(v).Pointer()
	}
	if n, known := w.known[m]; known && m.value != 0 {
		return n
	}
	n := 1
	add := func(other any, value any) {
		if place, is := other.(map[string]any); is && n <= w.limit && w.met <= w.limit {
			n += w.steps(place, value)
		}
	}
	if w.met++; w.met > w.limit {
		return w.limit + 1
	}
	for _, other := range w.sameValue(place) {
		add(other, value)
	}
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			properties, _ := place["properties"].(map[string]any)
			add(properties[name], inner)
			patterns, _ := place["patternProperties"].(map[string]any)
			for _, p := range patterns {
				add(p, inner)
			}
			add(place["additionalProperties"], inner)
			add(place["unevaluatedProperties"], inner)
			add(place["propertyNames"], name)
		}
	case []any:
		for i, inner := range v {
			for _, word := range []string{"items", "prefixItems"} {
				if list, is := place[word].([]any); is && i < len(list) {
					add(list[i], inner)
				}
			}
			for _, word := range []string{"items", "additionalItems", "contains", "unevaluatedItems"} {
				add(place[word], inner)
			}
		}
	}
	if n = min(n, w.limit+1); m.value != 0 {
		w.known[m] = n
	}
	return n
}
