package rest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// Guard refuses a request by its Host and Origin; nil = it may pass.
type Guard func(host, origin string) *conversation.Error

// backupBody is what POST /admin/backup takes.
type backupBody struct {
	Dest string `json:"dest"`
}

// backup makes a copy of the store. A page of another site cannot ask for it: its
// Origin is refused, and a form cannot send JSON.
func (s *API) backup(guard Guard) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		made, err := s.makeBackup(guard, r)
		if err != nil {
			s.adminProblem(w, r, s.Refusal(err))
			return
		}
		s.Log.Info("backup made", "dest", made.Dest, "sessions", made.Sessions, "records", made.Records, "bytes", made.Bytes, "seconds", made.Seconds)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(made)
	}
}

func (s *API) makeBackup(guard Guard, r *http.Request) (made service.BackupMade, err error) {
	if refused := guard(r.Host, r.Header.Get("Origin")); refused != nil {
		return made, refused
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return made, conversation.Errorf(conversation.UnsupportedMedia, "Content-Type must be application/json")
	}
	var body backupBody
	in := json.NewDecoder(io.LimitReader(r.Body, 64<<10))
	in.DisallowUnknownFields()
	if err := in.Decode(&body); err != nil || strings.TrimSpace(body.Dest) == "" {
		return made, conversation.Errorf(conversation.BadRequest, `the body must be {"dest": "/absolute/path"}`)
	}
	ctx, cancel := context.WithCancel(s.Alive)
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)() // nobody waits for it any more
	job := &service.Job{Cancel: cancel}
	defer s.Connections.Remove(job)
	if !s.Connections.Add(job) || s.Connections.Draining() {
		return made, service.ErrDraining
	}
	made, err = s.Backup(ctx, body.Dest)
	if errors.Is(err, context.Canceled) {
		return made, service.ErrDraining
	}
	return made, err
}

// adminProblem is Problem for the administration, which knows net/http only.
func (s *API) adminProblem(w http.ResponseWriter, r *http.Request, e *conversation.Error) {
	status := protocol.StatusOf(e.Code)
	id := rand.Text()[:16]
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(protocol.AppendProblem(nil, e, status, r.URL.Path, id))
}
