package access

import (
	"slices"
	"strconv"
)

// Role is what a user is to a session. A higher one may do all that a lower one may.
type Role uint8

// The roles. Stored: do not reorder.
const (
	None     Role = iota // may not know that the session exists
	Reader               // reads
	Approver             // answers questions and approvals as well
	Writer               // says, edits, cancels, renames as well
	Owner                // changes members, access and policies, closes and erases as well
)

var roleNames = [...]string{"", "reader", "approver", "writer", "owner"}

// String is the role's word in the protocol; "" for None.
func (r Role) String() string {
	if int(r) >= len(roleNames) {
		return "unknown(" + strconv.Itoa(int(r)) + ")"
	}
	return roleNames[r]
}

// ParseRole reads a role word of the protocol. "" is none.
func ParseRole(word string) (Role, bool) {
	i := slices.Index(roleNames[1:], word)
	return Role(i + 1), i >= 0
}

// Right is what something needs that is done to a session.
type Right uint8

// The rights. The zero value is for what no user may do: the engine does it.
const (
	Engine  Right = iota
	Read          // see the session and its log
	Approve       // answer its questions and approvals
	Write         // put work into it, change and end work of it
	Own           // change who may what, its policies, its end
)

// Role is the lowest role that has the right; None for what no user may do.
func (r Right) Role() Role { return Role(r) }

// May is true when a user of the role has the right.
func (r Role) May(right Right) bool {
	return right != Engine && r >= Role(right)
}

// Of is the role of a user in a session: that of its owner, that of a member, that of a
// user whom the session is open to, or none. Where two of them hold, the higher one counts.
func Of[U comparable](user, owner U, open bool, members map[U]Role) Role {
	if user == owner {
		return Owner
	}
	role := members[user]
	if open {
		role = max(role, Writer)
	}
	return role
}
