package request

import "parley/gateway/protocol"

// Conversation is the body of POST /v1/conversations and of its update.
type Conversation struct {
	Metadata map[string]string `json:"metadata"`
	Items    []any             `json:"items"`
}

// ReadConversation reads a body, which need not be there. metadata.title is one line then.
func ReadConversation(body []byte) (r Conversation, err error) {
	if len(body) == 0 {
		return r, nil
	}
	if err := Decode(body, &r); err != nil {
		return r, err
	}
	if len(r.Metadata) > maxMetadata {
		return r, Refuse("metadata", "invalid_value", "metadata may have at most 16 keys.")
	}
	if title, named := r.Metadata["title"]; named {
		if r.Metadata["title"] = protocol.Line(title); len(r.Metadata["title"]) > protocol.MaxTitle {
			return r, Refuse("metadata.title", "invalid_value", "metadata.title is too long.")
		}
	}
	if len(r.Items) > 0 {
		return r, ErrItems
	}
	return r, nil
}

// ErrItems refuses items that are put into a conversation: nothing that nobody has said gets
// into a log.
var ErrItems = Unsupported("items", "Items cannot be put into a conversation: what is in it was said in it. Give instructions with a response instead.")
