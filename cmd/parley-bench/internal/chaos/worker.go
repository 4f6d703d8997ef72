package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Worker is the command of a child process, a runtime; its fields are its flags.
type Worker struct {
	Place   string        `required:"" help:"The file that says where the server listens."`
	Name    string        `required:"" help:"The beginning of its names; each claim has one of its own."`
	Journal string        `required:"" help:"The file for what the server acknowledged."`
	Seed    uint64        `help:"Of its misbehaviour."`
	Claims  int           `help:"Claims at the same time." default:"4"`
	Limit   int           `help:"Messages of one claim." default:"20"`
	Lease   time.Duration `help:"The server's outside.lease: what it outwaits when it stalls." default:"2s"`
}

// Run claims and answers until it is killed.
func (w *Worker) Run(ctx context.Context) error {
	file, err := os.OpenFile(w.Journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: w.Claims * w.Limit}
	var group sync.WaitGroup
	var failed atomic.Bool
	for i := range w.Claims {
		r := &runtime{
			name: w.Name + "-" + strconv.Itoa(i), limit: w.Limit, lease: w.Lease, place: &place{w.Place}, journal: journal{file},
			random: rand.New(rand.NewPCG(w.Seed, uint64(i))), http: &http.Client{Transport: transport},
		}
		group.Go(func() {
			if !r.run(ctx) {
				failed.Store(true)
			}
		})
	}
	group.Wait()
	if failed.Load() {
		return errors.New("a claim was refused; the journal says more")
	}
	return nil
}

// runtime claims messages and answers all of a claim at once.
type runtime struct {
	name    string
	limit   int
	lease   time.Duration
	place   *place
	journal journal
	http    *http.Client

	mu     sync.Mutex
	random *rand.Rand
}

// one is true once in n times.
func (r *runtime) one(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n) == 0
}

// claimed is an item of a claim's answer.
type claimed struct {
	Session, Message, Text string
	Generation             int
	NextPart               int `json:"next_part"`
}

// run is false when a claim was refused.
func (r *runtime) run(ctx context.Context) bool {
	for ctx.Err() == nil {
		var answer struct{ Items []claimed }
		status := r.post(ctx, "/api/runtime/claim", fmt.Sprintf(`{"runtime":%q,"limit":%d,"wait":"5s"}`, r.name, r.limit), &answer)
		if status != http.StatusOK && ctx.Err() == nil {
			r.journal.violation("claim was answered %d", status)
			return false
		}
		var group sync.WaitGroup
		for _, m := range answer.Items {
			r.journal.handout(handout{Session: m.Session, Message: m.Message, Runtime: r.name, Generation: m.Generation})
			group.Go(func() { r.work(ctx, m) })
		}
		group.Wait()
	}
	return true
}

// work answers one message, more or less as a runtime should.
func (r *runtime) work(ctx context.Context, m claimed) {
	o, err := readOrder(m.Text)
	if err != nil {
		r.journal.violation("claimed %+v: %v", m, err)
		return
	}
	switch {
	case r.one(100):
		r.status(ctx, m, "read", "")
	case r.one(100):
		r.status(ctx, m, "alive", "")
	case r.one(400):
		r.status(ctx, m, "failed", `,"error":"a bad day"`)
		return
	case o.fate == fails:
		r.status(ctx, m, "failed", `,"error":"it cannot be done","permanent":true`)
		return
	}
	for k := m.NextPart; k < o.parts; k++ {
		if o.fate == kills && k == o.parts-1 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		if k+1 < o.parts && r.one(60) {
			r.leaveGap(ctx, m, o, k)
		}
		if r.one(150) {
			r.journal.count("stalled")
			_ = pause(ctx, r.lease+r.lease/4) // another has the message by now, perhaps
		}
		if r.one(50) {
			_ = pause(ctx, r.lease/3)
		}
		if !r.part(ctx, m, o, k, "") {
			return
		}
		if r.one(40) {
			r.part(ctx, m, o, k, "") // its answer was lost, let us say
		}
		if r.one(80) {
			r.part(ctx, m, o, k, "another text")
		}
	}
}

// posted is the answer to a part.
type posted struct {
	Message   string
	Seq       int
	PartIndex int   `json:"part_index"`
	Duplicate bool  `json:"duplicate"`
	SameText  *bool `json:"same_text"`
	NextPart  *int  `json:"next_part"`
	Code      string
}

// part says a part and is true when it is stored; other is a text that it does not have.
func (r *runtime) part(ctx context.Context, m claimed, o order, index int, other string) bool {
	text := o.part(index)
	if other != "" {
		text = other
	}
	var got posted
	status := r.postPart(ctx, m, index, text, index == o.parts-1, &got)
	switch {
	case ctx.Err() != nil:
		return false
	case status == http.StatusConflict:
		r.journal.count("refused: a part under a generation that is over")
		return false
	case status != http.StatusCreated && status != http.StatusOK, got.PartIndex != index, got.Duplicate != (status == http.StatusOK), got.Message == "":
		r.journal.violation("part %d of %s was answered %d %+v", index, m.Message, status, got)
		return false
	case other != "" && (!got.Duplicate || got.SameText == nil || *got.SameText):
		r.journal.violation("another text for part %d of %s was answered %d %+v", index, m.Message, status, got)
		return false
	case other != "":
		r.journal.count("another text under a stored pair")
	case got.SameText != nil: // the error that has ended the task has this index
		r.journal.count("told by same_text that another text is there")
		return false
	case got.Duplicate:
		r.journal.count("stored before")
	}
	r.journal.part(acknowledged{Session: m.Session, Source: m.Message, Message: got.Message, Index: index, Seq: got.Seq, Generation: m.Generation, Duplicate: got.Duplicate})
	return true
}

// leaveGap says the part behind the next one: it must be refused, or was stored before.
func (r *runtime) leaveGap(ctx context.Context, m claimed, o order, next int) {
	var got posted
	status := r.postPart(ctx, m, next+1, o.part(next+1), false, &got)
	switch {
	case ctx.Err() != nil, status == http.StatusOK && got.Duplicate:
	case status == http.StatusConflict:
		r.journal.count("refused: a gap")
		if got.NextPart != nil && *got.NextPart > next+1 {
			r.journal.violation("part %d of %s was refused, and the next one is %d", next+1, m.Message, *got.NextPart)
		}
	case status == http.StatusCreated:
		// Only if another runtime has said the part between, and this one's lease is gone.
		r.journal.violation("part %d of %s was stored although %d was not said under generation %d: %+v", next+1, m.Message, next, m.Generation, got)
	default:
		r.journal.violation("part %d of %s, after a gap, was answered %d %+v", next+1, m.Message, status, got)
	}
}

func (r *runtime) postPart(ctx context.Context, m claimed, index int, text string, final bool, into *posted) int {
	body := fmt.Sprintf(`{"source_id":%q,"part_index":%d,"generation":%d,"text":%q,"final":%t}`, m.Message, index, m.Generation, text, final)
	return r.post(ctx, "/api/sessions/"+m.Session+"/parts", body, into)
}

func (r *runtime) status(ctx context.Context, m claimed, status, more string) {
	var got posted
	code := r.post(ctx, "/api/sessions/"+m.Session+"/messages/"+m.Message+"/runtime",
		fmt.Sprintf(`{"status":%q,"generation":%d%s}`, status, m.Generation, more), &got)
	switch {
	case ctx.Err() != nil:
	case code == http.StatusOK:
		r.journal.count("said " + status)
	case code == http.StatusConflict:
		r.journal.count("refused: said " + status + " too late")
	default:
		r.journal.violation("%s of %s was answered %d %+v", status, m.Message, code, got)
	}
}

// post sends a request until it is answered and not refused for the moment.
func (r *runtime) post(ctx context.Context, path, body string, into any) (status int) {
	for ctx.Err() == nil {
		status, err := r.try(ctx, path, body, into)
		if err == nil && status < 500 && status != http.StatusTooManyRequests {
			return status
		}
		if err == nil && status == http.StatusInternalServerError {
			r.journal.violation("%s was answered 500", path)
		}
		_ = pause(ctx, 20*time.Millisecond)
	}
	return 0
}

func (r *runtime) try(ctx context.Context, path, body string, into any) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.place.address()+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, into); err != nil {
			return 0, errors.Join(fmt.Errorf("%s", text), err)
		}
	}
	return response.StatusCode, nil
}
