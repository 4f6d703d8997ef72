package verify

import (
	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/wordblock"
)

// gate checks who may be allowed to read a session: it is there as long as what can be found.
func (c *check) gate(k, v []byte) {
	key, rest, ok := layout.CutSession(k[1:])
	if !ok || len(rest) > 0 || !layout.IsGate(v) {
		c.problem(RuleUnknown, conversation.SessionKey{}, "gate %x of a session cannot be read", k)
		return
	}
	if _, ok := c.get(layout.KeySaidTo(nil, key)); !ok {
		c.problem(RuleSearch, key, "it has a gate, but nothing of it can be found")
	}
}

// sieve checks that a sieve has its block of words.
func (c *check) sieve(k, _ []byte) {
	key, rest, ok := layout.CutSession(k[1:])
	at, fits := layout.CutWordsKey(rest)
	if !ok || !fits {
		c.problem(RuleUnknown, conversation.SessionKey{}, "sieve %x cannot be read", k)
		return
	}
	if _, ok := c.get(layout.KeyWords(nil, key, at)); !ok {
		c.problem(RuleSearch, key, "it has a sieve without a block of words")
	}
}

// sieved checks that a block of words has its sieve, which lets all of its words through.
func (s *session) sieved(at layout.WordsKey, v []byte) {
	to, _ := s.get(layout.KeySaidTo(nil, s.key))
	if reached, err := layout.CutSaidTo(to); err != nil || reached.Through == 0 {
		return // of another version
	}
	sieve, ok := s.get(layout.KeySieve(nil, s.key, at))
	if !ok || !wordblock.Sieved(v, sieve) {
		s.problem(RuleSearch, s.key, "a block of its words has words that its sieve keeps back")
	}
}
