package listener

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// ACME gets certificates from an authority that asks for nothing but proof that the
// names lead here (RFC 8555), by TLS-ALPN-01: the authority connects to this listener.
// A name's certificate is asked for when its first client comes, and renewed in time.
//
// The authority is asked by a goroutine of its own, never in a handshake: a handshake
// cannot be ended while it asks, and a drain would wait for the authority.
type ACME struct {
	o       ACMESettings
	manager *autocert.Manager
	names   map[string]*name
}

// ACMESettings say whose certificates are got, and where.
type ACMESettings struct {
	Hosts     []string // names in lower case; nothing else gets a certificate
	Email     string   // whom the authority writes to; "" = nobody
	Directory string   // the authority's address; "" = Let's Encrypt
	CAFile    string   // who vouches for that address, PEM; "" = whom the system trusts
	Cache     string   // the directory of keys and certificates; "" = they are got anew at each start

	Ended  <-chan struct{}                               // the server ends: no handshake waits any more; nil = never
	Issued func(host string, ends time.Time)             // a certificate is there, new or from the cache
	Failed func(host string, err error, again time.Time) // once a minute and name at most
}

// How long the authority is left alone after it failed: twice as long each time. It
// counts failures, too, and some refuse a name for hours after five of them. The first
// rest is longer than the library's own of a minute, in which it would not ask.
const (
	firstAsk = 65 * time.Second
	lastAsk  = time.Hour
	// patience is how long a handshake waits for the authority; browsers wait longer.
	patience = 20 * time.Second
	sayEvery = time.Minute
)

// name is one host's state.
type name struct {
	mu     sync.Mutex
	asking chan struct{} // closed with the answer; nil = nobody asks
	issued bool          // the library has it, and renews it
	failed error         // the last answer
	rest   time.Duration
	again  time.Time // when the authority may be asked again
	said   time.Time // when the failure was last told
}

// NewACME reads what it needs; nobody is asked before a client comes.
func NewACME(o ACMESettings) (*ACME, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableKeepAlives = true // it is asked a few times in two months
	if o.CAFile != "" {
		text, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", o.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	if o.Directory == "" {
		o.Directory = autocert.DefaultACMEDirectory
	}
	a := &ACME{o: o, names: make(map[string]*name, len(o.Hosts))}
	for _, h := range o.Hosts {
		a.names[h] = &name{}
	}
	a.manager = &autocert.Manager{
		Prompt:     autocert.AcceptTOS, // the configuration says so, or is refused
		HostPolicy: autocert.HostWhitelist(o.Hosts...),
		Email:      o.Email,
		Client: &acme.Client{
			DirectoryURL: o.Directory, UserAgent: "parley",
			HTTPClient: &http.Client{Transport: transport, Timeout: time.Minute},
		},
	}
	if o.Cache != "" {
		a.manager.Cache = kept{autocert.DirCache(o.Cache), a}
	}
	return a, nil
}

// Config is TLS 1.2 or later with HTTP/1.1, and what the authority looks for.
func (a *ACME) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1", acme.ALPNProto}, GetCertificate: a.get}
}

func (a *ACME) get(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	n := a.names[hello.ServerName]
	if n == nil { // also the authority gets nothing for other names
		return nil, errors.New("no certificate for this name; see tls.acme_hosts")
	}
	if len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == acme.ALPNProto {
		return a.manager.GetCertificate(hello) // the challenge; nobody is asked
	}
	asking, err := a.ask(hello.ServerName, n)
	if err != nil {
		return nil, err
	}
	if asking != nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-asking:
		case <-a.o.Ended:
			return nil, errors.New("the server ends")
		case <-timer.C:
			return nil, errors.New("the certificate is being asked for")
		}
		n.mu.Lock()
		issued, err := n.issued, n.failed
		n.mu.Unlock()
		if !issued {
			return nil, err
		}
	}
	pair, err := a.manager.GetCertificate(plain(hello.ServerName))
	if err == nil {
		a.renews(hello.ServerName, n, pair)
	}
	return pair, err
}

// plain asks for a name's one certificate, ECDSA, which every client of TLS 1.2 knows: a
// client that says it does not would make the authority issue a second one.
func plain(host string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{ServerName: host, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}}
}

// ask has the authority asked for a name if there is no certificate and nobody asks
// already; nil = the certificate is there.
func (a *ACME) ask(host string, n *name) (asking chan struct{}, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	switch {
	case n.issued:
		return nil, nil
	case n.asking != nil:
		return n.asking, nil
	case now.Before(n.again):
		a.say(host, n, now)
		return nil, n.failed
	}
	n.asking = make(chan struct{})
	go func() { // ends with the authority's answer, or after five minutes
		pair, err := a.manager.GetCertificate(plain(host))
		n.mu.Lock()
		defer n.mu.Unlock()
		now := time.Now()
		if n.issued, n.failed = err == nil, err; err != nil {
			n.rest = min(max(2*n.rest, firstAsk), lastAsk)
			n.again = now.Add(n.rest)
			a.say(host, n, now)
		} else if a.o.Issued != nil {
			a.o.Issued(host, pair.Leaf.NotAfter)
		}
		close(n.asking)
		n.asking = nil
	}()
	return n.asking, nil
}

// renews tells of a certificate that should have been renewed: the library does that
// when a third of its time is left, or 30 days, and says nothing when it fails.
func (a *ACME) renews(host string, n *name, pair *tls.Certificate) {
	if pair.Leaf == nil {
		return
	}
	now := time.Now()
	if left := pair.Leaf.NotAfter.Sub(now); left > pair.Leaf.NotAfter.Sub(pair.Leaf.NotBefore)/6 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = fmt.Errorf("the certificate ends at %s and could not be renewed", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	n.again = now.Add(lastAsk) // about when the library tries again
	a.say(host, n, now)
}

// say tells of a failure, once a minute.
func (a *ACME) say(host string, n *name, now time.Time) {
	if now.Before(n.said) || a.o.Failed == nil {
		return
	}
	n.said = now.Add(sayEvery)
	a.o.Failed(host, n.failed, n.again)
}

// kept is the cache; what cannot be written is told, because the library is silent and
// each start would ask the authority again until it refuses.
type kept struct {
	autocert.DirCache
	of *ACME
}

// Put writes one file, readable by the owner alone.
func (k kept) Put(ctx context.Context, file string, data []byte) error {
	err := k.DirCache.Put(ctx, file, data)
	if err != nil && k.of.o.Failed != nil {
		k.of.o.Failed(file, fmt.Errorf("it cannot be kept: %w", err), time.Now())
	}
	return err
}

// CacheName is the directory of certificates in the data directory.
const CacheName = "acme"

// Carry takes the certificates of one data directory into another one that has none:
// after a restore nobody needs to be asked again.
func Carry(from, to string) error {
	from, to = filepath.Join(from, CacheName), filepath.Join(to, CacheName)
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, e.Name()), text, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
