package a2a

import (
	"context"
	"slices"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// maxLooked is how many rows of a tenant one page looks at, and how many are counted. Who may see
// few of many gets pages with fewer tasks than it asked for, and a token.
const maxLooked = 5000

// list answers ListTasks: with the tasks that the client may see, those that began last first.
func (a *api) list(c *fiber.Ctx, r *listing) ([]byte, error) {
	who := door.Principal(c)
	ctx, cancel := a.Deadline()
	defer cancel()
	if r.size == 0 {
		r.size = pageSize
	}
	if err := a.knows(r.tenant); err != nil {
		return nil, err
	}
	cursors := a.Cursors.For(who, "a2a tasks")
	cursor, err := cursors.Show(r.token)
	if err != nil {
		return nil, refuse(invalidParams, "pageToken must be a nextPageToken of this very list; begin without one")
	}
	filter := conversation.TaskFilter{Tenant: who.Tenant}
	there := r.status == nil || len(r.status) > 0
	if len(r.status) > 0 {
		filter.Status = r.status[0]
	}
	if r.context != "" {
		key, _, err := a.Find(ctx, who, r.context)
		switch {
		case err == nil:
			filter.Session = key.Session
		case conversation.AsError(err).Code == conversation.NotFound:
			there = false // and others' contexts are not there
		default:
			return nil, err
		}
	}
	p := page{}
	if there {
		if p, err = a.page(ctx, who, r, filter, cursor); err != nil {
			return nil, err
		}
	}
	tasks, next, err := a.shown(ctx, c, who, r, p)
	if err != nil {
		return nil, err
	}
	return object(nil, func(o *protocol.Object) {
		o.Key("tasks")
		o.Bytes = append(o.Bytes, '[')
		for i, t := range tasks {
			if i > 0 {
				o.Bytes = append(o.Bytes, ',')
			}
			o.Bytes = append(o.Bytes, t...)
		}
		o.Bytes = append(o.Bytes, ']')
		o.Text("nextPageToken", cursors.Hide(next))
		o.Int("pageSize", int64(r.size))
		o.Int("totalSize", int64(p.total))
	}), nil
}

// page is a page of rows.
type page struct {
	rows  []conversation.TaskRow
	next  string // "" = it is the last one
	total int    // of the whole list, as far as it was counted
}

// page collects the rows of a page, and counts those of the list. They are collected before
// their logs are read: no iterator is open inside another.
func (a *api) page(ctx context.Context, who *service.Principal, r *listing, f conversation.TaskFilter, cursor string) (p page, err error) {
	seen := make(map[conversation.SessionKey]bool)
	looked := 0
	for row, err := range a.Sessions.Tasks(ctx, f) {
		if err != nil {
			return p, err
		}
		if looked++; looked > maxLooked {
			break
		}
		if a.fits(ctx, who, r, &row, seen) {
			p.total++
		}
	}
	f.Cursor, looked = cursor, 0
	last := ""
	for row, err := range a.Sessions.Tasks(ctx, f) {
		if err != nil {
			return p, err
		}
		if looked++; looked > maxLooked {
			p.next = last
			return p, nil
		}
		if a.fits(ctx, who, r, &row, seen) {
			if len(p.rows) == r.size {
				p.next = last
				return p, nil
			}
			p.rows = append(p.rows, row)
		}
		last = row.PageCursor()
	}
	return p, nil
}

// fits is true for a row that the client may see and has asked for.
func (a *api) fits(ctx context.Context, who *service.Principal, r *listing, row *conversation.TaskRow, seen map[conversation.SessionKey]bool) bool {
	if r.tenant != "" && string(row.Agent) != r.tenant || row.UpdatedAt.Before(r.since) {
		return false
	}
	if row.Owner == who.User {
		return true
	}
	may, known := seen[row.Key]
	if !known {
		_, err := a.Visible(ctx, who, row.Key)
		may = err == nil
		seen[row.Key] = may
	}
	return may
}

// shown are the tasks of a page, those whose status has changed last first, and where the list goes
// on: a page ends also where it is long enough.
func (a *api) shown(ctx context.Context, c *fiber.Ctx, who *service.Principal, r *listing, p page) (tasks [][]byte, next string, err error) {
	address, size := addressOf(a.Services, c), 0
	kept := p.rows[:0:0]
	texts := make(map[conversation.TaskID][]byte, len(p.rows))
	for _, row := range p.rows {
		at := place{address: address, context: string(row.Key.Session), key: row.Key, task: row.Task}
		if r.context != "" {
			at.context = r.context
		}
		t := newTale(at)
		t.run.Status, t.when = row.Status, row.UpdatedAt
		if r.artifacts || r.history > 0 {
			if t, err = a.read(ctx, who, at, row); err != nil {
				return nil, "", err
			}
		}
		text := t.appendTask(nil, view{history: r.history, artifacts: r.artifacts})
		if size += len(text); size > a.Limits.PageBytes && len(kept) > 0 {
			p.next = kept[len(kept)-1].PageCursor()
			break
		}
		kept, texts[row.Task] = append(kept, row), text
	}
	slices.SortStableFunc(kept, func(x, y conversation.TaskRow) int { return y.UpdatedAt.Compare(x.UpdatedAt) })
	for _, row := range kept {
		tasks = append(tasks, texts[row.Task])
	}
	return tasks, p.next, nil
}
