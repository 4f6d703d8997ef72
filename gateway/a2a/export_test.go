package a2a

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Seen is what a client has of a task, by the protocol's rules.
type Seen struct {
	ID, Context string
	State       string
	Asked       string            // the text of the status's message
	Order       []string          // of artifacts
	Texts       map[string]string // of artifacts
	Receipts    []string
	Events      []string // what came: task, the states, and the texts' ids
	IDs         []string // of events
	Wrong       []string
}

type wireTask struct {
	ID, ContextID string
	Status        wireStatus
	Artifacts     []wireArtifact
	History       []wireMessage
	Metadata      wireNotes
}

type wireStatus struct {
	State, Timestamp string
	Message          *wireMessage
}

type wireMessage struct {
	MessageID, Role string
	Parts           []struct{ Text string }
}

type wireArtifact struct {
	ArtifactID string
	Parts      []struct{ Text string }
}

type wireNotes struct {
	Parley struct {
		Number   string
		Receipt  *wireReceipt
		Receipts []wireReceipt
	}
}

type wireReceipt struct{ MessageID, How, Evidence string }

func (m *wireMessage) text() string {
	if m == nil {
		return ""
	}
	texts := []string{}
	for _, p := range m.Parts {
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "|")
}

// Read reads streams of server-sent events, one behind the other, as one client does.
func Read(streams ...string) *Seen {
	s := &Seen{Texts: map[string]string{}}
	for _, stream := range streams {
		first := true
		for event := range strings.SplitSeq(stream, "\n\n") {
			if _, data, is := strings.Cut(event, "data: "); is {
				id := ""
				if rest, has := strings.CutPrefix(event, "id: "); has {
					id, _, _ = strings.Cut(rest, "\n")
				}
				s.add(id, data, first)
				first = false
			}
		}
	}
	return s
}

func (s *Seen) wrong(format string, args ...any) {
	s.Wrong = append(s.Wrong, fmt.Sprintf(format, args...))
}

func (s *Seen) add(id, data string, first bool) {
	var envelope struct{ Result json.RawMessage }
	if json.Unmarshal([]byte(data), &envelope) == nil && envelope.Result != nil {
		data = string(envelope.Result)
	}
	var e struct {
		Task         *wireTask
		StatusUpdate *struct {
			TaskID, ContextID string
			Status            wireStatus
			Metadata          wireNotes
		}
		ArtifactUpdate *struct {
			TaskID, ContextID string
			Artifact          wireArtifact
			Append, LastChunk bool
			Metadata          wireNotes
		}
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		s.wrong("%v: %s", err, data)
		return
	}
	number := ""
	switch {
	case e.Task != nil:
		if !first {
			s.wrong("a task in the middle of a stream")
		}
		s.ID, s.Context, s.State, s.Asked = e.Task.ID, e.Task.ContextID, e.Task.Status.State, e.Task.Status.Message.text()
		for _, a := range e.Task.Artifacts {
			s.put(a, false)
		}
		for _, r := range e.Task.Metadata.Parley.Receipts {
			s.receipt(&r)
		}
		number = e.Task.Metadata.Parley.Number
		s.Events = append(s.Events, "task "+s.State)
	case e.StatusUpdate != nil:
		s.State, s.Asked = e.StatusUpdate.Status.State, e.StatusUpdate.Status.Message.text()
		s.receipt(e.StatusUpdate.Metadata.Parley.Receipt)
		number = e.StatusUpdate.Metadata.Parley.Number
		s.Events = append(s.Events, s.State)
	case e.ArtifactUpdate != nil:
		s.put(e.ArtifactUpdate.Artifact, e.ArtifactUpdate.Append)
		number = e.ArtifactUpdate.Metadata.Parley.Number
		s.Events = append(s.Events, e.ArtifactUpdate.Artifact.ArtifactID)
	default:
		s.wrong("an event of no kind: %s", data)
	}
	if first != (e.Task != nil) {
		s.wrong("a stream begins with %s", data)
	}
	if number != id {
		s.wrong("the event %s says that it is %s", id, number)
	}
	s.IDs = append(s.IDs, id)
}

func (s *Seen) receipt(r *wireReceipt) {
	if r == nil {
		return
	}
	if told := r.MessageID + " " + r.How; !slices.Contains(s.Receipts, told) {
		s.Receipts = append(s.Receipts, told)
	}
}

func (s *Seen) put(a wireArtifact, more bool) {
	if len(a.Parts) != 1 {
		s.wrong("an artifact of %d parts", len(a.Parts))
		return
	}
	_, has := s.Texts[a.ArtifactID]
	if more && !has {
		s.wrong("%s goes on and has not begun", a.ArtifactID)
	}
	if !has {
		s.Order = append(s.Order, a.ArtifactID)
	}
	if !more {
		s.Texts[a.ArtifactID] = ""
	}
	s.Texts[a.ArtifactID] += a.Parts[0].Text
}

// Has is what the client has in the end: without the texts that count no more, which are empty.
func (s *Seen) Has() string {
	said := []string{}
	for _, id := range s.Order {
		if s.Texts[id] != "" {
			said = append(said, s.Texts[id])
		}
	}
	return fmt.Sprintf("%s %q asks %q receipts %q", s.State, said, s.Asked, s.Receipts)
}
