package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// orderForm is what the tool order asks its user.
var orderForm = &sdk.ElicitParams{Message: "Which pizza?", RequestedSchema: map[string]any{
	"type": "object", "required": []string{"size", "name"}, "properties": map[string]any{
		"size": map[string]any{"type": "string", "enum": []string{"small", "large"}},
		"name": map[string]any{"type": "string"},
	},
}}

// order is a tool that asks in the middle of its call, in the way of older versions of the
// protocol or in that of the newest.
func order(ctx context.Context, r *sdk.CallToolRequest, _ greeting) (*sdk.CallToolResult, any, error) {
	var answer *sdk.ElicitResult
	var err error
	switch {
	case os.Getenv(mcpVariable) == "asks":
		if answer, err = r.Session.Elicit(ctx, orderForm); err != nil {
			return nil, nil, err
		}
	case len(r.Params.InputResponses) == 0:
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"pizza": orderForm}, RequestState: "half"}, nil, nil
	default:
		var is bool
		if answer, is = r.Params.InputResponses["pizza"].(*sdk.ElicitResult); !is {
			return nil, nil, errors.New("that is no answer")
		}
	}
	text := fmt.Sprint(answer.Action, " ", answer.Content["size"], " for ", answer.Content["name"])
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil, nil
}

// N-04: what an MCP server asks in the middle of a call is asked of the user, who answers
// as any other question: by the socket, by the tasks API. The model hears of it by the
// result of its tool.
func TestMCPServerAsksTheUser(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, `[[mcp]]
name = "old"
command = "`+self+`"
env = { "`+mcpVariable+`" = "asks" }
protocol = "2025-06-18"
never = ["order"]
[[mcp]]
name = "new"
command = "`+self+`"
env = { "`+mcpVariable+`" = "answers" }
never = ["order"]
`)
	l := startWith(t, t.TempDir(), nil, "--config", path)
	for _, server := range []string{"old", "new"} {
		t.Run(server, func(t *testing.T) {
			u := l.user()
			s := u.create(nil)
			u.follow(s, 0)
			asks := func(what string) frame {
				t.Helper()
				var q frame
				for _, f := range u.until(waits) {
					if f.Type == "question" {
						q = f
					}
				}
				if !strings.Contains(q.text("text"), what) || q.Data["blocking"] != true || !strings.HasPrefix(q.text("call"), "c") {
					t.Fatalf("asked %s", q.raw)
				}
				return q
			}
			task, _ := u.send(s, "1", "/tool "+server+"_order {\"name\":\"x\"}\n/say $result")["task"].(string)
			first := asks("Which pizza?")
			if choices, _ := first.Data["choices"].([]any); len(choices) < 2 || choices[0] != "small" {
				t.Errorf("the choices: %s", first.raw)
			}
			u.send(s, "2", "Large.") // a plain message that is one of the choices
			asks("name")
			if code, body := l.do(http.MethodPost, "/api/tasks/"+task+"/reply", `{"reply":"Ada","client_msg_id":"3"}`); code != http.StatusOK && code != http.StatusAccepted {
				t.Fatalf("%d %s", code, body)
			}
			got := u.until(done)
			if r := of(got, "response"); len(r) != 1 || r[0].text("text") != "accept large for Ada" {
				t.Errorf("the tool says %s", shown(got))
			}
			for _, f := range of(got, "step_started") {
				if f.Data["attempt"] != 1.0 {
					t.Errorf("a step was asked again: %s", f.raw)
				}
			}

			u.send(s, "4", "/tool "+server+"_order {\"name\":\"x\"}\n/say $result")
			asks("Which pizza?")
			u.ask("cancel", s, map[string]any{})
			got = u.until(done)
			if closed := of(got, "question_closed"); len(closed) != 1 || got[len(got)-1].text("new_status") != "CANCELLED" {
				t.Errorf("after a cancel: %s", shown(got))
			}
		})
	}
	l.measured(`parley_mcp_forms_total{outcome="accept",server="old"} 1`, `parley_mcp_forms_total{outcome="accept",server="new"} 1`)
	l.stop()
}

// waits fits a task that waits for its user.
func waits(f frame) bool {
	return f.Type == "task_status" && f.text("new_status") == "AWAITING_RESPONSE"
}
