package uistream

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// How many tasks a page shows at most, if the client does not say, and whatever it says.
const (
	pageTasks = 50
	maxTasks  = 200
)

// read shows the newest messages of a chat as a client has them, for a page that is loaded:
// {id, session, active, messages, previous}. previous is what ?before= takes for the ones before.
func (a *api) read(c *fiber.Ctx) error {
	name, err := door.Param(c, "id")
	if err != nil {
		return err
	}
	limit := pageTasks
	if q := c.Query("limit"); q != "" {
		if limit, err = strconv.Atoi(q); err != nil || limit < 1 {
			return conversation.Errorf(conversation.BadRequest, "limit must be a number from 1")
		}
		limit = min(limit, maxTasks)
	}
	before, bad := readPosition(c.Query("before"))
	if bad != nil {
		return bad
	}
	who := door.Principal(c)
	ctx, cancel := a.Deadline()
	defer cancel()
	key, _, err := a.Find(ctx, who, name)
	if err != nil {
		return err
	}
	as, err := a.ReadsAs(ctx, who, key)
	if err != nil {
		return err
	}
	v, err := a.View(ctx, key, as)
	if err != nil {
		return err
	}
	w, err := a.window(ctx, v, before, limit)
	if err != nil {
		return err
	}
	for n, err := range a.Notes(ctx, who, key, w.since, w.until) {
		if err != nil {
			return err
		}
		w.add(n)
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(w.page(name, a.Limits.PageBytes, activeOf(v) != ""))
}

// place is where a message is in a chat: what was said at an event before what the task says that
// begins with it.
type place uint64

func (p place) seq() conversation.Seq { return conversation.Seq(p / 2) }

func saidAt(seq conversation.Seq) place { return place(2 * seq) }
func toldAt(seq conversation.Seq) place { return place(2*seq + 1) }

// position is where a page begins: at a place, with the task behind which the list of them goes on.
type position struct {
	place place  // 0 = at the end
	tasks string // cursor; "" = at the newest one
}

func readPosition(s string) (p position, bad *conversation.Error) {
	if s == "" {
		return p, nil
	}
	n, tasks, _ := strings.Cut(s, ".")
	at, err := strconv.ParseUint(n, 10, 62)
	if err != nil || at == 0 {
		return p, conversation.Errorf(conversation.BadRequest, "before must be what was answered as previous")
	}
	return position{place(at), tasks}, nil
}

func (p position) String() string {
	s := strconv.FormatUint(uint64(p.place), 10)
	if p.tasks != "" {
		s += "." + p.tasks
	}
	return s
}

// window is a page of a chat while it is read.
type window struct {
	session conversation.SessionID
	since   conversation.Seq // the notes begin behind it
	until   conversation.Seq // and end before it; 0 = at the end of the log
	before  position         // of the page behind it
	first   bool             // nothing was before
	names   names
	tasks   map[conversation.TaskID]*toldTask
	any     bool // tasks are those that are met: a delegation's have no rows in lists
	said    []*saidMessage
	byID    map[conversation.MessageID]*saidMessage
	asks    map[conversation.QuestionID]bool // open questions that are answered by a click, or by a program
}

type toldTask struct {
	at      place
	cursor  string
	teller  *teller
	message message
}

type saidMessage struct {
	at        place
	accepted  conversation.MessageAccepted
	time      string // JSON
	withdrawn bool
	how       conversation.MessageResolved
}

// window is the page of the newest tasks before a place.
func (a *api) window(ctx context.Context, v conversation.View, before position, limit int) (*window, error) {
	w := &window{
		session: v.Key.Session, before: before, first: true, names: names{},
		tasks: map[conversation.TaskID]*toldTask{}, any: v.Key.Session.Depth() > 0, byID: map[conversation.MessageID]*saidMessage{}, asks: map[conversation.QuestionID]bool{},
	}
	if before.place != 0 {
		w.until = before.place.seq() + 1
	}
	works := false
	for row, err := range a.Sessions.Tasks(ctx, conversation.TaskFilter{Tenant: v.Key.Tenant, Session: v.Key.Session, Cursor: before.tasks}) {
		if err != nil {
			return nil, err
		}
		at := toldAt(row.First)
		if before.place != 0 && at >= before.place {
			continue
		}
		if len(w.tasks) == limit {
			w.first = false
			break
		}
		w.tasks[row.Task] = &toldTask{at: at, cursor: row.PageCursor(), teller: newTeller(v.Key.Session, row.Task, w.names)}
		if len(w.tasks) == 1 || row.First <= w.since {
			w.since = row.First - 1
		}
		works = works || !row.Status.Ended()
		if w.until != 0 {
			w.until = max(w.until, row.Last+1)
		}
	}
	if works { // what it says is at the end of the log
		w.until = 0
	}
	if w.first {
		w.since = 0
	}
	return w, nil
}

// add takes the next note.
func (w *window) add(n *exchange.Note) {
	w.names.add(n)
	t := w.tasks[n.Task]
	if t == nil && w.any && n.Task != "" && n.Event != nil {
		t = &toldTask{at: toldAt(n.Event.Seq), teller: newTeller(w.session, n.Task, w.names)}
		w.tasks[n.Task] = t
	}
	if t != nil {
		if t.message.id == "" {
			begin := t.teller.begin()
			t.message.add(&begin)
		}
		for _, c := range t.teller.add(n) {
			t.message.add(&c)
		}
	}
	if n.Kind == exchange.Asked && (n.Question.Asked.Approval != nil || n.Call != nil && n.Call.Callers) {
		w.asks[n.Question.Asked.Question] = true
	}
	if n.Event == nil {
		return
	}
	switch b := n.Event.Body.(type) {
	case conversation.MessageAccepted:
		at := saidAt(n.Event.Seq)
		if w.before.place != 0 && at >= w.before.place || w.asks[b.Question] || strings.HasPrefix(string(b.ClientMsgID), answerOf) && b.Via == conversation.ViaUIStream {
			return
		}
		when := protocol.NewObject(nil)
		when.Time("createdAt", n.Time)
		s := &saidMessage{at: at, accepted: b, time: string(when.Bytes[len(`{"createdAt":`):])}
		w.said, w.byID[b.Message] = append(w.said, s), s
	case conversation.MessageWithdrawn:
		if s := w.byID[b.Message]; s != nil {
			s.withdrawn = true
		}
	case conversation.MessageResolved:
		if s := w.byID[b.Message]; s != nil {
			s.how = b
		}
	}
}

// page is the answer, of at most so many bytes, but for one message; 0 = of any size.
func (w *window) page(name string, most int, active bool) []byte {
	type entry struct {
		at   place
		text []byte
	}
	var all []entry
	for _, s := range w.said {
		if !s.withdrawn {
			all = append(all, entry{s.at, w.appendSaid(nil, s)})
		}
	}
	for _, t := range w.tasks {
		if t.teller.run.Rests() {
			for _, c := range t.teller.end() {
				t.message.add(&c)
			}
		}
		if !t.message.empty() {
			all = append(all, entry{t.at, t.message.append(nil)})
		}
	}
	slices.SortFunc(all, func(x, y entry) int { return cmp.Compare(x.at, y.at) })
	begin, size := len(all), 0
	for begin > 0 && (begin == len(all) || most == 0 || size+len(all[begin-1].text) <= most) {
		begin--
		size += len(all[begin].text)
	}
	o := protocol.NewObject(nil)
	o.Text("id", name)
	o.Text("session", string(w.session))
	o.Bool("active", active)
	o.Key("messages")
	o.Bytes = append(o.Bytes, '[')
	for i, e := range all[begin:] {
		if i > 0 {
			o.Bytes = append(o.Bytes, ',')
		}
		o.Bytes = append(o.Bytes, e.text...)
	}
	o.Bytes = append(o.Bytes, ']')
	switch {
	case begin > 0:
		o.Text("previous", w.previous(all[begin].at).String())
	case !w.first:
		o.Text("previous", w.previous(saidAt(w.since+1)).String())
	default:
		o.Raw("previous", "null")
	}
	return o.Close()
}

// previous is the position of the page before, which ends before a place: tasks up to there were told.
func (w *window) previous(at place) position {
	p, oldest := position{at, w.before.tasks}, place(0)
	for _, t := range w.tasks {
		if t.at >= at && t.cursor != "" && (oldest == 0 || t.at < oldest) {
			p.tasks, oldest = t.cursor, t.at
		}
	}
	return p
}

// appendSaid appends a message of a user as a UIMessage.
func (w *window) appendSaid(dst []byte, s *saidMessage) []byte {
	o := protocol.NewObject(dst)
	o.Text("id", w.names.of(s.accepted.Message))
	o.Text("role", "user")
	o.Key("metadata")
	in := protocol.NewObject(o.Bytes)
	in.Text("message", string(s.accepted.Message))
	in.Text("author", string(s.accepted.Author))
	in.Optional("name", s.accepted.AuthorName)
	in.Text("via", s.accepted.Via.String())
	in.Raw("createdAt", s.time)
	if s.how.How != 0 {
		in.Text("how", s.how.How.String())
		in.Optional("evidence", s.how.Evidence.String())
	}
	o.Bytes = in.Close()
	o.Key("parts")
	known := w.names[s.accepted.Message]
	o.Bytes = appendSaid(o.Bytes, w.session, known)
	return o.Close()
}
