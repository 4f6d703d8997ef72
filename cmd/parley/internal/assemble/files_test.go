package assemble

import (
	"testing"

	"parley/cmd/parley/internal/config"
	"parley/models/anthropic"
	"parley/models/command"
	"parley/models/given"
	"parley/models/openai"
)

// Pictures go to models that see, texts to all that have room for them: less to one that
// holds less.
func TestWhatModelsAreGiven(t *testing.T) {
	c := config.Default()
	block := func(name, provider string, change func(b *config.ModelBlock)) {
		b := config.ModelBlock{Name: name, Provider: provider}
		change(&b)
		c.Models = append(c.Models, b)
	}
	block("sees", config.ProviderOpenAI, func(b *config.ModelBlock) { b.Sees = []string{config.Image} })
	block("small", config.ProviderAnthropic, func(b *config.ModelBlock) { b.Sees, b.Context = []string{config.Image}, 8192 })
	block("blind", config.ProviderOpenAI, func(*config.ModelBlock) {})
	block("agent", config.ProviderCommand, func(*config.ModelBlock) {})
	block("argument", config.ProviderCommand, func(b *config.ModelBlock) { b.Command.PromptVia = command.PromptArg })
	block("demo", config.ProviderScripted, func(*config.ModelBlock) {})
	blind := given.Options{Picture: openai.MaxPicture, Pictures: 20, PictureBytes: 10 << 20, Text: 64 << 10, Texts: 128 << 10}
	sees := blind
	sees.Sees = true
	for name, want := range map[string]given.Options{
		"sees": sees, "blind": blind, "agent": blind, "argument": {}, "demo": {}, config.ScriptedName: {},
		"small": {Sees: true, Picture: anthropic.MaxPicture, Pictures: 1, PictureBytes: 10 << 20, Text: 8192, Texts: 8192},
	} {
		if got := attachments(&c, name, nil); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
