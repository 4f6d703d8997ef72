package auth

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/gateway/service"
)

func code(err error) conversation.Code {
	if err == nil {
		return ""
	}
	return conversation.AsError(err).Code
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// fixed resolves references of the form NAME from a table.
func fixed(values map[string]string) func(string) (string, error) {
	return func(reference string) (string, error) {
		if v, ok := values[reference]; ok {
			return v, nil
		}
		return "", errors.New("it is not set")
	}
}

func TestKeys(t *testing.T) {
	id, mine, hash := NewKey()
	const own = "a-key-that-somebody-has-made-up-himself"
	k, err := NewKeys([]Key{
		{ID: id, Hash: hash, Tenant: "acme", User: "ann", Name: "Ann\u202e\n", Scopes: []string{"chat"}},
		{Key: "env:OWN", Tenant: "default", User: "bob", Scopes: []string{"runtime"}},
		{Hash: Hash("the-key-of-one-who-has-gone"), Tenant: "default", User: "old", Scopes: []string{"chat"}, Expires: "2020-01-31"},
	}, "", fixed(map[string]string{"env:OWN": own}), quiet())
	if err != nil {
		t.Fatal(err)
	}
	other, _, _ := NewKey()
	for _, row := range []struct {
		name, token string
		user        conversation.UserID
		code        conversation.Code
	}{
		{"by its id", mine, "ann", ""},
		{"by its whole hash", own, "bob", ""},
		{"expired", "the-key-of-one-who-has-gone", "", conversation.TokenExpired},
		{"none", "", "", conversation.Unauthenticated},
		{"right id, wrong secret", mine[:len(mine)-1] + "!", "", conversation.Unauthenticated},
		{"the id alone", id, "", conversation.Unauthenticated},
		{"the hash", hash, "", conversation.Unauthenticated},
		{"another", keyPrefix + other + "_x", "", conversation.Unauthenticated},
		{"cut", mine[:len(mine)-1], "", conversation.Unauthenticated},
		{"longer", mine + "x", "", conversation.Unauthenticated},
		{"in capitals", strings.ToUpper(mine), "", conversation.Unauthenticated},
	} {
		p, err := k.Authenticate(t.Context(), service.Credential{Token: row.token})
		if code(err) != row.code || err == nil && p.User != row.user {
			t.Errorf("%s: %+v, %v", row.name, p, err)
		}
	}
	p, _ := k.Authenticate(t.Context(), service.Credential{Token: mine})
	if p.Tenant != "acme" || p.Name != "Ann" || p.Credential != "key:"+id || !slices.Equal(p.Scopes, []string{"chat"}) {
		t.Errorf("%+v", p)
	}
}

// What cannot be a key is refused when it is read, and what is secret of it is not repeated.
func TestKeysThatCannotBe(t *testing.T) {
	good := Key{Hash: Hash("x"), Tenant: "default", User: "ann", Scopes: []string{"chat"}}
	for _, row := range []struct {
		change func(*Key)
		says   string
	}{
		{func(k *Key) { k.Hash = "" }, "hash or key"},
		{func(k *Key) { k.Key = "env:X" }, "hash or key"},
		{func(k *Key) { k.Hash = "secret" }, "64 hexadecimal digits"},
		{func(k *Key) { k.Hash, k.Key = "", "env:SHORT" }, "at least 8"},
		{func(k *Key) { k.Hash, k.Key = "", "env:NONE" }, "not set"},
		{func(k *Key) { k.User = "" }, "user is missing"},
		{func(k *Key) { k.User = "a\x00b" }, "control"},
		{func(k *Key) { k.Tenant = strings.Repeat("t", MaxID+1) }, "at most 128"},
		{func(k *Key) { k.Tenant = "a\xff" }, "UTF-8"},
		{func(k *Key) { k.Tenant = "\u202eacme" }, "control"},
		{func(k *Key) { k.Scopes = []string{"root"} }, `"root" is no scope`},
		{func(k *Key) { k.Scopes = nil }, "may do nothing"},
		{func(k *Key) { k.Expires = "tomorrow" }, "expires must be"},
	} {
		k := good
		row.change(&k)
		_, err := NewKeys([]Key{k}, "", fixed(map[string]string{"env:SHORT": "secret"}), quiet())
		if err == nil || !strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v, want %q", k, err, row.says)
		}
	}
	if _, err := NewKeys([]Key{good, good}, "", nil, quiet()); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("the same key twice: %v", err)
	}
}

// The file of keys: made, read again, and taken back by whoever changes it.
func TestKeysFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", KeysFile)
	id, text, hash := NewKey()
	add := func(id, hash string) {
		t.Helper()
		if err := Add(path, Key{ID: id, Hash: hash, Tenant: "default", User: "ann", Scopes: []string{"chat"}}); err != nil {
			t.Fatal(err)
		}
	}
	add(id, hash)
	stays, other, hash := NewKey()
	add(stays, hash)
	stored, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(stored), text) || strings.Contains(string(stored), strings.Split(text, "_")[2]) {
		t.Errorf("the file holds the key, or cannot be read: %v", err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	k, err := NewKeys(nil, path, nil, quiet())
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string]chan struct{}{}
	for name, token := range map[string]string{"gone": text, "stays": other} {
		p, err := k.Authenticate(t.Context(), service.Credential{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		ended[name] = over
		defer k.Watch(p, func() { close(over) })()
	}
	before, _ := k.Authenticate(t.Context(), service.Credential{Token: text})
	gone, err := Revoke(path, func(key Key) bool { return key.ID == id })
	if err != nil || len(gone) != 1 {
		t.Fatalf("%v, %v", gone, err)
	}
	if err := k.Reload(); err != nil {
		t.Fatal(err)
	}
	<-ended["gone"]
	if k.Watch(before, func() {}) != nil { // of one who has just signed in
		t.Error("what was taken back is watched")
	}
	if _, err := k.Authenticate(t.Context(), service.Credential{Token: text}); code(err) != conversation.Unauthenticated {
		t.Errorf("after it was taken back: %v", err)
	}
	if _, err := k.Authenticate(t.Context(), service.Credential{Token: other}); err != nil {
		t.Errorf("the other one: %v", err)
	}
	if err := os.WriteFile(path, []byte("[[key]]\nhash = \"nonsense\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := k.Reload(); err == nil {
		t.Error("nonsense is taken")
	}
	if _, err := k.Authenticate(t.Context(), service.Credential{Token: other}); err != nil {
		t.Errorf("a file that cannot be read takes keys back: %v", err)
	}
	select {
	case <-ended["stays"]:
		t.Error("the other key was ended")
	default:
	}
}

// A key that gives something else now is watched for nobody who has it from before, as from a store:
// it may have an end that is over.
func TestWatchOfAnotherKey(t *testing.T) {
	const text = "the-key-of-ann"
	key := Key{Key: text, Tenant: "default", User: "ann", Scopes: []string{service.ScopeChat}, Expires: "2999-01-31"}
	plain := func(reference string) (string, error) { return reference, nil }
	k, err := NewKeys([]Key{key}, "", plain, quiet())
	if err != nil {
		t.Fatal(err)
	}
	p, err := k.Authenticate(t.Context(), service.Credential{Token: text})
	if err != nil {
		t.Fatal(err)
	}
	stop := k.Watch(p, func() {})
	if stop == nil {
		t.Fatal("it is not watched")
	}
	stop()
	for name, change := range map[string]func(k *Key){
		"another end":    func(k *Key) { k.Expires = "2020-01-31" },
		"no end":         func(k *Key) { k.Expires = "" },
		"another scope":  func(k *Key) { k.Scopes = []string{service.ScopeAdmin} },
		"another user":   func(k *Key) { k.User = "bob" },
		"another tenant": func(k *Key) { k.Tenant = "other" },
	} {
		other := key
		change(&other)
		k.SetInline([]Key{other})
		if err := k.Reload(); err != nil {
			t.Fatal(err)
		}
		if k.Watch(p, func() {}) != nil {
			t.Errorf("%s: it is watched", name)
		}
	}
}

// A file that has changed is noticed without a signal.
func TestKeysFileIsFollowed(t *testing.T) {
	path := filepath.Join(t.TempDir(), KeysFile)
	id, text, hash := NewKey()
	synctest.Test(t, func(t *testing.T) {
		k, err := NewKeys(nil, path, nil, quiet())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go k.Follow(ctx, time.Second)
		if err := Add(path, Key{ID: id, Hash: hash, Tenant: "default", User: "ann", Scopes: []string{"chat"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, err := k.Authenticate(ctx, service.Credential{Token: text}); err != nil {
			t.Error(err)
		}
		if _, err := Revoke(path, func(Key) bool { return true }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, err := k.Authenticate(ctx, service.Credential{Token: text}); code(err) != conversation.Unauthenticated {
			t.Errorf("%v", err)
		}
		cancel()
	})
}
