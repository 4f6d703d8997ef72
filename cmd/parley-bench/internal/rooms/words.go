package rooms

import "strings"

// words say what the rooms do, as the README says it.
var words = []struct{ room, words string }{
	{"gateway/fanout", "events to those who follow"},
	{"gateway/protocol", "commands read, frames written down"},
	{"gateway/ws", "sockets: commands, queues, writers"},
	{"gateway", "the gateway: commands, follows"},
	{"actors", "sessions: mailboxes, effects"},
	{"conversation/machine", "decisions: the rules of a conversation"},
	{"conversation/transcript", "what the model is shown"},
	{"conversation/policy", "an agent's rules"},
	{"conversation/wire", "events as they are stored"},
	{"conversation", "the words that all share"},
	{"persistence/pebble", "commits: what is written where"},
	{"models/", "the model's call"},
	{"metrics", "metrics"},
	{"Pebble: memory table", "inserts, sorted by key"},
	{"Pebble: log", "the write-ahead log's writer"},
	{"Pebble: flushes and compactions", "tables are written and merged"},
	{"system: sync of the log", "until it is on the disk"},
	{"system: write (sockets)", "frames go out"},
	{"system: read (sockets)", "commands come in"},
	{"system: write (files)", "the log goes to its file"},
	{scheduler, "which goroutine is next"},
	{collector, "memory that nobody needs"},
	{"actor library", "protoactor's mailboxes"},
}

// Words say what a room does; "" if there is nothing to say.
func Words(room string) string {
	for _, w := range words {
		if room == w.room || strings.HasPrefix(room, w.room) && (strings.HasSuffix(w.room, "/") || strings.HasPrefix(room[len(w.room):], "/")) {
			return w.words
		}
	}
	return ""
}
