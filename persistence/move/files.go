package move

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"time"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
)

// fileFrame begins a file that is attached to messages of a session. Pieces of it follow.
type fileFrame struct {
	Hash  attached.Hash `json:"hash"`
	Name  string        `json:"name"`
	Type  string        `json:"type"`
	Size  int64         `json:"size"`
	At    int64         `json:"at"` // milliseconds
	Named bool          `json:"named,omitempty"`
}

// files writes what is attached to messages of a session, and what waits to be, piece by piece.
func (o *out) files(ctx context.Context, key conversation.SessionKey) (n int, err error) {
	for f, err := range o.from.Attached(ctx, key) {
		if err == nil {
			err = o.w.json(kindFile, fileFrame{f.Hash, f.Name, f.Type, f.Size, f.At.UnixMilli(), f.Named})
		}
		if err != nil {
			return n, err
		}
		sum, had := sha256.New(), 0
		err = o.w.taken(kindPiece, func(piece []byte) error {
			had++
			_, _ = sum.Write(piece)
			return ctx.Err()
		})
		if err != nil {
			return n, err
		}
		for i := range blobs.Chunks(f.Size) {
			if i < had {
				continue
			}
			piece, err := o.from.Blobs().Chunk(ctx, key, f.Hash, i)
			if err == nil {
				_, _ = sum.Write(piece)
				err = o.w.frame(kindPiece, piece)
			}
			if err != nil {
				return n, fmt.Errorf("the attachment %s: %w", f.Hash, err)
			}
		}
		if hashOf(sum) != f.Hash {
			return n, fmt.Errorf("%w: the attachment %s is not what its hash says", conversation.ErrDamaged, f.Hash)
		}
		n++
		o.done.Files++
	}
	return n, nil
}

func hashOf(sum hash.Hash) attached.Hash { return attached.Hash(hex.EncodeToString(sum.Sum(nil))) }

// checkedFile is the file whose pieces are being read.
type checkedFile struct {
	is   fileFrame
	sum  hash.Hash // nil = there is none
	left int64
}

// see checks that pieces are whole, and that the file is what its hash says; ended is true
// after its last one. Nothing else may come meanwhile.
func (f *checkedFile) see(kind byte, body []byte) (ended bool, err error) {
	if (f.sum != nil) != (kind == kindPiece) {
		return false, fmt.Errorf("%w: a frame %q is out of place", ErrDamaged, kind)
	}
	if kind == kindFile {
		is, err := read[fileFrame](body)
		if err == nil && (is.Size <= 0 || !is.Hash.Valid()) {
			err = fmt.Errorf("%w: an attachment of %d bytes", ErrDamaged, is.Size)
		}
		*f = checkedFile{is, sha256.New(), is.Size}
		return false, err
	}
	if int64(len(body)) != min(blobs.ChunkBytes, f.left) {
		return false, fmt.Errorf("%w: a piece of an attachment has %d bytes", ErrDamaged, len(body))
	}
	_, _ = f.sum.Write(body)
	if f.left -= int64(len(body)); f.left > 0 {
		return false, nil
	}
	ended = hashOf(f.sum) == f.is.Hash
	if f.sum = nil; !ended {
		return false, fmt.Errorf("%w: the attachment %s is not what its hash says", ErrDamaged, f.is.Hash)
	}
	return true, nil
}

// whole reads the pieces of a file behind the frame that begins it, as one frame.
func (i *in) whole(ctx context.Context, begin []byte) (frame, error) {
	is, err := read[fileFrame](begin)
	f := frame{kind: kindFile, body: begin}
	for err == nil && int64(len(f.file)) < is.Size {
		var kind byte
		var piece []byte
		if kind, piece, err = i.r.next(); err == nil && kind != kindPiece {
			err = fmt.Errorf("%w: a frame %q is out of place", ErrDamaged, kind)
		}
		f.file = append(f.file, piece...)
		err = errors.Join(err, ctx.Err())
	}
	return f, err
}

// file writes a file, or finds that it is there. What is on loan goes on being so.
func (a *arriving) file(ctx context.Context, f frame) error {
	is, err := read[fileFrame](f.body)
	if err != nil {
		return err
	}
	if a.whole {
		if is.Named {
			if _, err := a.to.Blobs().Stat(ctx, a.key, is.Hash); errors.Is(err, blobs.ErrNone) {
				return ErrDiffers
			} else if err != nil {
				return err
			}
		}
	} else {
		file := attached.File{Hash: is.Hash, Name: is.Name, Type: is.Type, Size: is.Size}
		if _, _, err := a.to.Blobs().Put(ctx, a.key, file, time.UnixMilli(is.At).UTC(), f.file); err != nil {
			return fmt.Errorf("the attachment %s: %w", is.Hash, err)
		}
	}
	a.tally(func(done *Totals) { done.Files++ })
	return nil
}
