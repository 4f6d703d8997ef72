package admin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/service"
)

// backupBody is what POST /admin/backup takes.
type backupBody struct {
	Dest string `json:"dest"`
}

// backup makes a copy of the store. A page of another site cannot ask for it: its
// Origin is refused, and a form cannot send JSON.
func (a *Routes) backup(w http.ResponseWriter, r *http.Request) {
	setWriteDeadline(w, 0) // it takes as long as it takes
	made, err := a.makeBackup(r)
	setWriteDeadline(w, answerTime)
	if err != nil {
		a.problem(w, r, a.Refusal(err))
		return
	}
	a.Log.Info("backup made", "dest", made.Dest, "sessions", made.Sessions, "records", made.Records, "bytes", made.Bytes, "took", time.Duration(made.Seconds*float64(time.Second)))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(made)
}

func (a *Routes) makeBackup(r *http.Request) (made service.BackupMade, err error) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return made, conversation.Errorf(conversation.UnsupportedMedia, "Content-Type must be application/json")
	}
	var body backupBody
	in := json.NewDecoder(io.LimitReader(r.Body, 64<<10))
	in.DisallowUnknownFields()
	if err := in.Decode(&body); err != nil || strings.TrimSpace(body.Dest) == "" {
		return made, conversation.Errorf(conversation.BadRequest, `the body must be {"dest": "/absolute/path"}`)
	}
	ctx, cancel := context.WithCancel(a.Alive)
	defer cancel()
	defer context.AfterFunc(r.Context(), cancel)() // nobody waits for it any more
	defer watch(r, cancel)()
	job := &service.Job{Cancel: cancel}
	defer a.Connections.Remove(job)
	if !a.Connections.Add(job) || a.Connections.Draining() {
		return made, service.ErrDraining
	}
	who, _ := r.Context().Value(operatorKey{}).(*service.Principal)
	if err := a.Audited(ctx, who, credentialOf(r).Address, service.ActBackup, body.Dest, ""); err != nil {
		return made, err
	}
	made, err = a.Backup(ctx, body.Dest)
	if errors.Is(err, context.Canceled) {
		return made, service.ErrDraining
	}
	return made, err
}
