package listener

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// authority answers what a test says.
type authority func(*http.Request) (*http.Response, error)

func (a authority) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

func acmeOf(t *testing.T, o ACMESettings, answers authority) *ACME {
	t.Helper()
	a, err := NewACME(o)
	if err != nil {
		t.Fatal(err)
	}
	a.manager.Client.HTTPClient = &http.Client{Transport: answers}
	return a
}

// An authority that fails is left alone, longer each time; who comes meanwhile is
// refused, and each minute of that has one line.
func TestACMERests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, said := 0, 0
		var last error
		a := acmeOf(t, ACMESettings{Hosts: []string{"a.example"}, Failed: func(host string, err error, again time.Time) {
			if host != "a.example" || !again.After(time.Now()) {
				t.Errorf("told of %s, again at %v", host, again)
			}
			said++
			last = err
		}}, func(*http.Request) (*http.Response, error) { asked++; return nil, errors.New("no route") })
		for range 600 { // ten minutes of clients
			if _, err := a.get(plain("a.example")); err == nil {
				t.Fatal("there is a certificate")
			}
			<-time.After(time.Second)
		}
		// Asked after 0, 65, 195 and 455 seconds.
		if asked != 4 || said != 10 || !strings.Contains(last.Error(), "no route") {
			t.Errorf("asked %d times, told %d times, at last of %v", asked, said, last)
		}
		<-time.After(24 * time.Hour)
		_, _ = a.get(plain("a.example"))
		if asked != 5 || a.names["a.example"].rest != 1040*time.Second {
			t.Errorf("asked %d times, the next rest is %v", asked, a.names["a.example"].rest)
		}
	})
}

// An authority that does not answer holds nobody longer than it may, and no end.
func TestACMEHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		ended, answer := make(chan struct{}), make(chan struct{})
		a := acmeOf(t, ACMESettings{Hosts: []string{"a.example"}, Ended: ended}, func(*http.Request) (*http.Response, error) {
			asked++
			<-answer
			return nil, errors.New("too late")
		})
		began := time.Now()
		if _, err := a.get(plain("a.example")); err == nil || time.Since(began) != patience {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		began = time.Now()
		time.AfterFunc(3*time.Second, func() { close(ended) })
		if _, err := a.get(plain("a.example")); err == nil || time.Since(began) != 3*time.Second {
			t.Errorf("at the end: %v after %v", err, time.Since(began))
		}
		close(answer)
		synctest.Wait()
		if asked != 1 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// Nobody is asked about other names, nor about one's address or none.
func TestACMEOtherNames(t *testing.T) {
	asked := 0
	a := acmeOf(t, ACMESettings{Hosts: []string{"a.example"}}, func(*http.Request) (*http.Response, error) {
		asked++
		return nil, errors.New("asked")
	})
	for _, name := range []string{"", "b.example", "x.a.example", "127.0.0.1", "a.example.", "../a.example"} {
		if _, err := a.get(plain(name)); err == nil || asked > 0 {
			t.Errorf("%q: %v, asked %d times", name, err, asked)
		}
		challenge := plain(name)
		challenge.SupportedProtos = []string{"acme-tls/1"}
		if _, err := a.get(challenge); err == nil || asked > 0 {
			t.Errorf("the challenge of %q: %v, asked %d times", name, err, asked)
		}
	}
}

func TestACMEFileOfTheAuthority(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.pem")
	if _, err := NewACME(ACMESettings{CAFile: file}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(file, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewACME(ACMESettings{CAFile: file}); err == nil {
		t.Error("a file without a certificate is taken")
	}
}

// A restored directory has the certificates of before, unless it has its own.
func TestCarry(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	if err := Carry(from, to); err != nil {
		t.Errorf("nothing to carry: %v", err)
	}
	put := func(text string) {
		if err := os.MkdirAll(filepath.Join(from, CacheName, "a directory"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, CacheName, "a.example"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"first", "second"} {
		put(text)
		if err := Carry(from, to); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(to, CacheName, "a.example"))
		if err != nil || string(got) != "first" {
			t.Errorf("%q, %v", got, err)
		}
	}
	for name, mode := range map[string]os.FileMode{CacheName: 0o700, CacheName + "/a.example": 0o600} {
		if info, err := os.Stat(filepath.Join(to, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}
