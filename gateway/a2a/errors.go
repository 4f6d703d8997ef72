package a2a

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/protocol"

	"github.com/gofiber/fiber/v2"
)

// kind is a kind of error of the protocol (section 5.4): its name, JSON-RPC's code for it, and
// the status over HTTP, in numbers and in words.
type kind struct {
	reason string
	code   int
	status int
	word   string
}

var (
	taskNotFound        = &kind{"TASK_NOT_FOUND", -32001, fiber.StatusNotFound, "NOT_FOUND"}
	taskNotCancelable   = &kind{"TASK_NOT_CANCELABLE", -32002, fiber.StatusBadRequest, "FAILED_PRECONDITION"}
	pushNotSupported    = &kind{"PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, fiber.StatusBadRequest, "FAILED_PRECONDITION"}
	unsupported         = &kind{"UNSUPPORTED_OPERATION", -32004, fiber.StatusBadRequest, "FAILED_PRECONDITION"}
	typeNotSupported    = &kind{"CONTENT_TYPE_NOT_SUPPORTED", -32005, fiber.StatusBadRequest, "INVALID_ARGUMENT"}
	versionNotSupported = &kind{"VERSION_NOT_SUPPORTED", -32009, fiber.StatusBadRequest, "FAILED_PRECONDITION"}
	invalidParams       = &kind{"INVALID_PARAMS", -32602, fiber.StatusBadRequest, "INVALID_ARGUMENT"}
	invalidRequest      = &kind{"INVALID_REQUEST", -32600, fiber.StatusBadRequest, "INVALID_ARGUMENT"}
	methodNotFound      = &kind{"METHOD_NOT_FOUND", -32601, fiber.StatusNotFound, "NOT_FOUND"}
	notJSON             = &kind{"PARSE_ERROR", -32700, fiber.StatusBadRequest, "INVALID_ARGUMENT"}
)

// The domains of reasons: whose words they are.
const (
	protocolsDomain = "a2a-protocol.org"
	ownDomain       = "parley"
)

// failure is an error of the protocol's own.
type failure struct {
	*kind
	message string
}

func (f *failure) Error() string { return f.message }

func refuse(k *kind, format string, args ...any) error {
	return &failure{k, fmt.Sprintf(format, args...)}
}

var (
	errNoPush   = refuse(pushNotSupported, "this server sends nothing to addresses of clients (push.hosts of its configuration): follow the task (SubscribeToTask, with Last-Event-ID after a break), or ask for it (GetTask)")
	errNoTask   = refuse(taskNotFound, "there is no such task")
	errNoConfig = refuse(taskNotFound, "there is no such push notification configuration of the task")
)

// kinds are the kinds of the engine's errors. What is not here the protocol has no kind for: it
// is told under the engine's own code.
var kinds = map[conversation.Code]*kind{
	conversation.BadRequest: invalidParams, conversation.InvalidJSON: notJSON, conversation.TooLarge: invalidParams,
	conversation.Conflict: invalidParams, conversation.QuestionNotOpen: invalidParams, conversation.TaskNotAwaiting: invalidParams,
	conversation.UnsupportedMedia: typeNotSupported, conversation.SessionIsClosed: unsupported,
}

// ownCode is JSON-RPC's code for what the protocol has no kind for.
const ownCode = -32000

// told is an error as a client is told it.
type told struct {
	kind
	domain, message string
	retryable       bool
	wait            time.Duration
}

func (a *api) toldOf(err error) told {
	var own *failure
	if errors.As(err, &own) {
		return told{kind: *own.kind, domain: protocolsDomain, message: own.message}
	}
	e, status := a.Refused(err)
	t := told{domain: protocolsDomain, message: e.Message, retryable: e.Retryable(), wait: e.RetryAfter}
	if k := kinds[e.Code]; k != nil && !errors.As(err, new(*fiber.Error)) { // what HTTP refuses is no call yet
		t.kind = *k
		return t
	}
	t.kind, t.domain = kind{strings.ToUpper(string(e.Code)), ownCode, status, wordOf(status)}, ownDomain
	if e.Code == conversation.Internal {
		t.code = -32603
	}
	return t
}

// wordOf is a status in words, as google.rpc.Code has them.
func wordOf(status int) string {
	switch status {
	case fiber.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case fiber.StatusForbidden:
		return "PERMISSION_DENIED"
	case fiber.StatusNotFound:
		return "NOT_FOUND"
	case fiber.StatusMethodNotAllowed:
		return "UNIMPLEMENTED"
	case fiber.StatusConflict:
		return "ABORTED"
	case fiber.StatusTooManyRequests, fiber.StatusInsufficientStorage, fiber.StatusRequestEntityTooLarge:
		return "RESOURCE_EXHAUSTED"
	case fiber.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case fiber.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if status < fiber.StatusInternalServerError {
		return "FAILED_PRECONDITION"
	}
	return "INTERNAL"
}

// appendDetails appends the list of what is known of an error besides: one google.rpc.ErrorInfo.
func (t *told) appendDetails(dst []byte) []byte {
	dst = object(append(dst, '['), func(o *protocol.Object) {
		o.Text("@type", "type.googleapis.com/google.rpc.ErrorInfo")
		o.Text("reason", t.reason)
		o.Text("domain", t.domain)
		if t.domain == ownDomain || t.wait > 0 {
			o.Key("metadata")
			o.Bytes = object(o.Bytes, func(o *protocol.Object) {
				o.Text("retryable", strconv.FormatBool(t.retryable))
				if t.wait > 0 {
					o.Text("retryAfterMs", strconv.FormatInt(max(1, t.wait.Milliseconds()), 10))
				}
			})
		}
	})
	return append(dst, ']')
}

// appendRPC appends the error of a JSON-RPC response.
func (t *told) appendRPC(dst []byte) []byte {
	return object(dst, func(o *protocol.Object) {
		o.Int("code", int64(t.code))
		o.Text("message", t.message)
		o.Key("data")
		o.Bytes = t.appendDetails(o.Bytes)
	})
}

// appendHTTP appends the body of an error over HTTP+JSON.
func (t *told) appendHTTP(dst []byte) []byte {
	return object(dst, func(o *protocol.Object) {
		o.Key("error")
		o.Bytes = object(o.Bytes, func(o *protocol.Object) {
			o.Int("code", int64(t.status))
			o.Text("status", t.word)
			o.Text("message", t.message)
			o.Key("details")
			o.Bytes = t.appendDetails(o.Bytes)
		})
	})
}

// head sets what the headers say of an error.
func (t *told) head(c *fiber.Ctx, status int) {
	door.SetRefusal(c, status, t.wait)
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
}

// refuseHTTP answers with errors over HTTP+JSON.
func (a *api) refuseHTTP(c *fiber.Ctx) error {
	err := c.Next()
	if err == nil {
		return nil
	}
	t := a.toldOf(err)
	t.head(c, t.status)
	return c.Send(t.appendHTTP(nil))
}

// refuseRPC answers with errors over JSON-RPC. What is wrong with a call is said in an answer
// like any other; what is wrong with who asks, or with the server, also by the status.
func (a *api) refuseRPC(c *fiber.Ctx) error {
	err := c.Next()
	if err == nil {
		return nil
	}
	t := a.toldOf(err)
	status := fiber.StatusOK
	if t.domain == ownDomain {
		status = t.status
	}
	t.head(c, status)
	id, _ := c.Locals(localID).([]byte)
	return c.Send(appendAnswer(nil, id, "error", t.appendRPC))
}
