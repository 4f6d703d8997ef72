package mcp

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"parley/conversation"
	"parley/conversation/option"
	"parley/tools/mcp/secret"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Options says which servers there are and bounds what they may do.
type Options struct {
	// Servers are the configured servers. Where two tools come to the same name the
	// earlier server has it.
	Servers []Server
	// Taken are the names of tools that exist already: built in, and the engine's
	// own. No server gets them.
	Taken []string
	// Limits bound what a server may do; the zero value is refused: DefaultLimits.
	Limits Limits
	// Logger gets connections and losses; what servers write to standard error goes
	// there at debug. nil = nowhere. Secrets are left out of all of it.
	Logger *slog.Logger
	// Lookup reads an environment variable; nil = os.LookupEnv.
	Lookup func(name string) (value string, ok bool)
	// Join is called with tools that were never seen before, when their server comes or
	// says so after Open has returned. If it refuses them they are not used in this run,
	// and the status says why. One call at a time; nil = they are in Tools only.
	Join func([]conversation.Tool) error
	// OnStatus is called on each change of a server's status, from that server's
	// goroutine: in order for each server, and it must not block. nil = not called.
	OnStatus func(Status)
}

// Approval says whether a person must allow the calls of a tool.
type Approval string

// The approvals.
const (
	ApprovalAsk   Approval = "ask"
	ApprovalNever Approval = "never"
)

// Server is one configured server: a [[mcp]] block. DefaultServer fills what a
// block does not say; a number that is 0 is refused where nothing else is said.
//
// The tags describe a field to the configuration: option.FieldError lists
// them. Env and Headers have none: the configuration holds what they are made of.
type Server struct {
	// Name names the server in logs, statuses and errors: 1 to 32 of a-z A-Z 0-9 _ -.
	Name string `key:"name"`

	// Command is a program to start, which speaks over its standard input and
	// output: a name to be found in PATH, or a path. Either this or URL.
	Command string `key:"command"`
	// Args are its arguments. They can be seen by every process of the machine:
	// secrets belong into Env.
	Args []string `key:"args"`
	// Env is its environment, beside the variables that Inherit names.
	Env map[string]Secret
	// Inherit names the variables that it gets from this process if they are set.
	// No others: this process's keys are not every server's business.
	Inherit []string `key:"inherit"`
	// Dir is the directory that it runs in; "" = this process's own.
	Dir string `key:"dir"`

	// Singleton: of all nodes of a cluster one runs the program; the others send it their calls.
	Singleton bool `key:"singleton"`

	// URL is the address of a streamable HTTP endpoint. References as in Secret may
	// stand in it; a user and password may not.
	URL string `key:"url"`
	// Headers go with each request to that address, and to no other.
	Headers map[string]Secret

	// Protocol is the version of the protocol that is tried first; "" = the newest,
	// and 2025-11-25 after a connection that came to nothing for want of an answer.
	Protocol string `key:"protocol"`
	// Prefix goes before the names of its tools; "" = nothing.
	Prefix string `key:"prefix"`
	// Allow are the tools that are used, by the server's names; "*" = all.
	Allow []string `key:"allow"`
	// Approval of its tools, but for those in Ask and Never.
	Approval Approval `key:"approval"`
	// Ask and Never are exceptions to Approval, by the server's names.
	Ask   []string `key:"ask"`
	Never []string `key:"never"`
	// Idempotent are the tools that may run again with the same arguments after a
	// crash, by the server's names; "*" = all. A server's own word on this
	// is not trusted.
	Idempotent []string `key:"idempotent"`
	// Resources and Prompts give models tools of ours that list and read what the server
	// has of them: list_resources, read_resource, list_prompts and get_prompt, with the
	// prefix and the rules of all its tools.
	Resources bool `key:"resources"`
	Prompts   bool `key:"prompts"`
	// Elicitation lets the server ask the user in the middle of a call.
	Elicitation bool `key:"elicitation"`
	// Timeout is the longest time that a call may take; 0 = tools.timeout.
	Timeout time.Duration `key:"timeout" min:"0s" max:"1h"`
	// ConnectTimeout is how long it may take to start the server, to agree with it
	// and to list its tools.
	ConnectTimeout time.Duration `key:"connect_timeout" min:"1ms"`
}

// DefaultServer returns a block that says nothing but its name.
func DefaultServer(name string) Server {
	return Server{
		Name:           name,
		Inherit:        []string{"HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"},
		Prefix:         name + "_",
		Allow:          []string{"*"},
		Approval:       ApprovalAsk,
		Resources:      true,
		Prompts:        true,
		Elicitation:    true,
		ConnectTimeout: 30 * time.Second,
	}
}

// Limits bound what any server may do. All must be more than 0.
//
// The tags describe a field to the configuration: option.FieldError lists them.
type Limits struct {
	// Result is the longest result of a call, in bytes; the middle of a longer one
	// is left out.
	Result int `key:"mcp_limits.result" min:"256" unit:"bytes"`
	// Message is the longest message of a server, in bytes; a longer one ends the
	// connection.
	Message int `key:"mcp_limits.message" min:"1" unit:"bytes"`
	// Tools is the number of tools of one server.
	Tools int `key:"mcp_limits.tools" min:"1"`
	// Listed is the number of resources, and of prompts, of one server that are listed.
	Listed int `key:"mcp_limits.listed" min:"1"`
	// Description bounds each tool's description, in bytes; the rest is cut.
	Description int `key:"mcp_limits.description" min:"1" unit:"bytes"`
	// Schema bounds each tool's schema, in bytes; a tool with a larger one is left out.
	Schema int `key:"mcp_limits.schema" min:"1" unit:"bytes"`
	// StderrLine bounds the part of a line on standard error that is logged, in bytes.
	StderrLine int `key:"mcp_limits.stderr_line" min:"1" unit:"bytes"`
	// BackoffMin and BackoffMax bound the wait before the next attempt to connect:
	// it doubles from the one to the other, and a random half of it is taken off.
	// A connection that lasted for BackoffMax starts it over.
	BackoffMin time.Duration `key:"mcp_limits.backoff_min" min:"1ms"`
	BackoffMax time.Duration `key:"mcp_limits.backoff_max" min:"1ms"`
	// StopGrace is how long a server may take to part from us; then how long its
	// program may take to end after its standard input was closed, and again after
	// SIGTERM; SIGKILL is next.
	StopGrace time.Duration `key:"mcp_limits.stop_grace" min:"1ms"`
}

// Validate says which limits contradict each other or are out of their bounds, by
// the keys of the configuration.
func (l Limits) Validate() []option.FieldError {
	wrong := option.OutOfBounds(l)
	if l.BackoffMin > l.BackoffMax {
		wrong = append(wrong, option.FieldError{Key: "mcp_limits.backoff_min", AtMost: "mcp_limits.backoff_max"})
	}
	return wrong
}

// DefaultLimits returns the limits of a configuration that says nothing.
func DefaultLimits() Limits {
	return Limits{
		Result:      64 << 10,
		Message:     16 << 20,
		Tools:       128, // what the providers of models take in one request
		Listed:      1000,
		Description: 1 << 10,
		Schema:      64 << 10,
		StderrLine:  1 << 10,
		BackoffMin:  time.Second,
		BackoffMax:  time.Minute,
		StopGrace:   1500 * time.Millisecond,
	}
}

var (
	serverName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,32}$`)
	toolPrefix = regexp.MustCompile(`^[a-zA-Z0-9_-]{0,32}$`)
	envName    = regexp.MustCompile(`^[^=\x00]+$`)
)

// reservedHeaders are the headers that the protocol and HTTP need for themselves.
var reservedHeaders = []string{
	"Accept", "Connection", "Content-Length", "Content-Type", "Host", "Last-Event-Id", "Mcp-Method", "Mcp-Name",
	"Mcp-Protocol-Version", "Mcp-Session-Id", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// Validate says everything that is wrong at once, by the names of the
// configuration. It starts nothing and reads no secret; errors name none.
func (o *Options) Validate() error {
	var errs []error
	for name, n := range map[string]int{
		"result": o.Limits.Result, "message": o.Limits.Message, "tools": o.Limits.Tools, "listed": o.Limits.Listed,
		"description": o.Limits.Description, "schema": o.Limits.Schema, "stderr_line": o.Limits.StderrLine,
	} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%s must be at least 1, and is %d", name, n))
		}
	}
	if o.Limits.Result > 0 && o.Limits.Result < leastResult {
		errs = append(errs, fmt.Errorf("result must be at least %d, and is %d", leastResult, o.Limits.Result))
	}
	if o.Limits.BackoffMin <= 0 || o.Limits.BackoffMax < o.Limits.BackoffMin {
		errs = append(errs, fmt.Errorf("backoff_min must be more than 0, and backoff_max not less than it; they are %s and %s", o.Limits.BackoffMin, o.Limits.BackoffMax))
	}
	if o.Limits.StopGrace <= 0 {
		errs = append(errs, fmt.Errorf("stop_grace must be more than 0, and is %s", o.Limits.StopGrace))
	}
	names := map[string]bool{}
	for i := range o.Servers {
		s := &o.Servers[i]
		if names[s.Name] {
			errs = append(errs, fmt.Errorf("mcp %q: there are two servers of this name", s.Name))
		}
		names[s.Name] = true
		for _, wrong := range s.Validate() {
			errs = append(errs, fmt.Errorf("mcp %q: %s", s.Name, wrong.Sentence))
		}
	}
	return errors.Join(errs...)
}

// Validate says everything that is wrong with one server, by the keys of its
// block; a key "" is the block as a whole. It reads no secret, and no sentence
// holds one.
func (s *Server) Validate() []option.FieldError {
	var wrong []option.FieldError
	refuse := func(key, format string, args ...any) {
		wrong = append(wrong, option.FieldError{Key: key, Sentence: fmt.Sprintf(format, args...)})
	}
	named := serverName.MatchString(s.Name)
	switch {
	case s.Name == "":
		refuse("name", "a server needs a name: name = \"…\"")
	case !named:
		refuse("name", "a name is 1 to 32 letters, digits, _ and -")
	}
	switch {
	case (s.Command == "") == (s.URL == ""):
		refuse("", "give command or url, and not both")
	case s.Command != "" && len(s.Headers) > 0:
		refuse("headers", "headers go with a url, not with a command")
	case s.URL != "" && s.Singleton:
		refuse("singleton", "singleton goes with a command; what has an address runs where that is")
	case s.URL != "" && (len(s.Args) > 0 || len(s.Env) > 0 || s.Dir != ""):
		refuse("", "args, env and dir go with a command, not with a url")
	}
	if slices.ContainsFunc(append([]string{s.Command, s.Dir}, s.Args...), func(t string) bool { return strings.ContainsRune(t, 0) }) {
		refuse("args", "command, args and dir must not hold a zero byte")
	}
	if s.URL != "" {
		if err := checkURL(s.URL); err != nil {
			refuse("url", "url: %v", err)
		}
	}
	s.validateSecrets(refuse)
	if !toolPrefix.MatchString(s.Prefix) && (named || s.Prefix != DefaultServer(s.Name).Prefix) {
		refuse("prefix", "prefix = %q: must be at most 32 letters, digits, _ and -", s.Prefix)
	}
	if len(s.Allow) == 0 {
		refuse("allow", `allow must name tools, or be ["*"]; leave the block out to use none`)
	}
	if s.Approval != ApprovalAsk && s.Approval != ApprovalNever {
		refuse("approval", "approval = %q: must be %q or %q", s.Approval, ApprovalAsk, ApprovalNever)
	}
	for _, name := range s.Ask {
		if slices.Contains(s.Never, name) {
			refuse("ask", "%q is in both ask and never", name)
		}
	}
	if slices.Contains(slices.Concat(s.Ask, s.Never), "*") {
		refuse("ask", "ask and never name tools; approval says what holds for all")
	}
	if s.Timeout < 0 || s.Timeout > time.Hour {
		refuse("timeout", "timeout must be between 0 and 1h, and is %s", s.Timeout)
	}
	if s.ConnectTimeout <= 0 {
		refuse("connect_timeout", "connect_timeout must be more than 0, and is %s", s.ConnectTimeout)
	}
	return wrong
}

func (s *Server) validateSecrets(refuse func(key, format string, args ...any)) {
	for _, name := range sorted(s.Headers) {
		if !httpguts.ValidHeaderFieldName(name) {
			refuse("headers", "headers: %q is not the name of a header", name)
		} else if slices.Contains(reservedHeaders, http.CanonicalHeaderKey(name)) {
			refuse("headers", "headers: %s is set by the protocol", name)
		}
		if err := s.Headers[name].Check(); err != nil {
			refuse("headers", "headers: %s: %v", name, err)
		}
	}
	for _, name := range sorted(s.Env) {
		if !envName.MatchString(name) {
			refuse("env", "env: %q is not the name of a variable", name)
		}
		if err := s.Env[name].Check(); err != nil {
			refuse("env", "env: %s: %v", name, err)
		}
	}
}

// checkURL looks at an address whose references are not filled in yet. Its
// errors do not repeat it: a key may stand in it.
func checkURL(template string) error {
	if err := NewSecret(template).Check(); err != nil {
		return err
	}
	u, err := url.Parse(secret.Replace(template, func(secret.Reference) string { return "x" }))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must be a whole address that begins with http:// or https://")
	case u.User != nil:
		return errors.New("must not hold a user or password; use a header")
	case u.Fragment != "":
		return errors.New("must not have a fragment")
	}
	return nil
}

// allows reports whether a tool is used.
func (s *Server) allows(tool string) bool { return matchesAny(s.Allow, tool) }

// needsApproval reports whether a person must allow the calls of a tool.
func (s *Server) needsApproval(tool string) bool {
	if s.Approval == ApprovalAsk {
		return !slices.Contains(s.Never, tool)
	}
	return slices.Contains(s.Ask, tool)
}

func matchesAny(names []string, name string) bool {
	return slices.Contains(names, "*") || slices.Contains(names, name)
}

// named returns the tools that the configuration names one by one.
func (s *Server) named() []string {
	var names []string
	for _, list := range [][]string{s.Allow, s.Ask, s.Never, s.Idempotent} {
		for _, name := range list {
			if name != "*" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
