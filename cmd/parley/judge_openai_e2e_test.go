//go:build e2e

package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/conversations"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// The official SDK for Node, unmodified, does with sessions what it does with the API that it was
// made for (N-13). A tool of an MCP server waits for an approval.
func TestJudgeOpenAI(t *testing.T) {
	judged(t, "openai", "--set", "scripted.token_delay=15ms", "--config", askingTools(t))
}

// The same with a sign-in.
func TestJudgeOpenAIKeys(t *testing.T) { judged(t, "openai-keys", "--set", keysMode) }

// The Agents SDK, unmodified (N-13): its runs, tools, approvals and handoffs.
func TestJudgeOpenAIAgents(t *testing.T) { judged(t, "openai-agents") }

// The official SDK for Go, unmodified (N-13).
func TestJudgeOpenAIGo(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	l := spawn(t, data, "--set", "scripted.token_delay=15ms")
	ctx, cancel := context.WithTimeout(t.Context(), judging)
	defer cancel()
	c := openai.NewClient(option.WithBaseURL("http://"+l.addr+"/v1"), option.WithAPIKey("none"), option.WithMaxRetries(0))
	passed := 0
	check := func(name string, ok bool, got any) {
		t.Helper()
		if passed++; !ok {
			t.Errorf("%s: %v", name, got)
		}
	}
	say := func(text string) responses.ResponseNewParams {
		return responses.ResponseNewParams{Model: "parley", Input: responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}}
	}
	must := func(r *responses.Response, err error) *responses.Response {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}

	r := must(c.Responses.New(ctx, say("/say Hello there")))
	check("a response completes", r.Status == "completed" && r.OutputText() == "Hello there" && r.Metadata["parley.receipt"] == "answered", r.RawJSON())
	again := must(c.Responses.Get(ctx, r.ID, responses.ResponseGetParams{}))
	check("it is retrieved as it was", again.OutputText() == r.OutputText() && again.Output[0].ID == r.Output[0].ID, again.RawJSON())
	next := say("/say Next")
	next.PreviousResponseID = openai.String(r.ID)
	second := must(c.Responses.New(ctx, next))
	check("the next is in the same conversation", second.Conversation.ID == r.Conversation.ID, second.RawJSON())

	stream := c.Responses.NewStreaming(ctx, say("/stream 5 word"))
	var kinds []string
	var pieces strings.Builder
	var last responses.ResponseStreamEventUnion
	for stream.Next() {
		e := stream.Current()
		check("the numbers grow", e.SequenceNumber > last.SequenceNumber, e.RawJSON())
		last = e
		pieces.WriteString(e.AsResponseOutputTextDelta().Delta)
		if kind := strings.TrimPrefix(e.Type, "response."); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	check("a stream ends well", stream.Err() == nil, stream.Err())
	order := "created in_progress output_item.added content_part.added output_text.delta output_text.done content_part.done output_item.done completed"
	check("its events come in the documented order", strings.Join(kinds, " ") == order, kinds)
	check("its pieces are the text", last.Response.OutputText() == pieces.String() && pieces.String() != "", pieces.String())

	conversation, err := c.Conversations.New(ctx, conversations.ConversationNewParams{Metadata: shared.Metadata{"title": "A talk"}})
	if err != nil {
		t.Fatal(err)
	}
	in := say("/say In it")
	in.Conversation = responses.ResponseNewParamsConversationUnion{OfString: openai.String(conversation.ID)}
	must(c.Responses.New(ctx, in))
	items := c.Conversations.Items.ListAutoPaging(ctx, conversation.ID, conversations.ItemListParams{Order: "asc", Limit: openai.Int(1)})
	var roles []string
	for items.Next() {
		roles = append(roles, string(items.Current().Role))
	}
	check("its items, page by page", strings.Join(roles, " ") == "user assistant" && items.Err() == nil, roles)

	tools := []responses.ToolUnionParam{responses.ToolParamOfFunction("get_weather", map[string]any{"type": "object"}, false)}
	weather := say("/tool get_weather {\"city\":\"Oslo\"}\n/say It is $result")
	weather.Tools = tools
	asked := must(c.Responses.New(ctx, weather))
	call := asked.Output[0].AsFunctionCall()
	check("a call of the caller's own function", call.Name == "get_weather" && call.Arguments == `{"city":"Oslo"}`, asked.RawJSON())
	output := responses.ResponseInputItemParamOfFunctionCallOutput("-3")
	output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
	done := must(c.Responses.New(ctx, responses.ResponseNewParams{
		Model: "parley", PreviousResponseID: openai.String(asked.ID), Tools: tools,
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: responses.ResponseInputParam{output}},
	}))
	check("its result goes on", done.OutputText() == "It is -3", done.RawJSON())

	chat, err := c.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{Model: "parley", Messages: []openai.ChatCompletionMessageParamUnion{openai.SystemMessage("brief"), openai.UserMessage("/say Hi")}})
	check("a completion", err == nil && chat.Choices[0].Message.Content == "Hi" && chat.Choices[0].FinishReason == "stop", err)
	chunks := c.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{Model: "parley", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("/stream 4 go")}})
	all := openai.ChatCompletionAccumulator{}
	for chunks.Next() {
		check("the accumulator takes each chunk", all.AddChunk(chunks.Current()), chunks.Current().RawJSON())
	}
	check("in chunks", chunks.Err() == nil && strings.TrimSpace(all.Choices[0].Message.Content) == "go go go go", all.Choices)
	models, err := c.Models.List(ctx)
	check("models are the agents", err == nil && slices.ContainsFunc(models.Data, func(m openai.Model) bool { return m.ID == "coordinator" }), err)
	_, err = c.Responses.Get(ctx, "resp_nothing", responses.ResponseGetParams{})
	var refused *openai.Error
	check("an unknown response", errors.As(err, &refused) && refused.StatusCode == 404 && refused.Type == "not_found_error", err)
	once := option.WithHeader("Idempotency-Key", "once")
	a, b := must(c.Responses.New(ctx, say("/say Once"), once)), must(c.Responses.New(ctx, say("/say Once"), once))
	check("said again under the same key it is the same response", a.ID == b.ID, b.ID)

	// Killed in the middle of an answer.
	long := say("/stream 60 again")
	long.Background = openai.Bool(true)
	work := must(c.Responses.New(ctx, long))
	watch := c.Responses.GetStreaming(ctx, work.ID, responses.ResponseGetParams{})
	shown, seen := map[string]string{}, int64(0)
	take := func(e responses.ResponseStreamEventUnion) {
		check("no number comes twice", e.SequenceNumber > seen, e.RawJSON())
		if seen = e.SequenceNumber; e.Type == "response.output_text.delta" {
			d := e.AsResponseOutputTextDelta()
			shown[d.ItemID] += d.Delta
		}
	}
	for watch.Next() {
		if take(watch.Current()); slices.ContainsFunc(slices.Collect(maps.Values(shown)), func(s string) bool { return len(s) > 60 }) {
			break
		}
	}
	_ = watch.Close()
	l.kill()
	spawn(t, data, "--listen", l.addr, "--set", "scripted.token_delay=15ms")
	watch = c.Responses.GetStreaming(ctx, work.ID, responses.ResponseGetParams{StartingAfter: openai.Int(seen)})
	for watch.Next() {
		take(watch.Current())
		last = watch.Current()
	}
	final := last.Response
	check("killed in mid-answer it completes", watch.Err() == nil && final.Status == "completed" && len(final.Output) == 1, final.RawJSON())
	check("and its text was streamed once, whole", len(final.Output) == 1 && shown[final.Output[0].ID] == final.OutputText() && final.OutputText() != "", shown)
	t.Logf("judge openai-go: %d checks", passed)
}
