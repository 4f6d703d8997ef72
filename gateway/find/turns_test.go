package find

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"parley/conversation"
)

// One user with many searches leaves places to others; those who wait have their turns user by
// user, and no user has many that wait.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waiting := 0
		var mu sync.Mutex // of several that go at the same moment
		turns := newTurns(2, func(n int) { waiting += n })
		var order []string
		ends := map[string]func(){}
		take := func(ctx context.Context, user, name string) {
			go func() {
				done, err := turns.take(ctx, who{"acme", conversation.UserID(user)})
				if err != nil {
					name += " " + err.Error()
				}
				mu.Lock()
				defer mu.Unlock()
				order, ends[name] = append(order, name), done
			}()
			synctest.Wait()
		}
		want := func(what string, waits int, names ...string) {
			t.Helper()
			if !slices.Equal(order, names) || waiting != waits {
				t.Errorf("%s: %q, %d wait; want %q, %d", what, order, waiting, names, waits)
			}
			order = nil
		}
		end := func(name string) {
			ends[name]()
			synctest.Wait()
		}
		for i := range 4 {
			take(t.Context(), "hog", fmt.Sprint("hog ", i))
		}
		want("one user alone", 3, "hog 0")
		take(t.Context(), "ann", "ann 0")
		want("another one", 3, "ann 0")
		take(t.Context(), "ann", "ann 1")
		take(t.Context(), "bob", "bob 0")
		want("no place", 5)
		end("hog 0")
		want("it was the first one who waited", 4, "hog 1")
		end("hog 1")
		want("who has a place waits for the one who has none", 3, "bob 0")
		end("bob 0")
		want("in turn", 2, "hog 2")
		end("ann 0")
		want("in turn", 1, "ann 1")
		ctx, cancel := context.WithCancel(t.Context())
		for i := range mostWaiting {
			take(ctx, "hog", fmt.Sprint("more ", i))
		}
		want("so many wait", mostWaiting, "more 7 "+errBusy.Error())
		cancel()
		synctest.Wait()
		if len(order) != mostWaiting-1 || waiting != 1 {
			t.Errorf("%q have gone, %d wait", order, waiting)
		}
		order = nil
		end("hog 2")
		want("the last one", 0, "hog 3")
		end("hog 3")
		end("ann 1")
		if turns.left != 2 || len(turns.running) > 0 || len(turns.waiting) > 0 || len(turns.next) > 0 {
			t.Errorf("%+v", turns)
		}
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	turns := newTurns(1, func(int) {})
	done, err := turns.take(gone, who{"acme", "ann"})
	if err != nil { // it was free
		t.Fatal(err)
	}
	if _, err := turns.take(gone, who{"acme", "ann"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	done()
}
