package triage

import (
	"fmt"
	"testing"

	"parley/conversation"
)

func TestRead(t *testing.T) {
	waiting := []conversation.InboxView{{Excerpt: "One"}, {Excerpt: "Two, which is quite a bit longer than that"}, {Excerpt: "Three"}}
	for _, c := range []struct {
		answer []string
		order  string
		report string
	}{
		{nil, "[]", ""},
		{[]string{"3, 1, 2"}, "[2 0 1]", ""},
		{[]string{"3 1 2 3 4 0\n"}, "[2 0 1]", ""},
		{[]string{"Order:\n2\n"}, "[1]", ""},
		{[]string{"I cannot say."}, "[]", ""},
		{[]string{"1", "all are of one kind"}, "[0]", "all are of one kind"},
		{[]string{"2,1\n2 repeats 1.\nSo drop it."}, "[1 0]", "1 is \"One\", 2 is \"Two, which is quite a bit long…\". 2 repeats 1.\nSo drop it."},
	} {
		var items []conversation.Item
		for _, text := range c.answer {
			items = append(items, conversation.Item{Kind: conversation.ItemText, Text: text})
		}
		order, report := Read(conversation.ModelAnswer{Items: items}, waiting)
		if fmt.Sprint(order) != c.order || report != c.report {
			t.Errorf("%q: %v, %q", c.answer, order, report)
		}
	}
}
