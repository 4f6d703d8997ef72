package service

import (
	"context"
	"errors"

	"parley/conversation"
)

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
