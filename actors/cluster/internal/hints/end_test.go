package hints

import (
	"context"
	"testing"
	"testing/synctest"

	"parley/conversation"
)

// What changes while a node goes is said before it has gone: reading lists again would not
// show the others that a session was erased.
func TestTheLastChangeIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		said := 0
		h := New(Options{
			Others: func() []conversation.Member { return []conversation.Member{{Node: "n2"}} },
			Send:   func(conversation.Member, []byte) bool { said++; return true },
			Again:  func(context.Context) error { return nil },
		})
		ended := make(chan struct{})
		go func() { h.Run(ctx); close(ended) }()
		synctest.Wait()
		leave()
		h.Changed(Hint{Key: conversation.SessionKey{Tenant: "acme", Session: "s"}, Everyone: true})
		<-ended
		if said != 1 {
			t.Errorf("%d messages were sent", said)
		}
	})
}

// What a node has changed and never said is looked for when it is gone, also if nothing has
// ever come from it.
func TestWhoNeverSaidAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		var others []conversation.Member
		reads := 0
		h := New(Options{
			Others: func() []conversation.Member { return others },
			Send:   func(conversation.Member, []byte) bool { return true },
			Again:  func(context.Context) error { reads++; return nil },
		})
		ended := make(chan struct{})
		go func() { h.Run(ctx); close(ended) }()
		others = []conversation.Member{{Node: "n2"}}
		h.Moved()
		synctest.Wait()
		before := reads
		others = nil
		h.Moved()
		synctest.Wait()
		if reads != before+1 {
			t.Errorf("lists were read again %d times, want once", reads-before)
		}
		leave()
		<-ended
	})
}
