package a2a

import (
	"bytes"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// localID is the name under which a request keeps the id of its call.
const localID = "a2a.id"

// maxCallID bounds the id of a call, which stands in every event of its answer.
const maxCallID = 256

// call is a call of JSON-RPC.
type call struct {
	id     []byte // as it was written
	method string
	params []byte
}

// readCall reads a call. An id that could be read is told also with an error.
func readCall(b []byte) (call, error) {
	r, speaks := call{}, ""
	if b = bytes.TrimSpace(b); len(b) > 0 && b[0] == '[' {
		return r, refuse(invalidRequest, "one call at a time: batches are not taken")
	}
	err := protocol.ReadObject(b, func(m protocol.Member) error {
		switch string(m.Name) {
		case "jsonrpc":
			return m.Word(&speaks)
		case "id":
			if c := m.Raw[0]; c == '"' || c == '-' || c >= '0' && c <= '9' {
				r.id = m.Raw
			}
		case "method":
			return m.Word(&r.method)
		case "params":
			r.params = m.Raw
		}
		return nil
	})
	if len(r.id) > maxCallID {
		r.id = nil
		return r, refuse(invalidRequest, "id must be at most %d bytes", maxCallID)
	}
	switch {
	case err != nil:
		bad := protocol.BadInput(err, "the body")
		if bad.Code == conversation.InvalidJSON {
			return r, refuse(notJSON, "%s", bad.Message)
		}
		return r, refuse(invalidRequest, "%s", bad.Message)
	case speaks != "2.0":
		return r, refuse(invalidRequest, `jsonrpc must be "2.0"`)
	case r.method == "":
		return r, refuse(invalidRequest, "method is missing")
	case r.id == nil:
		return r, refuse(invalidRequest, "id is missing, or neither a text nor a number: every call here has an answer")
	}
	return r, nil
}

// older are the names of the methods before version 1.0.
var older = map[string]bool{
	"message/send": true, "message/stream": true, "tasks/get": true, "tasks/cancel": true, "tasks/resubscribe": true, "agent/getAuthenticatedExtendedCard": true,
}

// rpc answers a call.
func (a *api) rpc(c *fiber.Ctx) error {
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	r, err := readCall(b)
	c.Locals(localID, r.id)
	if err != nil {
		return err
	}
	if err := checkVersion(versionOf(c)); err != nil {
		return err
	}
	var result []byte
	switch r.method {
	case "SendMessage", "SendStreamingMessage":
		s, bad := readSending(r.params, "params")
		if bad != nil {
			return bad
		}
		if r.method == "SendStreamingMessage" {
			return a.stream(c, s, r.id)
		}
		result, err = a.send(c, s)
	case "GetTask", "CancelTask", "SubscribeToTask":
		t, bad := readAsked(r.params)
		switch {
		case bad != nil:
			return bad
		case r.method == "SubscribeToTask":
			return a.subscribe(c, t, r.id)
		case r.method == "GetTask":
			result, err = a.getTask(c, t)
		default:
			result, err = a.cancel(c, t)
		}
	case "ListTasks":
		l, bad := readListing(r.params)
		if bad != nil {
			return bad
		}
		result, err = a.list(c, l)
	case "GetExtendedAgentCard":
		tenant, bad := readTenant(r.params)
		if bad != nil {
			return bad
		}
		result, err = a.card(c, tenant)
	case "CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs", "DeleteTaskPushNotificationConfig":
		result, err = a.rpcPush(c, r.method, r.params)
	default:
		if older[r.method] {
			return refuse(versionNotSupported, "%s is of a version before 1.0, which is not spoken here", r.method)
		}
		return refuse(methodNotFound, "there is no method %s", conversation.Excerpt(r.method, 64))
	}
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.Send(appendAnswer(nil, r.id, "result", func(dst []byte) []byte { return append(dst, result...) }))
}

// appendAnswer appends a response of JSON-RPC.
func appendAnswer(dst, id []byte, name string, value func(dst []byte) []byte) []byte {
	dst = appendHead(dst, id, name)
	return append(value(dst), '}')
}

// appendHead appends what stands before the value of a response.
func appendHead(dst, id []byte, name string) []byte {
	if id == nil {
		id = []byte("null")
	}
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"`...)
	dst = append(dst, name...)
	return append(dst, `":`...)
}
