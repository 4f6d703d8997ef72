package slack

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"sync"
	"time"

	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"

	"parley/gateway/chat"
)

// Bounds of a Socket Mode connection. An acknowledgement for which there is no room is not
// sent: Slack delivers the event again, and it is recognised.
const (
	maxEnvelope = 1 << 20 // bytes
	waitingAcks = 1024
	shortest    = 2 * time.Second // that a connection should last
	maxHasty    = 5
)

// socket receives by Socket Mode until ctx ends or there is no connection. A connection that
// Slack asks to renew is renewed at once; any other end is the caller's to try again.
func (r *run) socket(ctx context.Context) error {
	if r.b.o.AppToken == "" {
		return &chat.Failure{Trouble: chat.Credentials, Text: "there is no app-level token, which Socket Mode needs"}
	}
	sm := socketmode.New(r.b.api,
		socketmode.OptionReadLimit(maxEnvelope),
		socketmode.OptionLog(log.New(io.Discard, "", 0)))
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()

	ended := make(chan error, 1)
	wg.Go(func() { ended <- sm.RunContext(ctx) })
	acks := make(chan string, waitingAcks)
	wg.Go(func() {
		for {
			select {
			case id := <-acks:
				if err := sm.AckCtx(ctx, id, nil); err != nil && ctx.Err() == nil {
					r.b.o.Logger.Debug("an envelope was not acknowledged", "error", r.b.clean(err.Error()))
				}
			case <-ctx.Done():
				return
			}
		}
	})
	var opened time.Time
	hasty := 0 // connections that ended as soon as they were open
	for {
		select {
		case e := <-sm.Events:
			if e.Type == socketmode.EventTypeConnected {
				now := r.b.o.Now()
				if now.Sub(opened) > shortest {
					hasty = 0
				}
				if opened, hasty = now, hasty+1; hasty > maxHasty {
					return &chat.Failure{Trouble: chat.Later, Text: "Slack ends the connection as soon as it is open"}
				}
			}
			if lost, is := e.Data.(*slack.ConnectionErrorEvent); is {
				if ctx.Err() != nil {
					return nil
				}
				return r.b.failure("opening a connection", lost.ErrorObj)
			}
			kind, id, payload := envelopeOf(e)
			if id == "" {
				continue
			}
			r.accept(ctx, kind, payload, func(err error) {
				if err != nil {
					return // it comes again
				}
				select {
				case acks <- id:
				default:
				}
			})
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			if err == nil {
				err = errors.New("the connection has ended")
			}
			return r.b.failure("opening a connection", err)
		}
	}
}

// envelopeOf is what came over the connection; id is "" if there is nothing to acknowledge.
// What the library does not understand is an envelope all the same: nobody else would
// acknowledge it.
func envelopeOf(e socketmode.Event) (kind, id string, payload []byte) {
	if e.Request != nil {
		return e.Request.Type, e.Request.EnvelopeID, e.Request.Payload
	}
	bad, is := e.Data.(*socketmode.ErrorBadMessage)
	if !is {
		return "", "", nil
	}
	var raw struct {
		Type    string          `json:"type"`
		ID      string          `json:"envelope_id"`
		Payload json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(bad.Message, &raw) != nil {
		return "", "", nil
	}
	return raw.Type, raw.ID, raw.Payload
}
