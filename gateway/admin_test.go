package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/service"
)

// twoKeys knows an administrator and a user.
type twoKeys struct{}

func (twoKeys) Mode() string { return "keys" }

func (twoKeys) Authenticate(_ context.Context, c gateway.Credential) (*gateway.Principal, error) {
	switch c.Token {
	case "admin":
		return &gateway.Principal{Tenant: "acme", User: "root", Credential: "key:1", Scopes: []string{gateway.ScopeChat, gateway.ScopeAdmin}}, nil
	case "user":
		return &gateway.Principal{Tenant: "acme", User: "ann", Scopes: []string{gateway.ScopeChat}}, nil
	case "other admin":
		return &gateway.Principal{Tenant: "other", User: "root", Scopes: []string{gateway.ScopeAdmin}}, nil
	}
	return nil, conversation.Errorf(conversation.Unauthenticated, "who are you?")
}

// ask makes a request to an address of the rig; headers come in pairs.
func ask(t *testing.T, method, url string, headers ...string) (status int, body string) {
	t.Helper()
	var in io.Reader
	if method == "POST" {
		in = strings.NewReader(`{"dest":"/nowhere"}`)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		if req.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			req.Host = headers[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode, string(b)
}

// What only the operator may have: the method, the path, and what the right one gets.
var operators = []struct {
	method, path string
	status       int
}{
	{"GET", "/metrics", 200},
	{"GET", "/debug/pprof/", 200},
	{"GET", "/debug/pprof/cmdline", 200},
	{"GET", "/debug/pprof/goroutine?debug=2", 200},
	{"GET", "/debug/pprof/heap", 200},
	{"GET", "/debug/pprof/symbol", 200},
	{"GET", "/debug/pprof/trace?seconds=0.01", 200},
	{"POST", "/admin/backup", 201},
}

func withBackup(_ *gateway.Config, d *gateway.Deps) {
	d.Backup = func(context.Context, string) (gateway.BackupMade, error) {
		return gateway.BackupMade{Dest: "made"}, nil
	}
	d.CommandLine = []string{"parley", "--set", "auth.token=***"}
}

// The operator's routes are on the main address only where no stranger comes to it, and
// on their own otherwise.
// PROTOCOL.md, rule 8.20.
func TestOperatorsRoutesAndStrangers(t *testing.T) {
	admin := func(c *gateway.Config, _ *gateway.Deps) { c.AdminListen = "127.0.0.1:0" }
	for _, c := range []struct {
		name  string
		setup setup
		main  bool
	}{
		{"alone on loopback", func(*gateway.Config, *gateway.Deps) {}, true},
		{"behind a proxy", func(c *gateway.Config, d *gateway.Deps) {
			c.PublicHosts, d.Authenticator = []string{"chat.example"}, twoKeys{}
		}, false},
		{"where users say who they are", withAuth(twoKeys{}), true},
		{"on all addresses", func(c *gateway.Config, d *gateway.Deps) { c.Listen, d.Authenticator = "0.0.0.0:0", twoKeys{} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, withBackup, admin, c.setup)
			_, port, err := net.SplitHostPort(r.addr)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range operators {
				want := o.status
				signIn := c.name == "where users say who they are"
				if !c.main || signIn && o.path == "/admin/backup" {
					want = 404
				}
				for _, headers := range [][]string{nil, {"Host", "chat.example", "X-Forwarded-For", "203.0.113.7"}} {
					if headers != nil && c.name != "behind a proxy" {
						continue
					}
					if status, body := ask(t, o.method, "http://127.0.0.1:"+port+o.path, append(headers, "Authorization", "Bearer admin")...); status != want {
						t.Errorf("main %s %s %v: %d %.200s, want %d", o.method, o.path, headers, status, body, want)
					}
				}
				if signIn && want == o.status {
					if status, body := ask(t, o.method, "http://127.0.0.1:"+port+o.path); status != 401 {
						t.Errorf("main %s %s without a key: %d %.200s, want 401", o.method, o.path, status, body)
					}
				}
				if status, body := ask(t, o.method, "http://"+r.server.AdminAddr().String()+o.path); status != o.status {
					t.Errorf("admin %s %s: %d %.200s, want %d", o.method, o.path, status, body, o.status)
				}
			}
		})
	}
}

// No page of a browser reaches an operator's route, by whichever address and name.
func TestOperatorsRoutesAndPages(t *testing.T) {
	r := start(t, withBackup, func(c *gateway.Config, _ *gateway.Deps) {
		c.AdminListen, c.AllowedOrigins = "127.0.0.1:0", []string{"https://app.example"}
	})
	for _, addr := range []string{r.addr, r.server.AdminAddr().String()} {
		for _, o := range operators {
			for _, headers := range [][]string{
				{"Host", "evil.example"},
				{"Host", "evil.example", "Origin", "http://evil.example"}, // a name that was made to point here
				{"Origin", "http://evil.example"},
				{"Origin", "https://app.example"},
				{"Origin", "null"},
				{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"},
				{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"},
				{"Sec-Fetch-Site", "same-site"},
			} {
				if status, body := ask(t, o.method, "http://"+addr+o.path, headers...); status != 403 {
					t.Errorf("%s %s %v: %d %.100s, want 403", o.method, o.path, headers, status, body)
				}
			}
			for _, headers := range [][]string{{"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://" + addr}} {
				if status, body := ask(t, o.method, "http://"+addr+o.path, headers...); status != o.status {
					t.Errorf("%s %s %v: %d %.100s, want %d", o.method, o.path, headers, status, body, o.status)
				}
			}
		}
	}
}

// On a public admin.listen every route but health needs the scope admin.
func TestPublicAdminListen(t *testing.T) {
	open := func(insecure bool) *rig {
		return start(t, withBackup, withAuth(twoKeys{}), func(c *gateway.Config, _ *gateway.Deps) {
			c.AdminListen, c.AdminInsecure = "0.0.0.0:0", insecure
		})
	}
	for insecure, statuses := range map[bool]map[string]int{
		false: {"": 401, "Bearer wrong": 401, "Bearer user": 403, "Bearer admin": 0},
		true:  {"": 0, "Bearer admin": 0, "Bearer user": 403},
	} {
		r := open(insecure)
		_, port, err := net.SplitHostPort(r.server.AdminAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		for credential, status := range statuses {
			for _, o := range operators {
				want := status
				if want == 0 {
					want = o.status
				}
				headers := []string{"Authorization", credential}
				if credential == "" {
					headers = nil
				}
				if got, body := ask(t, o.method, "http://127.0.0.1:"+port+o.path, headers...); got != want {
					t.Errorf("insecure %v, %q, %s: %d %.100s, want %d", insecure, credential, o.path, got, body, want)
				}
			}
		}
		for _, path := range []string{"/livez", "/readyz"} {
			if status, body := ask(t, "GET", "http://127.0.0.1:"+port+path); status != 200 {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
	}
	for insecure, want := range map[bool]bool{false: true, true: false} {
		cfg := gateway.DefaultConfig()
		cfg.AdminListen, cfg.AdminInsecure = "0.0.0.0:0", insecure
		r := start(t)
		_, err := gateway.New(cfg, gateway.Deps{Sessions: r.sessions, Hub: r.hub})
		if (err != nil) != want || want && !strings.Contains(err.Error(), "admin.insecure") {
			t.Errorf("without sign-in, insecure %v: %v", insecure, err)
		}
	}
}

// profiled is a server that may be asked without a pause: how often depends on how long a
// profile takes.
func profiled(t *testing.T) *rig {
	return start(t, func(c *gateway.Config, _ *gateway.Deps) {
		c.AdminListen, c.Limits.RequestsPerSecondPerAddress = "127.0.0.1:0", 0
	})
}

// longProfile asks for a profile, again as long as another one runs, until leave is called.
func longProfile(t *testing.T, addr, path string) (leave func(), left chan struct{}) {
	ctx, leave := context.WithCancel(t.Context())
	left = make(chan struct{})
	go func() {
		defer close(left)
		for status := http.StatusConflict; status == http.StatusConflict; {
			req, err := http.NewRequestWithContext(ctx, "GET", "http://"+addr+"/debug/pprof/"+path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return // it has left, or the server has
			}
			status = resp.StatusCode
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if status != http.StatusConflict && status != http.StatusOK {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
	}()
	return leave, left
}

// busy waits until a profile runs.
func busy(t *testing.T, addr string) {
	t.Helper()
	waitFor(t, func() bool {
		status, _ := ask(t, "GET", "http://"+addr+"/debug/pprof/trace?seconds=0.001")
		return status == http.StatusConflict
	})
}

// A profile is bounded in time, alone, and ends with its client, on either address.
func TestProfilesAreBounded(t *testing.T) {
	r := profiled(t)
	for name, addr := range map[string]string{"main": r.addr, "admin": r.server.AdminAddr().String()} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"trace?seconds=61", "profile?seconds=86400", "heap?seconds=61", "trace?seconds=x", "trace?seconds=-1", "profile?seconds=NaN", "profile?seconds=0"} {
				if status, body := ask(t, "GET", "http://"+addr+"/debug/pprof/"+path); status != 400 {
					t.Errorf("%s: %d %s", path, status, body)
				}
			}
			for _, path := range []string{"trace?seconds=60", "profile?seconds=60", "profile", "heap?seconds=60"} {
				leave, left := longProfile(t, addr, path)
				busy(t, addr)
				leave()
				<-left
				waitFor(t, func() bool {
					status, _ := ask(t, "GET", "http://"+addr+"/debug/pprof/trace?seconds=0.001")
					return status == 200
				})
			}
			if body := r.metric("parley_gateway_refused_total", "limit", "profile_seconds"); body == 0 {
				t.Error("refused seconds are not counted")
			}
			if body := r.metric("parley_gateway_refused_total", "limit", "profiles"); body == 0 {
				t.Error("refused profiles are not counted")
			}
		})
	}
}

// A profile does not hold up the end of the server.
func TestProfileEndsWithTheServer(t *testing.T) {
	for _, which := range []string{"main", "admin"} {
		r := profiled(t)
		addr := r.addr
		if which == "admin" {
			addr = r.server.AdminAddr().String()
		}
		_, ended := longProfile(t, addr, "trace?seconds=60")
		busy(t, addr)
		began := time.Now()
		if err := r.stop(); err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("%s: the server ended after %v with %v", which, time.Since(began), err)
		}
		<-ended
	}
}

// The command line is shown as it was given to the gateway, and nothing else of it.
func TestCommandLineIsTheMaskedOne(t *testing.T) {
	r := start(t, withBackup)
	if _, body := ask(t, "GET", "http://"+r.addr+"/debug/pprof/cmdline"); body != "parley\x00--set\x00auth.token=***" {
		t.Errorf("%q", body)
	}
}

// Acts are kept before they are done, shown to administrators of their tenant, and not
// done if they cannot be kept.
func TestAuditRoute(t *testing.T) {
	audit := &service.MemoryAudit{}
	r := start(t, withBackup, withAuth(twoKeys{}), func(c *gateway.Config, d *gateway.Deps) {
		c.AdminListen, d.Audit = "127.0.0.1:0", audit
	})
	backup := func(want int) {
		t.Helper()
		if status, body := ask(t, "POST", "http://"+r.server.AdminAddr().String()+"/admin/backup", "Authorization", "Bearer admin"); status != want {
			t.Fatalf("%d %s, want %d", status, body, want)
		}
	}
	backup(201)
	backup(201)
	r.call("GET", "/api/audit", "").problem(t, 401, "unauthenticated")
	r.call("GET", "/api/audit", "", "Authorization", "Bearer user").problem(t, 403, "forbidden")
	a := r.call("GET", "/api/audit?limit=1", "", "Authorization", "Bearer admin").want(t, 200)
	for _, want := range []string{`"act":"backup"`, `"user":"root"`, `"credential":"key:1"`, `"object":"/nowhere"`, `"address":"127.0.0.1"`} {
		if !strings.Contains(string(a.body), want) {
			t.Errorf("%s has no %s", a.body, want)
		}
	}
	next := a.get(t, "next_cursor")
	if a := r.call("GET", "/api/audit?limit=1&cursor="+next, "", "Authorization", "Bearer admin").want(t, 200); a.get(t, "next_cursor") != "" || strings.Count(string(a.body), `"act"`) != 1 {
		t.Errorf("%s", a.body)
	}
	if a := r.call("GET", "/api/audit", "", "Authorization", "Bearer other admin").want(t, 200); a.get(t, "items") != "[]" {
		t.Errorf("another tenant's: %s", a.body)
	}
	r.call("GET", "/api/audit?cursor=x", "", "Authorization", "Bearer admin").problem(t, 400, "bad_request")
	refusing := start(t, withBackup, func(_ *gateway.Config, d *gateway.Deps) { d.Audit = &service.MemoryAudit{Refuse: io.ErrShortWrite} })
	if status, body := ask(t, "POST", "http://"+refusing.addr+"/admin/backup"); status != 503 || strings.Contains(body, "short write") {
		t.Errorf("what cannot be written down: %d %s", status, body)
	}
}
