package push

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/option"
)

// Rules say where may be sent to, and how. The tags are those of package conversation/option.
type Rules struct {
	Hosts    []string      `key:"push.hosts"`                        // "agents.example.org", "*.example.org", with or without a port; "*" = any
	Private  bool          `key:"push.private"`                      // they may be at addresses of this machine or of a private network, and by http
	Timeout  time.Duration `key:"push.timeout" min:"1s" max:"5m"`    // of one try
	MaxPause time.Duration `key:"push.max_pause" min:"1s" max:"24h"` // the longest pause between two tries
	GiveUp   time.Duration `key:"push.give_up" min:"1s" max:"720h"`  // a notice older than this is skipped
	PerUser  int           `key:"limits.pushes_per_user" min:"0"`    // tasks that one user is told of at a time; 0 = any number
}

// DefaultRules are those of a configuration that says nothing.
func DefaultRules() Rules {
	return Rules{Hosts: []string{}, Timeout: 15 * time.Second, MaxPause: 5 * time.Minute, GiveUp: 24 * time.Hour, PerUser: 100}
}

// Validate says what cannot work, by the keys of the configuration.
func (r Rules) Validate() []option.FieldError {
	wrong := option.OutOfBounds(r)
	if slices.ContainsFunc(r.Hosts, func(h string) bool { return !isHost(h) }) {
		wrong = append(wrong, option.FieldError{Key: "push.hosts", Sentence: `each must be a host such as "agents.example.org", "*.example.org" or "agents.example.org:8443", or "*" for any`})
	}
	return wrong
}

// isHost is true for a host as Rules has it.
func isHost(h string) bool {
	if h == "*" {
		return true
	}
	u, err := url.Parse("https://" + strings.TrimPrefix(h, "*."))
	return err == nil && u.Host == strings.TrimPrefix(h, "*.") && u.Hostname() != "" && !strings.Contains(u.Host, "*")
}

// thisMachine are the hosts of a server that nobody else can reach.
var thisMachine = []string{"localhost", "127.0.0.1", "[::1]"}

// Bounds of what a client registers, in bytes.
const (
	maxURL    = 2048
	maxID     = 128
	maxScheme = 64
	maxSecret = 4096
)

// allows says why nothing may be sent to an address; nil = it may. No error shows the address,
// which may hold a token.
func (r Rules) allows(address string) error {
	refuse := func(sentence string) error { return conversation.Errorf(conversation.BadRequest, "%s", sentence) }
	u, err := url.Parse(address)
	switch {
	case address == "":
		return refuse("url is missing")
	case len(address) > maxURL:
		return refuse(fmt.Sprintf("url must be at most %d bytes", maxURL))
	case err != nil || !isName(u.Hostname()) || !isPort(u.Port()) || u.Scheme != "https" && u.Scheme != "http":
		return refuse(`url must be an address such as "https://agents.example.org/hook"`)
	case u.User != nil:
		return refuse("url must not hold a user or password: say them as authentication")
	case u.Fragment != "":
		return refuse("url must not hold a fragment (#…)")
	case !slices.ContainsFunc(r.Hosts, func(h string) bool { return isOf(u, h) }):
		return refuse("url is at a host that this server sends nothing to: its operator names the hosts (push.hosts)")
	case u.Scheme == "http" && !r.Private:
		return refuse("url must be https")
	}
	return nil
}

// isName is true for what can be the name of a host, or its address without a zone: a zone may be
// any text, also one that ends like a host of Rules, and package net takes no offence at it.
func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c == utf8.RuneError || c < utf8.RuneSelf && !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("-_.:", c)
	})
}

// isPort is true for a port that can be connected to; "" = that of the scheme.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return s == "" || err == nil && n > 0
}

// isOf is true for an address at a host of Rules.
func isOf(u *url.URL, host string) bool {
	if host == "*" {
		return true
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.Trim(host, "[]"), ""
	}
	is, at := strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), u.Port()
	if at == "" {
		at = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if below, any := strings.CutPrefix(name, "*."); any {
		return !strings.Contains(is, ":") && strings.HasSuffix(is, "."+below) && (port == "" || port == at)
	}
	return is == name && (port == "" || port == at)
}
