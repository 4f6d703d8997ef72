package httpmodel

import (
	"context"
	"net/http"
	"testing"

	"parley/conversation"
)

// A request is sent again without its tool_choice only where nothing of its answer was shown.
func TestChoiceIsNotTakenBackBehindText(t *testing.T) {
	for text, want := range map[string]int{"": 2, "some words": 1} {
		c := open(t, Options{})
		asked := 0
		var failed error
		for out, err := range c.Ask(t.Context(), func(_ context.Context, call *Call) (*conversation.ModelAnswer, error) {
			asked++
			if !call.MustCall(&conversation.Request{MustCall: true}) {
				return &conversation.ModelAnswer{}, nil
			}
			if err := call.Show(conversation.Output{Delta: text}); err != nil {
				return nil, err
			}
			return nil, &statusError{status: http.StatusBadRequest}
		}) {
			_, failed = out, err
		}
		if asked != want || (failed != nil) != (want == 1) {
			t.Errorf("behind %q the provider was asked %d times: %v", text, asked, failed)
		}
	}
}
