package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// What a server has besides tools: resources, which are texts and files that can be read,
// and prompts, which are texts for a task. Models get at them by tools of ours, which only
// read.

// The names of these tools, before the prefix.
const (
	listResources = "list_resources"
	readResource  = "read_resource"
	listPrompts   = "list_prompts"
	getPrompt     = "get_prompt"
)

// shownNames is how many names of resources and prompts a status tells.
const shownNames = 10

// reader reads from a server for a tool of ours. What it returns fits into limit bytes,
// or is cut.
type reader func(ctx context.Context, l *connection, args json.RawMessage, o *Limits) (string, error)

// readers are the tools of ours: descriptions, schemas and what they do.
var readers = map[string]struct {
	description, schema string
	read                reader
}{
	listResources: {
		"List the resources (files, records, texts) of the server %s, with the addresses by which read_resource reads them.",
		`{"type":"object","properties":{"contains":{"type":"string","description":"only those whose line holds this text"}},"additionalProperties":false}`, readResources,
	},
	readResource: {
		"Read a resource of the server %s.",
		`{"type":"object","properties":{"uri":{"type":"string","description":"an address from list_resources"}},"required":["uri"],"additionalProperties":false}`, readOne,
	},
	listPrompts: {
		"List the prompts of the server %s: texts for a task, with their arguments.",
		`{"type":"object","properties":{"contains":{"type":"string","description":"only those whose line holds this text"}},"additionalProperties":false}`, readPrompts,
	},
	getPrompt: {
		"Get a prompt of the server %s, filled in.",
		`{"type":"object","properties":{"name":{"type":"string","description":"a name from list_prompts"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"],"additionalProperties":false}`, fillPrompt,
	},
}

// readingTools are the tools of ours that the server gives a reason for.
func (s *server) readingTools(l *connection) map[string]remoteTool {
	all := map[string]remoteTool{}
	resources, prompts := l.has()
	for name, r := range readers {
		wanted := s.Resources && resources
		if name == listPrompts || name == getPrompt {
			wanted = s.Prompts && prompts
		}
		if !wanted || !s.allows(name) {
			continue
		}
		schema, err := newArgSchema(json.RawMessage(r.schema), s.o.Limits.Schema)
		if err == nil {
			all[name] = newRemoteTool(fmt.Sprintf(r.description, s.Name), schema, r.read)
		}
	}
	return all
}

// lookAround counts the resources and prompts that there are, for the status. What
// cannot be listed is told to the model that asks for it.
func (s *server) lookAround(ctx context.Context, l *connection) (resources, prompts listing) {
	hasResources, hasPrompts := l.has()
	if hasResources && s.Resources {
		resources, _ = l.resources(ctx, &s.o.Limits)
	}
	if hasPrompts && s.Prompts {
		prompts, _ = l.prompts(ctx, &s.o.Limits)
	}
	return resources, prompts
}

// listing is a list of a server: the name and a line of each entry.
type listing struct {
	names, lines []string
	more         bool // there are more than may be listed
}

func (l *listing) add(name, line string) {
	l.names, l.lines = append(l.names, printable(name)), append(l.lines, strings.ReplaceAll(printable(line), "\n", " "))
}

// text shows the entries that hold a text, as many as fit.
func (l *listing) text(contains string, limit int) string {
	var b strings.Builder
	left := 0
	const room = 100 // for the last line
	for _, line := range l.lines {
		if !strings.Contains(strings.ToLower(line), strings.ToLower(contains)) {
			continue
		}
		if b.Len()+len(line)+1 > limit-room {
			left++
			continue
		}
		b.WriteString(line + "\n")
	}
	switch {
	case left > 0:
		fmt.Fprintf(&b, "[%d more are left out; say with contains what you look for]", left)
	case l.more:
		fmt.Fprintf(&b, "[there are more than %d]", len(l.lines))
	case b.Len() == 0:
		return "(none)"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// shown are some of the names, for a status.
func (l *listing) shown(redact redactor) []string {
	var names []string
	for _, name := range l.names[:min(len(l.names), shownNames)] {
		names = append(names, excerpt(redact.clean(name)))
	}
	if len(l.names) > shownNames {
		names = append(names, "…")
	}
	return names
}

// has tells what the server says that it has.
func (l *connection) has() (resources, prompts bool) {
	r := l.session.InitializeResult()
	if r == nil || r.Capabilities == nil {
		return false, false
	}
	return r.Capabilities.Resources != nil, r.Capabilities.Prompts != nil
}

// pages reads the pages of a list until there are no more, or enough entries.
func pages(ctx context.Context, l *connection, list *listing, limit int, page func(ctx context.Context, cursor string) (next string, err error)) error {
	for cursor, n := "", 0; ; n++ {
		next, err := request(ctx, l, func(ctx context.Context) (string, error) { return page(ctx, cursor) })
		if err != nil {
			return err
		}
		if len(list.lines) > limit {
			list.names, list.lines, next, list.more = list.names[:limit], list.lines[:limit], "", true
		}
		if next == "" || n == maxPages {
			list.more = list.more || next != ""
			return nil
		}
		cursor = next
	}
}

func (l *connection) resources(ctx context.Context, o *Limits) (list listing, err error) {
	err = pages(ctx, l, &list, o.Listed, func(ctx context.Context, cursor string) (string, error) {
		r, err := l.session.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			return "", err
		}
		for _, e := range r.Resources {
			list.add(orElse(e.Title, orElse(e.Name, e.URI)), entry(e.URI, orElse(e.Title, e.Name), e.Description, e.MIMEType))
		}
		return r.NextCursor, nil
	})
	if err != nil || list.more {
		return list, err
	}
	templates := list
	if pages(ctx, l, &templates, o.Listed, func(ctx context.Context, cursor string) (string, error) {
		r, err := l.session.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
		if err != nil {
			return "", err
		}
		for _, e := range r.ResourceTemplates {
			templates.add(orElse(e.Title, orElse(e.Name, e.URITemplate)), entry(e.URITemplate, orElse(e.Title, e.Name), e.Description, e.MIMEType)+" [fill in what stands in braces]")
		}
		return r.NextCursor, nil
	}) == nil { // not every server knows templates
		list = templates
	}
	return list, nil
}

func (l *connection) prompts(ctx context.Context, o *Limits) (list listing, err error) {
	err = pages(ctx, l, &list, o.Listed, func(ctx context.Context, cursor string) (string, error) {
		r, err := l.session.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
		if err != nil {
			return "", err
		}
		for _, e := range r.Prompts {
			var arguments []string
			for _, a := range e.Arguments {
				text := a.Name
				if a.Required {
					text += " (required)"
				}
				if a.Description != "" {
					text += ": " + a.Description
				}
				arguments = append(arguments, text)
			}
			line := entry(e.Name, e.Title, e.Description, "")
			if len(arguments) > 0 {
				line += " [arguments: " + strings.Join(arguments, "; ") + "]"
			}
			list.add(e.Name, line)
		}
		return r.NextCursor, nil
	})
	return list, err
}

// entry is a line of a list.
func entry(key, name, description, mime string) string {
	line := key
	if name != "" && name != key {
		line += " " + name
	}
	if mime != "" {
		line += " (" + mime + ")"
	}
	if description != "" {
		line += ": " + description
	}
	return line
}

func contains(args json.RawMessage) string {
	var a struct {
		Contains string `json:"contains"`
	}
	_ = json.Unmarshal(args, &a) // it fits the schema
	return a.Contains
}

func readResources(ctx context.Context, l *connection, args json.RawMessage, o *Limits) (string, error) {
	list, err := l.resources(ctx, o)
	return list.text(contains(args), o.Result), err
}

func readPrompts(ctx context.Context, l *connection, args json.RawMessage, o *Limits) (string, error) {
	list, err := l.prompts(ctx, o)
	return list.text(contains(args), o.Result), err
}

var errWantsInput = errors.New("the server asks for more input, which it cannot be given here")

func readOne(ctx context.Context, l *connection, args json.RawMessage, _ *Limits) (string, error) {
	var a struct {
		URI string `json:"uri"`
	}
	_ = json.Unmarshal(args, &a)
	r, err := request(ctx, l, func(ctx context.Context) (*sdk.ReadResourceResult, error) {
		return l.session.ReadResource(ctx, &sdk.ReadResourceParams{URI: a.URI})
	})
	if err != nil {
		return "", err
	}
	if r.NeedsInput() {
		return "", errWantsInput
	}
	shown := &sdk.CallToolResult{}
	for _, c := range r.Contents {
		shown.Content = append(shown.Content, &sdk.EmbeddedResource{Resource: c})
	}
	return resultText(shown), nil
}

func fillPrompt(ctx context.Context, l *connection, args json.RawMessage, _ *Limits) (string, error) {
	var a struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	_ = json.Unmarshal(args, &a)
	r, err := request(ctx, l, func(ctx context.Context) (*sdk.GetPromptResult, error) {
		return l.session.GetPrompt(ctx, &sdk.GetPromptParams{Name: a.Name, Arguments: a.Arguments})
	})
	if err != nil {
		return "", err
	}
	if r.NeedsInput() {
		return "", errWantsInput
	}
	var lines []string
	for _, m := range r.Messages {
		lines = append(lines, string(m.Role)+": "+contentText(m.Content))
	}
	if len(lines) == 0 {
		return noContent, nil
	}
	return strings.Join(lines, "\n"), nil
}
