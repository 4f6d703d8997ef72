package httpmodel

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"parley/conversation/option"
)

// maxList bounds what is read of a list of models, in bytes.
const maxList = 8 << 20

// Probe asks the address for its list of models, which costs nothing, and says in words
// what came of it. An error is a reason why calls would fail: nobody listens, the
// certificate or the key is not accepted, the path is wrong, the model is not there. A
// server without such a list is not wrong. Nothing that is said holds a secret.
func (c *Client) Probe(ctx context.Context) (found string, err error) {
	res, body, err := c.get(ctx, http.MethodGet, c.provider.ListPath, nil)
	if err != nil {
		return "", c.unreachable(ctx, err)
	}
	switch status := res.StatusCode; {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		if c.o.APIKey == "" && len(c.o.Headers) == 0 {
			return "", fmt.Errorf("%s wants a key (%d)", c.base.Host, status)
		}
		return "", fmt.Errorf("%s does not accept the key (%d)", c.base.Host, status)
	case status == http.StatusTooManyRequests:
		return "not looked up: " + c.base.Host + " has too many requests now (429)", nil
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return c.withoutList(ctx)
	case status >= 300 && status < 400:
		return "", fmt.Errorf("%s sends its callers elsewhere%s (%d), and no key is sent after that: write the address itself", c.base.Host, c.target(res), status)
	case status < 200 || status > 299:
		return "", fmt.Errorf("%s fails (%d)", c.base.Host, status)
	case isHTML(res):
		return "", c.wrongPath("answers with a web page")
	}
	return c.inList(body)
}

// get sends one request and reads the answer, as far as it is of use.
func (c *Client) get(ctx context.Context, method, where string, body []byte) (*http.Response, []byte, error) {
	to, query, _ := strings.Cut(where, "?")
	address := c.base.JoinPath(to)
	address.RawQuery = query
	req, err := http.NewRequestWithContext(ctx, method, address.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header = c.header.Clone()
	res, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	read, err := io.ReadAll(io.LimitReader(res.Body, maxList))
	return res, read, err
}

// withoutList is for an address that has no list of models: either there is none, or the
// path is wrong. An empty request tells: where the API is it is refused.
func (c *Client) withoutList(ctx context.Context) (string, error) {
	res, body, err := c.get(ctx, http.MethodPost, c.provider.AskPath, []byte("{}"))
	if err != nil {
		return "", c.unreachable(ctx, err)
	}
	if res.StatusCode != http.StatusNotFound || !isHTML(res) && bytes.Contains(bytes.ToLower(body), []byte("model")) {
		return "not listed: " + c.base.Host + " has no list of models", nil
	}
	if c.provider.ListPath == "models" && !strings.HasSuffix(strings.TrimSuffix(c.base.Path, "/"), "/v1") {
		if res, body, err := c.get(ctx, http.MethodGet, "v1/models", nil); err == nil && res.StatusCode == http.StatusOK && len(listed(body)) > 0 {
			return "", c.wrongPath("has nothing, but there is a list of models below /v1: base_url is to end in /v1")
		}
	}
	return "", c.wrongPath("has nothing (404)")
}

func (c *Client) wrongPath(what string) error {
	return fmt.Errorf("the path is wrong: %s at %s %s", c.base.Host, path.Join("/", c.base.Path, c.provider.AskPath), what)
}

// inList looks for the model in a list of models.
func (c *Client) inList(body []byte) (string, error) {
	names := listed(body)
	var in struct {
		HasMore bool `json:"has_more"`
	}
	_ = json.Unmarshal(body, &in)
	switch {
	case len(names) == 0:
		return "not listed: " + c.base.Host + " has no list of models", nil
	case slices.ContainsFunc(names, c.isModel):
		return "listed by " + c.base.Host, nil
	case in.HasMore, len(body) >= maxList:
		return "not listed: the list of " + c.base.Host + " is long", nil
	case strings.HasSuffix(c.base.Hostname(), ".azure.com"):
		return "not listed: Azure lists models, not deployments", nil
	}
	slices.SortStableFunc(names, func(a, b string) int { return option.Distance(a, c.o.Model) - option.Distance(b, c.o.Model) })
	near := names[:min(5, len(names))]
	for i := range near {
		near[i] = shown(near[i])
	}
	return "", fmt.Errorf("%s has no model %q; it has %s", c.base.Host, c.o.Model, strings.Join(near, ", "))
}

// maxShown bounds a name that somebody else has made, in characters.
const maxShown = 80

// shown is such a name on one line, without what would steer a terminal.
func shown(name string) string {
	if r := []rune(name); len(r) > maxShown {
		name = string(r[:maxShown]) + "…"
	}
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

var dated = regexp.MustCompile(`^-[0-9]{8}$|^-[0-9]{4}-[0-9]{2}-[0-9]{2}$`)

// isModel reports whether a name of the list means the model. Names may have models/ in
// front (Gemini), and :latest (Ollama) or a date behind, which may be left out; a name with
// its maker in front may be asked for with a variant behind (OpenRouter).
func (c *Client) isModel(name string) bool {
	name, model := strings.TrimPrefix(name, "models/"), strings.TrimPrefix(c.o.Model, "models/")
	plain, _, _ := strings.Cut(model, ":")
	rest, begins := strings.CutPrefix(name, model)
	return name == model || begins && (rest == ":latest" || dated.MatchString(rest)) || name == plain && strings.Contains(plain, "/")
}

// listed returns the names in a list of models, in any of the forms that are about.
func listed(body []byte) (names []string) {
	type entry struct{ ID, Name, Model string }
	var in struct{ Data, Models []entry }
	if json.Unmarshal(body, &in) != nil {
		_ = json.Unmarshal(body, &in.Data)
	}
	for _, e := range append(in.Data, in.Models...) {
		for _, name := range []string{e.ID, e.Model, e.Name} {
			if name != "" {
				names = append(names, name)
				break
			}
		}
	}
	return names
}

// unreachable says why nothing came.
func (c *Client) unreachable(ctx context.Context, err error) error {
	host, dialled := c.base.Host, c.base.Host
	if proxy, wrong := url.Parse(c.o.Proxy); wrong == nil && proxy.Host != "" {
		dialled = "the proxy " + proxy.Host
	}
	var name *net.DNSError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	var record tls.RecordHeaderError
	var network net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nobody listens at %s (connection refused)", dialled)
	case errors.As(err, &name) && name.IsNotFound:
		return fmt.Errorf("there is no host %s", name.Name)
	case errors.As(err, &authority):
		return fmt.Errorf("the certificate of %s is signed by an authority that is not known here; SSL_CERT_FILE=FILE names one of your own", host)
	case errors.As(err, &hostname):
		return fmt.Errorf("the certificate of %s is for other hosts", host)
	case errors.As(err, &invalid):
		return fmt.Errorf("the certificate of %s is not valid: %s", host, invalid.Error())
	case errors.As(err, &record), errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s does not speak TLS; is it http:// instead of https://?", host)
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("%s did not answer in time", host)
	}
	return fmt.Errorf("%s cannot be asked: %w", host, c.forLog(ctx, err, nil))
}

func (c *Client) target(res *http.Response) string {
	to, err := url.Parse(res.Header.Get("Location"))
	if err != nil || to.Host == "" {
		return ""
	}
	return ", to " + to.Host
}

func isHTML(res *http.Response) bool {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	return media == "text/html"
}
