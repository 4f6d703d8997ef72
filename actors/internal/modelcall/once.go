package modelcall

import (
	"context"
	"errors"
	"sync"
	"time"

	"parley/conversation"
)

var errCut = errors.New("the model's answer ended in the middle")

// Once asks a model a question whose answer is not streamed. done is called
// exactly once, from any goroutine: with the answer, with the model's error, or
// with the context's when limit is over or the caller has cancelled. A model that
// ignores its context is not waited for. name says in a log line what was asked.
// done only hands the outcome on: nothing there may block or panic.
func Once(env *Env, key conversation.SessionKey, name string, limit time.Duration, model conversation.Model, r conversation.Request, done func(*conversation.ModelAnswer, error)) (cancel context.CancelFunc) {
	r.File = env.file(key)
	ctx, cancel := context.WithTimeout(env.Context, limit)
	var once sync.Once
	end := func(answer *conversation.ModelAnswer, err error) { once.Do(func() { done(answer, err) }) }
	stop := context.AfterFunc(ctx, func() { end(nil, ctx.Err()) })
	env.Go(name, func() {
		defer cancel()
		defer stop()
		end(answer(ctx, model, r))
	}, func(err error) { end(nil, err) })
	return cancel
}

// answer waits for the end of a model's answer.
func answer(ctx context.Context, model conversation.Model, r conversation.Request) (*conversation.ModelAnswer, error) {
	for out, err := range model.Stream(ctx, r) {
		if err != nil {
			return nil, err
		}
		if out.Done != nil {
			return out.Done, nil
		}
	}
	return nil, errCut
}
