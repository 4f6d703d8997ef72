package gatewaytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Page is both documents as one page for people: every route, command and event with
// its members. docs/API.md is this page.
func (c *Contract) Page() string {
	w := &pageWriter{}
	w.line("# The API of parley, v1\n")
	w.line("Written by a program from [openapi.yaml](../gateway/protocol/openapi.yaml) and [asyncapi.yaml](../gateway/protocol/asyncapi.yaml)")
	w.line("(`make golden`); those say more, and what it all means stands in [PROTOCOL.md](PROTOCOL.md).")
	w.line("`?` marks a member that may be absent, `[]` a list, `a|b` one of these words.\n")
	w.routes(node{c.API, c.API})
	w.socket(node{c.Async, c.Async})
	return w.String()
}

// node is a place in a document.
type node struct {
	document, at any
}

// get is a member of it, or what it refers to; of nothing it is nothing.
func (n node) get(path ...string) node {
	for _, name := range path {
		m, _ := n.resolved().at.(map[string]any)
		n.at = m[name]
	}
	return n.resolved()
}

func (n node) resolved() node {
	m, _ := n.at.(map[string]any)
	ref, ok := m["$ref"].(string)
	if !ok {
		return n
	}
	to := node{n.document, n.document}
	return to.get(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
}

// names are the names of the members, sorted.
func (n node) names() []string {
	m, _ := n.resolved().at.(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

// list are its elements.
func (n node) list() (all []node) {
	l, _ := n.resolved().at.([]any)
	for _, at := range l {
		all = append(all, node{n.document, at}.resolved())
	}
	return all
}

// text is a string on one line.
func (n node) text() string {
	if s, ok := n.at.(string); ok {
		return strings.Join(strings.Fields(s), " ")
	}
	if n.at == nil {
		return ""
	}
	b, _ := json.Marshal(n.at) // of a document that was JSON
	return string(b)
}

type pageWriter struct{ strings.Builder }

func (w *pageWriter) line(format string, args ...any) { fmt.Fprintf(&w.Builder, format+"\n", args...) }

var methods = []string{"get", "post", "put", "patch", "delete"}

func (w *pageWriter) routes(api node) {
	w.line("## HTTP\n\n%s", strings.TrimSpace(fmt.Sprint(api.get("info", "description").at)))
	for _, tag := range api.get("tags").list() {
		w.line("\n### %s\n\n%s\n\n| route | does |\n|---|---|", tag.get("name").text(), tag.get("description").text())
		var all []func()
		for _, path := range api.get("paths").names() {
			for _, method := range methods {
				o := api.get("paths", path, method)
				if tags := o.get("tags").list(); len(tags) == 0 || tags[0].text() != tag.get("name").text() {
					continue
				}
				w.line("| `%s %s` | %s |", strings.ToUpper(method), path, cell(o.get("summary").text()))
				all = append(all, func() { w.route(strings.ToUpper(method)+" "+path, api.get("paths", path), o) })
			}
		}
		for _, write := range all {
			write()
		}
	}
}

func (w *pageWriter) route(name string, path, o node) {
	w.line("\n#### %s\n\n%s", name, o.get("summary").text())
	if d := o.get("description").text(); d != "" {
		w.line("\n%s", d)
	}
	w.line("")
	for _, p := range append(path.get("parameters").list(), o.get("parameters").list()...) {
		if in := p.get("in").text(); in != "path" {
			w.line("- %s `%s` %s%s", in, p.get("name").text(), kind(p.get("schema"), 0), behind(p.get("description").text()))
		}
	}
	if body := o.get("requestBody", "content", "application/json", "schema"); body.at != nil {
		w.line("- body `%s`", kind(body, 0))
		w.members(body, "  ")
	}
	var refused []string
	for _, status := range o.get("responses").names() {
		r := o.get("responses", status)
		answer := r.get("content", "application/json", "schema")
		switch {
		case status >= "400":
			refused = append(refused, status)
		case answer.at != nil:
			w.line("- **%s** %s `%s`", status, r.get("description").text(), kind(answer, 0))
			w.members(answer, "  ")
		default:
			w.line("- **%s** %s", status, r.get("description").text())
		}
	}
	if len(refused) > 0 {
		w.line("- refused with %s", strings.Join(refused, ", "))
	}
}

func (w *pageWriter) socket(async node) {
	w.line("\n## WebSocket\n\n%s", strings.TrimSpace(fmt.Sprint(async.get("info", "description").at)))
	w.line("\n### Commands")
	operations := async.get("operations")
	for _, name := range operations.names() {
		o := operations.get(name)
		if o.get("action").text() != "receive" {
			continue
		}
		w.line("\n#### %s\n\n%s\n", name, o.get("summary").text())
		for _, m := range o.get("messages").list() {
			w.data(m, "data")
		}
		for _, m := range o.get("reply", "messages").list() {
			if m.get("name").text() != "error" {
				w.data(m, "ok")
			}
		}
	}
	for _, name := range []string{"durable", "ephemeral", "connection", "watched"} {
		o := operations.get(name)
		w.line("\n### Events: %s\n\n%s", name, o.get("summary").text())
		for _, m := range o.get("messages").list() {
			w.line("\n#### `%s`\n\n%s\n", m.get("name").text(), m.get("summary").text())
			w.data(m, "data")
		}
	}
	w.line("\n### Close codes\n\n| code | come back | when |\n|---|---|---|")
	for _, code := range async.get("x-close-codes").list() {
		w.line("| %s | %s | %s |", code.get("code").text(), code.get("reconnect").text(), cell(code.get("when").text()))
	}
}

// data writes what a frame holds.
func (w *pageWriter) data(message node, name string) {
	payload := message.get("payload")
	data := payload.get("properties", "data")
	if data.at == nil {
		for _, part := range payload.get("allOf").list() {
			if d := part.get("properties", "data"); d.at != nil {
				data = d
			}
		}
	}
	if data.at != nil {
		w.line("- %s `%s`", name, kind(data, 0))
		w.members(data, "  ")
	}
}

// members writes those that have something said about them.
func (w *pageWriter) members(schema node, indent string) {
	for _, name := range schema.get("properties").names() {
		if d := schema.get("properties", name, "description").text(); d != "" {
			w.line("%s- `%s`: %s", indent, name, d)
		}
	}
}

// deepest is how far objects within objects are shown.
const deepest = 3

// kind is the shape of a value in one line.
func kind(schema node, depth int) string {
	s := schema.resolved()
	if words := s.get("enum").list(); len(words) > 0 {
		var all []string
		for _, word := range words {
			if word.at != nil { // null is as if it were absent
				all = append(all, word.text())
			}
		}
		return strings.Join(all, "|")
	}
	if c := s.get("const"); c.at != nil {
		return c.text()
	}
	if len(s.get("properties").names()) > 0 {
		if depth >= deepest {
			return "{…}"
		}
		return object(s, depth)
	}
	for _, way := range []string{"oneOf", "anyOf", "allOf"} {
		var all []string
		for _, one := range s.get(way).list() {
			if k := kind(one, depth); k != "null" && !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
		if len(all) > 0 {
			return strings.Join(all, map[string]string{"oneOf": " or ", "anyOf": " or ", "allOf": " and "}[way])
		}
	}
	if items := s.get("items"); items.at != nil {
		return kind(items, depth) + "[]"
	}
	var types []string
	for _, t := range s.get("type").list() {
		if t.text() != "null" {
			types = append(types, t.text())
		}
	}
	switch {
	case len(types) > 0:
		return strings.Join(types, "|")
	case s.get("type").at != nil:
		return s.get("type").text()
	default:
		return "any"
	}
}

func object(s node, depth int) string {
	var required, all []string
	for _, r := range s.get("required").list() {
		required = append(required, r.text())
	}
	for _, name := range s.get("properties").names() {
		k := kind(s.get("properties", name), depth+1)
		if !slices.Contains(required, name) {
			name += "?"
		}
		if k == "string" {
			all = append(all, name)
			continue
		}
		all = append(all, name+": "+k)
	}
	return "{" + strings.Join(all, ", ") + "}"
}

func behind(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// cell fits a text into a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
