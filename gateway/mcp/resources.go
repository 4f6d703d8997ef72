package mcp

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"

	"parley/conversation"
	"parley/conversation/access"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	scheme   = "parley://sessions/"
	mimeType = "application/json"
)

func (m *way) addResources() {
	m.server.AddResourceTemplate(&sdk.ResourceTemplate{
		URITemplate: scheme + "{session}", Name: "session", Title: "A session", MIMEType: mimeType,
		Description: "What was said in a session, what became of each message, what is asked and what runs.",
	}, m.show)
}

// sessionOf is the session that a resource is.
func sessionOf(who *service.Principal, uri string) (conversation.SessionKey, error) {
	id, ours := strings.CutPrefix(uri, scheme)
	id, err := url.PathUnescape(id) // that of a sub-session holds a slash
	if !ours || err != nil {
		return conversation.SessionKey{}, sdk.ResourceNotFoundError(uri)
	}
	key, bad := who.Key(id)
	if bad != nil {
		return key, sdk.ResourceNotFoundError(uri)
	}
	return key, nil
}

func uriOf(id conversation.SessionID) string { return scheme + url.PathEscape(string(id)) }

// missing is an error of a resource, as the protocol says it.
func (m *way) missing(uri string, err error) error {
	e := m.Refusal(err)
	if e.Code == conversation.NotFound {
		return sdk.ResourceNotFoundError(uri)
	}
	return &jsonrpc.Error{Code: codeOther, Message: e.Message, Data: errorData(e)}
}

// listed answers resources/list: the list is not the SDK's, it is the user's, as it is now.
func (m *way) listed(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method != "resources/list" {
			return next(ctx, method, req)
		}
		cursor := ""
		if p, _ := req.GetParams().(*sdk.ListResourcesParams); p != nil {
			cursor = p.Cursor
		}
		rows, after, err := m.list(ctx, callOf(ctx).who, cursor)
		if err != nil {
			e := m.Refusal(err)
			code := int64(codeOther)
			if e.Code == conversation.BadRequest {
				code = jsonrpc.CodeInvalidParams
			}
			return nil, &jsonrpc.Error{Code: code, Message: e.Message, Data: errorData(e)}
		}
		list := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}, NextCursor: after}
		list.CacheScope = "private"
		for _, row := range rows {
			title := row.Title
			if title == "" {
				title = string(row.Key.Session)
			}
			list.Resources = append(list.Resources, &sdk.Resource{URI: uriOf(row.Key.Session), Name: string(row.Key.Session), Title: title, MIMEType: mimeType})
		}
		return list, nil
	}
}

// How many sessions a page of the list has, and how many rows of the tenant it looks at.
const (
	listPage = 50
	maxLook  = 5000
)

// list is a page of the user's sessions, the last active ones first.
func (m *way) list(ctx context.Context, who *service.Principal, cursor string) (rows []conversation.Summary, after string, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.Times.Request)
	defer cancel()
	cursors := m.Cursors.For(who, "mcp.sessions")
	if cursor, err = cursors.Show(cursor); err != nil {
		return nil, "", err
	}
	var last conversation.Summary
	looked := 0
	for row, err := range m.Sessions.Sessions(ctx, conversation.Page{Tenant: who.Tenant, For: who.User, Cursor: cursor}) {
		if err != nil {
			return nil, "", err
		}
		if looked++; len(rows) == listPage || looked > maxLook {
			return rows, cursors.Hide(last.PageCursor()), nil
		}
		last = row
		if row.Role(who.User) != access.None {
			rows = append(rows, row)
		}
	}
	return rows, "", nil
}

type listInput struct {
	Cursor string `json:"cursor,omitempty" jsonschema:"the next of the page before"`
}

type listed struct {
	Sessions []row  `json:"sessions"`
	Next     string `json:"next,omitempty" jsonschema:"asks for the next page; absent at the end"`
}

type row struct {
	Session string `json:"session"`
	Title   string `json:"title,omitempty"`
	URI     string `json:"uri" jsonschema:"of the resource"`
}

func (m *way) listSessions(ctx context.Context, _ *sdk.CallToolRequest, in listInput) (*sdk.CallToolResult, listed, error) {
	rows, after, err := m.list(ctx, callOf(ctx).who, in.Cursor)
	if err != nil {
		return nil, listed{}, m.told(err)
	}
	l := listed{Sessions: []row{}, Next: after}
	for _, r := range rows {
		l.Sessions = append(l.Sessions, row{string(r.Key.Session), r.Title, uriOf(r.Key.Session)})
	}
	return nil, l, nil
}

// show is a session as a resource: its newest lines.
func (m *way) show(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri, who := req.Params.URI, callOf(ctx).who
	key, err := sessionOf(who, uri)
	if err != nil {
		return nil, err
	}
	shown, err := m.transcript(ctx, who, key, nil, maxLines)
	if err != nil {
		return nil, m.missing(uri, err)
	}
	b, err := json.Marshal(shown)
	if err != nil {
		return nil, err
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: mimeType, Text: string(b)}}}, nil
}

// line is one message of a session, of a user or an agent.
type line struct {
	Seq      uint64   `json:"seq"`
	Time     string   `json:"time"`
	Message  string   `json:"message"`
	Role     string   `json:"role" jsonschema:"user or assistant"`
	Author   string   `json:"author,omitempty"`
	Text     string   `json:"text"`
	ReplyTo  string   `json:"in_reply_to,omitempty"`
	Task     string   `json:"task,omitempty"`
	Receipt  *receipt `json:"receipt,omitempty" jsonschema:"what became of a user's message"`
	Question string   `json:"question,omitempty" jsonschema:"the question that it answers"`
}

type running struct {
	Task   string `json:"task"`
	Status string `json:"status"`
}

// shown is what read_session tells.
type shown struct {
	Session   string     `json:"session"`
	Title     string     `json:"title,omitempty"`
	Agent     string     `json:"agent,omitempty"`
	Lines     []line     `json:"lines"`
	Earlier   bool       `json:"earlier" jsonschema:"there are lines before the first one: ask with a smaller since"`
	More      bool       `json:"more" jsonschema:"there are more behind the last line: ask with its seq as since"`
	Head      uint64     `json:"head" jsonschema:"the seq of the newest event"`
	Tasks     []running  `json:"tasks,omitempty" jsonschema:"those that have not ended"`
	Questions []question `json:"questions,omitempty" jsonschema:"those that are open"`
}

// maxLines is how many lines are shown at once, at most.
const maxLines = 500

type readInput struct {
	Session string `json:"session" jsonschema:"the id of the session, or your own name for it"`
	Since   *int64 `json:"since,omitempty" jsonschema:"only what comes behind this seq; 0 from the beginning. Without it the newest lines are shown"`
	Limit   int    `json:"limit,omitempty" jsonschema:"how many lines at most (default 100, at most 500)"`
}

func (m *way) read(ctx context.Context, _ *sdk.CallToolRequest, in readInput) (*sdk.CallToolResult, shown, error) {
	if in.Since != nil && *in.Since < 0 || in.Limit < 0 || in.Limit > maxLines {
		return nil, shown{}, m.told(conversation.Errorf(conversation.BadRequest, "since must be at least 0, and limit from 1 to %d", maxLines))
	}
	if in.Limit == 0 {
		in.Limit = 100
	}
	who := callOf(ctx).who
	key, _, err := m.Find(ctx, who, in.Session)
	if err != nil {
		return nil, shown{}, m.told(err)
	}
	s, err := m.transcript(ctx, who, key, sinceOf(in.Since), in.Limit)
	if err != nil {
		return nil, shown{}, m.told(err)
	}
	return nil, s, nil
}

// transcript reads a session: the lines behind an event, or else the newest ones. Its texts are
// not longer than a page of a list.
func (m *way) transcript(ctx context.Context, who *service.Principal, key conversation.SessionKey, since *conversation.Seq, limit int) (s shown, err error) {
	ctx, cancel := context.WithTimeout(ctx, m.Times.Request)
	defer cancel()
	if _, err := m.Visible(ctx, who, key); err != nil {
		return s, err
	}
	as, err := m.ReadsAs(ctx, who, key)
	if err != nil {
		return s, err
	}
	v, err := m.View(ctx, key, as)
	if err != nil {
		return s, err
	}
	s = shown{Session: string(key.Session), Title: v.Title, Agent: string(v.Agent), Head: uint64(v.Head)}
	for _, task := range v.Tasks {
		s.Tasks = append(s.Tasks, running{string(task.Task), task.Status.String()})
	}
	for i := range v.Questions {
		q := questionFrom(&v.Questions[i])
		if who.Redact() && q.Args != "" {
			q.Args = protocol.RedactedJSON
		}
		s.Questions = append(s.Questions, q)
	}
	if since != nil {
		s.Earlier = *since > 0
		s.Lines, s.More, err = m.lines(ctx, who, key, *since, limit)
		return s, err
	}
	// Of the newest lines it is not known where they begin: it is looked for from the end on.
	for window := conversation.Seq(8 * limit); ; window *= 4 {
		begin := v.Head - min(window, v.Head)
		all, _, err := m.lines(ctx, who, key, begin, 0)
		if err != nil {
			return s, err
		}
		s.Lines, s.Earlier = newest(all, limit, m.Limits.PageBytes)
		if s.Earlier = s.Earlier || begin > 0; begin == 0 || len(s.Lines) >= limit || len(s.Lines) < len(all) {
			return s, nil
		}
	}
}

// newest are the last lines, of at most so many bytes but for one. cut = there are others before them.
func newest(all []line, limit, bytes int) (lines []line, cut bool) {
	begin, size := len(all), 0
	for begin > 0 && len(all)-begin < limit {
		if size += all[begin-1].size(); size > bytes && begin < len(all) {
			break
		}
		begin--
	}
	return all[begin:], begin > 0
}

// size is about how many bytes a line is.
func (l *line) size() int { return len(l.Text) + 200 }

// receiptsWithin is how many events behind the last line are looked at for what became of the lines.
const receiptsWithin = 1000

// lines are those behind an event, at most limit and a page of a list; limit 0 = all.
func (m *way) lines(ctx context.Context, who *service.Principal, key conversation.SessionKey, since conversation.Seq, limit int) (lines []line, more bool, err error) {
	lines = []line{}
	bytes, full := 0, conversation.Seq(0)
	at := map[conversation.MessageID]int{}
	for n, err := range m.Notes(ctx, who, key, since, 0) {
		if err != nil {
			return nil, false, err
		}
		l := line{Task: string(n.Task), Time: n.Time.Format("2006-01-02T15:04:05.000Z07:00")}
		switch n.Kind {
		case exchange.Accepted:
			b := n.Event.Body.(conversation.MessageAccepted)
			l.Message, l.Role, l.Author, l.Text, l.Question = string(b.Message), "user", string(b.Author), b.Text, string(b.Question)
		case exchange.TextEnded:
			p := n.Item.Part
			l.Message, l.Role, l.Text, l.ReplyTo = string(p.Message), "assistant", p.Text, string(p.InReplyTo)
		case exchange.Resolved:
			b := n.Event.Body.(conversation.MessageResolved)
			if i, said := at[b.Message]; said {
				lines[i].Receipt = receiptOf(b.How, b.Evidence)
			}
			continue
		default:
			if full > 0 && n.Event.Seq > full+receiptsWithin {
				return lines, true, nil
			}
			continue
		}
		if full > 0 {
			continue
		}
		if bytes += l.size(); limit > 0 && (len(lines) == limit || len(lines) > 0 && bytes > m.Limits.PageBytes) {
			full, more = n.Event.Seq, true
			continue
		}
		l.Seq = uint64(n.Event.Seq)
		at[conversation.MessageID(l.Message)] = len(lines)
		lines = append(lines, l)
	}
	return lines, more, nil
}

func sinceOf(n *int64) *conversation.Seq {
	if n == nil {
		return nil
	}
	seq := conversation.Seq(*n)
	return &seq
}
