package carry

import (
	"context"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
	"parley/persistence/pebble/internal/layout"
)

// Attached lists what is attached to messages of a session, and what waits to be.
func Attached(ctx context.Context, p *pebble.DB, key conversation.SessionKey) iter.Seq2[blobs.Stored, error] {
	return under(ctx, p, layout.BlobsPrefix(nil, key), func(rest, value []byte) (blobs.Stored, error) {
		hash, left, ok := layout.CutString(rest)
		if !ok || len(left) > 0 {
			return blobs.Stored{}, fmt.Errorf("%w: the description of an attachment", conversation.ErrDamaged)
		}
		is, err := layout.CutBlobValue(attached.Hash(hash), value)
		if err == nil {
			is.Named, err = has(p, layout.KeyBlobNamed(nil, key, is.Hash))
		}
		return is, err
	})
}
