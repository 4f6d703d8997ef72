package discordtest

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// prefix is where the HTTP interface begins.
const prefix = "/api/v9/"

// answer is what a route answers.
type answer struct {
	status int
	body   any // nil = none
}

// refusal is an answer that is an error of Discord.
func refusal(status, code int, text string) answer {
	return answer{status, map[string]any{"message": text, "code": code}}
}

// api answers requests.
type api struct{ *Discord }

func (s api) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/gateway/", sockets{s.Discord}.serve)
	mux.HandleFunc("/gateway", sockets{s.Discord}.serve)
	handle := func(pattern string, f func(r *http.Request, body []byte) answer) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+prefix+path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, f) })
	}
	handle("GET users/@me", func(*http.Request, []byte) answer { return answer{200, s.wireUser(Bot)} })
	handle("GET users/@me/guilds", func(*http.Request, []byte) answer {
		guilds := []any{}
		for _, id := range s.guilds {
			guilds = append(guilds, map[string]any{"id": id, "name": "guild " + id})
		}
		return answer{200, guilds}
	})
	handle("GET applications/@me", func(*http.Request, []byte) answer {
		return answer{200, map[string]any{"id": Application, "name": BotName, "flags": s.flags}}
	})
	handle("GET gateway", func(*http.Request, []byte) answer { return answer{200, map[string]any{"url": s.GatewayURL()}} })
	handle("GET gateway/bot", func(*http.Request, []byte) answer {
		return answer{200, map[string]any{
			"url": s.GatewayURL(), "shards": s.shards,
			"session_start_limit": map[string]any{"total": 1000, "remaining": s.starts, "reset_after": 3_600_000, "max_concurrency": 1},
		}}
	})
	handle("GET applications/{app}/commands", func(*http.Request, []byte) answer { return answer{200, json.RawMessage(s.commands)} })
	handle("PUT applications/{app}/commands", s.putCommands)
	handle("GET channels/{channel}", func(r *http.Request, _ []byte) answer {
		c, is := s.channels[r.PathValue("channel")]
		if !is {
			return refusal(404, 10003, "Unknown Channel")
		}
		return answer{200, s.wireChannel(c)}
	})
	handle("GET channels/{channel}/messages", s.getHistory)
	handle("POST channels/{channel}/messages", s.postMessage)
	handle("PATCH channels/{channel}/messages/{message}", s.patchMessage)
	handle("POST channels/{channel}/typing", func(r *http.Request, _ []byte) answer {
		s.typed[r.PathValue("channel")]++
		return answer{204, nil}
	})
	handle("PUT channels/{channel}/messages/{message}/reactions/{emoji}/@me", s.putReaction)
	handle("DELETE channels/{channel}/messages/{message}/reactions/{emoji}/@me", s.deleteReaction)
	handle("POST interactions/{id}/{token}/callback", s.postCallback)
	handle("PATCH webhooks/{app}/{token}/messages/@original", s.patchOriginal)
	handle("POST webhooks/{app}/{token}", s.postFollowup)
	mux.HandleFunc(prefix, func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, func(*http.Request, []byte) answer { return refusal(404, 0, "404: Not Found") })
	})
	return mux
}

// serve answers a request, unless a fault wants it otherwise.
func (s api) serve(w http.ResponseWriter, r *http.Request, f func(r *http.Request, body []byte) answer) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	path := strings.TrimPrefix(r.URL.Path, prefix)
	s.mu.Lock()
	fault := s.faultFor(r.Method, path)
	s.mu.Unlock()
	hold := func(until chan struct{}) {
		if until == nil {
			return
		}
		select {
		case <-until:
		case <-r.Context().Done():
		}
	}
	hold(fault.Hold)
	var a answer
	s.do(func() {
		bare := strings.HasPrefix(path, "webhooks/") || strings.HasPrefix(path, "interactions/")
		switch {
		case fault.Status != 0 || fault.Cut == Before:
			a = refusal(fault.Status, fault.Code, fault.Message)
		case !bare && r.Header.Get("Authorization") != "Bot "+s.token:
			a = refusal(401, 0, "401: Unauthorized")
		default:
			a = f(r, body)
		}
		status := a.status
		if fault.Cut != NoCut {
			status = 0
		}
		s.requests = append(s.requests, Call{r.Method, path, string(body), status})
	})
	hold(fault.Late)
	if fault.Cut != NoCut {
		panic(http.ErrAbortHandler) // the connection is cut
	}
	h := w.Header()
	if fault.Spent > 0 {
		h.Set("X-RateLimit-Remaining", "0")
		h.Set("X-RateLimit-Reset-After", fmt.Sprintf("%.3f", fault.Spent.Seconds()))
	}
	if a.status == http.StatusTooManyRequests {
		h.Set("Retry-After", fmt.Sprint(int(math.Ceil(fault.RetryAfter.Seconds()))))
		h.Set("X-RateLimit-Scope", "user")
		if fault.Global {
			h.Set("X-RateLimit-Global", "true")
		}
		a.body = map[string]any{"message": "You are being rate limited.", "retry_after": fault.RetryAfter.Seconds(), "global": fault.Global}
	}
	if fault.Body != "" {
		h.Set("Content-Type", "text/html")
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, fault.Body) // who does not listen misses it
		return
	}
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(a.status)
	_ = json.NewEncoder(w).Encode(a.body)
}

// faultFor is the fault that a request meets. The caller holds mu.
func (s api) faultFor(method, path string) Failing {
	for i, f := range s.faults {
		if (f.Method == "" || f.Method == method) && strings.HasPrefix(path, f.Path) {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
			return *f
		}
	}
	return Failing{}
}

func (s api) putCommands(_ *http.Request, body []byte) answer {
	var list []map[string]any
	if json.Unmarshal(body, &list) != nil {
		return refusal(400, 50035, "Invalid Form Body")
	}
	for i, c := range list {
		name, _ := c["name"].(string)
		does, _ := c["description"].(string)
		if name == "" || strings.ToLower(name) != name || does == "" || len([]rune(does)) > 100 {
			return refusal(400, 50035, "Invalid Form Body")
		}
		c["id"], c["version"], c["application_id"] = fmt.Sprint(7000+i), "1", Application
		c["dm_permission"], c["nsfw"] = true, false
	}
	slices.Reverse(list) // Discord promises no order
	s.commands, _ = json.Marshal(list)
	return answer{200, list}
}

func (s api) getHistory(r *http.Request, _ []byte) answer {
	if _, is := s.channels[r.PathValue("channel")]; !is {
		return refusal(404, 10003, "Unknown Channel")
	}
	q := r.URL.Query()
	limit := 50
	if n, err := strconv.Atoi(q.Get("limit")); err == nil {
		if limit = n; n < 1 || n > 100 {
			return refusal(400, 50035, "Invalid Form Body")
		}
	}
	before, _ := strconv.ParseUint(q.Get("before"), 10, 64)
	page := []any{}
	if s.hidden {
		return answer{200, page}
	}
	for _, m := range slices.Backward(s.messages) {
		n, _ := strconv.ParseUint(m.ID, 10, 64)
		if m.Channel != r.PathValue("channel") || m.Gone || before != 0 && n >= before || len(page) >= limit {
			continue
		}
		page = append(page, s.wire(m, false))
	}
	return answer{200, page}
}

// posted is a message as a bot sends it.
type posted struct {
	Content  string `json:"content"`
	Nonce    string `json:"nonce"`
	Enforce  bool   `json:"enforce_nonce"`
	Flags    int    `json:"flags"`
	Mentions *struct {
		Parse []string `json:"parse"`
		Users []string `json:"users"`
	} `json:"allowed_mentions"`
	Reference *struct {
		Message string `json:"message_id"`
		Fail    *bool  `json:"fail_if_not_exists"`
	} `json:"message_reference"`
	Components []struct {
		Type       int `json:"type"`
		Components []struct {
			Type     int    `json:"type"`
			Style    int    `json:"style"`
			Label    string `json:"label"`
			CustomID string `json:"custom_id"`
		} `json:"components"`
	} `json:"components"`
}

// read reads a message of a bot, as strictly as Discord; with the refusal of one that it would not take.
func read(body []byte) (p posted, m Posting, bad *answer) {
	unfit := func(text string) (posted, Posting, *answer) {
		a := refusal(400, 50035, "Invalid Form Body: "+text)
		return p, m, &a
	}
	if json.Unmarshal(body, &p) != nil {
		a := refusal(400, 50109, "The request body contains invalid JSON.")
		return p, m, &a
	}
	if len([]rune(p.Content)) > 2000 {
		return unfit("content: Must be 2000 or fewer in length.")
	}
	if len(p.Nonce) > 25 {
		return unfit("nonce: Must be 25 or fewer in length.")
	}
	seen := map[string]bool{}
	for _, row := range p.Components {
		if row.Type != 1 || len(row.Components) == 0 || len(row.Components) > 5 || len(p.Components) > 5 {
			return unfit("components")
		}
		for _, b := range row.Components {
			if b.Type != 2 || b.Style < 1 || b.Style > 4 || b.Label == "" || len([]rune(b.Label)) > 80 || b.CustomID == "" || len(b.CustomID) > 100 || seen[b.CustomID] {
				return unfit("components")
			}
			seen[b.CustomID] = true
			m.Buttons = append(m.Buttons, Pressable{b.Label, b.CustomID})
		}
	}
	m.Content, m.Nonce, m.Flags, m.Author = trimmed(p.Content), p.Nonce, p.Flags, Bot
	m.PingsAll = p.Mentions == nil || len(p.Mentions.Parse) > 0
	if p.Mentions != nil {
		m.Pings = p.Mentions.Users
	}
	if p.Reference != nil {
		m.ReplyTo = p.Reference.Message
	}
	return p, m, nil
}

func (s api) postMessage(r *http.Request, body []byte) answer {
	p, m, bad := read(body)
	if bad != nil {
		return *bad
	}
	m.Channel = r.PathValue("channel")
	if _, is := s.channels[m.Channel]; !is {
		return refusal(404, 10003, "Unknown Channel")
	}
	if m.Content == "" {
		return refusal(400, 50006, "Cannot send an empty message")
	}
	if m.ReplyTo != "" {
		if other := s.message(m.ReplyTo); other == nil || other.Gone {
			if p.Reference.Fail == nil || *p.Reference.Fail {
				return refusal(400, 50035, "Invalid Form Body: message_reference: Unknown message")
			}
			m.ReplyTo = ""
		}
	}
	if p.Enforce && p.Nonce != "" {
		if before := s.nonces[p.Nonce]; before != nil {
			return answer{200, s.wire(before, true)}
		}
	}
	m.ID = s.id()
	s.messages = append(s.messages, &m)
	if p.Nonce != "" {
		s.nonces[p.Nonce] = &m
	}
	s.dispatch("MESSAGE_CREATE", s.wire(&m, true)) // Discord tells the bot of its own
	return answer{200, s.wire(&m, true)}
}

func (s api) patchMessage(r *http.Request, body []byte) answer {
	m := s.message(r.PathValue("message"))
	if m == nil || m.Gone {
		return refusal(404, 10008, "Unknown Message")
	}
	if m.Author != Bot {
		return refusal(403, 50005, "Cannot edit a message authored by another user")
	}
	p, next, bad := read(body)
	if bad != nil {
		return *bad
	}
	if p.Content != "" {
		m.Content = next.Content
	}
	if p.Components != nil {
		m.Buttons = next.Buttons
	}
	m.Edited = time.Now()
	s.dispatch("MESSAGE_UPDATE", s.wire(m, true))
	return answer{200, s.wire(m, true)}
}

func (s api) putReaction(r *http.Request, _ []byte) answer {
	m := s.message(r.PathValue("message"))
	if m == nil || m.Gone {
		return refusal(404, 10008, "Unknown Message")
	}
	if emoji := r.PathValue("emoji"); !slices.Contains(m.Reactions, emoji) {
		m.Reactions = append(m.Reactions, emoji)
	}
	return answer{204, nil}
}

func (s api) deleteReaction(r *http.Request, _ []byte) answer {
	m := s.message(r.PathValue("message"))
	if m == nil || m.Gone {
		return refusal(404, 10008, "Unknown Message")
	}
	at := slices.Index(m.Reactions, r.PathValue("emoji"))
	if at < 0 {
		return refusal(404, 10014, "Unknown Emoji")
	}
	m.Reactions = slices.Delete(m.Reactions, at, at+1)
	return answer{204, nil}
}

func (s api) postCallback(r *http.Request, body []byte) answer {
	i := s.acts[r.PathValue("id")]
	if i == nil || i.Token != r.PathValue("token") {
		return refusal(404, 10062, "Unknown interaction")
	}
	if i.Kind != 0 {
		return refusal(400, 40060, "Interaction has already been acknowledged.")
	}
	var d struct {
		Type int `json:"type"`
		Data struct {
			Flags int `json:"flags"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &d) != nil || d.Type != 5 && d.Type != 6 {
		return refusal(400, 50035, "Invalid Form Body")
	}
	i.Kind, i.Private = d.Type, d.Data.Flags&64 != 0
	return answer{204, nil}
}

// interactionOf finds an interaction by its token. The caller holds mu.
func (s api) interactionOf(r *http.Request) *Interaction {
	for _, i := range s.acts {
		if i.Token == r.PathValue("token") && r.PathValue("app") == Application && i.Kind != 0 {
			return i
		}
	}
	return nil
}

func (s api) patchOriginal(r *http.Request, body []byte) answer {
	i := s.interactionOf(r)
	if i == nil {
		return refusal(404, 10015, "Unknown Webhook")
	}
	_, m, bad := read(body)
	if bad != nil {
		return *bad
	}
	i.Answer = m.Content
	return answer{200, map[string]any{"id": s.id()}}
}

func (s api) postFollowup(r *http.Request, body []byte) answer {
	i := s.interactionOf(r)
	if i == nil {
		return refusal(404, 10015, "Unknown Webhook")
	}
	p, m, bad := read(body)
	if bad != nil {
		return *bad
	}
	// What follows a deferred answer that is not filled yet takes its place.
	switch {
	case i.Kind == 5 && i.Answer == "":
		i.Answer = m.Content
	case p.Flags&64 != 0:
		i.Whispers = append(i.Whispers, m.Content)
	default:
		i.Public = append(i.Public, m.Content)
	}
	return answer{200, map[string]any{"id": s.id()}}
}
