package search

import (
	"slices"

	"parley/conversation"
)

// News is what a part of a log does to what is kept of its session.
type News struct {
	Through  conversation.Seq // the last event of it
	Said     []Said           // in the order of the log
	Reworded []Said           // what was said before, with its new Text and Folded; Seq and At are not known
	Unsaid   []conversation.MessageID
}

// Add takes the next event of the log.
func (n *News) Add(e conversation.Event) {
	n.Through = e.Seq
	c := Of(e)
	at := func(all []Said) int {
		return slices.IndexFunc(all, func(s Said) bool { return s.Message == c.Message })
	}
	switch c.What {
	case Speaks:
		n.Said = append(n.Said, Said{Message: c.Message, Seq: e.Seq, At: e.At, Text: e.Seq, Folded: Fold(c.Text)})
	case Rewords:
		if slices.Contains(n.Unsaid, c.Message) {
			return // a store may take what is reworded first, or last
		}
		if i := at(n.Said); i >= 0 {
			n.Said[i].Text, n.Said[i].Folded = e.Seq, Fold(c.Text)
			return
		}
		if i := at(n.Reworded); i >= 0 {
			n.Reworded = slices.Delete(n.Reworded, i, i+1)
		}
		n.Reworded = append(n.Reworded, Said{Message: c.Message, Text: e.Seq, Folded: Fold(c.Text)})
	case Unsays:
		if i := at(n.Said); i >= 0 {
			n.Said = slices.Delete(n.Said, i, i+1)
			return
		}
		if i := at(n.Reworded); i >= 0 {
			n.Reworded = slices.Delete(n.Reworded, i, i+1)
		}
		n.Unsaid = append(n.Unsaid, c.Message)
	}
}
