package protocol

import "parley/conversation"

// AppendOK appends the payload of a positive answer.
func AppendOK(dst []byte, re string, data func(o *Object)) []byte {
	dst = append(dst, `{"type":"ok","re":`...)
	dst = AppendString(dst, re)
	dst = append(dst, `,"data":`...)
	o := NewObject(dst)
	if data != nil {
		data(&o)
	}
	return append(o.Close(), '}')
}

// AppendError appends the payload of a refusal. Without known the frame could
// not be read, and re is null.
func AppendError(dst []byte, re string, known bool, e *conversation.Error) []byte {
	dst = append(dst, `{"type":"error","re":`...)
	if known {
		dst = AppendString(dst, re)
	} else {
		dst = append(dst, "null"...)
	}
	dst = append(dst, `,"error":`...)
	o := NewObject(dst)
	o.Text("code", string(e.Code))
	o.Text("message", e.Message)
	o.Bool("retryable", e.Retryable())
	if e.RetryAfter > 0 {
		o.Int("retry_after_ms", max(1, e.RetryAfter.Milliseconds()))
	}
	appendConflict(&o, e)
	return append(o.Close(), '}')
}
