package modelstest

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
)

// PicturesRequest is a request with pictures: of messages in a row, of an answer among the
// results of calls, and before the engine's note.
func PicturesRequest() conversation.Request {
	of := func(kind, body string) []conversation.Picture {
		return []conversation.Picture{{Type: kind, Body: []byte(body)}}
	}
	call := func(id string) Item { return Item{Kind: conversation.ItemCall, ID: id, Tool: "lookup", Args: "{}"} }
	return conversation.Request{
		Session: "s1", Step: 2, Note: "Open messages: [1] Look",
		Tools: []conversation.ToolSpec{{Name: "lookup"}},
		Entries: []conversation.Entry{
			{Role: conversation.RoleUser, Text: "Look", Pictures: append(of("image/png", "one"), of("image/gif", "\x00\xff<&>")...)},
			{Role: conversation.RoleUser, Pictures: of("image/webp", "alone")},
			{Role: conversation.RoleAssistant, Items: []Item{call("call_a"), call("call_b")}},
			{Role: conversation.RoleTool, CallID: "call_a", Text: "yes", Pictures: of("image/jpeg", "answer")},
			{Role: conversation.RoleTool, CallID: "call_b", Text: "found"},
			{Role: conversation.RoleTool, CallID: "call_lost", Text: "late", Pictures: of("image/png", "lost")},
		},
	}
}

// pictures: what a model sees stands behind the words that name it, in each wire's own form;
// that of an answer, behind the results of its calls. It is part of what the next request
// begins with.
func (p *provider) pictures(t *testing.T) {
	s := wholeScenarios()[0]
	r := s.Request()
	r.Entries, r.Note = PicturesRequest().Entries, PicturesRequest().Note
	m, u := p.open(t, Reply{Scenario: s})
	ask := func(r conversation.Request) Asked {
		if o := Ask(t.Context(), m, r); o.Err != nil {
			t.Fatal(o.Err)
		}
		all := u.Asked()
		return all[len(all)-1]
	}
	with := ask(r)
	want := []string{
		"user: Look", "picture image/png one", "picture image/gif \x00\xff<&>", "user: [pictures]", "picture image/webp alone",
		"call call_a lookup {}", "call call_b lookup {}", "result call_a yes", "result call_b found",
		"user: [the pictures that the result above tells of]", "picture image/jpeg answer",
		"user: [result of call call_lost: late]", "picture image/png lost", "user: " + r.Note,
	}
	if !slices.Equal(with.Said, want) {
		t.Errorf("the transcript is\n%q, not\n%q", with.Said, want)
	}
	r.Note = ""
	r.Entries = append(r.Entries, conversation.Entry{Role: conversation.RoleAssistant, Items: []Item{text("I see.")}}, conversation.Entry{Role: conversation.RoleUser, Text: "Good"})
	next := ask(r)
	with.Raw, next.Raw = WithoutMarks(with.Raw), WithoutMarks(next.Raw)
	last := base64.StdEncoding.EncodeToString([]byte("lost"))
	if upto := strings.Index(with.Raw, last) + len(last); upto > len(next.Raw) || with.Raw[:upto] != next.Raw[:upto] {
		t.Errorf("the next request begins otherwise:\n%s\n%s", with.Raw, next.Raw)
	}
}

// saidBy is a line for each text and each picture of a content: a string, or parts.
func saidBy(role string, content any, pictureOf func(part fields) (dataURL string, wrong []string)) (said, wrong []string) {
	if s := str(content); s != "" {
		return []string{role + ": " + s}, nil
	}
	for _, v := range array(content) {
		part := object(v)
		if text, is := part["text"]; is {
			if strings.TrimSpace(str(text)) == "" {
				wrong = append(wrong, "a part with a blank text")
			}
			said = append(said, role+": "+str(text))
			continue
		}
		url, no := pictureOf(part)
		line, bad := pictureIn(url)
		said, wrong = append(said, line), append(append(wrong, no...), bad...)
		if role != "user" {
			wrong = append(wrong, "a picture of "+role)
		}
	}
	return said, wrong
}

// pictureIn reads a picture from an address that holds it.
func pictureIn(url string) (line string, wrong []string) {
	head, data, _ := strings.Cut(url, ",")
	kind := strings.TrimSuffix(strings.TrimPrefix(head, "data:"), ";base64")
	body, err := base64.StdEncoding.DecodeString(data)
	if err != nil || head != "data:"+kind+";base64" || len(body) == 0 {
		wrong = append(wrong, fmt.Sprintf("the picture %.60s is not base64", url))
	}
	if !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind) {
		wrong = append(wrong, "the media type "+kind)
	}
	return "picture " + kind + " " + string(body), wrong
}

func responsesPicture(part fields) (url string, wrong []string) {
	if part["type"] != "input_image" || !slices.Contains([]string{"auto", "low", "high"}, str(part["detail"])) {
		wrong = append(wrong, fmt.Sprintf("a part of type %v with detail %v", part["type"], part["detail"]))
	}
	return str(part["image_url"]), wrong
}

func chatPicture(part fields) (url string, wrong []string) {
	if part["type"] != "image_url" {
		wrong = append(wrong, fmt.Sprintf("a part of type %v", part["type"]))
	}
	return str(object(part["image_url"])["url"]), wrong
}

func messagesPicture(block fields) (url string, wrong []string) {
	source := object(block["source"])
	if source["type"] != "base64" {
		wrong = append(wrong, fmt.Sprintf("a source of type %v", source["type"]))
	}
	return "data:" + str(source["media_type"]) + ";base64," + str(source["data"]), wrong
}
