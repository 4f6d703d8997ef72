package dedup_test

import (
	"errors"
	"slices"
	"testing"

	"parley/conversation"
	"parley/conversation/dedup"
)

// M-16: the next part of a source is found by a few questions to the store, whatever
// index is asked for, and also in a log of before gaps were refused.
func TestNextPart(t *testing.T) {
	const last = conversation.PartIndex(1<<31 - 1)
	for name, x := range map[string]struct {
		stored func(conversation.PartIndex) bool
		before conversation.PartIndex
		want   []conversation.PartIndex
		rounds int
	}{
		"it follows":             {below(5), 4, at(5), 1},
		"the first one follows":  {below(1), 0, at(1), 1},
		"nothing is stored":      {below(0), 1, at(0), 2},
		"nothing, and far ahead": {below(0), last - 1, at(0), 2},
		"one is missing":         {below(5), 5, at(5), 4},
		"far ahead":              {below(1000), last - 1, at(1000), 12},
		"nearly the last":        {below(last - 2), last - 1, at(last - 2), 40},
		"a gap of before":        {of(0, 2), 3, at(1, 3), 4},
		"only a piece of before": {of(2), 3, at(0), 2},
		"behind a gap of before": {of(2), 2, at(3), 1},
	} {
		rounds := 0
		find := func(keys []conversation.Key) ([]conversation.Seq, error) {
			rounds++
			seqs := make([]conversation.Seq, len(keys))
			for i, k := range keys {
				if k.Source != "ext:x" || k.Part > x.before {
					t.Errorf("%s: asks for %+v", name, k)
				}
				if x.stored(k.Part) {
					seqs[i] = conversation.Seq(k.Part) + 1
				}
			}
			return seqs, nil
		}
		next, err := dedup.NextPart(conversation.Key{Source: "ext:x", Part: x.before}, find)
		if err != nil || !slices.Contains(x.want, next) || rounds > x.rounds {
			t.Errorf("%s: %d, %v, in %d rounds; want %d in %d", name, next, err, rounds, x.want, x.rounds)
		}
		if x.stored(next) || next > 0 && !x.stored(next-1) {
			t.Errorf("%s: %d is not behind what is stored", name, next)
		}
	}
}

// An error of the store is said, whichever question it answers.
func TestNextPartFails(t *testing.T) {
	down := errors.New("down")
	for fails := range 2 {
		_, err := dedup.NextPart(conversation.Key{Source: "ext:x", Part: 7}, func(keys []conversation.Key) ([]conversation.Seq, error) {
			if fails--; fails < 0 {
				return nil, down
			}
			return make([]conversation.Seq, len(keys)), nil
		})
		if !errors.Is(err, down) {
			t.Errorf("%v", err)
		}
	}
}

func below(n conversation.PartIndex) func(conversation.PartIndex) bool {
	return func(i conversation.PartIndex) bool { return i < n }
}

func of(stored ...conversation.PartIndex) func(conversation.PartIndex) bool {
	return func(i conversation.PartIndex) bool { return slices.Contains(stored, i) }
}

func at(i ...conversation.PartIndex) []conversation.PartIndex { return i }
