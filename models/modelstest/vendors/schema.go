package vendors

import (
	"fmt"
	"maps"
	"slices"
)

// eachSchema calls f with a tool's schema and every schema within it, with its place.
func eachSchema(place string, schema fields, f func(place string, schema fields)) {
	f(place, schema)
	for _, group := range []string{"properties", "$defs", "definitions"} {
		for _, name := range slices.Sorted(maps.Keys(object(schema[group]))) {
			eachSchema(place+"."+group+"."+name, object(object(schema[group])[name]), f)
		}
	}
	if items := object(schema["items"]); items != nil {
		eachSchema(place+".items", items, f)
	}
	for _, group := range []string{"anyOf", "oneOf", "allOf"} {
		for i, one := range array(schema[group]) {
			eachSchema(fmt.Sprintf("%s.%s[%d]", place, group, i), object(one), f)
		}
	}
}

// chatSchemas calls f with every schema of the tools of a Chat request.
func chatSchemas(body fields, f func(place string, schema fields)) {
	for _, t := range array(body["tools"]) {
		function := object(object(t)["function"])
		eachSchema(str(function["name"]), object(function["parameters"]), f)
	}
}

// geminiUnknown are words of JSON Schema for which Gemini's schema has no field.
var geminiUnknown = []string{"$schema", "$ref", "$defs", "definitions", "$id", "additionalProperties", "const", "oneOf", "allOf",
	"not", "patternProperties", "propertyNames", "exclusiveMinimum", "exclusiveMaximum"}

// geminiSchemas: Gemini moves tools into messages of its own that have a field for each
// word they know. A list of types has no place ("Proto field is not repeating"), a word
// without a field is refused, an enum belongs to a string, and an object that names its
// properties has one.
func geminiSchemas(_ *Server, body fields) (wrong []string) {
	chatSchemas(body, func(place string, schema fields) {
		if array(schema["type"]) != nil {
			wrong = append(wrong, `Invalid value at '`+place+`' (type), Proto field is not repeating, cannot start list.`)
		}
		for _, word := range geminiUnknown {
			if _, has := schema[word]; has {
				wrong = append(wrong, fmt.Sprintf("Invalid JSON payload received. Unknown name %q at '%s': Cannot find field.", word, place))
			}
		}
		if properties, given := schema["properties"]; given && len(object(properties)) == 0 {
			wrong = append(wrong, place+".properties: should be non-empty for OBJECT type")
		}
		if schema["enum"] != nil && str(schema["type"]) != "string" {
			wrong = append(wrong, place+".enum: only allowed for STRING type")
		}
	})
	return wrong
}

// openAIChatSchemas: the schema of a tool of OpenAI's names properties, be it none.
func openAIChatSchemas(_ *Server, body fields) (wrong []string) {
	for _, t := range array(body["tools"]) {
		f := object(object(t)["function"])
		if schema := object(f["parameters"]); schema != nil && schema["properties"] == nil {
			wrong = append(wrong, "Invalid schema for function '"+str(f["name"])+"': object schema missing properties.")
		}
	}
	return wrong
}

// kimiSchemas: Kimi has a flavour of its own. Beside anyOf there is no type, the items of a
// list are one schema, and the schema of a tool is an object's.
func kimiSchemas(_ *Server, body fields) (wrong []string) {
	refuse := func(place, words string) {
		wrong = append(wrong, "tools.function.parameters is not a valid moonshot flavored json schema, details: <At path '"+place+"': "+words+">")
	}
	chatSchemas(body, func(place string, schema fields) {
		if schema["anyOf"] != nil && schema["type"] != nil {
			refuse(place, "when using anyOf, type should be defined in anyOf items instead of the parent schema")
		}
		if array(schema["items"]) != nil {
			refuse(place, "items must be an object")
		}
	})
	for _, t := range array(body["tools"]) {
		if f := object(object(t)["function"]); f["parameters"] != nil && str(object(f["parameters"])["type"]) != "object" {
			wrong = append(wrong, `tools.function.parameters.type is required and must be "object"`)
		}
	}
	return wrong
}
