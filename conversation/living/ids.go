package living

import (
	"strconv"
	"strings"

	"parley/conversation"
)

// Next is the id of the session that takes the name of an erased one: "<id>_2",
// then "<id>_3". An erased session never comes back, so what is late for it, a
// writer, a message, a client with its cursor, cannot meet the new one.
func Next(id conversation.SessionID) conversation.SessionID {
	first, n := place(id)
	return nth(first, n+1)
}

// Before is the id of which id is the Next; ok is false for the first one of a name.
func Before(id conversation.SessionID) (before conversation.SessionID, ok bool) {
	first, n := place(id)
	if n == 1 {
		return "", false
	}
	return nth(first, n-1), true
}

// place is the first id of the name that id belongs to, and its number, from 1.
func place(id conversation.SessionID) (first conversation.SessionID, n int) {
	i := strings.LastIndexByte(string(id), '_')
	if i <= 0 {
		return id, 1
	}
	n, err := strconv.Atoi(string(id[i+1:]))
	if err != nil || n < 2 || nth(id[:i], n) != id {
		return id, 1
	}
	return id[:i], n
}

// nth is the n-th session of the name whose first one is id.
func nth(id conversation.SessionID, n int) conversation.SessionID {
	if n == 1 {
		return id
	}
	return id + conversation.SessionID("_"+strconv.Itoa(n))
}
