package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A name says whose cursor it is: that two webhooks have the same one is found when the file is
// read, not only at the start.
func TestWebhooksHaveNamesOfTheirOwn(t *testing.T) {
	block := func(name string) string {
		return "[[chats.webhooks]]\nname = \"" + name + "\"\nurl = \"https://hooks.example\"\nsecret_env = \"SECRET\"\n"
	}
	path := filepath.Join(t.TempDir(), "config.toml")
	for second, want := range map[string]string{"mail": "", "crm": `config.toml:6: webhook "crm": there are two of this name`} {
		if err := os.WriteFile(path, []byte(block("crm")+block(second)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(Sources{Path: path, Required: true})
		var wrong *Error
		switch {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), want)):
			t.Errorf("%v, not %s", err, want)
		}
	}
}

// Telegram itself calls https only, a Bot API server of one's own also http.
func TestTelegramCallsHTTPS(t *testing.T) {
	const webhook = "[channels.telegram]\nenabled = true\nreceive = \"webhook\"\n"
	path := filepath.Join(t.TempDir(), "config.toml")
	for more, want := range map[string]string{
		"": "must be the address at which Telegram reaches",
		`webhook_url = "http://bot.example/channels/telegram"`:                                        "must begin with https://, or Telegram refuses it",
		`webhook_url = "https://bot.example/channels/telegram"`:                                       "",
		"webhook_url = \"http://bot.example/channels/telegram\"\napi_url = \"http://127.0.0.1:8081\"": "",
		"enabled = false\nwebhook_url = \"http://bot.example/channels/telegram\"":                     "",
	} {
		text := webhook + more
		if strings.Contains(more, "enabled") {
			text = strings.Replace(text, "enabled = true\n", "", 1)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(Sources{Path: path, Required: true})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %s", more, err, want)
		}
	}
}
