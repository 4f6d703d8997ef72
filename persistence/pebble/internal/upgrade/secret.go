package upgrade

import (
	"crypto/rand"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/pebble/internal/layout"
)

// Secret reads the store's secret, and makes it if an older program has made the store.
func Secret(p *pebble.DB) ([]byte, error) {
	value, closer, err := p.Get(layout.KeySecret)
	if errors.Is(err, pebble.ErrNotFound) {
		secret := NewSecret()
		return secret, p.Set(layout.KeySecret, secret, pebble.Sync)
	}
	if err != nil {
		return nil, err
	}
	return slices.Clone(value), closer.Close()
}

// NewSecret makes a secret for a new store.
func NewSecret() []byte {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return secret
}
