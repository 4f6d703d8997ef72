package chaos

import (
	"bufio"
	"fmt"
	"io"
	"os"
)

// journal is what a worker writes down of the server's answers. Each line is one
// write to a file that is open for appending: it outlives the process, whenever that is killed.
type journal struct{ file *os.File }

// part is a part that the server acknowledged. Its generation is the one under which the
// worker sent it.
type acknowledged struct {
	Session, Source, Message string
	Index, Seq, Generation   int
	Duplicate                bool
}

// handout is a message that a claim gave.
type handout struct {
	Session, Message, Runtime string
	Generation                int
}

func (j journal) line(format string, args ...any) {
	if _, err := fmt.Fprintf(j.file, format+"\n", args...); err != nil {
		panic(err) // a journal with a hole would acquit the server
	}
}

func (j journal) part(a acknowledged) {
	j.line("part %s %s %s %d %d %d %t", a.Session, a.Source, a.Message, a.Index, a.Seq, a.Generation, a.Duplicate)
}

func (j journal) handout(h handout) {
	j.line("handout %s %s %s %d", h.Session, h.Message, h.Runtime, h.Generation)
}

// count writes down that something was met.
func (j journal) count(what string) { j.line("count %s", what) }

// violation writes down an answer that the contract does not allow.
func (j journal) violation(format string, args ...any) {
	j.line("violation %q", fmt.Sprintf(format, args...))
}

// notes are what all workers have written down.
type notes struct {
	parts      map[string][]acknowledged // by session
	handouts   map[string][]handout      // by session
	counts     map[string]int
	violations []string
}

// read adds a journal. Its last line may be cut off: the worker was killed in the
// middle of a write of more than one page.
func (n *notes) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var kind string
		var err error
		text := lines.Text()
		_, _ = fmt.Sscan(text, &kind)
		switch kind {
		case "part":
			var a acknowledged
			if _, err = fmt.Sscan(text, &kind, &a.Session, &a.Source, &a.Message, &a.Index, &a.Seq, &a.Generation, &a.Duplicate); err == nil {
				n.parts[a.Session] = append(n.parts[a.Session], a)
			}
		case "handout":
			var h handout
			if _, err = fmt.Sscan(text, &kind, &h.Session, &h.Message, &h.Runtime, &h.Generation); err == nil {
				n.handouts[h.Session] = append(n.handouts[h.Session], h)
			}
		case "count":
			n.counts[text[len("count "):]]++
		case "violation":
			n.violations = append(n.violations, text[len("violation "):])
		default:
			err = fmt.Errorf("what is that")
		}
		if err != nil {
			return fmt.Errorf("a line of a journal: %q: %w", text, err)
		}
	}
	return lines.Err()
}
