package postgres

import (
	"parley/conversation/member"
	"parley/persistence/postgres/internal/members"
	"parley/persistence/postgres/internal/opening"
)

// Members is the list of the members of one cluster, and what only one of them may have.
type Members interface {
	member.Table
	member.Singletons

	// Close ends the list's connections. Calls after it fail.
	Close()
}

// OpenMembers opens the list of a cluster's members in a database that Prepare has
// found good. It has connections of its own, made when they are needed: the list of a
// database that is out of reach opens, and its calls fail. The error is a *Refusal.
func OpenMembers(dsn, cluster string) (Members, error) {
	config, err := opening.Pool(dsn)
	if err != nil {
		return nil, err
	}
	return members.Open(config, cluster)
}
