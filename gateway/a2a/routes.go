package a2a

import (
	"strings"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/push"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// api is the way in.
type api struct {
	*exchange.Exchange
	pushes *push.Pushes // nil = nothing is sent to addresses of clients
}

// base is where both bindings are served.
const base = "/a2a"

// Register adds the routes: a card that everybody may read, JSON-RPC, and HTTP+JSON, which may
// name a tenant before what it asks for. What pushes sends is made here; nil = it sends nothing.
func Register(x *exchange.Exchange, r fiber.Router, pushes *push.Pushes) {
	a := &api{x, pushes}
	if pushes != nil {
		pushes.Tells(a)
	}
	add := func(method, path, name string, answers fiber.Handler, do ...fiber.Handler) {
		r.Add(method, path, append([]fiber.Handler{x.Named(name), answers, door.Sized}, do...)...) // also what asks for no key
	}
	signed := x.Authenticated(service.ScopeChat)
	add(fiber.MethodGet, cardPath, cardPath, a.refuseHTTP, a.publicCard)
	add(fiber.MethodPost, base, base, a.refuseRPC, signed, a.rpc)
	for _, tenant := range []string{"", "/:tenant"} {
		at := base + tenant
		http := func(method, path string, do fiber.Handler) {
			add(method, at+strings.ReplaceAll(path, "message:", `message\:`), at+path, a.refuseHTTP, a.version, signed, do)
		}
		http(fiber.MethodPost, "/message:send", a.httpSend)
		http(fiber.MethodPost, "/message:stream", a.httpStream)
		http(fiber.MethodGet, "/tasks", a.httpList)
		http(fiber.MethodGet, "/tasks/:task", a.httpGetTask)
		http(fiber.MethodPost, "/tasks/:task", a.httpActOnTask)
		http(fiber.MethodPost, "/tasks/:task/pushNotificationConfigs", a.httpPush(a.createPush))
		http(fiber.MethodGet, "/tasks/:task/pushNotificationConfigs", a.httpPush(a.listPush))
		http(fiber.MethodGet, "/tasks/:task/pushNotificationConfigs/:config", a.httpPush(a.getPush))
		http(fiber.MethodDelete, "/tasks/:task/pushNotificationConfigs/:config", a.httpPush(a.deletePush))
		http(fiber.MethodGet, "/extendedAgentCard", a.httpCard)
	}
	add(fiber.MethodGet, base+"/:tenant"+cardPath, base+"/:tenant"+cardPath, a.refuseHTTP, signed, a.httpCard)
}

// media is the protocol's own media type of requests and answers over HTTP+JSON.
const media = "application/a2a+json"

func answer(c *fiber.Ctx, json []byte) error {
	c.Set(fiber.HeaderContentType, media)
	return c.Send(json)
}

// version refuses a version that is not spoken here.
func (a *api) version(c *fiber.Ctx) error {
	if err := checkVersion(versionOf(c)); err != nil {
		return err
	}
	return c.Next()
}

// versionOf is the version that a request names; "" = none.
func versionOf(c *fiber.Ctx) string {
	if v := c.Get("A2A-Version"); v != "" {
		return v
	}
	return c.Query("A2A-Version")
}

// checkVersion refuses a version that is not spoken here. A third number changes nothing of a
// version. A request that names none is taken for one of this version: in those before it the
// methods had other names.
func checkVersion(v string) error {
	major, rest, _ := strings.Cut(strings.TrimSpace(v), ".")
	minor, _, _ := strings.Cut(rest, ".")
	if v == "" || major == "1" && (minor == "" || minor == "0") {
		return nil
	}
	return refuse(versionNotSupported, "version %s of A2A is not spoken here: 1.0 is", conversation.Excerpt(v, 16))
}

// tenantOf is the tenant in a path, which overrides that of the body.
func tenantOf(c *fiber.Ctx, of *string) error {
	if c.Params("tenant") == "" {
		return nil
	}
	name, err := door.Param(c, "tenant")
	*of = name
	return err
}

func (a *api) httpSend(c *fiber.Ctx) error {
	r, err := a.httpMessage(c)
	if err != nil {
		return err
	}
	json, err := a.send(c, r)
	if err != nil {
		return err
	}
	return answer(c, json)
}

func (a *api) httpStream(c *fiber.Ctx) error {
	r, err := a.httpMessage(c)
	if err != nil {
		return err
	}
	return a.stream(c, r, nil)
}

func (a *api) httpMessage(c *fiber.Ctx) (*sending, error) {
	b, err := door.Body(c, media)
	if err != nil {
		return nil, err
	}
	r, err := readSending(b, "the body")
	if err != nil {
		return nil, err
	}
	return r, tenantOf(c, &r.tenant)
}

func (a *api) httpList(c *fiber.Ctx) error {
	r := listing{}
	for name, value := range c.Queries() {
		if err := r.query(name, value); err != nil {
			return err
		}
	}
	if err := tenantOf(c, &r.tenant); err != nil {
		return err
	}
	json, err := a.list(c, &r)
	if err != nil {
		return err
	}
	return answer(c, json)
}

// taskPath is the task that a path names, and what is to be done with it: "", "cancel", "subscribe".
func taskPath(c *fiber.Ctx) (r asked, verb string, err error) {
	id, err := door.Param(c, "task")
	if err != nil {
		return r, "", err
	}
	r.task, verb, _ = strings.Cut(id, ":") // no id of a task has a colon
	return r, verb, tenantOf(c, &r.tenant)
}

func (a *api) httpGetTask(c *fiber.Ctx) error {
	r, verb, err := taskPath(c)
	if err != nil {
		return err
	}
	if verb == "subscribe" {
		return a.subscribe(c, &r, nil)
	}
	if verb != "" {
		return fiber.ErrMethodNotAllowed
	}
	r.history = all
	if err := queryCount(c.Query("historyLength"), "historyLength", &r.history); err != nil {
		return err
	}
	json, err := a.getTask(c, &r)
	if err != nil {
		return err
	}
	return answer(c, json)
}

func (a *api) httpActOnTask(c *fiber.Ctx) error {
	r, verb, err := taskPath(c)
	if err != nil {
		return err
	}
	switch verb {
	case "cancel":
		json, err := a.cancel(c, &r)
		if err != nil {
			return err
		}
		return answer(c, json)
	case "subscribe":
		return a.subscribe(c, &r, nil)
	default:
		return fiber.ErrMethodNotAllowed
	}
}

func (a *api) httpCard(c *fiber.Ctx) error {
	tenant := ""
	if err := tenantOf(c, &tenant); err != nil {
		return err
	}
	json, err := a.card(c, tenant)
	if err != nil {
		return err
	}
	return answer(c, json)
}

// addressOf is the address by which a client calls the server, without a path. A proxy that is
// trusted says by which scheme.
func addressOf(s *service.Services, c *fiber.Ctx) string {
	scheme := "http"
	if c.Context().IsTLS() || s.Proxies.TrustsRemote(c.Context().RemoteIP().String()) && strings.EqualFold(c.Get(fiber.HeaderXForwardedProto), "https") {
		scheme = "https"
	}
	return scheme + "://" + string(c.Context().Host())
}

// object is a JSON object.
func object(dst []byte, write func(o *protocol.Object)) []byte {
	o := protocol.NewObject(dst)
	write(&o)
	return o.Close()
}
