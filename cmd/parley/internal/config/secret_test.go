package config

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// What "config print" shows of a configuration holds no secret, wherever one can stand.
func TestPrintHoldsNoSecret(t *testing.T) {
	c := Default()
	c.MCP = []MCPBlock{mcpBlock("files")}
	m := &c.MCP[0]
	m.Command, m.Args = "npx", []string{"--api-key", "SECRET1", "--db=postgres://u:SECRET2@h/db", "-e", "PGPASS=SECRET3", "/srv/files"}
	m.Env = map[string]string{
		"DATABASE_URL": "postgres://u:SECRET4@h/db", "PGPASS": "SECRET5", "AWS_SESSION": "SECRET6", "SENTRY_DSN": "SECRET7",
		"MODE": "fast", "TOKEN": "env:FILES_TOKEN",
	}
	m.Headers = map[string]string{"X-Foo": "Bearer SECRET8", "X-Signature": "SECRET9"}
	c.Models = []ModelBlock{{Name: "gpt", Provider: ProviderOpenAI, Proxy: "http://u:SECRET10@proxy:3128", Headers: map[string]string{"X-Foo": "sk-SECRET11", "X-Team": "a"}}}
	c.Models[0].Connection().BaseURL = "https://u:SECRET12@h/v1"
	var out bytes.Buffer
	if err := Print(&out, c); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(out.String(), "\n") {
		if regexp.MustCompile(`SECRET[0-9]`).MatchString(line) {
			t.Errorf("it shows %s", line)
		}
	}
	for _, want := range []string{`"/srv/files"`, `"fast"`, "env:FILES_TOKEN", `"a"`, "postgres://u:***@h/db"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not show %s:\n%s", want, out.String())
		}
	}
}

// A secret that stands in the file is refused by a sentence that does not repeat it.
func TestInlineSecretsAreRefused(t *testing.T) {
	for name, block := range map[string]string{
		"an argument":             `args = ["--api-key", "SECRET"]`,
		"an argument behind =":    `args = ["--token=SECRET"]`,
		"an address of arguments": `args = ["postgres://u:SECRET@h/db"]`,
		"an address":              `env = { DATABASE_URL = "postgres://u:SECRET@h/db" }`,
		"a password":              `env = { PGPASS = "SECRET" }`,
		"a session":               `env = { AWS_SESSION = "SECRET" }`,
		"a well-known key":        `env = { MODE = "sk-SECRET" }`,
	} {
		_, err := Load(Sources{Path: write(t, "[[mcp]]\nname = \"files\"\ncommand = \"npx\"\nallow = [\"*\"]\n"+block+"\n"), Required: true})
		if err == nil || !strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", name, err)
		}
	}
	fine := "[[mcp]]\nname = \"files\"\ncommand = \"npx\"\nallow = [\"*\"]\n" +
		`args = ["-y", "@scope/files@1.0", "--auth", "none", "--root", "/srv/files"]` + "\n" + `env = { DATABASE_URL = "postgres://u:${env:PW}@h/db", MODE = "fast" }` + "\n"
	if _, err := Load(Sources{Path: write(t, fine), Required: true, Environ: []string{"PW=x"}}); err != nil {
		t.Errorf("without a secret: %v", err)
	}
}
