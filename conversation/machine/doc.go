// Package machine holds the rules by which a session lives: a pure machine that
// turns commands into events and effects. Time, free slots and hints about
// duplicates arrive with each command.
package machine
