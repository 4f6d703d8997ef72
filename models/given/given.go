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

	taken, refused seen // pictures that the provider is known to take, and to refuse
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
// again without those that it has never taken, and then without any: a damaged picture, or a
// model that does not see, would else let every later step of the session fail.
func (m *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	if !slices.ContainsFunc(r.Entries, hasFiles) && !slices.ContainsFunc(r.Last, hasFiles) {
		return m.model.Stream(ctx, r) // as nearly all
	}
	return func(yield func(conversation.Output, error) bool) {
		s := &showing{m: m, ctx: ctx, request: &r, sees: m.o.Sees}
		var left []attached.Hash // out of the first request, because it was refused
		for {
			refusal, said := error(nil), false
			for out, err := range m.model.Stream(ctx, s.shown()) {
				if err != nil && !said && len(s.pictures) > 0 && forPictures(err) {
					refusal = err
					break
				}
				if !said && (out.Done != nil || out.Delta != "") {
					said = true
					m.taken.note(s.pictures)
					m.refused.note(left)
				}
				if !yield(out, err) {
					return
				}
			}
			if refusal == nil {
				return
			}
			suspects := s.suspects()
			m.o.Log.Warn("the model's provider refused a request with pictures; it is asked again without them", "model", m.Label(),
				"session", r.Session, "task", r.Task, "step", r.Step, "pictures", len(s.pictures), "left_out", suspects, "error", cause(refusal))
			if left = suspects; s.without != nil || code(refusal) == conversation.TooLarge {
				left = nil // nobody knows which of them it was, or whether it was one of them
			}
			s.leaveOut(suspects)
		}
	}
}

// suspects are pictures of a request that was refused: those that the provider has never
// taken, but for the older ones if it has taken none. Of a second refusal all are.
func (s *showing) suspects() []attached.Hash {
	if s.without != nil {
		return s.pictures
	}
	unknown := slices.DeleteFunc(slices.Clone(s.pictures), s.m.taken.has)
	if len(unknown) == len(s.pictures) {
		return s.newest
	}
	if len(unknown) == 0 {
		return s.pictures
	}
	return unknown
}

func (s *showing) leaveOut(pictures []attached.Hash) {
	if s.without == nil {
		s.without = map[attached.Hash]bool{}
	}
	for _, hash := range pictures {
		s.without[hash] = true
	}
}

// forPictures is true for a refusal that pictures may be the cause of.
func forPictures(err error) bool {
	return code(err) == conversation.BadRequest || code(err) == conversation.TooLarge
}

// code is that of a failure for good, "" of another one.
func code(err error) conversation.Code {
	var known *conversation.ModelError
	if errors.As(err, &known) && known.Permanent {
		return known.Failure.Code
	}
	return ""
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
	pictures []attached.Hash        // that are shown
	newest   []attached.Hash        // of pictures, those of the last message that has some
	without  map[attached.Hash]bool // pictures that are left out, because the provider refused a request with them
	read     map[attached.Hash][]byte
}

// shown is the request with what the model is given. The entries of the given one are shared:
// they are not written to.
func (s *showing) shown() conversation.Request {
	r := *s.request
	s.pictures, s.newest = nil, nil
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
		if !s.sees || s.refused(f) || !picture(f.Type) || o.Picture > 0 && f.Size > o.Picture || f.Size > o.PictureBytes {
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
		before := len(s.pictures)
		lines := make([]string, 0, len(e.Files))
		for k, f := range e.Files {
			at := place{i, k}
			lines = append(lines, s.file(e, f, pictures[at], texts[at]))
		}
		if before < len(s.pictures) {
			s.newest = s.pictures[before:]
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
		return say(unseen, attached.Unseen)
	case f.Image() && s.refused(f):
		return say(refused, attached.Refused)
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
			"task", s.request.Task, "step", s.request.Step, "file", f.Hash, "error", err)
		return say(gone, attached.Gone)
	}
	if seen {
		s.pictures = append(s.pictures, f.Hash)
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

// refused is true for a picture that the provider does not take.
func (s *showing) refused(f attached.File) bool { return s.without[f.Hash] || s.m.refused.has(f.Hash) }

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
