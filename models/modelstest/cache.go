package modelstest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// PromptCache keeps what requests of the Messages API have marked, by the rules of the
// API's documentation: a mark keeps all up to its block; a request finds, at each of its
// marks and up to 20 blocks before, what an earlier one has kept, byte for byte.
type PromptCache struct {
	Least int // bytes that are worth keeping: shorter prefixes are passed over

	kept map[[sha256.Size]byte]bool
}

// lookback is the number of blocks that are looked at for each mark.
const lookback = 20

// Ask is a request's body: the bytes of its blocks, and those of them that were kept.
func (c *PromptCache) Ask(body string) (sent, cached int) {
	var prefixes []prefix
	var hash [sha256.Size]byte
	for _, b := range cacheBlocks(body) {
		hash = sha256.Sum256(append(hash[:], b.bytes...))
		sent += len(b.bytes)
		prefixes = append(prefixes, prefix{hash, sent, b.marked})
	}
	for i := len(prefixes) - 1; i >= 0 && cached == 0; i-- {
		for k := i; prefixes[i].marked && k >= max(0, i-lookback+1) && cached == 0; k-- {
			if c.kept[prefixes[k].hash] {
				cached = prefixes[k].size
			}
		}
	}
	for _, p := range prefixes {
		if p.marked && p.size >= c.Least {
			if c.kept == nil {
				c.kept = map[[sha256.Size]byte]bool{}
			}
			c.kept[p.hash] = true
		}
	}
	return sent, cached
}

// prefix is a request up to the end of a block.
type prefix struct {
	hash   [sha256.Size]byte
	size   int
	marked bool
}

type cacheBlock struct {
	bytes  []byte
	marked bool
}

// cacheBlocks are the blocks of a body in the order in which the API reads them. What holds
// for all messages stands before the first of them: another tool_choice, or other thinking,
// is another cache of the messages.
func cacheBlocks(body string) []cacheBlock {
	var in struct {
		Tools    []json.RawMessage `json:"tools"`
		System   []json.RawMessage `json:"system"`
		Choice   json.RawMessage   `json:"tool_choice"`
		Thinking json.RawMessage   `json:"thinking"`
		Messages []struct {
			Role    string            `json:"role"`
			Content []json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal([]byte(body), &in); err != nil {
		panic(fmt.Sprintf("modelstest: a body that is no request: %v", err))
	}
	var list []cacheBlock
	add := func(kind string, blocks []json.RawMessage) {
		for _, raw := range blocks {
			plain := WithoutMarks(string(raw))
			list = append(list, cacheBlock{[]byte(kind + plain), plain != string(raw)})
		}
	}
	add("tool ", in.Tools)
	add("system ", in.System)
	for i, m := range in.Messages {
		kind := m.Role + " "
		if i == 0 {
			kind += string(in.Choice) + string(in.Thinking)
		}
		add(kind, m.Content)
	}
	return list
}

// WithoutMarks is a body of the Messages API, or a block of one, without its marks for
// the cache, which are the last member of what they stand on.
func WithoutMarks(body string) string {
	const mark = `,"cache_control":{`
	out := []byte(body)
	for {
		from := bytes.Index(out, []byte(mark))
		if from < 0 {
			return string(out)
		}
		end := from + len(mark) + bytes.IndexByte(out[from+len(mark):], '}')
		out = append(out[:from:from], out[end+1:]...)
	}
}
