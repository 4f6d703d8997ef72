package service

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/conversation"
)

// Act is something that an administrator does: one line of the audit log.
type Act struct {
	At         time.Time             `json:"at"`
	Tenant     conversation.TenantID `json:"tenant,omitempty"`     // whose administrators may read it; "" = the operator's alone, in the file
	User       conversation.UserID   `json:"user,omitempty"`       // who does it; "" = the operator, at the command line or by a signal
	Credential string                `json:"credential,omitempty"` // Principal.Credential
	Address    string                `json:"address,omitempty"`    // the client's
	Act        string                `json:"act"`                  // one of the Act… words
	Object     string                `json:"object,omitempty"`     // what it is done to: a session, the id of a key, a path
	Detail     string                `json:"detail,omitempty"`     // more, for a person; never a secret
}

// The words of Act.Act.
const (
	ActErase      = "session.erase"  // a session that is another's
	ActCeiling    = "policy.ceiling" // a policy above what the operator configured
	ActBackup     = "backup"         // a copy of the store
	ActKeyCreate  = "key.create"     // a key is made
	ActKeyRevoke  = "key.revoke"     // a key ends
	ActKeysReload = "keys.reload"    // the keys are read anew
)

// Audit keeps acts. gateway/audit keeps them in a file; MemoryAudit is for a server
// without a data directory and for tests.
type Audit interface {
	// Record writes an act down before it is done. When it returns nil the act is
	// durable; after an error the act must not be done.
	Record(ctx context.Context, a Act) error
	// Acts returns those of a tenant, newest first, at most limit: those before the
	// cursor, "" = from the newest on. next is the cursor of the following page, "" =
	// there is none.
	Acts(ctx context.Context, tenant conversation.TenantID, cursor string, limit int) (acts []Act, next string, err error)
}

// ErrAuditCursor refuses a cursor that no page has given.
var ErrAuditCursor = conversation.Errorf(conversation.BadRequest, "cursor must be a next_cursor of this list")

// Audited writes down what who is about to do, coming from address. An error means that
// it must not be done: what cannot be written down does not happen.
func (s *Services) Audited(ctx context.Context, who *Principal, address, act, object, detail string) error {
	err := s.Audit.Record(ctx, Act{
		At: s.Now().UTC(), Tenant: who.Tenant, User: who.User, Credential: who.Credential, Address: address,
		Act: act, Object: object, Detail: detail,
	})
	if err == nil {
		s.Log.Info("audit", "act", act, "object", object, "tenant", string(who.Tenant), "user", string(who.User), "address", address)
		return nil
	}
	return &conversation.Error{Code: conversation.Unavailable, Message: "the audit log cannot be written, so nothing was done", Err: err}
}

// Lift decides what becomes of policies that were refused without Admin. nil = who may set
// them above what is configured, and the audit log says that this is about to be done: they
// may be said again, with Admin. Else it is what the client is told.
func (s *Services) Lift(ctx context.Context, who *Principal, address string, session conversation.SessionID, policies conversation.Overrides, refusal error) error {
	if len(policies) == 0 || !who.LiftsCeilings() || conversation.AsError(refusal).Code != conversation.BadRequest {
		return refusal
	}
	var said []string
	for _, key := range slices.Sorted(maps.Keys(policies)) {
		said = append(said, key+"="+string(policies[key]))
	}
	return s.Audited(ctx, who, address, ActCeiling, string(session), conversation.Excerpt(strings.Join(said, " "), 512))
}

// memoryActs is how many acts MemoryAudit keeps.
const memoryActs = 1000

// MemoryAudit keeps the last acts in memory. It may be used from any goroutine.
type MemoryAudit struct {
	Refuse error // what Record returns instead, for tests; set it before use

	mu   sync.Mutex
	acts []Act // the oldest first
	gone int   // acts that were dropped before acts[0]
}

// Record implements Audit.
func (m *MemoryAudit) Record(_ context.Context, a Act) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Refuse != nil {
		return m.Refuse
	}
	if len(m.acts) == memoryActs {
		m.acts, m.gone = slices.Delete(m.acts, 0, 1), m.gone+1
	}
	m.acts = append(m.acts, a)
	return nil
}

// Acts implements Audit.
func (m *MemoryAudit) Acts(_ context.Context, tenant conversation.TenantID, cursor string, limit int) (acts []Act, next string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.acts)
	if cursor != "" {
		n, err := strconv.Atoi(cursor)
		if err != nil || n < 0 {
			return nil, "", ErrAuditCursor
		}
		before = min(max(n-m.gone, 0), before)
	}
	for i := before - 1; i >= 0; i-- {
		if m.acts[i].Tenant != tenant {
			continue
		}
		if len(acts) == limit {
			return acts, strconv.Itoa(i + 1 + m.gone), nil
		}
		acts = append(acts, m.acts[i])
	}
	return acts, "", nil
}
