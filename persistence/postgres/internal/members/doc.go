// Package members keeps the list of a cluster's members in PostgreSQL: a row for each
// node, and its lease by the database's clock.
//
// Every renewal also says that somebody can reach the list. If nobody has for more than
// half a lease, all leases begin anew with the first who comes back: an outage of the
// database, or its failover to a server whose clock says something else, makes nobody
// dead. Members of one database with other cluster names do not see each other.
//
// The list has connections of its own: sessions that write much never keep a lease waiting.
package members
