package protocol

import "parley/conversation"

// AppendReceipt writes the answer to the sender of a message.
func AppendReceipt(o *Object, r conversation.Receipt) {
	o.Text("message", string(r.Message))
	o.Uint("seq", uint64(r.Seq))
	o.Bool("duplicate", r.Duplicate)
	o.Text("disposition", r.Disposition.String())
	o.Optional("task", string(r.Task))
}

// AppendAnswerReceipt writes the answer to a user who has answered a question.
func AppendAnswerReceipt(o *Object, r conversation.Receipt) {
	o.Text("message", string(r.Message))
	o.Uint("seq", uint64(r.Seq))
	o.Bool("duplicate", r.Duplicate)
	o.Optional("task", string(r.Task))
	if r.OldStatus != 0 {
		o.Text("old_status", r.OldStatus.String())
	}
	if r.NewStatus != 0 {
		o.Text("new_status", r.NewStatus.String())
	}
}

// AppendCancelReceipt appends the answer to a cancel. It names no task if there was
// only something to drop, and nothing waited.
func AppendCancelReceipt(o *Object, r conversation.Receipt) {
	o.Optional("task", string(r.Task))
	if r.OldStatus != 0 {
		o.Text("old_status", r.OldStatus.String())
	}
}
