// Package dedup is about commands of clients that come twice: which key makes them one, and
// whether the second delivery says the same as the first. It holds no state: the store has
// the keys, and a session remembers the last ones by itself.
package dedup
