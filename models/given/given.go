package given

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/author"
	"parley/conversation/fit"
)

// Options say what a model is given. The zero value is nothing: files are only named.
type Options struct {
	Sees         bool  // it takes pictures
	Picture      int64 // bytes of the largest one that it takes; 0 = of any size
	Pictures     int   // in a request
	PictureBytes int64 // of all of them
	Text         int   // bytes of a file's text that are shown
	Texts        int64 // of all files in a request
	Log          *slog.Logger
}

// The kinds of what is counted.
const (
	shownPicture = iota
	shownText
	cutText
	unseen
	noRoom
	tooLarge
	gone
	refused
	kinds
)

// Stats are the counts of a model, for metrics: files of requests, each time that one was made.
type Stats struct {
	Pictures int64 // that were shown
	Texts    int64 // that were shown
	Cut      int64 // of Texts, those of which head and tail were shown
	Unseen   int64 // that the model does not take
	NoRoom   int64 // that newer ones left no room for
	TooLarge int64 // pictures that are too large for the model
	Gone     int64 // that could not be read
	Refused  int64 // pictures that the provider refused
}

// Model is a model that is given what is attached to messages.
type Model struct {
	model conversation.Model
	o     Options
	n     [kinds]atomic.Int64
}

var _ conversation.Model = (*Model)(nil)

// New wraps a model.
func New(model conversation.Model, o Options) *Model {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Model{model: model, o: o}
}

// Label names the wrapped model.
func (m *Model) Label() string { return m.model.Label() }

// Stats returns the counts as of now.
func (m *Model) Stats() Stats {
	n := func(kind int) int64 { return m.n[kind].Load() }
	return Stats{n(shownPicture), n(shownText), n(cutText), n(unseen), n(noRoom), n(tooLarge), n(gone), n(refused)}
}

// Stream asks once. If the provider refuses a request with pictures for good, it is asked
// again without them: a damaged picture, or a model that does not see, would else let every
// later step of the session fail.
func (m *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	if !slices.ContainsFunc(r.Entries, hasFiles) && !slices.ContainsFunc(r.Last, hasFiles) {
		return m.model.Stream(ctx, r) // as nearly all
	}
	return func(yield func(conversation.Output, error) bool) {
		s := &showing{m: m, ctx: ctx, request: &r, sees: m.o.Sees, why: attached.Unseen}
		shown, said := s.shown(), false
		for out, err := range m.model.Stream(ctx, shown) {
			if err != nil && !said && s.pictures > 0 && forPictures(err) {
				m.o.Log.Warn("the model's provider refused a request with pictures; it is asked again without them",
					"model", m.Label(), "session", r.Session, "task", r.Task, "step", r.Step, "pictures", s.pictures, "err", cause(err))
				break
			}
			said = said || err != nil || out.Done != nil || out.Delta != ""
			if !yield(out, err) || err != nil || out.Done != nil {
				return
			}
		}
		if said || s.pictures == 0 || ctx.Err() != nil {
			return
		}
		s.sees, s.why, s.pictures = false, attached.Refused, 0
		for out, err := range m.model.Stream(ctx, s.shown()) {
			if !yield(out, err) {
				return
			}
		}
	}
}

// forPictures is true for a refusal that pictures may be the cause of.
func forPictures(err error) bool {
	var known *conversation.ModelError
	return errors.As(err, &known) && known.Permanent && (known.Failure.Code == conversation.BadRequest || known.Failure.Code == conversation.TooLarge)
}

func cause(err error) error {
	var known *conversation.ModelError
	if errors.As(err, &known) && known.Err != nil {
		return known.Err
	}
	return err
}

func hasFiles(e conversation.Entry) bool { return len(e.Files) > 0 }

// showing is the work on one request.
type showing struct {
	m        *Model
	ctx      context.Context
	request  *conversation.Request
	sees     bool
	why      string // why no picture is shown to who does not see
	pictures int    // that are shown
	read     map[attached.Hash][]byte
}

// shown is the request with what the model is given. The entries of the given one are shared:
// they are not written to.
func (s *showing) shown() conversation.Request {
	r := *s.request
	r.Entries, r.Last = slices.Clone(r.Entries), slices.Clone(r.Last)
	var with []*conversation.Entry
	for _, list := range [][]conversation.Entry{r.Entries, r.Last} {
		for i := range list {
			if hasFiles(list[i]) {
				with = append(with, &list[i])
			}
		}
	}
	o := &s.m.o
	pictures := newest(with, room{o.Pictures, o.PictureBytes}, func(f attached.File) int64 {
		if !s.sees || !picture(f.Type) || o.Picture > 0 && f.Size > o.Picture || f.Size > o.PictureBytes {
			return 0
		}
		return f.Size
	})
	texts := newest(with, room{len(with) * mostFiles, o.Texts}, func(f attached.File) int64 {
		if !f.Text() {
			return 0
		}
		return min(f.Size, int64(o.Text))
	})
	for i, e := range with {
		lines := make([]string, 0, len(e.Files))
		for k, f := range e.Files {
			at := place{i, k}
			lines = append(lines, s.file(e, f, pictures[at], texts[at]))
		}
		text := strings.Join(lines, "\n")
		if e.Text != "" && !strings.HasSuffix(e.Text, "\n") {
			text = "\n" + text
		}
		e.Text += text
	}
	return r
}

// mostFiles is more than a message can have: texts are bounded by their bytes alone.
const mostFiles = 1 << 20

// file is what an entry says of one of its files, with the text of one that is shown. A
// picture that is shown is added to the entry.
func (s *showing) file(e *conversation.Entry, f attached.File, seen, told bool) string {
	say := func(kind int, why string) string {
		s.m.n[kind].Add(1)
		return f.Line(why)
	}
	switch {
	case f.Image() && !s.sees:
		kind := unseen
		if s.why == attached.Refused {
			kind = refused
		}
		return say(kind, s.why)
	case f.Image() && !picture(f.Type), !f.Image() && !f.Text():
		return say(unseen, attached.Unknown)
	case f.Image() && s.m.o.Picture > 0 && f.Size > s.m.o.Picture, f.Image() && f.Size > s.m.o.PictureBytes:
		return say(tooLarge, attached.TooLarge)
	case !f.Image() && s.m.o.Text == 0:
		return say(unseen, attached.Unread)
	case !seen && !told:
		return say(noRoom, attached.NoRoom)
	}
	body, err := s.body(f)
	if err != nil {
		s.m.o.Log.Warn("a file of a message could not be read for the model", "model", s.m.Label(), "session", s.request.Session,
			"task", s.request.Task, "step", s.request.Step, "file", f.Hash, "err", err)
		return say(gone, attached.Gone)
	}
	if seen {
		s.pictures++
		e.Pictures = append(e.Pictures, conversation.Picture{Type: f.Type, Body: body})
		return say(shownPicture, attached.Shown)
	}
	text, why := string(body), attached.Follows
	if limit := s.m.o.Text; len(text) > limit {
		text, why = fit.Middle(text, limit), why+attached.CutTo(int64(limit))
		s.m.n[cutText].Add(1)
	}
	if s.request.Named {
		text = author.Escape(text)
	}
	return say(shownText, why) + "\n" + f.Inside(text)
}

var errNobody = errors.New("nothing can be read here")

// body reads a file, once for a request.
func (s *showing) body(f attached.File) ([]byte, error) {
	if body, known := s.read[f.Hash]; known {
		return body, nil
	}
	if s.request.File == nil {
		return nil, errNobody
	}
	body, err := s.request.File(s.ctx, f)
	if err != nil {
		return nil, err
	}
	if s.read == nil {
		s.read = map[attached.Hash][]byte{}
	}
	s.read[f.Hash] = body
	return body, nil
}

// picture is true for the types that all providers take.
func picture(kind string) bool {
	return slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, kind)
}
