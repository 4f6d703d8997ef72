package parley

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// trips answers requests for files itself.
type trips struct {
	files func(r *http.Request, body []byte) (int, string, error)
	rest  http.RoundTripper
}

func (t trips) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == "GET" && r.URL.Path == "/ws" {
		return t.rest.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	status, text, err := t.files(r, body)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{}, Body: io.NopCloser(bytes.NewReader([]byte(text)))}, nil
}

// An upload that breaks off is made again; one that is refused is not, and one that is too
// long is not even begun.
func TestUpload(t *testing.T) {
	const file = `{"hash":"ab","name":"a b.txt","type":"text/plain","size":2}`
	const no = `{"code":"unsupported_media_type","detail":"no"}`
	reset := errors.New("connection reset")
	for name, test := range map[string]struct {
		answers []any // errors, or bodies behind their status
		size    int
		code    Code
		tries   int
	}{
		"at once":               {[]any{201, file}, 2, "", 1},
		"broken off":            {[]any{reset, reset, 200, file}, 2, "", 3},
		"busy":                  {[]any{503, `{"code":"overloaded","retryable":true}`, 201, file}, 2, "", 2},
		"refused":               {[]any{415, no}, 2, UnsupportedMediaType, 1},
		"refused behind a loss": {[]any{reset, 415, no}, 2, UnsupportedMediaType, 2},
		"too long":              {nil, 11, TooLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				o, tries := s.options(), 0
				left := test.answers
				o.HTTP.Transport = trips{rest: o.HTTP.Transport, files: func(r *http.Request, body []byte) (int, string, error) {
					if tries++; r.URL.String() != "http://parley.test/api/sessions/s%2Fd1/blobs?name=a+b.txt" || len(body) != test.size || r.Header.Get("Content-Type") != "text/plain" {
						t.Errorf("%s of %d bytes, %v", r.URL, len(body), r.Header)
					}
					if err, broken := left[0].(error); broken {
						left = left[1:]
						return 0, "", err
					}
					status, text := left[0].(int), left[1].(string)
					left = left[2:]
					return status, text, nil
				}}
				c := s.client(o)
				p := <-s.peers
				f := p.expect("hello")
				p.ok(f.ID, `{"heartbeat_ms":25000,"limits":{"attachment_bytes":10}}`)
				began := time.Now()
				got, err := c.Upload(t.Context(), "s/d1", "a b.txt", "text/plain", make([]byte, test.size))
				if CodeOf(err) != test.code || test.code == "" && (err != nil || got.Hash != "ab") || tries != test.tries {
					t.Errorf("%+v, %v after %d tries", got, err, tries)
				}
				if waited := time.Since(began); waited > 30*time.Second {
					t.Errorf("it took %s", waited)
				}
			})
		})
	}
}

// The bytes of a file are those of its hash, or none.
func TestBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		o, text := s.options(), "bytes"
		o.HTTP.Transport = trips{rest: o.HTTP.Transport, files: func(*http.Request, []byte) (int, string, error) { return 200, text, nil }}
		c := s.client(o)
		s.accept()
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		if got, err := c.Blob(t.Context(), "s1", hash); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
		text = "byte"
		if got, err := c.Blob(t.Context(), "s1", hash); err == nil {
			t.Errorf("broken bytes are taken: %q", got)
		}
	})
}
