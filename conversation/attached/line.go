package attached

import (
	"fmt"
	"strings"

	"parley/conversation/ownline"
)

// head begins a line that says what is attached to a message.
const head = "[attachment"

// Line is what a model is told of a file: [attachment: NAME, TYPE, SIZE; why]. It is one line,
// whatever the file is called.
func (f File) Line(why string) string {
	if why != "" {
		why = "; " + why
	}
	kind, sub, _ := strings.Cut(f.Type, "/")
	return fmt.Sprintf("%s: %s, %s/%s, %s%s]", head, Name(f.Name), Name(kind), Name(sub), Size(f.Size), why)
}

// What a Line says of what became of the file.
const (
	Shown    = "shown below" // a picture
	Follows  = "its text follows"
	Unseen   = "this model cannot see it" // a picture
	Unread   = "its text is not shown here"
	NoRoom   = "not shown: newer files take the room"
	TooLarge = "not shown: it is too large for this model"
	Refused  = "not shown: the model's provider refused the request with it"
	Gone     = "not shown: it is not there any more, or cannot be read"
	Unknown  = "not shown: it is neither a picture nor a text that this model takes"
)

// CutTo goes behind Follows where head and tail of the text are shown, of so many bytes.
func CutTo(limit int64) string { return ", cut to " + Size(limit) }

// Size is a number of bytes as people read it.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KB", (n+1<<9)>>10)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
}

// Escape puts a space before each line of a text that could be taken for a Line. What has
// been escaped stays as it is.
func Escape(text string) string { return ownline.Escape(text, head) }
