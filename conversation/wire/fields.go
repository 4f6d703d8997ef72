package wire

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"parley/conversation"
	"parley/conversation/attached"
)

// fields writes or reads the fields of one message of peer.proto: what crosses between
// nodes is described once for both directions, each field in one line. Writing, each
// line appends its field; reading, the line of the current field's number takes it.
type fields struct {
	w *writer // writing
	r *reader // reading
}

type fieldNumber = protowire.Number

// reads is true when the field with this number is to be read now.
func (f fields) reads(n fieldNumber) bool { return f.r != nil && f.r.number == n }

func fText[S ~string](f fields, n fieldNumber, v *S) {
	if f.w != nil {
		f.w.text(n, string(*v))
	} else if f.reads(n) {
		text(f.r, v)
	}
}

func fOptionalText(f fields, n fieldNumber, v **string) {
	switch {
	case f.reads(n):
		optionalText(f.r, v)
	case f.w != nil && *v != nil:
		f.w.optionalText(n, **v)
	}
}

func fUint[N ~uint32 | ~uint64](f fields, n fieldNumber, v *N) {
	if f.w != nil {
		f.w.uint(n, uint64(*v))
	} else if f.reads(n) {
		unsigned(f.r, v)
	}
}

func fInt(f fields, n fieldNumber, v *int) {
	if f.w != nil {
		f.w.int(n, int64(*v))
	} else if f.reads(n) {
		integer(f.r, v)
	}
}

func fBool(f fields, n fieldNumber, v *bool) {
	if f.w != nil {
		f.w.bool(n, *v)
	} else if f.reads(n) {
		boolean(f.r, v)
	}
}

func fTime(f fields, n fieldNumber, v *time.Time) {
	if f.w != nil {
		f.w.time(n, *v)
	} else if f.reads(n) {
		moment(f.r, v)
	}
}

func fDuration(f fields, n fieldNumber, v *time.Duration) {
	if f.w != nil {
		f.w.duration(n, *v)
	} else if f.reads(n) {
		duration(f.r, v)
	}
}

// fEnum takes an enumeration whose largest known number is last.
func fEnum[E ~uint8](f fields, n fieldNumber, v *E, last E) {
	if f.w != nil {
		f.w.uint(n, uint64(*v))
	} else if f.reads(n) {
		enum(f.r, v, last)
	}
}

// fMessage takes a message within the message.
func fMessage[T any](f fields, n fieldNumber, v *T, each func(fields, *T)) {
	if f.w != nil {
		at := f.w.begin(n)
		each(f, v)
		f.w.end(at)
		return
	}
	if !f.reads(n) {
		return
	}
	if in, ok := f.r.message(); ok {
		for in.next() {
			each(fields{r: &in}, v)
		}
		for _, wrong := range in.refused {
			f.r.refused = append(f.r.refused, refusal{n, wrong.err})
		}
	}
}

// fMessages takes a list of messages.
func fMessages[T any](f fields, n fieldNumber, v *[]T, each func(fields, *T)) {
	if f.w != nil {
		for i := range *v {
			fMessage(f, n, &(*v)[i], each)
		}
	} else if f.reads(n) {
		*v = append(*v, *new(T))
		fMessage(f, n, &(*v)[len(*v)-1], each)
	}
}

// fOptional takes a message that may be absent.
func fOptional[T any](f fields, n fieldNumber, v **T, each func(fields, *T)) {
	switch {
	case f.w != nil && *v == nil:
		return
	case f.reads(n) && *v == nil:
		*v = new(T)
	case f.w == nil && !f.reads(n):
		return
	}
	fMessage(f, n, *v, each)
}

// appendFields adds an encoded value to dst.
func appendFields[T any](dst []byte, v T, each func(fields, *T)) []byte {
	w := newWriter(dst)
	each(fields{w: &w}, &v)
	return w.b
}

// decodeFields reads what appendFields wrote; what names it in errors.
func decodeFields[T any](b []byte, what string, each func(fields, *T)) (T, error) {
	var (
		v, none T
		damage  error
	)
	r := newReader(b, &damage)
	for r.next() {
		each(fields{r: &r}, &v)
	}
	if err := r.end(); err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	return v, nil
}

func fOverrides(f fields, n fieldNumber, v *conversation.Overrides) {
	if f.w != nil {
		f.w.overrides(n, *v)
	} else if f.reads(n) {
		f.r.overrides(v)
	}
}

func fFiles(f fields, n fieldNumber, v *[]attached.File) {
	if f.w != nil {
		f.w.files(n, *v)
	} else if f.reads(n) {
		f.r.files(v)
	}
}
