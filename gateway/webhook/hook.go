package webhook

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/option"
	"parley/gateway/outbound"
)

// Hook is a [[chats.webhooks]] block: where to send what. The tags are those of package
// conversation/option.
type Hook struct {
	Name         string        `key:"name"`                         // in metrics, in the log and of the cursor: 1 to 64 of a-z 0-9 _ -
	URL          string        `key:"url" secret:"true"`            // https, or with AllowPrivate http as well; without user and password. It may hold a token
	Tenant       string        `key:"tenant"`                       // whose chats
	SecretEnv    string        `key:"secret_env"`                   // the variable with the secret, "whsec_…"; several with spaces between them sign each for itself
	SecretFile   string        `key:"secret_file"`                  // or the file that holds it
	Topics       []string      `key:"topics"`                       // what is sent; none = all
	AllowPrivate bool          `key:"allow_private"`                // the address may be one of this machine or of a private network
	Timeout      time.Duration `key:"timeout" min:"1s" max:"5m"`    // of one try
	MaxPause     time.Duration `key:"max_pause" min:"1s" max:"24h"` // the longest pause between two tries
	GiveUp       time.Duration `key:"give_up" min:"0s"`             // an entry older than this is skipped; 0 = chats.retention
}

// DefaultHook is a block that says nothing but its name.
func DefaultHook(name string) Hook {
	return Hook{Name: name, Tenant: "default", Topics: []string{}, Timeout: 15 * time.Second, MaxPause: 5 * time.Minute}
}

// Retention says how long feeds of chats are kept.
type Retention struct {
	Age     time.Duration `key:"chats.retention" min:"0s"`  // entries older than this are dropped; 0 = none is
	Entries int           `key:"chats.max_entries" min:"0"` // of one tenant; those before the last so many are dropped; 0 = none is
}

// DefaultRetention is that of a configuration that says nothing.
func DefaultRetention() Retention { return Retention{Age: 7 * 24 * time.Hour, Entries: 100_000} }

// Validate says what cannot work, by the keys of the configuration.
func (r Retention) Validate() []option.FieldError { return option.OutOfBounds(r) }

// Topics are what a hook can be sent.
func Topics() []string { return []string{"chat.message", "chat.response", "chat.error"} }

var hookName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// Validate says what cannot work, by the keys of the block. Whether the secret is there is
// found out by New.
func (h Hook) Validate() []option.FieldError {
	wrong := option.OutOfBounds(h)
	refuse := func(key, format string, args ...any) {
		wrong = append(wrong, option.FieldError{Key: key, Sentence: fmt.Sprintf(format, args...)})
	}
	if !hookName.MatchString(h.Name) {
		refuse("name", "must be 1 to 64 of a-z, 0-9, _ and -")
	}
	switch u, err := url.Parse(h.URL); { // its text is in no sentence: it may hold a token
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		refuse("url", `must be an address such as "https://example.org/hook"`)
	case u.User != nil:
		refuse("url", "must not hold a user or password; the signature says who sends")
	case u.Fragment != "":
		refuse("url", "must not hold a fragment (#…)")
	case u.Scheme == "http" && !h.AllowPrivate:
		refuse("url", "must be https; http is for a private network, with allow_private = true")
	}
	if h.Tenant == "" {
		refuse("tenant", "must not be empty")
	}
	if (h.SecretEnv == "") == (h.SecretFile == "") {
		refuse("secret_env", "say either secret_env or secret_file")
	}
	for _, t := range h.Topics {
		if !slices.Contains(Topics(), t) {
			refuse("topics", "%q is no topic; there are %s", t, strings.Join(Topics(), ", "))
		}
	}
	return wrong
}

// wants is true for a topic that the hook is to be sent.
func (h Hook) wants(topic string) bool { return len(h.Topics) == 0 || slices.Contains(h.Topics, topic) }

func (h Hook) tenant() conversation.TenantID { return conversation.TenantID(h.Tenant) }

// maxSecrets bounds the text of a hook's secrets.
const maxSecrets = 4 << 10

// keys reads the hook's secrets. Errors say where they are to be, and not what is there.
func (h Hook) keys(env func(string) (string, bool)) ([][]byte, error) {
	text, where := "", "the variable "+h.SecretEnv
	if h.SecretEnv != "" {
		text, _ = env(h.SecretEnv)
	} else {
		where = "the file " + h.SecretFile
		f, err := os.Open(h.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, errors.Unwrap(err))
		}
		defer func() { _ = f.Close() }() // it was only read
		b, err := io.ReadAll(io.LimitReader(f, maxSecrets+1))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, errors.Unwrap(err))
		}
		text = string(b)
	}
	if len(text) > maxSecrets {
		return nil, fmt.Errorf("%s is larger than %d bytes", where, maxSecrets)
	}
	var keys [][]byte
	for word := range strings.FieldsSeq(text) {
		key, err := outbound.ParseSecret(word)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s is not set or empty", where)
	}
	return keys, nil
}
