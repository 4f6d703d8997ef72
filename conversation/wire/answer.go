package wire

import (
	"parley/conversation"
)

// AppendReceipt adds the encoding of the answer to a command to dst.
func AppendReceipt(dst []byte, v conversation.Receipt) []byte { return appendFields(dst, v, receipt) }

// DecodeReceipt reads what AppendReceipt wrote. Errors wrap conversation.ErrTooNew or
// ErrCorrupt.
func DecodeReceipt(b []byte) (conversation.Receipt, error) {
	return decodeFields(b, "receipt", receipt)
}

func receipt(f fields, v *conversation.Receipt) {
	fText(f, 1, &v.Message)
	fUint(f, 2, &v.Seq)
	fBool(f, 3, &v.Duplicate)
	fEnum(f, 4, &v.Disposition, conversation.Answered)
	fText(f, 5, &v.Task)
	fEnum(f, 6, &v.OldStatus, conversation.TaskCancelled)
	fEnum(f, 7, &v.NewStatus, conversation.TaskCancelled)
	fUint(f, 8, &v.PartIndex)
	fBool(f, 9, &v.OtherText)
	fText(f, 10, &v.Author)
	fText(f, 11, &v.AuthorName)
	fUint(f, 12, &v.Said)
	fUint(f, 13, &v.NextPart)
	fUint(f, 14, &v.Generation)
	fTime(f, 15, &v.Until)
	fBool(f, 16, &v.Deferred)
	fBool(f, 17, &v.Ignored)
	fOverrides(f, 18, &v.Policy)
}

// AppendError adds the encoding of a refusal to dst, without its cause: that is for the log
// of the node that refuses.
func AppendError(dst []byte, v *conversation.Error) []byte { return appendFields(dst, *v, failed) }

// DecodeError reads what AppendError wrote. Errors wrap conversation.ErrTooNew or
// ErrCorrupt.
func DecodeError(b []byte) (*conversation.Error, error) {
	v, err := decodeFields(b, "error", failed)
	return &v, err
}

func failed(f fields, v *conversation.Error) {
	fText(f, 1, &v.Code)
	fText(f, 2, &v.Message)
	fDuration(f, 3, &v.RetryAfter)
	fEnum(f, 4, &v.TaskStatus, conversation.TaskCancelled)
	switch {
	case f.w != nil && v.NextPart != nil:
		f.w.optionalUint(5, uint64(*v.NextPart))
	case f.reads(5):
		v.NextPart = new(conversation.PartIndex)
		unsigned(f.r, v.NextPart)
	}
	fUint(f, 6, &v.Generation)
	fBool(f, 7, &v.Final)
}

// AppendEphemeral adds the encoding of something that is shown and not stored to dst.
func AppendEphemeral(dst []byte, e conversation.Ephemeral) []byte {
	return appendFields(dst, e, ephemeral)
}

// DecodeEphemeral reads what AppendEphemeral wrote; nil if this program does not know its
// kind: it need not be shown. Errors wrap conversation.ErrTooNew or ErrCorrupt.
func DecodeEphemeral(b []byte) (conversation.Ephemeral, error) {
	return decodeFields(b, "ephemeral", ephemeral)
}

func ephemeral(f fields, e *conversation.Ephemeral) {
	ephemeralAs(f, 1, e, func(f fields, v *conversation.Delta) {
		fText(f, 1, &v.Task)
		fText(f, 2, &v.Draft)
		fInt(f, 3, &v.At)
		fText(f, 4, &v.Text)
	})
	ephemeralAs(f, 2, e, func(f fields, v *conversation.DraftDropped) {
		fText(f, 1, &v.Task)
		fText(f, 2, &v.Draft)
	})
	ephemeralAs(f, 3, e, func(f fields, v *conversation.Progress) {
		fText(f, 1, &v.Task)
		fText(f, 2, &v.Call)
		fText(f, 3, &v.Note)
		switch {
		case f.w != nil && v.Percent != nil:
			f.w.optionalUint(4, uint64(int64(*v.Percent)))
		case f.reads(4):
			v.Percent = new(int)
			integer(f.r, v.Percent)
		}
	})
	ephemeralAs(f, 4, e, func(f fields, v *conversation.Thinking) {
		fText(f, 1, &v.Task)
		fText(f, 2, &v.Agent)
		fUint(f, 3, &v.Step)
	})
}

// ephemeralAs takes an ephemeral thing of the type T, whose number is n.
func ephemeralAs[T conversation.Ephemeral](f fields, n fieldNumber, e *conversation.Ephemeral, each func(fields, *T)) {
	v, is := (*e).(T)
	if f.w != nil && !is || f.w == nil && !f.reads(n) {
		return
	}
	fMessage(f, n, &v, each)
	*e = v
}

// AppendClaimed adds the encoding of a claim's messages to dst.
func AppendClaimed(dst []byte, v []conversation.HandedOut) []byte {
	return appendFields(dst, v, claimed)
}

// DecodeClaimed reads what AppendClaimed wrote. Errors wrap conversation.ErrTooNew or
// ErrCorrupt.
func DecodeClaimed(b []byte) ([]conversation.HandedOut, error) {
	return decodeFields(b, "claimed messages", claimed)
}

func claimed(f fields, v *[]conversation.HandedOut) {
	fMessages(f, 1, v, func(f fields, v *conversation.HandedOut) {
		fText(f, 1, &v.Key.Tenant)
		fText(f, 2, &v.Key.Session)
		fText(f, 3, &v.Message)
		fText(f, 4, &v.Author)
		fText(f, 5, &v.AuthorName)
		fText(f, 6, &v.Text)
		fUint(f, 7, &v.Generation)
		fTime(f, 8, &v.Until)
		fUint(f, 9, &v.NextPart)
	})
}

// AppendClaimable adds the encoding of what may be claimed in a session to dst; nil =
// nothing.
func AppendClaimable(dst []byte, v *conversation.Claimable) []byte {
	return appendFields(dst, v, claimable)
}

// DecodeClaimable reads what AppendClaimable wrote. Errors wrap conversation.ErrTooNew or
// ErrCorrupt.
func DecodeClaimable(b []byte) (*conversation.Claimable, error) {
	return decodeFields(b, "claimable", claimable)
}

func claimable(f fields, v **conversation.Claimable) {
	fOptional(f, 1, v, func(f fields, v *conversation.Claimable) {
		fText(f, 1, &v.Task)
		fText(f, 2, &v.Agent)
		fTime(f, 3, &v.Since)
		fText(f, 4, &v.Runtime)
		fTime(f, 5, &v.From)
	})
}
