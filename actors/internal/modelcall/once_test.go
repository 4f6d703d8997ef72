package modelcall

import (
	"context"
	"iter"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/attached"
)

// reader reads the files of its request, and answers with them.
type reader struct{}

func (reader) Label() string { return "reader" }

func (reader) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		body, err := r.File(ctx, attached.File{Name: "a.txt"})
		yield(conversation.Output{Done: &conversation.ModelAnswer{Model: string(body)}}, err)
	}
}

// A question beside the steps, as for a summary, has the files of its session, too.
func TestOnceHasTheFiles(t *testing.T) {
	env := &Env{
		Context: t.Context(), Go: func(_ string, do func(), _ func(error)) { do() },
		Files: func(_ context.Context, key conversation.SessionKey, f attached.File) ([]byte, error) {
			return []byte(string(key.Tenant) + "/" + string(key.Session) + "/" + f.Name), nil
		},
	}
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	called := false
	Once(env, key, "a summary", time.Minute, reader{}, conversation.Request{}, func(answer *conversation.ModelAnswer, err error) {
		if called = true; err != nil || answer.Model != "acme/s1/a.txt" {
			t.Errorf("%+v, %v", answer, err)
		}
	})
	if !called {
		t.Error("there is no outcome")
	}
}
