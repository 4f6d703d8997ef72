package machine

import (
	"slices"
	"testing"
	"time"

	"parley/conversation"
)

// TestTrueReceipts plays random conversations in made-up words, tool rounds and delegations
// at random points. With a model that only ever speaks of the first message of its task none
// of the others ends `answered`, and each is asked for alone once at most. A model that names
// all of them is never nudged. N-15 D-21
func TestTrueReceipts(t *testing.T) {
	runs, base := *ratesRuns, uint64(time.Now().UnixNano())
	if testing.Short() {
		runs = min(runs, 500)
	}
	if seed := *receiptsSeed; seed != 0 {
		runs, base = 1, seed
	}
	for i := range runs {
		seed := base + uint64(i)
		again := func(format string, args ...any) {
			t.Helper()
			t.Errorf(format, args...)
			t.Fatalf("seed %d; again: go test ./conversation/machine -run TestTrueReceipts -receipts.again=%d", seed, seed)
		}
		limit := 0
		if i%5 == 0 {
			limit = 1 + i/5%4
		}
		for _, one := range othersOf(converse(t, repeats, seed, 0, limit)) {
			switch {
			case one.how == conversation.ResolvedAnswered:
				again("%s is answered by %s, and nobody has spoken of it", one.message, one.evidence)
			case one.how != conversation.ResolvedUnanswered:
				again("%s is %s", one.message, one.how)
			case one.nudges > 1:
				again("%s is nudged for %d times", one.message, one.nudges)
			}
		}
		log := converse(t, namesAll, seed, receiptSlips, limit)
		if slices.ContainsFunc(log, func(e conversation.Event) bool { return e.Body.Kind() == conversation.KindCoverageNudge }) {
			again("a model that names each message is nudged")
		}
		for _, e := range log {
			if b, ok := e.Body.(conversation.MessageResolved); ok && b.Evidence != conversation.EvidenceNamed && limit == 0 {
				again("%s is %s by %q", b.Message, b.How, b.Evidence)
			}
		}
	}
	t.Logf("%d conversations from seed %d", runs, base)
}

// other is a message that is not the first one that its task has read.
type other struct {
	message  conversation.MessageID
	how      conversation.Resolution
	evidence conversation.Evidence
	nudges   int
}

func othersOf(log []conversation.Event) []*other {
	var all []*other
	first, asked := map[conversation.TaskID]bool{}, map[conversation.TaskID]*other{}
	find := func(m conversation.MessageID) *other {
		if i := slices.IndexFunc(all, func(o *other) bool { return o.message == m }); i >= 0 {
			return all[i]
		}
		return &other{}
	}
	for _, e := range log {
		switch b := e.Body.(type) {
		case conversation.StepStarted:
			if len(b.Read) > 0 && b.Attempt == 1 && asked[e.Task] != nil { // it is asked for once more
				asked[e.Task].nudges--
			}
			for _, m := range b.Read {
				if first[e.Task] {
					all = append(all, &other{message: m})
				}
				first[e.Task] = true
			}
		case conversation.CoverageNudge:
			if b.Form == conversation.NudgeAlone {
				asked[e.Task] = find(b.Messages[0])
				asked[e.Task].nudges++
			}
		case conversation.MessageResolved:
			o := find(b.Message)
			delete(asked, e.Task)
			o.how, o.evidence = b.How, b.Evidence
		}
	}
	return all
}
