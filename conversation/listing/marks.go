package listing

// Marks are what one user has marked a session with, for himself alone.
type Marks uint8

// What a session can be marked with, and all of it.
const (
	Pinned   Marks = 1 << iota // on top of the list
	Archived                   // out of the list, until the user puts it back

	AllMarks = Pinned | Archived
)

// Pinned is true when Pinned is among the marks.
func (m Marks) Pinned() bool { return m&Pinned != 0 }

// Archived is true when Archived is among the marks.
func (m Marks) Archived() bool { return m&Archived != 0 }

// Marking changes marks: some are set, some are taken away, all others stay. No mark is in both.
type Marking struct{ Set, Unset Marks }

// With is the change that sets or takes away one mark as well.
func (c Marking) With(mark Marks, on bool) Marking {
	if on {
		return c.Then(Marking{Set: mark})
	}
	return c.Then(Marking{Unset: mark})
}

// Then is the change that does what c does, and next what next does.
func (c Marking) Then(next Marking) Marking {
	return Marking{Set: c.Set&^next.Unset | next.Set, Unset: c.Unset&^next.Set | next.Unset}
}

// Of is what marks are after the change.
func (c Marking) Of(m Marks) Marks { return m&^c.Unset | c.Set }
