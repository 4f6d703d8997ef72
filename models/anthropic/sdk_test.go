package anthropic

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/option"

	"parley/conversation"
	"parley/models/modelstest"
)

// The official SDK is the other side of our bargain: it must read our requests
// without a remainder, and what our stand-in answers.
func TestSDKSpeaksMessages(t *testing.T) {
	s := modelstest.Scenario{Items: []conversation.Item{
		{Kind: conversation.ItemText, Text: "One, naïve 👩‍👩‍👧."}, {Kind: conversation.ItemCall, Tool: "lookup", Args: `{"query":"a"}`},
	}}
	golden := modelstest.GoldenBody(t, "cached")
	var params sdk.MessageNewParams
	if err := json.Unmarshal(golden, &params); err != nil {
		t.Fatal(err)
	}
	up := modelstest.NewUpstream(t, modelstest.Messages(), modelstest.Reply{Scenario: s, Strict: true})
	client := sdk.NewClient(option.WithoutEnvironmentDefaults(), option.WithoutOpenTelemetry(),
		option.WithBaseURL(up.URL), option.WithAPIKey("key"), option.WithMaxRetries(0))
	check := func(m *sdk.Message) {
		t.Helper()
		var got []string
		for _, block := range m.Content {
			if block.Type == "text" {
				got = append(got, "text: "+block.Text)
			} else {
				got = append(got, "call "+block.Name+" "+string(block.Input))
			}
		}
		if want := []string{"text: " + s.Items[0].Text, "call lookup " + s.Items[1].Args}; !slices.Equal(got, want) || m.Usage.OutputTokens == 0 {
			t.Errorf("the SDK reads %q, %d tokens, not %q", got, m.Usage.OutputTokens, want)
		}
		var want map[string]any
		if err := json.Unmarshal(golden, &want); err != nil {
			t.Fatal(err)
		}
		asked := up.Asked()
		understood := asked[len(asked)-1].Body
		delete(understood, "stream")
		delete(want, "stream")
		if !reflect.DeepEqual(understood, want) {
			t.Errorf("the SDK understood\n%v\nof\n%v", understood, want)
		}
		if header := asked[len(asked)-1].Header; header.Get("Anthropic-Version") != Version {
			t.Errorf("the SDK speaks version %s, we %s", header.Get("Anthropic-Version"), Version)
		}
	}
	whole, err := client.Messages.New(t.Context(), params)
	if err != nil {
		t.Fatal(err)
	}
	check(whole)
	stream := client.Messages.NewStreaming(t.Context(), params)
	defer func() { _ = stream.Close() }()
	var all sdk.Message
	for stream.Next() {
		if err := all.Accumulate(stream.Current()); err != nil {
			t.Fatal(err)
		}
	}
	if stream.Err() != nil {
		t.Fatal(stream.Err())
	}
	check(&all)
}
