package command

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"parley/conversation"
)

// streamJSON reads the lines of an agent that writes stream-json. It ignores lines of
// kinds that it does not know.
type streamJSON struct {
	*items
	most int // bytes of a line, and of all blocks together
	line []byte
	long bool // the line is over its limit

	known     bool     // a line of the format came
	blocks    int      // whole ones
	kept      int      // bytes of blocks
	dropped   bool     // something was over a limit
	streaming bool     // a block streams
	raw       []byte   // that block
	confirm   []string // blocks that streamed to their end and will be repeated whole
	plain     []byte   // lines that are not of the format
	result    *jsonLine
	usage     conversation.Usage
}

// jsonLine holds the members that are read of a line.
type jsonLine struct {
	Type    string          `json:"type"`
	Subtype string          `json:"subtype"`
	IsError bool            `json:"is_error"`
	Parent  string          `json:"parent_tool_use_id"` // a line of an agent that this agent has asked
	Result  string          `json:"result"`
	Usage   *jsonUsage      `json:"usage"`
	Message json.RawMessage `json:"message"`
	Event   json.RawMessage `json:"event"`
}

type jsonUsage struct {
	Input      int `json:"input_tokens"`
	CacheWrite int `json:"cache_creation_input_tokens"`
	CacheRead  int `json:"cache_read_input_tokens"`
	Output     int `json:"output_tokens"`
}

type jsonBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// feed reads more output.
func (s *streamJSON) feed(chunk []byte) {
	for len(chunk) > 0 {
		end := bytes.IndexByte(chunk, '\n')
		part := chunk
		if end >= 0 {
			part = chunk[:end]
		}
		if len(s.line)+len(part) > s.most {
			s.long, s.dropped = true, true // a tool's result, most likely
		} else if !s.long {
			s.line = append(s.line, part...)
		}
		if end < 0 {
			return
		}
		s.endLine()
		chunk = chunk[end+1:]
	}
}

func (s *streamJSON) endLine() {
	line := bytes.TrimSpace(s.line)
	if !s.long && len(line) > 0 {
		s.read(line)
	}
	s.line, s.long = s.line[:0], false
}

func (s *streamJSON) read(line []byte) {
	var l jsonLine
	_ = json.Unmarshal(line, &l) // one field of another type is no reason to lose the rest
	if l.Type == "" {
		if len(s.plain)+len(line) < s.most {
			s.plain = append(append(s.plain, line...), '\n')
		}
		return
	}
	s.known = true
	if l.Parent != "" {
		return
	}
	switch l.Type {
	case "stream_event":
		s.event(l.Event)
	case "assistant":
		var message struct {
			Content json.RawMessage `json:"content"`
		}
		_ = json.Unmarshal(l.Message, &message) // without content it says nothing
		for _, b := range blocksOf(message.Content) {
			if b.Type == "text" {
				s.addBlock(b.Text)
			}
		}
	case "result":
		s.result = &l
		if l.Usage != nil {
			s.usage = conversation.Usage{InputTokens: l.Usage.Input + l.Usage.CacheWrite + l.Usage.CacheRead, OutputTokens: l.Usage.Output, CachedTokens: l.Usage.CacheRead}
		}
	}
}

// blocksOf reads a message's content: a list of blocks, or one text.
func blocksOf(content json.RawMessage) []jsonBlock {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return []jsonBlock{{Type: "text", Text: text}}
	}
	var list []json.RawMessage
	_ = json.Unmarshal(content, &list)
	blocks := make([]jsonBlock, len(list))
	for i, raw := range list {
		_ = json.Unmarshal(raw, &blocks[i])
	}
	return blocks
}

// event reads a piece of a message that is being written.
func (s *streamJSON) event(raw json.RawMessage) {
	var e struct {
		Type  string    `json:"type"`
		Delta jsonBlock `json:"delta"`
	}
	_ = json.Unmarshal(raw, &e)
	switch e.Type {
	case "content_block_delta":
		if e.Delta.Type == "text_delta" && e.Delta.Text != "" {
			s.streaming = true
			s.delta(e.Delta.Text)
			if len(s.raw) < s.most {
				s.raw = append(s.raw, e.Delta.Text...)
			}
		}
	case "content_block_start", "message_start", "message_stop":
		// content_block_stop is no reason: the block comes whole at that time.
		if s.streaming {
			text := s.endStreaming()
			s.confirm = append(s.confirm, text)
			s.keepBlock(text)
		}
	}
}

func (s *streamJSON) endStreaming() string {
	text := string(s.raw)
	s.streaming, s.raw = false, nil
	return text
}

// addBlock adds a complete block, which may have been streamed before.
func (s *streamJSON) addBlock(text string) {
	if i := slices.Index(s.confirm, text); i >= 0 {
		s.confirm = slices.Delete(s.confirm, i, i+1)
		return
	}
	if s.streaming {
		s.endStreaming()
	}
	s.keepBlock(text)
}

func (s *streamJSON) keepBlock(text string) {
	if strings.TrimSpace(text) != "" {
		s.blocks++
	}
	if s.kept += len(text); s.kept > s.most {
		s.dropped = true
		return
	}
	s.block(text, false)
}

// end ends the output. It returns false if the agent stopped in the middle.
func (s *streamJSON) end() bool {
	s.endLine()
	switch {
	case s.result != nil:
		if s.streaming {
			s.keepBlock(s.endStreaming())
		}
		if s.blocks == 0 {
			s.keepBlock(s.result.Result)
		}
	case s.streaming:
		return false
	case !s.known: // an agent that does not speak the format
		s.keepBlock(string(s.plain))
	}
	return true
}

// failed returns the kind of failure that the agent itself reports; "" = none.
func (s *streamJSON) failed() string {
	if s.result == nil || !s.result.IsError && !strings.HasPrefix(s.result.Subtype, "error") {
		return ""
	}
	if s.result.Subtype == "" {
		return "error"
	}
	return s.result.Subtype
}

func (s *streamJSON) cut() bool { return s.dropped }

func (s *streamJSON) answer() ([]conversation.Item, conversation.Usage) { return s.list, s.usage }
