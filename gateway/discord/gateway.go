package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bwmarrin/discordgo"
	"github.com/gorilla/websocket"

	"parley/gateway/chat"
)

// intents are what the bot asks to be told of. Message contents are a privileged one: they
// have to be enabled at Discord. Guilds brings the ends of channels and of memberships.
const intents = discordgo.IntentGuilds | discordgo.IntentGuildMessages | discordgo.IntentDirectMessages | discordgo.IntentMessageContent

// Bounds of a connection.
const (
	maxFrame     = 32 << 20 // a large guild arrives as one frame
	helloTimeout = 20 * time.Second
	writeTimeout = 10 * time.Second
	shortLived   = time.Minute // a connection that ends earlier has those after it wait
	longestPause = time.Minute
)

// Operations of the gateway.
const (
	opDispatch       = 0
	opHeartbeat      = 1
	opIdentify       = 2
	opResume         = 6
	opReconnect      = 7
	opInvalidSession = 9
	opHello          = 10
	opHeartbeatAck   = 11
)

// gatewaySession is what a connection needs to go on where another one ended.
type gatewaySession struct {
	id  string // "" = there is none
	url string
	seq int64
	// dials counts the tries to reach url, which may be gone.
	dials int
}

// frame is a frame of the gateway.
type frame struct {
	Op   int             `json:"op"`
	Data json.RawMessage `json:"d"`
	Seq  *int64          `json:"s,omitempty"`
	Type string          `json:"t,omitempty"`
}

// Run implements chat.Platform.
func (b *Bot) Run(ctx context.Context, desk chat.Desk) error {
	if _, err := b.identify(ctx); err != nil {
		return err
	}
	if err := b.registerCommands(ctx); err != nil {
		var f *chat.Failure
		if errors.As(err, &f) && f.Trouble == chat.Credentials || ctx.Err() != nil {
			return err
		}
		b.log.Warn("the slash commands could not be registered; they are as they were", "error", err)
	}
	r, err := b.begin(ctx, desk)
	if err != nil {
		return err
	}
	defer b.end(r)
	for short := 0; ; {
		began := time.Now()
		ready, err := b.converse(r)
		var f *chat.Failure
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &f):
			return err
		case !ready: // whoever runs us waits before the next try
			return err
		}
		b.log.Info("the gateway connection has ended; connecting again", "reason", err, "resumes", b.gw.id != "")
		if time.Since(began) >= shortLived {
			short = 0
		} else if short++; short > 1 {
			pause := min(250*time.Millisecond<<min(short, 10), longestPause)
			if err := wait(ctx, pause/2+rand.N(pause/2)); err != nil {
				return err
			}
		}
	}
}

// connection is one connection to the gateway. Reads are of one goroutine.
type connection struct {
	ws    *websocket.Conn
	mu    sync.Mutex // held by who writes
	seq   *atomic.Int64
	acked atomic.Bool // the last heartbeat was answered
}

func (c *connection) write(op int, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.ws.SetWriteDeadline(time.Now().Add(writeTimeout)) // a write says if it is broken
	return c.ws.WriteJSON(frame{Op: op, Data: raw})
}

// heartbeat sends one; the number is null before the first event.
func (c *connection) heartbeat() error {
	if seq := c.seq.Load(); seq > 0 {
		return c.write(opHeartbeat, seq)
	}
	return c.write(opHeartbeat, nil)
}

// bye closes the connection: with 1000 Discord ends the session, with 4000 it may be resumed.
func (c *connection) bye(code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), time.Now().Add(time.Second)) // it is closed anyway
}

// converse holds one connection until it ends. ready = Discord had let us in.
func (b *Bot) converse(r *run) (ready bool, err error) {
	ctx := r.ctx
	c, err := b.connect(ctx)
	if err != nil {
		return false, err
	}
	stop := context.AfterFunc(ctx, func() { c.bye(websocket.CloseNormalClosure); _ = c.ws.Close() })
	ended := make(chan struct{})
	defer func() {
		close(ended)
		if stop() {
			c.bye(4000)
			_ = c.ws.Close()
		} else {
			b.gw = gatewaySession{}
		}
	}()
	interval, err := b.hello(c)
	if err != nil {
		return false, err
	}
	r.wg.Go(func() { c.beat(ended, interval) })
	if b.gw.id != "" {
		err = c.write(opResume, map[string]any{"token": "Bot " + b.token, "session_id": b.gw.id, "seq": b.gw.seq})
	} else {
		err = c.write(opIdentify, discordgo.Identify{
			Token: "Bot " + b.token, Intents: intents, LargeThreshold: 50,
			Properties: discordgo.IdentifyProperties{OS: runtime.GOOS, Browser: "parley", Device: "parley"},
		})
	}
	if err != nil {
		return false, errors.New("the gateway cannot be written to: " + b.clean(err))
	}
	for {
		f, err := b.read(c, 2*interval+helloTimeout)
		if err != nil {
			return ready, err
		}
		switch f.Op {
		case opDispatch:
			if f.Seq != nil {
				b.gw.seq = *f.Seq
				c.seq.Store(*f.Seq)
			}
			if f.Type == "READY" || f.Type == "RESUMED" {
				ready = true
			}
			b.dispatch(r, f.Type, f.Data)
		case opHeartbeat:
			if err := c.heartbeat(); err != nil {
				return ready, errors.New("the gateway cannot be written to: " + b.clean(err))
			}
		case opHeartbeatAck:
			c.acked.Store(true)
		case opReconnect:
			return true, errors.New("asked by Discord to connect again")
		case opInvalidSession:
			if resumable := false; json.Unmarshal(f.Data, &resumable) != nil || !resumable {
				b.gw = gatewaySession{}
			}
			// Discord wants 1 to 5 seconds before the next one.
			if err := wait(ctx, b.settle+rand.N(b.settle+1)); err != nil {
				return ready, err
			}
			return true, errors.New("the session is not known to Discord any more")
		}
	}
}

// connect dials the gateway: where the session is, or where Discord says.
func (b *Bot) connect(ctx context.Context) (*connection, error) {
	to := b.gw.url
	if b.gw.id == "" {
		var g discordgo.GatewayBotResponse
		if err := b.do(ctx, call{method: "GET", path: "gateway/bot", out: &g, patience: patienceInside}); err != nil {
			return nil, err
		}
		if l := g.SessionStartLimit; l.Total > 0 && l.Remaining == 0 {
			// One more and Discord would reset the token.
			return nil, &chat.Failure{Trouble: chat.Later, After: time.Duration(l.ResetAfter) * time.Millisecond, Text: "Discord lets this bot connect no more for today: it has connected too often"}
		}
		to = g.URL
	}
	u, err := url.Parse(cmp.Or(b.o.GatewayURL, to))
	if err != nil || u.Host == "" || u.Scheme != "wss" && u.Scheme != "ws" {
		return nil, errors.New("the address that Discord names is none of a gateway")
	}
	u.RawQuery = "v=" + discordgo.APIVersion + "&encoding=json"
	if u.Path == "" {
		u.Path = "/"
	}
	d := websocket.Dialer{HandshakeTimeout: helloTimeout, Proxy: http.ProxyFromEnvironment}
	if b.http != nil {
		d.Proxy, d.TLSClientConfig = b.http.Proxy, b.http.TLSClientConfig
	}
	ws, resp, err := d.DialContext(ctx, u.String(), nil)
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close() // the library has read what there is
	}
	if err != nil {
		if b.gw.dials++; b.gw.dials > 3 {
			b.gw = gatewaySession{} // its place is gone: begin anew, where Discord says
		}
		return nil, fmt.Errorf("the gateway cannot be reached: %s", b.clean(err))
	}
	b.gw.dials = 0
	ws.SetReadLimit(maxFrame)
	c := &connection{ws: ws, seq: new(atomic.Int64)}
	c.seq.Store(b.gw.seq)
	c.acked.Store(true)
	return c, nil
}

// hello reads the first frame, which says how often to send heartbeats.
func (b *Bot) hello(c *connection) (time.Duration, error) {
	f, err := b.read(c, helloTimeout)
	if err != nil {
		return 0, err
	}
	var h struct {
		Interval int64 `json:"heartbeat_interval"`
	}
	if f.Op != opHello || json.Unmarshal(f.Data, &h) != nil || h.Interval <= 0 || h.Interval > 10*60*1000 {
		return 0, errors.New("the gateway does not say hello")
	}
	return time.Duration(h.Interval) * time.Millisecond, nil
}

// beat sends heartbeats until the connection ends, and ends it when one was not answered.
func (c *connection) beat(ended <-chan struct{}, interval time.Duration) {
	next := time.NewTimer(rand.N(interval)) // the first one at any time, as Discord wishes
	defer next.Stop()
	for {
		select {
		case <-ended:
			return
		case <-next.C:
		}
		if !c.acked.Swap(false) || c.heartbeat() != nil {
			_ = c.ws.Close() // the reader finds out
			return
		}
		next.Reset(interval)
	}
}

// read reads a frame, and says what the end of a connection means.
func (b *Bot) read(c *connection, within time.Duration) (frame, error) {
	var f frame
	_ = c.ws.SetReadDeadline(time.Now().Add(within)) // a read says if it is broken
	_, raw, err := c.ws.ReadMessage()
	if err != nil {
		var closed *websocket.CloseError
		if errors.As(err, &closed) {
			return f, b.closed(closed.Code)
		}
		return f, errors.New("the gateway connection was cut: " + b.clean(err))
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return f, errors.New("the gateway sends what is no frame")
	}
	return f, nil
}

// closed is what a closing code means, and forgets a session that cannot be resumed.
func (b *Bot) closed(code int) error {
	credentials := func(text string) error {
		b.gw = gatewaySession{}
		return &chat.Failure{Trouble: chat.Credentials, Text: text}
	}
	switch code {
	case 4004:
		return credentials(badToken)
	case 4010, 4011:
		return credentials("Discord wants this bot to be split into shards (it is in more than 2,500 servers), which parley does not do. Take it off some of them.")
	case 4012:
		return credentials("Discord does not speak this version of its gateway any more. Update parley.")
	case 4013:
		return credentials("Discord does not know the intents that the bot asks for. Update parley.")
	case 4014:
		return credentials(noContents)
	case websocket.CloseNormalClosure, websocket.CloseGoingAway, 4003, 4007, 4009:
		b.gw = gatewaySession{}
	}
	return fmt.Errorf("the gateway connection was closed by Discord with code %d", code)
}

// What an operator has to do, in a sentence.
const (
	badToken   = "Discord does not accept the bot's token. Reset it at https://discord.com/developers/applications under Bot, and put the new one where token_env or token_file of channels.discord says."
	noContents = "The bot may not read messages. Enable MESSAGE CONTENT INTENT at https://discord.com/developers/applications under Bot, Privileged Gateway Intents."
)

// dispatch does what an event asks for, and never waits.
func (b *Bot) dispatch(r *run, kind string, data json.RawMessage) {
	var err error
	switch kind {
	case "READY":
		err = b.ready(r, data)
	case "MESSAGE_CREATE":
		var m message
		if err = json.Unmarshal(data, &m); err == nil {
			b.said(m)
		}
	case "MESSAGE_UPDATE":
		var m message
		if err = json.Unmarshal(data, &m); err == nil {
			b.edited(m)
		}
	case "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
		var d struct {
			ID      string   `json:"id"`
			IDs     []string `json:"ids"`
			Channel string   `json:"channel_id"`
		}
		if err = json.Unmarshal(data, &d); err == nil {
			for _, id := range append(d.IDs, d.ID) {
				b.deleted(d.Channel, id)
			}
		}
	case "INTERACTION_CREATE":
		err = b.interaction(r, data)
	case "CHANNEL_UPDATE", "THREAD_UPDATE", "CHANNEL_DELETE", "THREAD_DELETE":
		var c struct {
			ID string `json:"id"`
		}
		if err = json.Unmarshal(data, &c); err == nil {
			b.forget(c.ID)
			if strings.HasSuffix(kind, "DELETE") {
				b.leave(r, func(d destination) bool { return d.Channel == c.ID || d.Parent == c.ID })
			}
		}
	case "GUILD_DELETE":
		var g struct {
			ID          string `json:"id"`
			Unavailable bool   `json:"unavailable"` // an outage: the bot is in it still
		}
		if err = json.Unmarshal(data, &g); err == nil && !g.Unavailable {
			b.leave(r, func(d destination) bool { return d.Guild == g.ID })
		}
	}
	if err != nil {
		b.log.Warn("an event of Discord cannot be read", "event", kind, "error", b.clean(err))
	}
}
