package wire

import "parley/conversation"

// AppendView adds the encoding of a view to dst.
func AppendView(dst []byte, v conversation.View) []byte { return appendFields(dst, v, view) }

// DecodeView reads what AppendView wrote. Errors wrap conversation.ErrTooNew or ErrCorrupt.
func DecodeView(b []byte) (conversation.View, error) { return decodeFields(b, "view", view) }

func view(f fields, v *conversation.View) {
	fText(f, 1, &v.Key.Tenant)
	fText(f, 2, &v.Key.Session)
	fText(f, 3, &v.Log)
	fUint(f, 4, &v.Head)
	fText(f, 5, &v.Title)
	fText(f, 6, &v.Agent)
	fText(f, 7, &v.Owner)
	fEnum(f, 8, &v.Access, conversation.AccessTenant)
	fMembers(f, 9, &v.Members)
	fOverrides(f, 10, &v.Policy)
	fBool(f, 11, &v.Closed)
	fTime(f, 12, &v.CreatedAt)
	fMessages(f, 13, &v.Tasks, func(f fields, v *conversation.TaskView) {
		fText(f, 1, &v.Task)
		fEnum(f, 2, &v.Status, conversation.TaskCancelled)
		fText(f, 3, &v.Trigger)
		fBool(f, 4, &v.Cancelling)
		fInt(f, 5, &v.Steps)
		fTime(f, 6, &v.CreatedAt)
	})
	fMessages(f, 14, &v.Inbox, func(f fields, v *conversation.InboxView) {
		fText(f, 1, &v.Message)
		fText(f, 2, &v.Task)
		fText(f, 3, &v.Author)
		fText(f, 4, &v.Excerpt)
		fTime(f, 5, &v.AcceptedAt)
		fFiles(f, 6, &v.Files)
	})
	fMessages(f, 15, &v.Questions, func(f fields, v *conversation.QuestionView) {
		fText(f, 1, &v.Task)
		fAsked(f, 2, &v.Asked)
		fTime(f, 3, &v.At)
	})
	fMessages(f, 16, &v.Calls, func(f fields, v *conversation.CallView) {
		fText(f, 1, &v.Task)
		fText(f, 2, &v.Call)
		fText(f, 3, &v.Tool)
		fText(f, 4, &v.Agent)
		fText(f, 5, &v.Session)
		fTime(f, 6, &v.Deadline)
		fBool(f, 7, &v.Caller)
	})
	fMessages(f, 17, &v.Drafts, func(f fields, v *conversation.DraftView) {
		fText(f, 1, &v.Task)
		fText(f, 2, &v.Draft)
		fText(f, 3, &v.Text)
	})
}

// fAsked takes a question as its event has it.
func fAsked(f fields, n fieldNumber, v *conversation.Asked) {
	if f.w != nil {
		at := f.w.begin(n)
		f.w.asked(*v)
		f.w.end(at)
		return
	}
	if !f.reads(n) {
		return
	}
	if in, ok := f.r.message(); ok {
		*v, _ = in.asked(*v).(conversation.Asked)
		for _, wrong := range in.refused {
			f.r.refused = append(f.r.refused, refusal{n, wrong.err})
		}
	}
}
