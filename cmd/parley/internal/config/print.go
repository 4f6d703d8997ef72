package config

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"parley/gateway/auth"
	"parley/gateway/webhook"
)

// Print writes the configuration as a TOML document that reads back as
// the same configuration, secrets aside: those are masked.
func Print(w io.Writer, c Config) error {
	var b strings.Builder
	root := reflect.ValueOf(&c).Elem()
	sections, bySection := []string{""}, map[string][]string{}
	for _, f := range fieldsOf(root.Type()) {
		section, key := "", f.key
		if i := strings.LastIndexByte(key, '.'); i >= 0 {
			section, key = key[:i], key[i+1:]
		}
		if !slices.Contains(sections, section) {
			sections = append(sections, section)
		}
		bySection[section] = append(bySection[section], key+" = "+f.text(root)+"\n")
	}
	for _, section := range sections {
		if section != "" {
			fmt.Fprintf(&b, "\n[%s]\n", section)
		}
		for _, line := range bySection[section] {
			b.WriteString(line)
		}
	}
	for i := range c.Models {
		fmt.Fprintf(&b, "\n[models.%s]\n", c.Models[i].Name)
		printBlock(&b, keysOf(c.Models[i].Provider), reflect.ValueOf(&c.Models[i]).Elem())
	}
	for i := range c.Auth.Keys {
		b.WriteString("\n[[auth.keys]]\n")
		printBlock(&b, fieldsOf(reflect.TypeFor[auth.Key]()), reflect.ValueOf(&c.Auth.Keys[i]).Elem())
	}
	for i := range c.Webhooks {
		b.WriteString("\n[[chats.webhooks]]\n")
		printBlock(&b, fieldsOf(reflect.TypeFor[webhook.Hook]()), reflect.ValueOf(&c.Webhooks[i]).Elem())
	}
	for i := range c.MCP {
		b.WriteString("\n[[mcp]]\n")
		printBlock(&b, fieldsOf(reflect.TypeFor[MCPBlock]()), reflect.ValueOf(&c.MCP[i]).Elem())
	}
	for _, a := range c.Agents {
		b.WriteString("\n[[agents]]\n")
		if a.PromptFile != "" {
			a.Prompt = "" // the file has it; both together would be refused
		}
		root := reflect.ValueOf(&a).Elem()
		for _, f := range fieldsOf(root.Type()) {
			if (f.key == "prompt" && a.PromptFile != "") || (f.key == "prompt_file" && a.PromptFile == "") {
				continue
			}
			fmt.Fprintf(&b, "%s = %s\n", f.key, f.text(root))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printBlock writes the keys of a block that have a value.
func printBlock(b *strings.Builder, fields []field, block reflect.Value) {
	for _, f := range fields {
		if !f.unset(block) {
			fmt.Fprintf(b, "%s = %s\n", f.key, f.text(block))
		}
	}
}
