package openai

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"parley/conversation"
	"parley/models/modelstest"
)

// The official SDK is the other side of our bargain: it must read our requests
// without a remainder, and what our stand-ins answer.

var sdkScenario = modelstest.Scenario{Items: []conversation.Item{
	{Kind: conversation.ItemText, Text: "One, naïve 👩‍👩‍👧."}, {Kind: conversation.ItemCall, Tool: "lookup", Args: `{"query":"a"}`},
}}

// sdkAsks starts a stand-in and a client of the SDK for it. understood checks
// that the last request was the golden body, apart from "stream".
func sdkAsks(t *testing.T, wire modelstest.Wire) (client sdk.Client, understood func(golden []byte)) {
	up := modelstest.NewUpstream(t, wire, modelstest.Reply{Scenario: sdkScenario, Strict: true})
	client = sdk.Client{Options: []option.RequestOption{
		option.WithBaseURL(up.URL), option.WithAPIKey("key"), option.WithMaxRetries(0), option.WithUnsafeAllowHTTP(),
	}}
	client.Responses, client.Chat = responses.NewResponseService(client.Options...), sdk.NewChatService(client.Options...)
	return client, func(golden []byte) {
		t.Helper()
		var want map[string]any
		if err := json.Unmarshal(golden, &want); err != nil {
			t.Fatal(err)
		}
		asked := up.Asked()
		got := asked[len(asked)-1].Body
		delete(got, "stream")
		delete(want, "stream")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("the SDK understood\n%v\nof\n%v", got, want)
		}
	}
}

// typed makes up for two faults of the SDK's reader of requests: it wants the type
// of a message, which the reference does not, and reads no id and status of one.
func typed(t *testing.T, golden []byte) []byte {
	var body map[string]any
	if err := json.Unmarshal(golden, &body); err != nil {
		t.Fatal(err)
	}
	for _, v := range body["input"].([]any) {
		if item := v.(map[string]any); item["role"] != nil {
			item["type"] = "message"
			delete(item, "id")
			delete(item, "status")
		}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestSDKSpeaksResponses(t *testing.T) {
	golden := typed(t, modelstest.GoldenBody(t, "responses-full"))
	var params responses.ResponseNewParams
	if err := json.Unmarshal(golden, &params); err != nil {
		t.Fatal(err)
	}
	client, understood := sdkAsks(t, modelstest.Responses())
	check := func(r *responses.Response) {
		t.Helper()
		var got []string
		for _, item := range r.Output {
			switch item.Type {
			case "message":
				got = append(got, "text: "+item.Content[0].Text)
			case "function_call":
				got = append(got, "call "+item.Name+" "+item.Arguments.OfString)
			}
		}
		if want := lines(sdkScenario.Items); !slices.Equal(got, want) {
			t.Errorf("the SDK reads %q, not %q", got, want)
		}
		understood(golden)
	}
	whole, err := client.Responses.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	check(whole)
	stream := client.Responses.NewStreaming(t.Context(), params)
	defer func() { _ = stream.Close() }()
	var last responses.ResponseStreamEventUnion
	text := ""
	for stream.Next() {
		if last = stream.Current(); last.Type == "response.output_text.delta" {
			text += last.Delta
		}
	}
	if stream.Err() != nil || text != sdkScenario.Items[0].Text || last.Type != "response.completed" {
		t.Fatalf("%v, %q, last %q", stream.Err(), text, last.Type)
	}
	check(&last.Response)
}

func TestSDKSpeaksChat(t *testing.T) {
	golden := modelstest.GoldenBody(t, "chat-full")
	var params sdk.ChatCompletionNewParams
	if err := json.Unmarshal(golden, &params); err != nil {
		t.Fatal(err)
	}
	client, understood := sdkAsks(t, modelstest.Chat())
	check := func(c *sdk.ChatCompletion) {
		t.Helper()
		said := c.Choices[0].Message
		got := []string{"text: " + said.Content}
		for _, call := range said.ToolCalls {
			got = append(got, "call "+call.Function.Name+" "+call.Function.Arguments)
		}
		if want := lines(sdkScenario.Items); !slices.Equal(got, want) || c.Usage.TotalTokens == 0 {
			t.Errorf("the SDK reads %q, %d tokens, not %q", got, c.Usage.TotalTokens, want)
		}
		understood(golden)
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	defer func() { _ = stream.Close() }()
	var all sdk.ChatCompletionAccumulator
	for stream.Next() {
		if !all.AddChunk(stream.Current()) {
			t.Fatalf("a chunk does not fit: %+v", stream.Current())
		}
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}
	check(&all.ChatCompletion)
	whole, err := client.Chat.Completions.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	check(whole)
}
