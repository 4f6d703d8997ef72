package acp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
)

// version is the one version of the protocol that is spoken here.
const version = 1

// meta is what stands in _meta of a request.
type meta struct {
	TraceParent string  `json:"traceparent"`
	Parley      ownMeta `json:"parley"`
}

// ownMeta is what a client may say to us that the protocol has no word for.
type ownMeta struct {
	Client    string                 `json:"client"`    // initialize: a name of its own, under which its ids are kept apart
	ID        string                 `json:"id"`        // session/new, session/prompt: said again under the same id it takes effect once
	Agent     conversation.AgentName `json:"agent"`     // session/new
	After     string                 `json:"after"`     // session/load, session/resume: the cursor of the last update that it has
	Mode      conversation.Mode      `json:"mode"`      // session/prompt: what it does while a task runs
	InReplyTo conversation.MessageID `json:"inReplyTo"` // session/prompt
	Question  string                 `json:"question"`  // session/prompt: the question that it answers
}

type initialize struct {
	Version      int  `json:"protocolVersion"`
	Meta         meta `json:"_meta"`
	Capabilities struct {
		Elicitation *struct {
			Form *struct{} `json:"form"`
		} `json:"elicitation"`
	} `json:"clientCapabilities"`
}

// ofSession is what all methods have that belong to a session.
type ofSession struct {
	Session string `json:"sessionId"`
	Meta    meta   `json:"_meta"`
}

type newSession struct {
	Cwd     string `json:"cwd"`
	Servers []any  `json:"mcpServers"`
	Roots   []any  `json:"additionalDirectories"`
	Meta    meta   `json:"_meta"`
}

type prompt struct {
	ofSession
	Blocks []block `json:"prompt"`
}

// block is a piece of a prompt.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Name     string `json:"name"`
	URI      string `json:"uri"`
	Resource *struct {
		URI  string  `json:"uri"`
		Text *string `json:"text"`
	} `json:"resource"`
}

// maxBlocks bounds how many pieces a prompt may have.
const maxBlocks = 1000

// promptText is a prompt as one text: links stand where they stood, and the contents of embedded
// resources behind it.
func promptText(blocks []block) (string, *fault) {
	if len(blocks) > maxBlocks {
		return "", &fault{Code: invalidParams, Message: "prompt has more than " + strconv.Itoa(maxBlocks) + " blocks"}
	}
	var text, behind strings.Builder
	for _, b := range blocks {
		switch {
		case b.Type == "text":
			text.WriteString(b.Text)
		case b.Type == "resource_link":
			writeLink(&text, b.Name, b.URI)
		case b.Type == "resource" && b.Resource != nil && b.Resource.Text != nil:
			writeLink(&text, "", b.Resource.URI)
			behind.WriteString("\n\n" + b.Resource.URI + "\n")
			fence := fenceFor(*b.Resource.Text)
			behind.WriteString(fence + "\n" + *b.Resource.Text)
			if !strings.HasSuffix(*b.Resource.Text, "\n") {
				behind.WriteByte('\n')
			}
			behind.WriteString(fence)
		default:
			return "", &fault{Code: invalidParams, Message: "a prompt may have text, resource_link and resource with a text: promptCapabilities; not " + strconv.Quote(shorten(b.Type))}
		}
	}
	return text.String() + behind.String(), nil
}

func writeLink(w *strings.Builder, name, uri string) {
	if name == "" {
		name = uri[strings.LastIndexByte(uri, '/')+1:]
	}
	w.WriteString("[" + name + "](" + uri + ")")
}

// fenceFor is a Markdown fence that does not stand in a text.
func fenceFor(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence
}

func shorten(word string) string {
	if len(word) > 64 {
		return word[:64] + "…"
	}
	return word
}

// maxClient bounds a client's name for itself.
const maxClient = 32

// fitClient is true for a name that ids may begin with.
func fitClient(name string) bool {
	if len(name) > maxClient {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// own is what all ids of a client's messages begin with. They never are those of another protocol.
func own(client string) string { return "acp:" + client + ":" }

// ownID is the id of something that a client says; id "" = it has no name for it, so it cannot
// say it again.
func ownID(client, id string) conversation.ClientMsgID {
	if id == "" {
		id = rand.Text()
	}
	full := own(client) + id
	if len(full) > protocol.MaxClientMsgID {
		sum := sha256.Sum256([]byte(id))
		full = own(client) + "sha256:" + hex.EncodeToString(sum[:])
	}
	return conversation.ClientMsgID(full)
}

// A cursor is where a client stands in a session's updates. It has the event behind which a
// follower must begin, so that it knows what streamed when the client was told it, and the
// number of what the client was told last.

func appendCursor(dst []byte, since conversation.Seq, at exchange.Number) []byte {
	dst = strconv.AppendUint(dst, uint64(since), 10)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, uint64(at), 10)
}

func readCursor(s string) (since conversation.Seq, at exchange.Number, ok bool) {
	from, number, found := strings.Cut(s, "-")
	n, err := strconv.ParseUint(from, 10, 53)
	at, ok = exchange.ParseNumber(number)
	since = conversation.Seq(n)
	return since, at, found && err == nil && ok && since <= at.Seq()
}

// askID is the id of the request that puts a question to the client: it says which one, also to
// a server that has not sent it.
func askID(session string, q conversation.QuestionID) string { return session + "#" + string(q) }

// asked reads such an id.
func asked(id string) (session string, q conversation.QuestionID, ok bool) {
	i := strings.LastIndexByte(id, '#')
	if i <= 0 || i == len(id)-1 {
		return "", "", false
	}
	return id[:i], conversation.QuestionID(id[i+1:]), true
}
