package vendors

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"parley/conversation"
	"parley/models/modelstest"
)

// Key is the key that every stand-in with a key wants.
const Key = "vendor-key-0123456789abcdef"

type fields = map[string]any

// Vendor is one vendor's service.
type Vendor struct {
	Name   string   // as its profile in docs/MODELS.md calls it
	Base   string   // the path of its base URL
	Models []string // what it lists; the first is the one of its profile

	wire    wire
	key     func(h http.Header) string // where its key stands; nil = it wants none
	shown   bool                       // its list of models is everybody's
	headers func(h http.Header) string // what it misses in the header; nil = nothing
	rules   []rule
	status  int // of a refusal by a rule; 0 = 400
	refusal func(status int, words string) string
}

// rule says what a vendor refuses in a request; s remembers what it gave out.
type rule func(s *Server, body fields) (wrong []string)

// wire is how a vendor is asked and how it answers.
type wire struct {
	path  string
	list  string // the path of the list of models; "" = /models
	check func(body fields) (modelstest.Asked, []string)
	// answer writes the answer: its events for a stream, else one body.
	answer func(s *Server, body fields, t Move, streaming bool) []string
	// failure is an error in the middle of a stream.
	failure string
}

// Move is what a vendor does with one request that it takes.
type Move struct {
	Items  []conversation.Item // texts and calls
	Stop   conversation.StopReason
	Status int  // it refuses with this status, whatever was asked
	Break  bool // the connection breaks in the middle
	Fails  bool // an error comes in the middle of the stream
}

// Server is the stand-in of a vendor.
type Server struct {
	URL    string // the base URL
	Vendor *Vendor

	mu      sync.Mutex
	moves   []Move
	asked   []modelstest.Asked
	refused []string
	given   map[string]string // what was given out: the reasoning or signature of a call's id, the prefix of a signature
	calls   int
}

// Start starts the stand-in of a vendor. After the moves it says "Done." to everything.
func Start(t testing.TB, v *Vendor, moves ...Move) *Server {
	t.Helper()
	s := &Server{Vendor: v, moves: moves, given: map[string]string{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL + v.Base
	return s
}

// Asked returns the requests that were taken, in order.
func (s *Server) Asked() []modelstest.Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]modelstest.Asked(nil), s.asked...)
}

// Refused returns why requests were refused by rules.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.refused...)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return // the caller has given up
	}
	v := s.Vendor
	list := req.Method == http.MethodGet && req.URL.Path == v.Base+cmp.Or(v.wire.list, "/models")
	switch {
	case v.key != nil && v.key(req.Header) != Key && !(list && v.shown):
		s.refuse(w, http.StatusUnauthorized, "the key is not accepted")
	case v.headers != nil && v.headers(req.Header) != "":
		s.refuse(w, http.StatusBadRequest, v.headers(req.Header))
	case list:
		s.list(w)
	case req.Method != http.MethodPost || req.URL.Path != v.Base+v.wire.path:
		s.refuse(w, http.StatusNotFound, "there is nothing at "+req.URL.Path)
	default:
		s.serve(w, raw)
	}
}

// list answers with the models that there are.
func (s *Server) list(w http.ResponseWriter) {
	var data []fields
	for _, m := range s.Vendor.Models {
		data = append(data, fields{"id": m, "object": "model"})
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, marshal(fields{"object": "list", "data": data}))
}

// refuse answers with an error in the vendor's form, and notes it.
func (s *Server) refuse(w http.ResponseWriter, status int, words string) {
	s.refused = append(s.refused, words)
	s.say(w, status, words)
}

func (s *Server) say(w http.ResponseWriter, status int, words string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if f := s.Vendor.refusal; f != nil {
		_, _ = io.WriteString(w, f(status, words))
		return
	}
	_, _ = io.WriteString(w, marshal(fields{"error": fields{"message": words, "type": "invalid_request_error", "param": nil, "code": nil}}))
}

func (s *Server) serve(w http.ResponseWriter, raw []byte) {
	var body fields
	if err := json.Unmarshal(raw, &body); err != nil {
		s.refuse(w, http.StatusBadRequest, "the body is not JSON")
		return
	}
	v := s.Vendor
	asked, wrong := v.wire.check(body)
	if asked.Model != v.Models[0] {
		s.refuse(w, http.StatusNotFound, "there is no model "+asked.Model)
		return
	}
	for _, r := range v.rules {
		wrong = append(wrong, r(s, body)...)
	}
	if len(wrong) > 0 {
		s.refuse(w, max(v.status, http.StatusBadRequest), strings.Join(wrong, "; "))
		return
	}
	asked.Body, asked.Raw = body, string(raw)
	s.asked = append(s.asked, asked)
	t := Move{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "Done."}}}
	if len(s.moves) > 0 {
		t, s.moves = s.moves[0], s.moves[1:]
	}
	if t.Status != 0 {
		w.Header().Set("Retry-After", "7")
		s.say(w, t.Status, "not now")
		return
	}
	s.send(w, v.wire.answer(s, body, t, asked.Stream), t, asked.Stream)
}

// send sends an answer, and stops in the middle if the turn says so.
func (s *Server) send(w http.ResponseWriter, pieces []string, t Move, streaming bool) {
	w.Header().Set("Content-Type", "application/json")
	if streaming {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	for i, piece := range pieces {
		if (t.Break || t.Fails) && i >= len(pieces)/2 {
			if t.Fails && streaming {
				_, _ = io.WriteString(w, s.Vendor.wire.failure)
				return
			}
			if !streaming {
				_, _ = io.WriteString(w, piece[:len(piece)/2])
			}
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, piece)
		_ = http.NewResponseController(w).Flush()
	}
}

// number counts what is given out.
func (s *Server) number() int {
	s.calls++
	return s.calls
}

func marshal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return string(raw)
}

func event(name string, data any) string {
	if name == "" {
		return "data: " + marshal(data) + "\n\n"
	}
	return "event: " + name + "\ndata: " + marshal(data) + "\n\n"
}

func bearer(h http.Header) string {
	return strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

func array(v any) []any {
	list, _ := v.([]any)
	return list
}

func object(v any) fields {
	m, _ := v.(map[string]any)
	return m
}

// halves are the two halves of a text, as two deltas.
func halves(text string) []string {
	r := []rune(text)
	if len(r) < 2 {
		return []string{text}
	}
	return []string{string(r[:len(r)/2]), string(r[len(r)/2:])}
}

func thoughts(n int) string { return fmt.Sprintf("These are thoughts %d.", n) }
