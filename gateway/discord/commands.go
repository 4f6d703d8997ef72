package discord

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"

	"parley/gateway/chat"
)

// slashCommand is a command as Discord offers it to people.
type slashCommand struct {
	Name        string         `json:"name"`
	Type        int            `json:"type"`
	Description string         `json:"description"`
	Options     []slashOptions `json:"options,omitempty"`
}

// slashOptions are what may stand behind a command.
type slashOptions struct {
	Type        discordgo.ApplicationCommandOptionType `json:"type"`
	Name        string                                 `json:"name"`
	Description string                                 `json:"description"`
	Required    bool                                   `json:"required,omitempty"`
	Choices     []slashChoice                          `json:"choices,omitempty"`
}

type slashChoice struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// slashCommands are the commands of all channels, as Discord wants them.
func slashCommands() []slashCommand {
	var all []slashCommand
	for _, c := range chat.Commands() {
		s := slashCommand{Name: c.Name, Type: int(discordgo.ChatApplicationCommand), Description: cut(c.Does, 97)}
		if c.Args != "" {
			words := strings.FieldsFunc(strings.ToLower(c.Args), func(r rune) bool { return r < 'a' || r > 'z' })
			o := slashOptions{
				Type: discordgo.ApplicationCommandOptionString, Name: words[len(words)-1],
				Description: cut(c.Does, 97), Required: !strings.HasPrefix(c.Args, "["),
			}
			for _, choice := range c.Choices {
				o.Choices = append(o.Choices, slashChoice{choice, choice})
			}
			s.Options = []slashOptions{o}
		}
		all = append(all, s)
	}
	return all
}

// registerCommands offers the commands to people, unless Discord does already. They take the
// place of all that the application had.
func (b *Bot) registerCommands(ctx context.Context) error {
	path := "applications/" + b.me.Load().Application + "/commands"
	var have []slashCommand
	if err := b.do(ctx, call{method: "GET", path: path, out: &have, patience: patienceInside}); err != nil {
		return err
	}
	want := slashCommands()
	byName := func(a, b slashCommand) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(have, byName)
	if sorted := slices.SortedFunc(slices.Values(want), byName); plainly(have) == plainly(sorted) {
		return nil
	}
	return b.do(ctx, call{method: "PUT", path: path, in: want, patience: patienceInside})
}

// plainly is a value without the difference between what is empty and what is missing.
func plainly(v []slashCommand) string {
	raw, _ := json.Marshal(v) // strings and numbers: it cannot fail
	return string(raw)
}
