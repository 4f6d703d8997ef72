package held

import (
	"fmt"
	"testing"
	"time"

	"parley/conversation"
)

var key = conversation.SessionKey{Tenant: "acme", Session: "s1"}

func TestOnlyWhatIsKnownIsDenied(t *testing.T) {
	var s Sessions
	a, b := []byte("a"), []byte("b")
	may := func(what string, wantA, wantB bool) {
		t.Helper()
		if s.MayHold(key, a) != wantA || s.MayHold(key, b) != wantB {
			t.Errorf("%s: may hold a %v, b %v", what, s.MayHold(key, a), s.MayHold(key, b))
		}
	}
	may("a session that nobody acquired", true, true)
	s.Set(key, 2, [][]byte{a}, true)
	may("acquired", true, false)
	s.Set(key, 1, nil, true)
	may("an older acquisition that ends later", true, false)
	s.Add(key, 1, [][]byte{b})
	may("a commit of an older epoch", true, false)
	s.Add(key, 2, [][]byte{b})
	may("a commit", true, true)
	s.Set(key, 3, nil, true)
	may("a newer acquisition", false, false)
	s.Forget(key, 2)
	may("an older one gives up", false, false)
	s.Forget(key, 3)
	may("given up", true, true)
	s.Set(key, 4, nil, false)
	may("with more keys than were read", true, true)
	if s.Forget(key, 4); s.Len() != 0 {
		t.Errorf("%d sessions are known", s.Len())
	}
}

func TestManyKeys(t *testing.T) {
	var s Sessions
	s.Set(key, 1, nil, true)
	for i := range 2 * MaxKeys {
		s.Add(key, 1, [][]byte{fmt.Append(nil, i)})
	}
	for i := range 2 * MaxKeys {
		if !s.MayHold(key, fmt.Append(nil, i)) {
			t.Fatalf("key %d was stored", i)
		}
	}
}

func TestFreshUntilTheFirstWrite(t *testing.T) {
	var s Sessions
	if s.Fresh(key, time.Hour) != 0 {
		t.Error("a session that nobody acquired is left to its writer")
	}
	s.Set(key, 1, nil, true)
	if s.Fresh(key, time.Hour) == 0 || s.Fresh(key, 0) != 0 {
		t.Error("a session is not left to the one who has just acquired it")
	}
	if s.Add(key, 1, nil); s.Fresh(key, time.Hour) != 0 {
		t.Error("its writer has written, and still has it for itself")
	}
}
