package supervise

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"parley/gateway"
)

// Asked is where a server is asked how it is.
type Asked struct {
	URL  string // http://HOST:PORT, or https
	Name string // the name by which TLS asks for it; "" = the host of URL
	Else string // HOST:PORT, connected to if that of URL cannot be; "" = nothing
	Own  bool   // it is the server of this machine's own configuration
}

// Configured is the server that listens as c says: at the address of its administration,
// which serves no clients and so is not full of them, if there is one, else at its own.
// An address that the system is to choose (port 0) is an error.
func Configured(c gateway.Config) (Asked, error) {
	s, addr := Asked{URL: "http://", Own: true}, c.AdminListen
	if addr == "" {
		addr = c.Listen
		if c.TLS.On() {
			s.URL = "https://"
		}
		if c.TLS.ACME() { // its certificates are found by name
			s.Name = c.TLS.ACMEHosts[0]
		}
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "0" {
		return Asked{}, fmt.Errorf("the configuration does not say at which port the server listens (%q): name the server with --url", addr)
	}
	switch host {
	case "", "0.0.0.0", "::": // of both families, but a machine may have only one of them
		host = "127.0.0.1"
		s.Else = net.JoinHostPort("::1", port)
	}
	s.URL += net.JoinHostPort(host, port)
	return s, nil
}

// Named is the server at address, an http or https URL without a path.
func Named(address string) (Asked, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return Asked{}, fmt.Errorf("%q is not the address of a server, such as http://127.0.0.1:8080", address)
	}
	return Asked{URL: u.Scheme + "://" + u.Host, Own: gateway.IsLoopback(u.Hostname())}, nil
}

// The questions: whether the server wants work, and whether its process answers at all.
const (
	Ready = "/readyz"
	Live  = "/livez"
)

// maxAnswer is what is read of an answer.
const maxAnswer = 64 << 10

// Ask asks a server one of the questions and returns what it says of itself: "ready",
// "alive", or "degraded" with the reason. What is not answered with 200 is an error. No
// proxy is asked, and no redirection followed. The certificate of a server of this machine
// is not checked: it is for the name that clients use, and there is nothing to betray.
func Ask(ctx context.Context, s Asked, question string) (string, error) {
	transport := &http.Transport{
		DialContext:       s.dial,
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{ServerName: s.Name, InsecureSkipVerify: s.Own}, //nolint:gosec // only of this machine; no secret is sent
	}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+question, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return "", fmt.Errorf("%s does not answer in time", s.URL)
		}
		return "", fmt.Errorf("%s does not answer: %w", s.URL, unwrapped(err))
	}
	defer func() { _ = response.Body.Close() }()
	var says struct{ Status, Reason, Detail any }
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err == nil && len(body) > 0 {
		err = json.Unmarshal(body, &says)
	}
	status, _ := says.Status.(string) // a problem's status is a number
	switch {
	case response.StatusCode != http.StatusOK:
		if detail, ok := says.Detail.(string); ok && detail != "" {
			return "", fmt.Errorf("%s is not well: %s", s.URL, detail)
		}
		return "", fmt.Errorf("%s is not well: it answers %s", s.URL, response.Status)
	case err != nil || status == "":
		return "", fmt.Errorf("%s is no server of this kind: %s has no status", s.URL, question)
	}
	if reason, ok := says.Reason.(string); ok && reason != "" {
		status += ": " + reason
	}
	return status, nil
}

// dial connects to the server. An error is that of the URL's own address.
func (s Asked) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil && s.Else != "" {
		if other, otherErr := dialer.DialContext(ctx, network, s.Else); otherErr == nil {
			return other, nil
		}
	}
	return conn, err
}

// unwrapped is the reason of a request's failure without its method and address.
func unwrapped(err error) error {
	var about *url.Error
	if errors.As(err, &about) {
		return about.Err
	}
	return err
}
