package gateway

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"parley/conversation"
	"parley/gateway/attach"
	"parley/gateway/door"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// The HTTP library holds the body of a request in memory as a whole, and all other requests
// are small. So files have places: when the head of a request that uploads one has come, it
// gets its place, and more time, if its sender may upload to that session; it gives the place
// back when it is answered. Without a place nothing of its body is read. The library does not
// say who is at the other end, so whoever gets none is asked again by what counts wrong
// credentials.
//
// A user gets no more places than he leaves to others, and what comes more slowly than
// limits.upload_slowest is cut off by the listener: so nobody keeps all places.

const (
	otherRequests = time.Minute      // no other request has more time to come
	anyPace       = 10 * time.Minute // an upload has, without a slowest pace
)

// othersTime is the most that anything but an upload is given to come: the listener knows uploads by
// their longer time. A quiet client of a socket has its read deadline.
func othersTime(t service.Times) time.Duration { return max(otherRequests, t.ReadDeadline) }

// uploads are the places.
type uploads struct {
	*service.Services
	inner service.Authenticator // asks nobody twice, and counts nothing

	mu     sync.Mutex
	taken  map[*fasthttp.RequestHeader]place
	full   map[*fasthttp.RequestHeader]bool // got none, as there was none
	others map[*fasthttp.RequestHeader]bool // got none, as they may not upload
}

type place struct {
	of    string
	until time.Time
}

func newUploads(s *service.Services, inner service.Authenticator) *uploads {
	return &uploads{
		Services: s, inner: inner,
		taken: map[*fasthttp.RequestHeader]place{}, full: map[*fasthttp.RequestHeader]bool{}, others: map[*fasthttp.RequestHeader]bool{},
	}
}

// noBody has the library refuse a body, unless it is next to nothing.
var noBody = fasthttp.RequestConfig{MaxRequestBodySize: 1}

// begin is asked when the head of a request has come.
func (u *uploads) begin(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
	path, _, _ := strings.Cut(string(h.RequestURI()), "?")
	if !attach.IsUpload(string(h.Method()), path) {
		return fasthttp.RequestConfig{}
	}
	who, err := u.sender(u.inner, u.credential(h), path)
	u.mu.Lock()
	defer u.mu.Unlock()
	if err != nil {
		u.others[h] = true
		return noBody
	}
	now := time.Now()
	mine, by := 0, string(who.Tenant)+"\x00"+string(who.User)
	for other, p := range u.taken { // the library does not say of every connection that it has ended
		if now.After(p.until) {
			delete(u.taken, other)
		} else if p.of == by && u.Auth.Mode() != "none" {
			mine++
		}
	}
	if left := u.Limits.UploadsAtOnce - len(u.taken); left <= 0 || mine > 0 && mine >= left {
		u.full[h] = true
		return noBody
	}
	bytes := h.ContentLength()
	if bytes < 0 || bytes > u.Limits.AttachmentBytes {
		bytes = u.Limits.AttachmentBytes
	}
	within, paced := anyPace, anyPace
	if slowest := u.Limits.UploadSlowest; slowest > 0 {
		paced = 15*time.Second + time.Duration(bytes/slowest)*time.Second
		within = othersTime(u.Times) + paced // the pace decides
	}
	u.taken[h] = place{by, now.Add(paced + otherRequests)}
	return fasthttp.RequestConfig{MaxRequestBodySize: u.Limits.AttachmentBytes, ReadTimeout: within}
}

// credential is what a head says of its sender. Who sends it is not known yet, so headers of
// trusted proxies count as if it were one.
func (u *uploads) credential(h *fasthttp.RequestHeader) (c service.Credential) {
	if scheme, token, ok := strings.Cut(string(h.Peek(fiber.HeaderAuthorization)), " "); ok && strings.EqualFold(scheme, "bearer") {
		c.Token = strings.TrimSpace(token)
	}
	if by, ok := u.Auth.(service.ByHeaders); ok {
		c.Headers = map[string]string{}
		for _, name := range by.CredentialHeaders() {
			c.Headers[name] = string(h.Peek(name))
		}
	}
	return c
}

// sender is who uploads to the session of a path, if he may.
func (u *uploads) sender(by service.Authenticator, c service.Credential, path string) (*service.Principal, error) {
	ctx, cancel := context.WithTimeout(u.Alive, u.Times.Request)
	defer cancel()
	who, err := by.Authenticate(ctx, c)
	if err != nil {
		return nil, err
	}
	if !who.May(service.ScopeChat) {
		return nil, conversation.Errorf(conversation.Forbidden, "this needs the scope %s", service.ScopeChat)
	}
	id, err := url.PathUnescape(strings.TrimSuffix(strings.TrimPrefix(path, "/api/sessions/"), "/blobs"))
	if err != nil {
		return nil, service.ErrNoSession
	}
	key, wrong := who.Key(id)
	if wrong == nil {
		wrong = service.Writable(key)
	}
	if wrong != nil {
		return nil, u.Unseen(ctx, who, key, wrong)
	}
	return who, u.Uploads(ctx, who, key)
}

// end gives a place back, if there was one, and says why there was none.
func (u *uploads) end(c *fiber.Ctx) (had, full, other bool) {
	h := &c.Context().Request.Header
	u.mu.Lock()
	defer u.mu.Unlock()
	_, had = u.taken[h]
	full, other = u.full[h], u.others[h]
	delete(u.taken, h)
	delete(u.full, h)
	delete(u.others, h)
	return had, full, other
}

// around is around every request that could be read.
func (u *uploads) around(c *fiber.Ctx) error {
	if !attach.IsUpload(c.Method(), c.Path()) {
		return c.Next()
	}
	defer u.end(c)
	return c.Next()
}

// lingerOver lets a client hear why its request was not read: many send all of it before they
// read a word. Who sends nothing more in time, or has gone, does not need it.
func lingerOver(c *fiber.Ctx, err error) {
	library := new(fiber.Error)
	if !errors.As(err, &library) || library.Code == fiber.StatusRequestTimeout || library.Code == fiber.StatusBadGateway {
		return
	}
	if conn, ok := c.Context().Conn().(interface{ Linger() }); ok {
		conn.Linger()
	}
}

// problem answers a request that could not be read.
func (u *uploads) problem(answer fiber.ErrorHandler) fiber.ErrorHandler {
	return func(c *fiber.Ctx, err error) error {
		had, full, other := u.end(c)
		lingerOver(c, err)
		if library := new(fiber.Error); had && errors.As(err, &library) && library.Code == fiber.StatusRequestEntityTooLarge {
			err = u.Files.TooLarge() // by its Content-Length, or when so much of it had come
		}
		if other {
			_, refused := u.sender(u.Auth, door.CredentialOf(u.Services, c), c.Path())
			if full = refused == nil; !full { // else he may since a moment
				err = refused
			}
		}
		if full {
			u.Metrics.Refused.WithLabelValues("uploads_at_once").Inc()
			busy := conversation.Errorf(conversation.Overloaded, "the server takes %d files at once, and leaves some of these places to each user; try again in a moment", u.Limits.UploadsAtOnce)
			busy.RetryAfter = time.Second
			err = busy
		}
		return answer(c, err)
	}
}
