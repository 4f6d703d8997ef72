package wire

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// reader turns messages into the vocabulary's values and keeps the first thing
// that was wrong, so that the code for each body is one literal.
type reader struct{ err error }

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// enum reads a stored number whose largest known value is last.
func enum[E ~uint8](r *reader, v uint32, last E) E {
	if v > uint32(last) {
		r.fail(fmt.Errorf("%w: %T %d", conversation.ErrTooNew, last, v))
		return 0
	}
	return E(v)
}

func (r *reader) access(v uint32) conversation.Access {
	return enum(r, v, conversation.AccessTenant)
}

func (r *reader) taskStatus(v uint32) conversation.TaskStatus {
	return enum(r, v, conversation.TaskCancelled)
}

func (r *reader) callStatus(v uint32) conversation.CallStatus {
	return enum(r, v, conversation.CallFailed)
}

func readTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (r *reader) duration(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	if ms > most || ms < -most {
		r.fail(fmt.Errorf("%w: a duration of %d ms", ErrCorrupt, ms))
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// readStrings changes the type of a list of names; nil for none.
func readStrings[S ~string](in []string) []S {
	if len(in) == 0 {
		return nil
	}
	out := make([]S, len(in))
	for i, s := range in {
		out[i] = S(s)
	}
	return out
}

// pointer changes the type of a value that may be absent.
func pointer[To, From ~uint32 | ~uint8](in *From) *To {
	if in == nil {
		return nil
	}
	out := To(*in)
	return &out
}

func text(in *string) *string {
	if in == nil {
		return nil
	}
	out := *in
	return &out
}

func readOverrides(in map[string]string) conversation.Overrides {
	if len(in) == 0 {
		return nil
	}
	out := make(conversation.Overrides, len(in))
	for key, value := range in {
		if value == "" {
			out[key] = nil
			continue
		}
		out[key] = json.RawMessage(value)
	}
	return out
}

func readFailure(in *pb.Failure) *conversation.Failure {
	if in == nil {
		return nil
	}
	return &conversation.Failure{Code: conversation.Code(in.Code), Message: in.Message}
}

func readUsage(in *pb.Usage) conversation.Usage {
	return conversation.Usage{
		InputTokens:  int(in.GetInputTokens()),
		OutputTokens: int(in.GetOutputTokens()),
		Estimated:    in.GetEstimated(),
	}
}

func (r *reader) items(in []*pb.Item) []conversation.Item {
	if len(in) == 0 {
		return nil
	}
	out := make([]conversation.Item, len(in))
	for i, item := range in {
		out[i] = conversation.Item{
			Kind:     enum(r, item.Kind, conversation.ItemCall),
			ID:       item.Id,
			Text:     item.Text,
			Tool:     item.Tool,
			Args:     item.Args,
			Streamed: item.Streamed,
			Opaque:   string(item.Opaque),
			OpaqueBy: item.OpaqueBy,
		}
	}
	return out
}

func readResults(in []*pb.CallResult) []conversation.CallResult {
	if len(in) == 0 {
		return nil
	}
	out := make([]conversation.CallResult, len(in))
	for i, result := range in {
		out[i] = conversation.CallResult{ID: result.Id, Text: result.Text}
	}
	return out
}

func readPart(in *pb.Part) conversation.Part {
	return conversation.Part{
		Message:   conversation.MessageID(in.GetMessage()),
		Source:    conversation.SourceID(in.GetSource()),
		Index:     conversation.PartIndex(in.GetIndex()),
		Text:      in.GetText(),
		InReplyTo: conversation.MessageID(in.GetInReplyTo()),
		Draft:     conversation.DraftID(in.GetDraft()),

		Author:      conversation.UserID(in.GetAuthor()),
		ClientMsgID: conversation.ClientMsgID(in.GetClientMsgId()),
	}
}

func readApproval(in *pb.Approval) *conversation.Approval {
	if in == nil {
		return nil
	}
	return &conversation.Approval{Call: conversation.CallID(in.Call), Tool: in.Tool, Args: in.Args}
}
