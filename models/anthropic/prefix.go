package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Newer models bind their thinking to everything that stood before it: the prompt, the
// tools, the messages. Where that has changed since, they refuse the whole request. It
// changes when the engine's note of open messages stood behind a result and is gone, when
// something was summarised, or when a tool came late. So each answer's thinking is stored
// with a digest of what its request showed, and given back only where the same stands
// before it again.

// bound leaves out the thinking of a request that is bound to something else, and returns
// the digest of what the request shows, for the answer's own thinking. It goes before
// the marks for the cache, which do not count. Thinking that was stored without a digest
// stays.
func (q *request) bound() (prefix string, err error) {
	sum := sha256.New()
	add := func(v any) error {
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		_, err = sum.Write(append(raw, '\n'))
		return err
	}
	digest := func() string { return hex.EncodeToString(sum.Sum(nil)[:12]) }
	if err := add(q.System); err != nil {
		return "", err
	}
	if err := add(q.Tools); err != nil {
		return "", err
	}
	for _, t := range q.Messages {
		if t.Role == roleAssistant {
			here := digest()
			t.Content = slices.DeleteFunc(t.Content, func(block any) bool {
				prefix := ""
				switch b := block.(type) {
				case thinkingBlock:
					prefix = b.prefix
				case redactedBlock:
					prefix = b.prefix
				}
				return prefix != "" && prefix != here
			})
		}
		if err := add(t); err != nil {
			return "", err
		}
	}
	return digest(), nil
}
