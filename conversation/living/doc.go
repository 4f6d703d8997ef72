// Package living finds the session that a name means today: sessions of a name are erased and
// made again, each time with the next id.
package living
