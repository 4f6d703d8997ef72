package service

import (
	"context"
	"errors"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/gateway/attach"
)

// File finds a file in a session, or, with session "", in those that p may see.
func (s *Services) File(ctx context.Context, p *Principal, hash attached.Hash, session conversation.SessionID) (attach.Open, error) {
	return s.Files.Find(ctx, attach.Wanted{
		Tenant: p.Tenant, Hash: hash, Session: session,
		Sees: func(key conversation.SessionKey) bool {
			_, err := s.Visible(ctx, p, key)
			return err == nil
		},
		Rows:  s.Sessions.Sessions(ctx, conversation.Page{Tenant: p.Tenant}),
		Reads: func(row conversation.Summary) bool { return p.sees(row) || p.serves(row) },
	})
}

// Row is a session's row as the list of p shows it; zero for a session that is in no list.
func (s *Services) Row(ctx context.Context, p *Principal, key conversation.SessionKey) (conversation.Summary, error) {
	for row, err := range s.Sessions.Sessions(ctx, conversation.Page{Tenant: key.Tenant, For: p.User, Only: key.Session}) {
		if errors.Is(err, conversation.ErrNotFound) {
			break
		}
		return row, err
	}
	return conversation.Summary{}, nil
}
