package js_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/gateway/gatewaytest"
)

// parley.d.ts is what asyncapi.yaml says, as types; -rewrite (make generate, make golden) writes it again.
func TestTypesAreThoseOfTheProtocolGolden(t *testing.T) {
	async := gatewaytest.Documents(t).Async
	text := types(async)
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile("parley.d.ts", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile("parley.d.ts")
	if err != nil || string(have) != text {
		t.Errorf("parley.d.ts is not what asyncapi.yaml says (%v): go generate ./clients/js", err)
	}
	for _, name := range []string{"export type EventMessageAccepted = {", "export type DurableEvent =\n", "client_msg_id: ClientMsgId;", "in_reply_to?: string | null;"} {
		if !strings.Contains(text, name) {
			t.Errorf("it has no %q", name)
		}
	}
}

// A program that uses the client is checked by TypeScript itself, and mistakes in it are seen.
func TestTypesAreTypeScript(t *testing.T) {
	right := `import { connect, CommandError } from '@parley/client';
import { Client } from '@parley/client/client.js';
const parley = connect('http://127.0.0.1:8080', { token: async () => 'x' });
const session = await parley.create({ title: 'Login' }, { signal: new AbortController().signal });
const receipt = await session.send('Fix the login bug', { mode: 'queue' });
const where: string = receipt.message;
const photo = await session.upload(new Blob(['x']), { name: 'x.txt', type: 'text/plain' });
await session.send('', { attachments: [photo] });
session.on('draft', ({ draft, text }) => console.log(draft.length, text.length));
session.on('ended', (err) => console.log(err.code === 'gone'));
parley.on('listed', (row) => console.log('gone' in row ? row.session : row.title.length));
for (const row of (await parley.list()).items) console.log(row.unread + 1, row.pinned);
for (const row of (await parley.search('x', { where: 'messages' })).items) console.log(row.snippet.length);
for await (const event of session.events()) {
  if (event.type === 'response') console.log(event.data.text.length, event.data.kind === 'limit');
  if (event.type === 'message_resolved' && event.data.message === where && event.data.how === 'answered') break;
}
try { await session.answer('q1', { approve: true, args: { n: 1 } }); } catch (err) { if (err instanceof CommandError) console.log(err.code, err.retryAfter); }
parley.close();
const alone = new Client({ url: 'ws://127.0.0.1:8080/ws', on: (kind, told) => { if (kind === 'status') console.log(told.retryAt); } });
alone.start();
export {};
`
	wrong := [][2]string{
		{"mode: 'queue'", "mode: 'quick'"}, {"event.data.how === 'answered'", "event.data.how === 'solved'"},
		{"receipt.message", "receipt.massage"}, {"await session.answer('q1',", "await session.answer(1,"},
		{"attachments: [photo]", "attachments: [photo.size]"}, {"err.code === 'gone'", "err.code === 'left'"},
		{"row.unread + 1", "row.unraed + 1"}, {"told.retryAt", "told.retryIn"}, {"row.snippet", "row.unread"},
	}
	programs := map[string]string{"right.mts": right}
	for i, w := range wrong {
		programs[fmt.Sprintf("wrong%d.mts", i)] = strings.Replace(right, w[0], w[1], 1)
	}
	out := tsc(t, programs, "--lib", "es2023,dom")
	for name := range programs {
		if seen := strings.Contains(out, name); seen != (name != "right.mts") {
			t.Errorf("%s: TypeScript finds a mistake: %v\n%s", name, seen, out)
		}
	}
	if n := strings.Count(out, "error TS"); n != len(wrong) {
		t.Errorf("%d mistakes, want %d:\n%s", n, len(wrong), out)
	}
}

// Whatever index.js and client.js export has a type. The types use nothing of a browser that
// Node lacks: what both have is declared here as the types of Node declare it.
func TestEveryExportHasAType(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED: the types of clients/js. There is no node in PATH")
	}
	programs := map[string]string{"globals.d.ts": `interface Blob { size: number }
interface URL { href: string }
interface AbortSignal { aborted: boolean }
declare function fetch(url: string): Promise<unknown>;
`}
	for module, file := range map[string]string{"@parley/client": "index.js", "@parley/client/client.js": "client.js"} {
		list := exec.CommandContext(t.Context(), node, "-p", "import('./"+file+"').then((all) => console.log(Object.keys(all).join(' '))), ''")
		out, err := list.Output()
		names := strings.Fields(string(out))
		if err != nil || len(names) < 3 {
			t.Fatalf("%s exports %v (%v)", file, names, err)
		}
		program := "import * as all from '" + module + "';\n"
		for _, name := range names {
			program += "void all." + name + ";\n"
		}
		programs[strings.TrimSuffix(file, ".js")+".mts"] = program
	}
	if out := tsc(t, programs, "--lib", "es2023"); out != "" {
		t.Error(out)
	}
}

// tsc compiles programs that import @parley/client, and says what TypeScript says.
func tsc(t *testing.T, programs map[string]string, options ...string) string {
	t.Helper()
	npx, err := exec.LookPath("npx")
	if err != nil {
		t.Skip("NOT TESTED: the types of clients/js. There is no npx in PATH")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "node_modules", "@parley"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(here, filepath.Join(dir, "node_modules", "@parley", "client")); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--yes", "--prefer-offline", "--package", "typescript@5.9.3", "--", "tsc",
		"--noEmit", "--strict", "--target", "es2022", "--module", "nodenext"}, options...)
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, name)
	}
	compile := exec.CommandContext(t.Context(), npx, args...)
	compile.Dir = dir
	out, err := compile.CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("error TS")) {
		t.Skipf("NOT TESTED: the types of clients/js. npx cannot get TypeScript: %v\n%s", err, out)
	}
	return string(out)
}

// types writes the schemas of asyncapi.yaml as types of TypeScript.
func types(async map[string]any) string {
	components := object(async["components"])
	schemas, messages := object(components["schemas"]), object(components["messages"])
	var b strings.Builder
	b.WriteString("// Written by a program from gateway/protocol/asyncapi.yaml (go generate ./clients/js); do not edit.\n")
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		schema := object(schemas[name])
		b.WriteString("\n" + comment(schema, "") + "export type " + typeName(name) + " = " + typeOf(schema, "") + ";\n")
	}
	operations := object(async["operations"])
	union := func(title, words string, list []any) {
		names := make(map[string]bool)
		for _, m := range list {
			names[typeName(last(object(object(messages[last(object(m)["$ref"])])["payload"])["$ref"]))] = true
		}
		fmt.Fprintf(&b, "\n/** %s */\nexport type %s =\n  | %s;\n", words, title, strings.Join(slices.Sorted(maps.Keys(names)), "\n  | "))
	}
	var commands, answers []any
	for _, name := range slices.Sorted(maps.Keys(operations)) {
		o := object(operations[name])
		if o["action"] == "receive" {
			commands = append(commands, o["messages"].([]any)...)
			answers = append(answers, object(o["reply"])["messages"].([]any)...)
		}
	}
	union("Command", "What a client sends.", commands)
	union("Answer", "What a command is answered with.", answers)
	for _, x := range [][3]string{
		{"durable", "DurableEvent", "What is in the log of a session; it has a seq."},
		{"ephemeral", "EphemeralEvent", "What a session shows without storing it."},
	} {
		union(x[1], x[2], object(operations[x[0]])["messages"].([]any))
	}
	return b.String()
}

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

func last(ref any) string {
	s, _ := ref.(string)
	return s[strings.LastIndexByte(s, '/')+1:]
}

func typeName(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func comment(schema map[string]any, indent string) string {
	text, _ := schema["description"].(string)
	if text == "" {
		return ""
	}
	return indent + "/** " + strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "*/", "* /") + " */\n"
}

func literal(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was read from a document
	}
	return strings.ReplaceAll(string(b), `"`, "'")
}

func typeOf(schema map[string]any, indent string) string {
	list := func(key, between string) string {
		var parts []string
		for _, s := range schema[key].([]any) {
			parts = append(parts, typeOf(object(s), indent))
		}
		return strings.Join(parts, between)
	}
	switch {
	case schema["$ref"] != nil:
		return typeName(last(schema["$ref"]))
	case schema["anyOf"] != nil && schema["properties"] == nil: // with properties it only says which of them go together
		return list("anyOf", " | ")
	case schema["oneOf"] != nil:
		return list("oneOf", " | ")
	case schema["allOf"] != nil:
		return list("allOf", " & ")
	case schema["enum"] != nil:
		var parts []string
		for _, v := range schema["enum"].([]any) {
			parts = append(parts, literal(v))
		}
		return strings.Join(parts, " | ")
	}
	if c, ok := schema["const"]; ok {
		return literal(c)
	}
	kinds, several := schema["type"].([]any)
	if !several {
		kinds = []any{schema["type"]}
	}
	var parts []string
	for _, kind := range kinds {
		parts = append(parts, one(kind, schema, indent))
	}
	return strings.Join(parts, " | ")
}

// one is the type of a schema for one of its kinds.
func one(kind any, schema map[string]any, indent string) string {
	properties := object(schema["properties"])
	switch {
	case kind == "string", kind == "boolean", kind == "null":
		return kind.(string)
	case kind == "integer", kind == "number":
		return "number"
	case kind == "array":
		return "Array<" + typeOf(object(schema["items"]), indent) + ">"
	case kind != "object" && properties == nil:
		return "unknown"
	case properties == nil && schema["additionalProperties"] == false:
		return "{}"
	case properties == nil:
		if more := object(schema["additionalProperties"]); more != nil {
			return "{ [name: string]: " + typeOf(more, indent) + " }"
		}
		return "{ [name: string]: unknown }"
	}
	required, _ := schema["required"].([]any)
	var b strings.Builder
	b.WriteString("{\n")
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, mark, key := object(properties[name]), "?", name
		if slices.Contains(required, any(name)) {
			mark = ""
		}
		if strings.ContainsAny(key, ".-") {
			key = "'" + key + "'"
		}
		b.WriteString(comment(p, indent+"  ") + indent + "  " + key + mark + ": " + typeOf(p, indent+"  ") + ";\n")
	}
	return b.String() + indent + "}"
}
