package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"parley/conversation"
	"parley/conversation/access"
	"parley/gateway/exchange"
	"parley/gateway/service"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// resources are the sessions as resources of the server, for one user.
type resources struct {
	*way
	who *service.Principal
}

const (
	scheme   = "parley://sessions/"
	mimeType = "application/json"
)

func (r resources) add(s *sdk.Server) {
	s.AddResourceTemplate(&sdk.ResourceTemplate{
		URITemplate: scheme + "{session}", Name: "session", Title: "A session", MIMEType: mimeType,
		Description: "What was said in a session, what became of each message, what is asked and what runs.",
	}, r.show)
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method != "resources/list" { // the list is not the SDK's: it is the user's, as it is now
				return next(ctx, method, req)
			}
			params, _ := req.GetParams().(*sdk.ListResourcesParams)
			return r.list(ctx, params)
		}
	})
}

// How many sessions a page of the list has, and how many rows of the tenant it looks at.
const (
	listPage = 50
	maxLook  = 5000
)

// list is a page of the user's sessions, the last active ones first.
func (r resources) list(ctx context.Context, params *sdk.ListResourcesParams) (sdk.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Times.Request)
	defer cancel()
	cursors := r.Cursors.For(r.who, "mcp")
	cursor := ""
	if params != nil {
		cursor = params.Cursor
	}
	cursor, err := cursors.Show(cursor)
	if err != nil {
		return nil, invalid(r.Refusal(err).Message)
	}
	list := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}}
	var last conversation.Summary
	looked := 0
	for row, err := range r.Sessions.Sessions(ctx, conversation.Page{Tenant: r.who.Tenant, For: r.who.User, Cursor: cursor}) {
		if err != nil {
			return nil, invalid(r.Refusal(err).Message)
		}
		if looked++; len(list.Resources) == listPage || looked > maxLook {
			list.NextCursor = cursors.Hide(last.PageCursor())
			break
		}
		last = row
		if row.Role(r.who.User) == access.None {
			continue
		}
		title := row.Title
		if title == "" {
			title = string(row.Key.Session)
		}
		list.Resources = append(list.Resources, &sdk.Resource{URI: scheme + string(row.Key.Session), Name: string(row.Key.Session), Title: title, MIMEType: mimeType})
	}
	return list, nil
}

// show is a session as a resource.
func (r resources) show(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	key, bad := r.who.Key(strings.TrimPrefix(req.Params.URI, scheme))
	if bad != nil {
		return nil, sdk.ResourceNotFoundError(req.Params.URI)
	}
	t := tools{r.way, r.who}
	shown, err := t.transcript(ctx, key, 0, maxLines)
	if err != nil {
		if conversation.AsError(err).Code == conversation.NotFound || errors.Is(err, conversation.ErrNotFound) {
			return nil, sdk.ResourceNotFoundError(req.Params.URI)
		}
		return nil, invalid(r.Refusal(err).Message)
	}
	b, err := json.Marshal(shown)
	if err != nil {
		return nil, err
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: req.Params.URI, MIMEType: mimeType, Text: string(b)}}}, nil
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
	More      bool       `json:"more" jsonschema:"there are more behind the last line: ask with since"`
	Head      uint64     `json:"head" jsonschema:"the seq of the newest event"`
	Tasks     []running  `json:"tasks,omitempty" jsonschema:"those that have not ended"`
	Questions []question `json:"questions,omitempty" jsonschema:"those that are open"`
}

// maxLines is how many lines are shown at once, at most.
const maxLines = 500

type readInput struct {
	Session string `json:"session" jsonschema:"the id of the session, or your own name for it"`
	Since   int64  `json:"since,omitempty" jsonschema:"only what comes behind this seq"`
	Limit   int    `json:"limit,omitempty" jsonschema:"how many lines at most (default 100, at most 500)"`
}

func (t tools) read(ctx context.Context, _ *sdk.CallToolRequest, in readInput) (*sdk.CallToolResult, shown, error) {
	if in.Since < 0 || in.Limit < 0 || in.Limit > maxLines {
		return nil, shown{}, t.told(conversation.Errorf(conversation.BadRequest, "since must be at least 0, and limit from 1 to %d", maxLines))
	}
	if in.Limit == 0 {
		in.Limit = 100
	}
	key, _, err := t.Find(ctx, t.who, in.Session)
	if err != nil {
		return nil, shown{}, t.told(err)
	}
	s, err := t.transcript(ctx, key, conversation.Seq(in.Since), in.Limit)
	if err != nil {
		return nil, shown{}, t.told(err)
	}
	return nil, s, nil
}

// transcript reads a session. It ends early where it would be longer than a page of a list.
func (t tools) transcript(ctx context.Context, key conversation.SessionKey, since conversation.Seq, limit int) (s shown, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.Times.Request)
	defer cancel()
	if _, err := t.Visible(ctx, t.who, key); err != nil {
		return s, err
	}
	as, err := t.ReadsAs(ctx, t.who, key)
	if err != nil {
		return s, err
	}
	v, err := t.View(ctx, key, as)
	if err != nil {
		return s, err
	}
	s = shown{Session: string(key.Session), Title: v.Title, Agent: string(v.Agent), Head: uint64(v.Head), Lines: []line{}}
	for _, task := range v.Tasks {
		s.Tasks = append(s.Tasks, running{string(task.Task), task.Status.String()})
	}
	for i := range v.Questions {
		q := questionFrom(&v.Questions[i])
		if t.who.Redact() {
			q.Args = ""
		}
		s.Questions = append(s.Questions, q)
	}
	bytes := 0
	at := map[conversation.MessageID]int{}
	for n, err := range t.Notes(ctx, t.who, key, since, 0) {
		if err != nil {
			return s, err
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
				s.Lines[i].Receipt = &receipt{How: b.How.String()}
				if b.Evidence != 0 {
					s.Lines[i].Receipt.Evidence = b.Evidence.String()
				}
			}
			continue
		default:
			continue
		}
		if bytes += len(l.Text) + 200; len(s.Lines) == limit || len(s.Lines) > 0 && bytes > t.Limits.PageBytes {
			s.More = true
			break
		}
		l.Seq = uint64(n.Event.Seq)
		at[conversation.MessageID(l.Message)] = len(s.Lines)
		s.Lines = append(s.Lines, l)
	}
	return s, nil
}

// subscriptions are those of one MCP session: to each session of ours that it wants to hear of, one.
type subscriptions struct {
	*way
	who    *service.Principal
	server *sdk.Server
	mu     sync.Mutex
	ends   map[string]context.CancelFunc
}

func newSubscriptions(m *way, who *service.Principal) *subscriptions {
	return &subscriptions{way: m, who: who, ends: map[string]context.CancelFunc{}}
}

// subscribe tells the host when something was said in a session.
func (s *subscriptions) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	who, uri := s.who, req.Params.URI
	id, ours := strings.CutPrefix(uri, scheme)
	if !ours {
		return sdk.ResourceNotFoundError(uri)
	}
	key, bad := who.Key(id)
	if bad != nil {
		return sdk.ResourceNotFoundError(uri)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends[uri] != nil {
		return nil
	}
	if most := s.Limits.FollowsPerConnection; most > 0 && len(s.ends) >= most {
		s.Metrics.Refused.WithLabelValues("follows_per_connection").Inc()
		return invalid("there are too many subscriptions: limits.follows_per_connection")
	}
	asking, cancel := context.WithTimeout(ctx, s.Times.Request)
	defer cancel()
	f, err := s.Follow(asking, who, exchange.From{Key: key, FromNow: true})
	if err != nil {
		return sdk.ResourceNotFoundError(uri)
	}
	alive, end := context.WithCancel(s.Alive)
	s.ends[uri] = end
	go func() {
		defer f.Close()
		lease := s.Lease(who, func(*conversation.Error) { end() })
		defer lease.Release()
		go func() { // the host's session ends
			_ = req.Session.Wait()
			end()
		}()
		for {
			n, err := f.Next(alive)
			if err != nil {
				s.forget(uri)
				return
			}
			switch n.Kind {
			case exchange.Accepted, exchange.TextEnded, exchange.Asked, exchange.Closed, exchange.Status, exchange.Resolved:
				_ = s.server.ResourceUpdated(alive, &sdk.ResourceUpdatedNotificationParams{URI: uri})
			}
		}
	}()
	return nil
}

func (s *subscriptions) unsubscribe(_ context.Context, req *sdk.UnsubscribeRequest) error {
	s.forget(req.Params.URI)
	return nil
}

func (s *subscriptions) forget(uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end := s.ends[uri]; end != nil {
		end()
		delete(s.ends, uri)
	}
}
