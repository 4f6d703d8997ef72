package attach

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"time"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
	"parley/conversation/option"
	"parley/gateway/protocol"
	"parley/metrics"
)

// Settings are the configuration of what is attached to messages.
type Settings struct {
	MaxAge time.Duration `key:"limits.upload_max_age" min:"1s"` // how long a file waits for a message that names it
}

// Defaults are those of a configuration that says nothing.
func Defaults() Settings { return Settings{MaxAge: time.Hour} }

// Validate says what cannot work, by the keys of the configuration.
func (s Settings) Validate() []option.FieldError { return option.OutOfBounds(s) }

// Files is what is attached to messages, for all ways in. The nil one has no files and
// takes none.
type Files struct {
	Settings
	Store   blobs.Store
	Limits  protocol.Limits
	Metrics *metrics.Attachments
	Log     *slog.Logger
	Now     func() time.Time
}

// Open is a file of a session, to be read.
type Open struct {
	attached.File
	Key conversation.SessionKey
}

var (
	errNowhere = conversation.Errorf(conversation.Unavailable, "this server keeps no attachments")
	errNoFile  = conversation.Errorf(conversation.NotFound, "there is no such attachment")
)

// Upload stores a file of a session. Who may write to the session is the caller's business.
func (f *Files) Upload(ctx context.Context, key conversation.SessionKey, u Upload) (file attached.File, added bool, err error) {
	if f == nil {
		return file, false, errNowhere
	}
	defer func() {
		if err != nil {
			f.Metrics.Refused.WithLabelValues(string(conversation.AsError(err).Code)).Inc()
			return
		}
		f.Metrics.Uploads.Inc()
		if added {
			f.Metrics.UploadedBytes.Add(float64(file.Size))
		}
	}()
	kind, err := f.check(u)
	if err != nil {
		return file, false, err
	}
	file = attached.File{Hash: attached.HashOf(u.Body), Name: attached.Name(u.Name), Type: kind, Size: int64(len(u.Body))}
	file, added, err = f.Store.Put(ctx, key, file, f.Now(), u.Body)
	if errors.Is(err, conversation.ErrQuota) {
		err = &conversation.Error{Code: conversation.StorageFull, Message: "this tenant has stored as much as it may", Err: err}
	}
	return file, added, err
}

// Check says why a file cannot be uploaded to any session; nil = its bytes are no reason.
func (f *Files) Check(u Upload) error {
	if f == nil {
		return errNowhere
	}
	_, err := f.check(u)
	if err != nil {
		f.Metrics.Refused.WithLabelValues(string(conversation.AsError(err).Code)).Inc()
	}
	return err
}

func (f *Files) check(u Upload) (kind string, err error) {
	switch {
	case u.Encoding != "" && u.Encoding != "identity":
		return "", conversation.Errorf(conversation.UnsupportedMedia, "the body must not be compressed")
	case len(u.Body) == 0:
		return "", conversation.Errorf(conversation.BadRequest, "the file is empty")
	case len(u.Body) > f.Limits.AttachmentBytes:
		return "", tooLarge(f.Limits)
	}
	return typeOf(u.Type, u.Body)
}

// TooLarge refuses a file that is too large, and of which not all was read.
func (f *Files) TooLarge() error {
	if f == nil {
		return errNowhere
	}
	f.Metrics.Refused.WithLabelValues(string(conversation.TooLarge)).Inc()
	return tooLarge(f.Limits)
}

func tooLarge(l protocol.Limits) error {
	return conversation.Errorf(conversation.TooLarge, "a file must be at most %d bytes", l.AttachmentBytes)
}

// Named are the files that a message of a session names, for its Say. Those that have waited
// long get more time: the message will be stored in a moment.
func (f *Files) Named(ctx context.Context, key conversation.SessionKey, names []protocol.NamedFile) (files []attached.File, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	if f == nil {
		return nil, errNowhere
	}
	for _, n := range names {
		is, err := f.Store.Stat(ctx, key, n.Hash)
		if err == nil && !is.Named && f.Now().Sub(is.At) > f.MaxAge/2 {
			err = f.Store.Renew(ctx, key, n.Hash, f.Now())
		}
		if errors.Is(err, blobs.ErrNone) {
			return nil, conversation.Errorf(conversation.NotFound, "the attachment %s was not uploaded to this session, or too long ago: upload it again", n.Hash)
		}
		if err != nil {
			return nil, err
		}
		if n.Name != "" {
			is.Name = attached.Name(n.Name)
		}
		files = append(files, is.File)
	}
	return files, nil
}

// Where to look for a file of which a request does not name the session. That others have the
// same file must not hide that of a user, and what they have must not show in the time that
// it takes: so it is looked for in what the user may read, the newest first.
const (
	mostRows    = 5000 // of the tenant's list are looked at, as for a page of it
	atOnce      = 100  // sessions are asked for the file
	mostHolders = 100  // are looked at where the list has more rows
)

// Wanted is a file that somebody wants to see.
type Wanted struct {
	Tenant  conversation.TenantID
	Hash    attached.Hash
	Session conversation.SessionID // "" = any that he may read

	Sees  func(conversation.SessionKey) bool     // whether he may read a session
	Rows  iter.Seq2[conversation.Summary, error] // of the tenant's sessions, the newest first
	Reads func(conversation.Summary) bool        // the same of a row, which may have changed since
}

// Find looks for a file in a session, or, without one, in those that the user may read: of the
// newest rows, and then, if there are more, of some that have it.
func (f *Files) Find(ctx context.Context, w Wanted) (Open, error) {
	if f == nil || !w.Hash.Valid() {
		return Open{}, errNoFile
	}
	if w.Session != "" {
		return f.first(ctx, w, []conversation.SessionID{w.Session})
	}
	var some []conversation.SessionID
	ask := func() (Open, error) {
		held, err := f.Store.Holding(ctx, w.Tenant, w.Hash, some)
		if some = some[:0]; err != nil {
			return Open{}, err
		}
		return f.first(ctx, w, held)
	}
	rows, more := 0, false
	for row, err := range w.Rows {
		if err != nil {
			return Open{}, err
		}
		if rows++; rows > mostRows {
			more = true
			break
		}
		if !w.Reads(row) {
			continue
		}
		if some = append(some, row.Key.Session); len(some) == atOnce {
			if o, err := ask(); !errors.Is(err, errNoFile) {
				return o, err
			}
		}
	}
	if o, err := ask(); !more || !errors.Is(err, errNoFile) {
		return o, err
	}
	holders, err := f.Store.Holders(ctx, w.Tenant, w.Hash, "", mostHolders)
	if err != nil {
		return Open{}, err
	}
	return f.first(ctx, w, holders)
}

// first is the file of the first one of some sessions that has it and may be read.
func (f *Files) first(ctx context.Context, w Wanted, sessions []conversation.SessionID) (Open, error) {
	for _, id := range sessions {
		key := conversation.SessionKey{Tenant: w.Tenant, Session: id}
		if !w.Sees(key) {
			continue
		}
		is, err := f.Store.Stat(ctx, key, w.Hash)
		if err == nil {
			return Open{is.File, key}, nil
		}
		if !errors.Is(err, blobs.ErrNone) {
			return Open{}, err
		}
	}
	return Open{}, errNoFile
}

// Reader reads a file chunk by chunk; what is in memory is one of them. It ends with ctx.
func (f *Files) Reader(ctx context.Context, o Open) io.Reader { return &reader{f: f, ctx: ctx, of: o} }

type reader struct {
	f    *Files
	ctx  context.Context
	of   Open
	next int
	left []byte
}

func (r *reader) Read(p []byte) (int, error) {
	if len(r.left) == 0 {
		if r.next == blobs.Chunks(r.of.Size) {
			return 0, io.EOF
		}
		ctx, cancel := context.WithTimeout(r.ctx, 30*time.Second)
		defer cancel()
		chunk, err := r.f.Store.Chunk(ctx, r.of.Key, r.of.Hash, r.next)
		if err == nil && len(chunk) == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		r.next, r.left = r.next+1, chunk
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

// sweepAtOnce is how many files one call of the store takes away.
const sweepAtOnce = 100

// Run takes away, now and then, the files that no message has named in time.
func (f *Files) Run(ctx context.Context) {
	if f == nil {
		return
	}
	every := time.NewTicker(max(f.MaxAge/12, time.Second)) // with what is late, nothing stays for longer than it should by much
	defer every.Stop()
	for {
		f.Sweep(ctx)
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// Sweep takes away the files that no message has named in time.
func (f *Files) Sweep(ctx context.Context) {
	for more := true; more && ctx.Err() == nil; {
		swept, err := f.Store.Sweep(ctx, f.Now().Add(-f.MaxAge*11/12), sweepAtOnce)
		f.Metrics.Swept.Add(float64(swept.Blobs))
		f.Metrics.SweptBytes.Add(float64(swept.Bytes))
		if err != nil && ctx.Err() == nil {
			f.Log.Warn("uploads that no message names could not be taken away", "error", err)
		}
		more = swept.More && err == nil
	}
}
