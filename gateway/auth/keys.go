package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/conversation"
	"parley/gateway/service"
)

var (
	_ service.Authenticator = (*Keys)(nil)
	_ service.Watcher       = (*Keys)(nil)
)

// Keys is auth.mode = "keys".
type Keys struct {
	file    string // "" = there is none
	resolve func(reference string) (string, error)
	log     *slog.Logger
	reload  sync.Mutex // held while files are read: what was read first must not come last

	mu      sync.Mutex
	inline  []Key // the blocks of config.toml
	state   fileState
	table   map[string]*keyEntry // by the id of a credential
	hashes  map[string]*keyEntry // those whose key begins with an id, by it
	plain   []*keyEntry          // the others
	watches map[string]map[*func()]struct{}
}

// keyEntry is a key as it is asked for.
type keyEntry struct {
	Key
	sum     [sha256.Size]byte
	expires time.Time
}

// same is true for a key that gives the same: what began with the one may go on with the other.
func (k *keyEntry) same(other *keyEntry) bool {
	return other != nil && k.sum == other.sum && k.Tenant == other.Tenant && k.User == other.User && slices.Equal(k.Scopes, other.Scopes) && k.expires.Equal(other.expires)
}

// credential is the id that principals of the key carry.
func (k *keyEntry) credential() string {
	if k.ID != "" {
		return "key:" + k.ID
	}
	return "key:sha256:" + hex.EncodeToString(k.sum[:6])
}

const keyPrefix = "parley_"

// NewKey makes a key: id is its part that is no secret, hash is what is kept of it.
func NewKey() (id, key, hash string) {
	id = strings.ToLower(rand.Text()[:12])
	key = keyPrefix + id + "_" + strings.ToLower(rand.Text()+rand.Text()[:14])
	return id, key, Hash(key)
}

// Hash is what is kept of a key.
func Hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// idOf is the id that a key begins with; "" = it is none of NewKey's.
func idOf(key string) string {
	rest, ok := strings.CutPrefix(key, keyPrefix)
	id, _, ok2 := strings.Cut(rest, "_")
	if !ok || !ok2 {
		return ""
	}
	return id
}

// MinKey is the least length of a key that somebody has made up: one that can be guessed is
// worth nothing. Those of NewKey have 58 characters.
const MinKey = 8

// entry checks a key and prepares it. Its errors do not repeat the key.
func (k Key) entry(resolve func(string) (string, error)) (*keyEntry, error) {
	e := &keyEntry{Key: k}
	switch {
	case (k.Hash == "") == (k.Key == ""):
		return nil, errors.New("give hash or key, one of them")
	case k.Hash != "":
		sum, err := hex.DecodeString(strings.TrimPrefix(k.Hash, "sha256:"))
		if err != nil || len(sum) != sha256.Size {
			return nil, errors.New(`hash must be "sha256:" and 64 hexadecimal digits, as "parley key create" writes it`)
		}
		copy(e.sum[:], sum)
	default:
		text, err := resolve(k.Key)
		if err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
		if len(text) < MinKey {
			return nil, fmt.Errorf("key: it must have at least %d characters, or it could be guessed", MinKey)
		}
		e.sum = sha256.Sum256([]byte(text))
		if k.ID == "" {
			e.ID = idOf(text)
		}
	}
	if err := errors.Join(CheckID("tenant", k.Tenant), CheckID("user", k.User), checkScopes(k.Scopes)); err != nil {
		return nil, err
	}
	if len(k.Scopes) == 0 {
		return nil, errors.New("scopes: a key without scopes may do nothing; leave scopes out for chat and read:tools")
	}
	if k.Expires != "" {
		var err error
		if e.expires, err = ParseExpiry(k.Expires); err != nil {
			return nil, err
		}
	}
	e.Name, e.Key.Key = cleanName(k.Name), ""
	return e, nil
}

// Check says what is wrong with a key, without looking for what a reference stands for.
func (k Key) Check() error {
	_, err := k.entry(func(string) (string, error) { return strings.Repeat("x", MinKey), nil })
	return err
}

// ParseExpiry reads a moment, or a day, whose end (UTC) is meant.
func ParseExpiry(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			if layout == time.DateOnly {
				t = t.AddDate(0, 0, 1)
			}
			return t, nil
		}
	}
	return time.Time{}, errors.New(`expires must be a day such as "2027-01-31" or a moment such as "2027-01-31T12:00:00Z"`)
}

// NewKeys prepares the keys of inline and of file, which may be missing; "" = there is
// none. resolve reads what a reference stands for.
func NewKeys(inline []Key, file string, resolve func(reference string) (string, error), log *slog.Logger) (*Keys, error) {
	k := &Keys{inline: inline, file: file, resolve: resolve, log: log, watches: map[string]map[*func()]struct{}{}}
	return k, k.Reload()
}

// Mode implements service.Authenticator.
func (*Keys) Mode() string { return ModeKeys }

// Authenticate implements service.Authenticator.
func (k *Keys) Authenticate(_ context.Context, c service.Credential) (*service.Principal, error) {
	if c.Token == "" {
		return nil, errNoCredential
	}
	sum := sha256.Sum256([]byte(c.Token))
	e := k.find(idOf(c.Token), sum)
	switch {
	case e == nil:
		return nil, errUnknown
	case !e.expires.IsZero() && !time.Now().Before(e.expires):
		return nil, service.ErrTokenExpired
	}
	return &service.Principal{
		Tenant: conversation.TenantID(e.Tenant), User: conversation.UserID(e.User), Name: e.Name,
		Scopes: e.Scopes, Expires: e.expires, Credential: e.credential(),
	}, nil
}

func (k *Keys) find(id string, sum [sha256.Size]byte) *keyEntry {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.hashes[id]; e != nil && subtle.ConstantTimeCompare(e.sum[:], sum[:]) == 1 {
		return e
	}
	var found *keyEntry
	for _, e := range k.plain {
		if subtle.ConstantTimeCompare(e.sum[:], sum[:]) == 1 {
			found = e
		}
	}
	return found
}

// Watch implements service.Watcher.
func (k *Keys) Watch(p *service.Principal, ended func()) (stop func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.table[p.Credential]; e == nil || !slices.Equal(e.Scopes, p.Scopes) || e.User != string(p.User) || e.Tenant != string(p.Tenant) || !e.expires.Equal(p.Expires) {
		return nil
	}
	list := k.watches[p.Credential]
	if list == nil {
		list = map[*func()]struct{}{}
		k.watches[p.Credential] = list
	}
	list[&ended] = struct{}{}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(list, &ended)
		if current, there := k.watches[p.Credential]; there && len(current) == 0 {
			delete(k.watches, p.Credential)
		}
	}
}

// Count is how many keys there are.
func (k *Keys) Count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.table)
}

// SetInline replaces the keys of config.toml; Reload takes them up.
func (k *Keys) SetInline(keys []Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.inline = keys
}

// Reload reads the keys anew. What keys that are not there any more, or give less or other
// than before, have open ends. With an error everything stays as it was.
func (k *Keys) Reload() error {
	k.reload.Lock()
	defer k.reload.Unlock()
	k.mu.Lock()
	inline := k.inline
	k.mu.Unlock()
	list := slices.Clone(inline)
	state, stored, err := readKeys(k.file)
	if err != nil {
		return err
	}
	list = append(list, stored...)
	table, hashes := map[string]*keyEntry{}, map[string]*keyEntry{}
	var plain []*keyEntry
	for i, key := range list {
		e, err := key.entry(k.resolve)
		if err != nil {
			where := fmt.Sprintf("[[auth.keys]] block %d", i+1)
			if i >= len(inline) {
				where = fmt.Sprintf("%s, key %d", k.file, i-len(inline)+1)
			}
			return fmt.Errorf("%s: %w", where, err)
		}
		if table[e.credential()] != nil {
			return fmt.Errorf("the key %s is there twice", strings.TrimPrefix(e.credential(), "key:"))
		}
		table[e.credential()] = e
		if e.ID != "" {
			hashes[e.ID] = e
		} else {
			plain = append(plain, e)
		}
	}
	k.mu.Lock()
	before := k.table
	k.table, k.hashes, k.plain, k.state = table, hashes, plain, state
	var ended []*func()
	for credential, e := range before {
		if !e.same(table[credential]) {
			for f := range k.watches[credential] {
				ended = append(ended, f)
			}
			delete(k.watches, credential)
		}
	}
	k.mu.Unlock()
	for _, f := range ended {
		go (*f)()
	}
	k.log.Info("keys are read", "keys", len(table), "ended", len(ended))
	return nil
}

// Follow reads the file again when it has changed, until ctx ends.
func (k *Keys) Follow(ctx context.Context, every time.Duration) {
	if k.file == "" {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var failed fileState
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := stateOf(k.file)
		k.mu.Lock()
		changed := now != k.state && now != failed
		k.mu.Unlock()
		if !changed {
			continue
		}
		if err := k.Reload(); err != nil {
			failed = now // said once
			k.log.Error("the keys could not be read again; those from before stay", "error", err)
		}
	}
}

var (
	errNoCredential = &conversation.Error{Code: conversation.Unauthenticated, Message: "sign in: there is no token"}
	errUnknown      = &conversation.Error{Code: conversation.Unauthenticated, Message: "the token is not known here"}
)
