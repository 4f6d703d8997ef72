package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write golden files instead of comparing with them")

const root = "../.."

// arrows is every import between rooms that there may be: room → rooms it may
// import; a room's own line goes before that of a pattern. A room that is
// missing here, or an import that is not listed, fails.
// A new arrow is a decision about the architecture: write it down in
// docs/ARCHITECTURE.md first.
var arrows = map[string][]string{
	"conversation/attached":                   {"conversation/ownline"},
	"conversation/access":                     {},
	"conversation/tokens":                     {},
	"conversation/listing":                    {},
	"conversation/author":                     {"conversation/ownline"},
	"conversation/ownline":                    {},
	"conversation/dedup":                      {"conversation", "conversation/attached"},
	"conversation/living":                     {"conversation"},
	"conversation/blobs":                      {"conversation", "conversation/attached"},
	"conversation/chats":                      {"conversation"},
	"conversation/search":                     {"conversation"},
	"conversation/member":                     {"conversation"},
	"actors/placement":                        {"conversation"},
	"actors/internal/due":                     {"conversation"},
	"actors/internal/handover":                {},
	"actors/internal/refusal":                 {"conversation", "actors/placement", "conversation/member"},
	"actors/internal/window":                  {"conversation", "conversation/transcript"},
	"actors/cluster":                          {"actors/cluster/internal/lanes", "actors/cluster/internal/link", "actors/cluster/internal/membership", "actors/cluster/internal/speech", "actors/placement", "conversation", "conversation/member", "metrics", "conversation/wire", "actors/cluster/internal/relay", "actors/cluster/internal/singleton", "conversation/living", "actors/cluster/internal/hints"},
	"actors/cluster/internal/membership":      {"conversation/member"},
	"actors/cluster/internal/lanes":           {"actors/placement", "conversation"},
	"actors/cluster/internal/hints":           {"actors/cluster/internal/fields", "conversation"},
	"actors/cluster/internal/link":            {"actors/cluster/internal/fields", "conversation", "conversation/member"},
	"actors/cluster/internal/speech":          {"actors/cluster/internal/fields", "conversation"},
	"actors/cluster/internal/fields":          {},
	"actors/cluster/internal/singleton":       {"actors/cluster/internal/speech", "conversation", "conversation/member"},
	"actors/cluster/internal/relay":           {"actors/cluster/internal/fields", "conversation", "conversation/wire"},
	"actors/internal/shown":                   {"conversation"},
	"conversation/machine/internal/settings":  {"conversation", "conversation/access", "conversation/policy", "conversation/machine/internal/state"},
	"conversation":                            {"conversation/access", "conversation/listing", "conversation/tokens", "conversation/author", "conversation/attached"},
	"conversation/option":                     {},
	"conversation/policy":                     {"conversation", "conversation/option", "conversation/tokens"},
	"conversation/machine":                    {"conversation", "conversation/policy", "conversation/machine/internal/asking", "conversation/machine/internal/effects", "conversation/machine/internal/intake", "conversation/machine/internal/outside", "conversation/machine/internal/plan", "conversation/machine/internal/receipts", "conversation/machine/internal/state", "conversation/access", "conversation/author", "conversation/machine/internal/settings", "conversation/attached"},
	"conversation/machine/internal/asking":    {"conversation", "conversation/machine/internal/intake", "conversation/machine/internal/state"},
	"conversation/machine/internal/intake":    {"conversation", "conversation/dedup"},
	"conversation/machine/internal/outside":   {"conversation", "conversation/machine/internal/state"},
	"conversation/machine/internal/plan":      {"conversation", "conversation/policy", "conversation/machine/internal/intake", "conversation/machine/internal/state"},
	"conversation/machine/internal/effects":   {"conversation", "conversation/machine/internal/state"},
	"conversation/machine/internal/receipts":  {"conversation"},
	"conversation/machine/internal/state":     {"conversation", "conversation/machine/internal/receipts", "conversation/access", "conversation/author", "conversation/listing", "conversation/dedup", "conversation/attached"},
	"conversation/fit":                        {"conversation", "conversation/tokens", "conversation/author"},
	"conversation/transcript":                 {"conversation", "conversation/fit", "conversation/option", "conversation/policy", "conversation/tokens", "conversation/author", "conversation/attached"},
	"conversation/readmodel":                  {"conversation"},
	"conversation/wire":                       {"conversation", "conversation/access", "conversation/listing", "conversation/attached"},
	"conversation/wire/internal/pb":           {},
	"metrics":                                 {},
	"metrics/tracing":                         {"conversation", "conversation/option", "metrics"},
	"persistence":                             {},
	"persistence/move":                        {"conversation", "conversation/chats", "conversation/wire", "conversation/attached", "conversation/blobs", "conversation/listing"},
	"persistence/pebble":                      {"conversation", "conversation/option", "conversation/wire", "metrics", "persistence/pebble/internal/activity", "persistence/pebble/internal/backup", "persistence/pebble/internal/erasure", "persistence/pebble/internal/group", "persistence/pebble/internal/inspect", "persistence/pebble/internal/layout", "persistence/pebble/internal/ondisk", "persistence/pebble/internal/opening", "persistence/internal/seen", "persistence/pebble/internal/space", "persistence/pebble/internal/synced", "persistence/pebble/internal/upgrade", "persistence/pebble/internal/upkeep", "persistence/pebble/internal/verify", "persistence/pebble/internal/writers", "persistence/pebble/internal/usage", "persistence/move", "persistence/pebble/internal/carry", "conversation/chats", "persistence/pebble/internal/chatrows", "conversation/search", "persistence/pebble/internal/findable", "conversation/blobs", "persistence/pebble/internal/blobrows", "persistence/pebble/internal/readers"},
	"persistence/postgres":                    {"persistence/postgres/internal/blobtable", "persistence/postgres/internal/held", "persistence/postgres/internal/lanes", "persistence/postgres/internal/members", "persistence/postgres/internal/opening", "persistence/postgres/internal/outcome", "persistence/postgres/internal/schema", "conversation", "conversation/living", "conversation/member", "conversation/wire", "metrics", "persistence/move", "conversation/chats", "conversation/attached", "conversation/blobs", "conversation/search", "persistence/postgres/internal/wordtable"},
	"persistence/postgres/internal/blobtable": {"conversation", "conversation/attached", "conversation/blobs"},
	"persistence/postgres/internal/wordtable": {"conversation", "conversation/search", "conversation/wire"},
	"persistence/postgres/internal/held":      {"conversation", "persistence/internal/seen"},
	"persistence/postgres/internal/lanes":     {},
	"persistence/postgres/internal/outcome":   {},
	"persistence/postgres/internal/members":   {"conversation", "conversation/member"},
	"persistence/postgres/internal/opening":   {"conversation", "persistence/postgres/internal/schema"},
	"persistence/postgres/internal/schema":    {},
	"persistence/postgres/pgtest":             {},
	"persistence/clustertest":                 {"conversation", "conversation/member"},
	"persistence/searchtest":                  {"conversation", "conversation/search", "conversation/access"},
	"persistence/blobstest":                   {"conversation", "conversation/attached", "conversation/blobs"},
	"persistence/chatstest":                   {"conversation", "conversation/chats"},
	"persistence/persistencetest":             {"conversation", "conversation/wire", "conversation/living", "conversation/member", "conversation/chats", "persistence/chatstest", "persistence/blobstest", "conversation/listing"},
	"actors": {
		"actors/internal/handover", "metrics/tracing", "conversation", "conversation/option", "conversation/policy", "conversation/machine", "conversation/transcript", "metrics",
		"actors/internal/admission", "actors/internal/calls", "actors/internal/claims", "actors/internal/delivery", "actors/internal/guard", "actors/internal/mail",
		"actors/internal/modelcall", "actors/internal/observe", "actors/internal/registry", "actors/internal/retention",
		"actors/internal/sessionlog", "actors/internal/titling", "actors/internal/triage", "actors/internal/unreadable", "actors/internal/workers", "conversation/access", "conversation/living", "actors/internal/shown", "actors/internal/due", "actors/placement", "actors/internal/refusal", "actors/internal/window", "conversation/member", "actors/internal/alarm", "actors/internal/losses", "conversation/dedup", "conversation/attached",
	},
	"actors/internal/admission":       {"conversation", "conversation/policy", "metrics"},
	"actors/internal/alarm":           {"actors/internal/mail"},
	"actors/internal/claims":          {"conversation", "metrics"},
	"actors/internal/calls":           {"conversation", "actors/internal/delivery", "actors/internal/mail", "conversation/fit", "actors/internal/shown"},
	"actors/internal/delivery":        {"conversation", "actors/internal/mail"},
	"actors/internal/guard":           {"conversation"},
	"actors/internal/losses":          {"conversation"},
	"actors/internal/mail":            {},
	"actors/internal/modelcall":       {"conversation", "metrics", "actors/internal/mail", "actors/internal/observe", "actors/internal/shown", "conversation/attached"},
	"actors/internal/observe":         {"conversation", "conversation/policy", "metrics", "metrics/tracing"},
	"actors/internal/registry":        {"conversation"},
	"actors/internal/retention":       {"conversation", "metrics"},
	"actors/internal/titling":         {"conversation", "conversation/transcript", "actors/internal/modelcall", "actors/internal/observe", "metrics"},
	"actors/internal/triage":          {"conversation", "actors/internal/observe", "metrics"},
	"actors/internal/unreadable":      {"conversation"},
	"actors/internal/sessionlog":      {"conversation", "conversation/policy", "conversation/machine", "conversation/transcript", "metrics", "conversation/dedup"},
	"actors/internal/workers":         {},
	"gateway":                         {"gateway/assets", "conversation", "conversation/option", "gateway/fanout", "gateway/door", "gateway/exchange", "gateway/openai", "gateway/uistream", "gateway/agui", "gateway/acp", "gateway/mcp", "gateway/a2a", "gateway/protocol", "gateway/rest", "gateway/service", "gateway/ws", "metrics", "gateway/listener", "gateway/admin", "gateway/auth", "gateway/render", "conversation/member", "gateway/feed", "gateway/find", "conversation/search", "gateway/list", "gateway/attach", "gateway/push"},
	"gateway/attach":                  {"conversation", "conversation/attached", "conversation/blobs", "conversation/option", "gateway/protocol", "metrics"},
	"gateway/admin":                   {"conversation", "gateway/protocol", "gateway/service"},
	"gateway/audit":                   {"conversation", "gateway/service"},
	"gateway/auth":                    {"conversation", "conversation/option", "gateway/service", "metrics", "conversation/member"},
	"gateway/find":                    {"conversation", "conversation/search", "metrics"},
	"gateway/list":                    {"conversation", "conversation/access", "metrics"},
	"gateway/feed":                    {"conversation", "conversation/chats", "conversation/option", "metrics"},
	"gateway/listener":                {},
	"gateway/fanout":                  {"conversation", "gateway/protocol", "metrics"},
	"gateway/protocol":                {"conversation", "conversation/readmodel", "conversation/access", "conversation/search", "conversation/attached", "conversation/listing"},
	"gateway/rest":                    {"gateway/assets", "conversation", "conversation/readmodel", "gateway/fanout", "gateway/protocol", "gateway/service", "conversation/access", "gateway/admin", "conversation/member", "conversation/chats", "gateway/feed", "gateway/find", "conversation/search", "conversation/attached", "gateway/attach", "conversation/listing", "gateway/door"},
	"gateway/openai":                  {"conversation", "gateway/attach", "gateway/door", "gateway/exchange", "gateway/openai/internal/lanes", "gateway/openai/internal/request", "gateway/protocol", "gateway/service"},
	"gateway/openai/internal/lanes":   {},
	"gateway/openai/internal/request": {"conversation", "gateway/attach", "gateway/protocol"},
	"gateway/uistream":                {"conversation", "gateway/door", "gateway/exchange", "gateway/protocol", "gateway/service", "conversation/attached", "gateway/attach"},
	"gateway/agui":                    {"conversation", "gateway/door", "gateway/exchange", "gateway/protocol", "gateway/service", "conversation/attached", "gateway/attach"},
	"gateway/acp":                     {"conversation", "gateway/door", "gateway/exchange", "gateway/protocol", "gateway/service", "conversation/access"},
	"gateway/mcp":                     {"conversation", "conversation/access", "gateway/door", "gateway/exchange", "gateway/protocol", "gateway/service"},
	"gateway/a2a":                     {"conversation", "gateway/attach", "gateway/door", "gateway/exchange", "gateway/protocol", "gateway/push", "gateway/service"},
	"gateway/exchange":                {"conversation", "gateway/door", "gateway/fanout", "gateway/protocol", "gateway/service"},
	"gateway/door":                    {"conversation", "gateway/protocol", "gateway/service", "gateway/door/internal/gone"},
	"gateway/door/internal/gone":      {},
	"gateway/service":                 {"conversation", "conversation/readmodel", "gateway/fanout", "gateway/protocol", "metrics", "conversation/access", "conversation/member", "gateway/feed", "gateway/find", "gateway/list", "gateway/attach", "conversation/attached"},
	"gateway/assets":                  {},
	"gateway/render":                  {"conversation", "metrics"},
	"gateway/discord":                 {"conversation", "gateway/chat"},
	"gateway/chat":                    {"conversation", "conversation/chats", "gateway/fanout", "gateway/protocol", "gateway/service", "metrics"},
	"gateway/telegram":                {"conversation", "gateway/chat"},
	"gateway/slack":                   {"conversation", "gateway/chat"},
	"gateway/web":                     {},
	"clients/js":                      {},
	"gateway/outbound":                {"conversation"},
	"gateway/push":                    {"conversation", "conversation/chats", "conversation/option", "gateway/outbound", "gateway/service", "metrics"},
	"gateway/webhook":                 {"conversation", "conversation/chats", "conversation/option", "gateway/feed", "gateway/outbound", "metrics"},
	"gateway/ws":                      {"conversation", "gateway/fanout", "gateway/protocol", "gateway/service", "conversation/chats", "gateway/feed", "gateway/list"},

	"models/anthropic":          {"conversation", "conversation/option", "models/internal/httpmodel"},
	"models/command":            {"conversation", "conversation/option", "models/command/internal/guard", "models/internal/gate", "conversation/author"},
	"models/internal/gate":      {},
	"models/internal/httpmodel": {"conversation", "conversation/option", "models/internal/gate"},
	"models/given":              {"conversation", "conversation/attached", "conversation/author", "conversation/fit"},
	"models/limit":              {"conversation", "models/internal/gate"},
	"models/openai":             {"conversation", "conversation/option", "models/internal/httpmodel"},
	"models/window":             {"conversation", "conversation/fit"},
	"models/scripted":           {"conversation", "conversation/tokens", "conversation/author", "conversation/attached"},
	"models/*":                  {"conversation"},
	"tools/mcp":                 {"conversation", "conversation/option", "tools/mcp/internal/finite", "tools/mcp/internal/form", "tools/mcp/secret", "conversation/fit"},
	"tools/mcp/internal/finite": {},
	"tools/mcp/internal/form":   {"conversation"},
	"tools/mcp/secret":          {},
	"tools/mcp/shared":          {"conversation", "conversation/member", "tools/mcp"},
	"tools/*":                   {"conversation"},

	// Suites and kits for tests.
	"actors/actorstest":                         {"conversation"},
	"metrics/tracing/tracingtest":               {},
	"conversation/machine/machinetest/everyday": {},
	"conversation/machine/machinetest":          {"conversation", "conversation/policy", "conversation/machine", "conversation/transcript", "conversation/dedup"},
	"persistence/pebble/internal/backup":        {"conversation", "persistence/pebble/internal/inspect", "persistence/pebble/internal/layout", "persistence/pebble/internal/ondisk", "persistence/pebble/internal/opening", "persistence/pebble/internal/verify"},
	"persistence/pebble/internal/readers":       {"conversation", "persistence/pebble/internal/layout"},
	"persistence/pebble/internal/carry":         {"conversation", "conversation/attached", "conversation/blobs", "conversation/chats", "persistence/move", "persistence/pebble/internal/chatrows", "persistence/pebble/internal/layout"},
	"persistence/pebble/internal/group":         {"conversation"},
	"persistence/internal/seen":                 {},
	"persistence/pebble/internal/writers":       {"conversation", "persistence/pebble/internal/layout", "persistence/internal/seen"},
	"models/command/internal/guard":             {},
	"persistence/pebble/internal/activity":      {"conversation", "persistence/pebble/internal/layout"},
	"persistence/pebble/internal/chatrows":      {"conversation", "conversation/chats", "persistence/pebble/internal/erasure", "persistence/pebble/internal/layout"},
	"persistence/pebble/internal/findable":      {"conversation", "conversation/search", "conversation/wire", "persistence/pebble/internal/layout", "persistence/pebble/internal/wordblock"},
	"persistence/pebble/internal/layout":        {"conversation", "conversation/chats", "conversation/wire", "conversation/search", "conversation/attached", "conversation/blobs", "conversation/listing"},
	"persistence/pebble/internal/inspect":       {"conversation", "persistence/pebble/internal/layout", "persistence/pebble/internal/ondisk", "persistence/pebble/internal/synced"},
	"persistence/pebble/internal/ondisk":        {},
	"persistence/pebble/internal/opening":       {},
	"persistence/pebble/internal/space":         {"conversation"},
	"persistence/pebble/internal/synced":        {"persistence/pebble/internal/ondisk"},
	"persistence/pebble/internal/upgrade":       {"conversation", "conversation/wire", "persistence/pebble/internal/layout"},
	"persistence/pebble/internal/blobrows":      {"conversation", "conversation/attached", "conversation/blobs", "persistence/pebble/internal/layout", "persistence/pebble/internal/usage", "persistence/pebble/internal/writers"},
	"persistence/pebble/internal/erasure":       {"conversation", "conversation/living", "conversation/wire", "persistence/pebble/internal/layout"},
	"persistence/pebble/internal/usage":         {"conversation", "persistence/pebble/internal/layout"},
	"persistence/pebble/internal/upkeep":        {"conversation", "persistence/pebble/internal/layout", "conversation/living"},
	"persistence/pebble/internal/verify":        {"conversation", "conversation/chats", "conversation/wire", "persistence/pebble/internal/layout", "persistence/pebble/internal/wordblock", "conversation/blobs"},
	"persistence/pebble/internal/wordblock":     {"conversation", "conversation/search"},
	"models/modelstest/vendors":                 {"conversation", "models/modelstest"},
	"gateway/gatewaytest":                       {"conversation", "conversation/chats", "persistence/chatstest", "conversation/machine/machinetest", "persistence/persistencetest", "conversation/access", "conversation/living", "gateway/list"},
	"gateway/waystest":                          {"conversation", "gateway", "gateway/attach", "gateway/gatewaytest", "gateway/service", "metrics"},
	"gateway/discord/discordtest":               {},
	"gateway/telegram/telegramtest":             {},
	"gateway/slack/slacktest":                   {},

	"cmd/parley/internal/logs": {"metrics"},
	"cmd/parley": {
		"cmd/parley/internal/logs", "metrics/tracing", "actors", "cmd/parley/internal/assemble", "cmd/parley/internal/build", "cmd/parley/internal/backups", "cmd/parley/internal/acp", "cmd/parley/internal/channels", "cmd/parley/internal/chat", "cmd/parley/internal/config", "cmd/parley/internal/store", "cmd/parley/internal/supervise", "conversation",
		"gateway", "gateway/list", "gateway/protocol", "gateway/web", "metrics", "tools/builtin", "gateway/audit", "gateway/auth", "gateway/service", "gateway/listener", "actors/cluster", "conversation/member", "persistence/move", "conversation/chats", "gateway/chat", "gateway/feed", "gateway/webhook",
	},
	"cmd/parley/internal/assemble": {
		"actors", "cmd/parley/internal/config", "conversation", "conversation/policy", "conversation/transcript", "gateway", "gateway/protocol", "metrics",
		"models/anthropic", "models/command", "models/fallback", "models/given", "models/limit", "models/openai", "models/window", "tools/mcp", "gateway/auth", "gateway/listener", "actors/cluster", "persistence/postgres", "cmd/parley/internal/store", "conversation/member", "tools/mcp/shared", "conversation/chats", "gateway/chat", "gateway/discord", "gateway/service", "gateway/slack", "gateway/telegram", "conversation/attached", "conversation/blobs", "gateway/attach",
	},
	"cmd/parley/internal/channels": {"actors/cluster", "cmd/parley/internal/assemble", "cmd/parley/internal/config", "conversation", "conversation/chats", "gateway", "gateway/auth", "gateway/chat", "gateway/feed", "gateway/push", "gateway/service", "gateway/webhook", "metrics"},
	"cmd/parley/internal/backups":  {"cmd/parley/internal/store", "conversation", "conversation/option", "metrics"},
	"cmd/parley/internal/config": {
		"metrics/tracing", "actors", "cmd/parley/internal/config/internal/written", "cmd/parley/internal/backups", "cmd/parley/internal/store", "conversation", "conversation/option", "conversation/policy", "conversation/transcript", "gateway", "models/anthropic", "models/command", "models/openai",
		"models/limit", "models/scripted", "tools/builtin", "tools/mcp", "tools/mcp/secret", "gateway/audit", "gateway/auth", "gateway/chat", "gateway/feed", "gateway/push", "gateway/webhook", "cmd/parley/internal/config/platforms", "gateway/attach", "metrics",
	},
	"cmd/parley/deploy":                           {},
	"cmd/parley/internal/build":                   {},
	"cmd/parley/internal/acp":                     {},             // it knows the server from outside only
	"cmd/parley/internal/chat":                    {"clients/go"}, // it knows the server from outside only
	"cmd/parley/internal/config/internal/written": {},
	"cmd/parley/internal/supervise":               {"gateway"},
	"cmd/parley/internal/config/platforms":        {"conversation", "gateway/chat"},
	"cmd/parley/internal/store":                   {"conversation/search", "conversation", "conversation/policy", "conversation/machine", "persistence/pebble", "persistence/postgres", "conversation/member", "persistence/move", "conversation/chats", "conversation/blobs"}, // the one place that names a concrete store

	// It knows the server from outside only.
	"cmd/parley-bench":                   {"cmd/parley-bench/internal/load", "cmd/parley-bench/internal/checker", "cmd/parley-bench/internal/conform", "cmd/parley-bench/internal/chaos", "cmd/parley-bench/internal/hostile", "cmd/parley-bench/internal/peers", "cmd/parley-bench/internal/receipts", "cmd/parley-bench/internal/rooms", "cmd/parley-bench/internal/scaling", "cmd/parley-bench/internal/soak", "cmd/parley-bench/internal/nodes"},
	"cmd/parley-bench/internal/conform":  {"cmd/parley-bench/internal/load"},
	"cmd/parley-bench/internal/history":  {},
	"cmd/parley-bench/internal/cputime":  {},
	"cmd/parley-bench/internal/frame":    {},
	"cmd/parley-bench/internal/load":     {"cmd/parley-bench/internal/frame", "cmd/parley-bench/internal/history", "cmd/parley-bench/internal/report", "cmd/parley-bench/internal/cputime"},
	"cmd/parley-bench/internal/rooms":    {"cmd/parley-bench/internal/load", "cmd/parley-bench/internal/report"},
	"cmd/parley-bench/internal/hostile":  {"cmd/parley-bench/internal/load", "cmd/parley-bench/internal/cputime"},
	"cmd/parley-bench/internal/soak":     {"cmd/parley-bench/internal/load", "cmd/parley-bench/internal/report"},
	"cmd/parley-bench/internal/report":   {},
	"cmd/parley-bench/internal/checker":  {"cmd/parley-bench/internal/load"},
	"cmd/parley-bench/internal/chaos":    {"cmd/parley-bench/internal/load"},
	"cmd/parley-bench/internal/nodes":    {"cmd/parley-bench/internal/checker", "cmd/parley-bench/internal/load", "persistence/postgres/pgtest", "cmd/parley-bench/internal/report"},
	"cmd/parley-bench/internal/peers":    {"cmd/parley-bench/internal/load", "cmd/parley-bench/internal/cputime"},
	"cmd/parley-bench/internal/scaling":  {},
	"cmd/parley-bench/internal/receipts": {"cmd/parley-bench/internal/load", "conversation/machine/machinetest/everyday"},

	"cmd/parley-mutants": {}, // it knows the code as text

	// For other people's programs: they know the server by its protocol.
	"clients/go":                     {"clients/go/internal/credential", "clients/go/internal/pace", "clients/go/internal/refusal"},
	"clients/go/internal/credential": {},
	"clients/go/internal/pace":       {},
	"clients/go/internal/refusal":    {},
	"clients/go/examples/ask":        {"clients/go"},
	"clients/go/examples/conform":    {"clients/go"},
	"examples/openai-go":             {},
}

// testArrows are the imports that only tests of a room may have, beside its own.
var testArrows = map[string][]string{
	"gateway/attach":                     {"persistence/blobstest"},
	"persistence/move":                   {"persistence/blobstest", "persistence/pebble", "persistence/postgres", "persistence/postgres/pgtest"},
	"actors/cluster":                     {"actors", "actors/actorstest", "conversation/policy", "persistence/persistencetest", "gateway/fanout", "gateway/protocol", "gateway/list"},
	"actors/cluster/internal/membership": {"conversation"},
	"actors/cluster/internal/singleton":  {"actors/cluster/internal/membership", "actors/placement", "persistence/persistencetest"},

	"actors/cluster/internal/relay":      {"gateway/fanout", "gateway/protocol"},
	"conversation":                       {"conversation/wire"},
	"conversation/wire":                  {"conversation/wire/internal/pb"}, // the oracle of its reader and writer
	"persistence/pebble":                 {"persistence/blobstest", "persistence/chatstest", "persistence/persistencetest", "persistence/searchtest"},
	"persistence/pebble/internal/upkeep": {"conversation/chats"},
	"persistence/persistencetest":        {"persistence/clustertest"},
	"persistence/postgres":               {"persistence/blobstest", "persistence/chatstest", "persistence/clustertest", "persistence/persistencetest", "persistence/postgres/pgtest", "persistence/searchtest"},
	"persistence/postgres/internal/*":    {"persistence/clustertest", "persistence/postgres/internal/opening", "persistence/postgres/pgtest"},
	"actors":                             {"actors/actorstest", "metrics/tracing/tracingtest", "persistence/persistencetest", "models/scripted", "conversation/fit", "conversation/member", "conversation/listing"},
	"actors/actorstest":                  {"persistence/persistencetest", "models/scripted"},
	"gateway":                            {"conversation/attached", "conversation/policy", "conversation/chats", "conversation/machine/machinetest", "gateway/gatewaytest", "gateway/waystest", "gateway/web", "conversation/access"},
	"models/*":                           {"conversation/policy", "conversation/machine/machinetest", "models/modelstest", "persistence/persistencetest"},
	"tools/*":                            {"tools/toolstest"},
	"conversation/machine":               {"conversation/machine/machinetest/everyday", "conversation/dedup", "conversation/transcript", "conversation/readmodel", "conversation/wire", "conversation/tokens", "conversation/member", "conversation/listing"},
	"conversation/machine/machinetest":   {"persistence/persistencetest"},
	"clients/js":                         {"gateway/gatewaytest"},
	"metrics/tracing":                    {"metrics/tracing/tracingtest"},
	"gateway/auth":                       {"persistence/clustertest"},
	"gateway/chat":                       {"gateway/gatewaytest", "persistence/chatstest"},
	"gateway/find":                       {"conversation/access", "persistence/persistencetest"},
	"gateway/list":                       {"persistence/persistencetest", "conversation/listing"},
	"gateway/protocol":                   {"conversation/policy", "gateway/gatewaytest"},
	"gateway/*":                          {"conversation/policy", "gateway/gatewaytest"},
	"gateway/ws":                         {"conversation/policy", "gateway/gatewaytest", "metrics"},
	"actors/internal/sessionlog":         {"persistence/persistencetest", "conversation/member"},
	"actors/internal/retention":          {"persistence/persistencetest"},
	"gateway/telegram":                   {"gateway/telegram/telegramtest", "conversation/chats", "gateway/gatewaytest", "gateway/fanout", "gateway/protocol", "metrics"},
	"gateway/discord":                    {"conversation/chats", "conversation/machine/machinetest", "gateway/discord/discordtest", "gateway/fanout", "gateway/gatewaytest", "gateway/protocol", "metrics"},
	"gateway/slack":                      {"conversation/chats", "conversation/machine/machinetest", "gateway/fanout", "gateway/gatewaytest", "gateway/protocol", "gateway/slack/slacktest", "metrics"},

	"gateway/openai":   {"conversation/attached", "conversation/machine/machinetest", "conversation/policy", "gateway", "gateway/gatewaytest", "metrics"},
	"gateway/uistream": {"conversation/attached", "conversation/machine/machinetest", "conversation/policy", "gateway", "gateway/gatewaytest", "gateway/waystest"},
	"gateway/agui":     {"conversation/attached", "conversation/machine/machinetest", "conversation/policy", "gateway", "gateway/gatewaytest", "gateway/waystest"},
	"gateway/acp":      {"conversation/attached", "conversation/machine/machinetest", "conversation/policy", "gateway", "gateway/gatewaytest", "gateway/waystest"},
	"gateway/mcp":      {"conversation/attached", "conversation/machine/machinetest", "conversation/policy", "gateway", "gateway/gatewaytest", "metrics"},
	"gateway/a2a":      {"conversation/attached", "conversation/chats", "conversation/machine/machinetest", "conversation/policy", "gateway", "gateway/gatewaytest", "gateway/waystest", "metrics"},

	"cmd/parley/internal/assemble": {"conversation/machine/machinetest", "models/modelstest", "models/modelstest/vendors", "persistence/persistencetest"},
	"cmd/parley": {
		"metrics/tracing/tracingtest", "conversation/machine/machinetest", "conversation/search", "conversation/access", "gateway/find", "conversation/policy",
		"conversation/wire", "persistence/pebble", "persistence/persistencetest",
		"models/anthropic", "models/given", "models/modelstest", "models/openai", "models/scripted", "conversation/attached", "conversation/tokens", "persistence/postgres/pgtest", "gateway/slack/slacktest", "gateway/telegram/telegramtest", "gateway/discord/discordtest", "clients/go",
	},
}

// libraries says where the libraries live whose types must not travel: prefix
// of the import path → rooms, or files, that may import it.
var libraries = map[string][]string{
	"github.com/asynkron/protoactor-go": {"actors", "actors/internal/alarm", "actors/internal/calls", "actors/internal/guard", "actors/internal/mail", "actors/internal/registry", "actors/cluster/internal/link"},
	"google.golang.org/grpc":            {"actors/cluster/internal/link"},
	// The load generator measures the bare store and the bare socket in the same
	// run as the server; that is the point of a baseline.
	"github.com/cockroachdb/pebble":      {"persistence/pebble", "persistence/pebble/internal/activity", "persistence/pebble/internal/blobrows", "persistence/pebble/internal/carry", "persistence/pebble/internal/readers", "persistence/pebble/internal/chatrows", "persistence/pebble/internal/erasure", "persistence/pebble/internal/findable", "persistence/pebble/internal/group", "persistence/pebble/internal/inspect", "persistence/pebble/internal/ondisk", "persistence/pebble/internal/opening", "persistence/pebble/internal/space", "persistence/pebble/internal/synced", "persistence/pebble/internal/upgrade", "persistence/pebble/internal/upkeep", "persistence/pebble/internal/usage", "persistence/pebble/internal/verify", "persistence/pebble/internal/writers", "persistence/pebble/internal/backup", "cmd/parley-bench/internal/load/baseline_store.go"},
	"github.com/gofiber/":                {"gateway/server.go", "gateway/upgrade.go", "gateway/uploads.go", "gateway/hosts.go", "gateway/rest", "gateway/door", "gateway/openai", "gateway/uistream", "gateway/agui", "gateway/acp", "gateway/mcp", "gateway/a2a"},
	"github.com/go-json-experiment/json": {"gateway/protocol"},
	"github.com/valyala/fasthttp":        {"gateway/rest", "gateway/uploads.go", "cmd/parley-bench/internal/load/baseline_socket.go"},
	"github.com/fasthttp/websocket":      {"gateway/ws", "cmd/parley-bench/internal/conform", "cmd/parley-bench/internal/load"},
	"github.com/openai/":                 {"examples/openai-go"}, // no server: the two link 58 MB (ADR 9)
	"github.com/anthropics/":             {},
	"github.com/tmaxmax/go-sse":          {"models/internal/httpmodel"},
	"github.com/expr-lang/":              {"tools/builtin"},
	"github.com/modelcontextprotocol/":   {"tools/mcp", "gateway/mcp", "cmd/parley-bench/internal/checker"},
	"github.com/rivo/uniseg":             {"cmd/parley/internal/chat", "conversation/search", "gateway/chat", "models/command"},
	"github.com/bwmarrin/discordgo":      {"gateway/discord"},
	"github.com/gorilla/websocket":       {"gateway/discord"},
	"github.com/coder/websocket":         {"clients/go", "cmd/parley/internal/acp", "gateway/discord/discordtest", "gateway/gatewaytest", "gateway/slack/slacktest"},
	"github.com/andybalholm/brotli":      {"gateway/assets"},
	"github.com/yuin/goldmark":           {"gateway/render"},
	"github.com/microcosm-cc/bluemonday": {"gateway/render"},
	"github.com/mymmrac/telego":          {"gateway/telegram"},
	"golang.org/x/text/":                 {"conversation/search"},
	"golang.org/x/time/":                 {"models/limit", "tools/mcp", "gateway/telegram"},
	"database/sql":                       {},
	"github.com/jackc/pgx/":              {"persistence/postgres", "persistence/postgres/internal/blobtable", "persistence/postgres/internal/wordtable", "persistence/postgres/internal/members", "persistence/postgres/internal/opening", "persistence/postgres/internal/outcome", "persistence/postgres/internal/schema"},
	"github.com/pressly/goose/":          {"persistence/postgres/internal/schema"},
	"go.opentelemetry.io/":               {"metrics/tracing", "metrics/tracing/tracingtest"},
	"github.com/prometheus/":             {"metrics", "metrics/tracing", "persistence/pebble", "persistence/postgres", "gateway", "gateway/admin", "gateway/fanout", "gateway/waystest", "actors", "cmd/parley/internal/assemble"},
	"github.com/pelletier/go-toml":       {"cmd/parley/internal/config", "gateway/auth", "models/scripted", "cmd/parley-bench/internal/history", "cmd/parley-bench/internal/receipts"},
	"golang.org/x/crypto/":               {"gateway/listener"},
	"github.com/golang-jwt/":             {"gateway/auth"},
	"github.com/slack-go/":               {"gateway/slack"},
	"github.com/MicahParks/":             {"gateway/auth"},
	"github.com/alecthomas/kong":         {"cmd/parley", "cmd/parley-bench"},
	"github.com/coreos/go-systemd/":      {"cmd/parley/internal/supervise"},

	// Generated code, and what it needs, is for the tests of wire only; profiles are in the same encoding.
	"google.golang.org/protobuf/encoding/protowire": {"conversation/wire", "actors/cluster/internal/fields", "cmd/parley-bench/internal/rooms"},
	"google.golang.org/protobuf/proto":              {"conversation/wire/internal/pb", "metrics/tracing/tracingtest"},
	"google.golang.org/protobuf/reflect":            {"conversation/wire/internal/pb"},
	"google.golang.org/protobuf/runtime":            {"conversation/wire/internal/pb"},
}

// Tests wait for what they wait for. time.Sleep is allowed where it takes no
// time, in a testing/synctest bubble, and where a moment is a test's input.
func TestNoSleeps(t *testing.T) {
	files := token.NewFileSet()
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			if name == "bench_test.go" { // benchmarks measure real time and assert nothing
				continue
			}
			at := strings.TrimPrefix(path.Join(p.ImportPath, name), "parley/")
			parsed, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			bubble := slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
			ast.Inspect(parsed, func(n ast.Node) bool {
				call, ok := n.(*ast.SelectorExpr)
				if !ok || call.Sel.Name != "Sleep" {
					return true
				}
				if pkg, ok := call.X.(*ast.Ident); ok && pkg.Name == "time" && !bubble && at != "cmd/parley-bench/internal/checker/crash.go" {
					t.Errorf("%s sleeps at %s", at, files.Position(n.Pos()))
				}
				return true
			})
		}
	}
}

// goPackage is what "go list -json" says of a package.
type goPackage struct {
	ImportPath                         string
	Dir                                string
	Imports, TestImports, XTestImports []string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	list := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 5 {
		t.Fatalf("go list found %d packages only", len(all))
	}
	return all
}

func TestImportArrows(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, "parley/")
		allowed, known := lineOf(arrows, from)
		if !known {
			t.Errorf("room %s has no line in arrows", from)
			continue
		}
		check := func(imports, allowed []string, kind string) {
			for _, i := range imports {
				to, ours := strings.CutPrefix(i, "parley/")
				if ours && to != from && !slices.Contains(allowed, to) {
					t.Errorf("%s imports %s%s; it may import only %v", from, to, kind, allowed)
				}
			}
		}
		check(p.Imports, allowed, "")
		more, _ := lineOf(testArrows, from)
		inTests := slices.Concat(allowed, more)
		if from == "cmd/parley" { // cmd joins everything, its tests may as well
			inTests = slices.Concat(inTests, []string{"cmd/parley-bench"})
		}
		check(p.TestImports, inTests, " in its tests")
		check(p.XTestImports, inTests, " in its tests")
	}
}

func lineOf(table map[string][]string, room string) ([]string, bool) {
	if line, ok := table[room]; ok {
		return line, true
	}
	line, ok := table[path.Dir(room)+"/*"]
	return line, ok
}

func TestTheCoreImportsTheStandardLibraryOnly(t *testing.T) {
	for _, p := range packages(t) {
		room := strings.TrimPrefix(p.ImportPath, "parley/")
		switch room {
		case "conversation", "conversation/machine", "conversation/machine/internal/plan", "conversation/machine/internal/state", "conversation/readmodel", "conversation/transcript":
		default:
			continue
		}
		for _, i := range p.Imports {
			if first, _, _ := strings.Cut(i, "/"); strings.Contains(first, ".") || first == "parley" && !strings.HasPrefix(i, "parley/conversation") {
				t.Errorf("%s imports %s", room, i)
			}
		}
		// What the standard library has for clocks and chance does not belong there either.
		for _, i := range []string{"math/rand", "math/rand/v2", "crypto/rand", "os", "net", "net/http", "sync", "log/slog"} {
			if slices.Contains(p.Imports, i) {
				t.Errorf("%s imports %s: the machine is pure", room, i)
			}
		}
	}
}

func TestLibrariesStayInTheirRooms(t *testing.T) {
	files := token.NewFileSet()
	for _, p := range packages(t) {
		room := strings.TrimPrefix(p.ImportPath, "parley/")
		for _, name := range p.GoFiles { // tests may use what they like
			parsed, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range parsed.Imports {
				imported, _ := strconv.Unquote(spec.Path.Value)
				for prefix, where := range libraries {
					if !strings.HasPrefix(imported, prefix) {
						continue
					}
					allowed := slices.ContainsFunc(where, func(w string) bool {
						file, _ := path.Match(w, path.Join(room, name))
						return file || w == room
					})
					if !allowed {
						t.Errorf("%s imports %s, which may be used in %v only", path.Join(room, name), imported, where)
					}
				}
			}
		}
	}
}

// docs/deps.txt lists every module that is linked into the server, so that a new
// one shows in review. Run with -rewrite after reading what it brings.
func TestLinkedModules(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/parley")
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	modules := strings.Fields(string(out))
	slices.Sort(modules)
	modules = slices.DeleteFunc(slices.Compact(modules), func(m string) bool { return m == "parley" })
	got := strings.Join(modules, "\n") + "\n"
	golden := filepath.Join(root, "docs", "deps.txt")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range modules {
		if !slices.Contains(strings.Fields(string(want)), m) {
			t.Errorf("%s is linked in and not in docs/deps.txt", m)
		}
	}
	for _, m := range strings.Fields(string(want)) {
		if !slices.Contains(modules, m) {
			t.Errorf("%s is in docs/deps.txt and not linked in any more", m)
		}
	}
}

// Each direct dependency of go.mod has a line of reason in docs/DEPENDENCIES.md.
func TestEveryDirectDependencyHasAReason(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := os.ReadFile(filepath.Join(root, "docs", "DEPENDENCIES.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mod)) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "require "), " ")
		if !strings.HasPrefix(rest, "v") || strings.Contains(rest, "// indirect") {
			continue
		}
		if !bytes.Contains(reasons, []byte("`"+name+"`")) {
			t.Errorf("docs/DEPENDENCIES.md does not say why %s is needed", name)
		}
	}
}

// D-03, D-28: the engine does not sort messages into kinds, and none of the
// rejected designs is there under its name. The words are put together here so
// that this file does not hold them.
func TestRejectedDesignsAreAbsent(t *testing.T) {
	anywhere := []string{
		"mapIntakeTo" + "Inbox" + "Classification", "inbox_" + "classified", "Inbox" + "Class" + "if", "deferTo" + "NextTurn",
		"Plan" + "Task", "Inbox" + "Task", "MessageKind" + "Amendment", "classifyInbox" + "Message",
	}
	labels := []string{`"AMEND` + `MENT"`, `"EXPAN` + `SION"`, `"PARAL` + `LEL"`}
	source := []string{".go", ".js", ".html", ".md", ".toml", ".proto", ".yaml", ".yml", ".json"}
	seen := 0
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && p != root && (name == "data" || name == "bin" || strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		if d.IsDir() || !slices.Contains(source, filepath.Ext(name)) || name == "REQUIREMENTS.md" { // which says what is rejected
			return nil
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		seen++
		for _, word := range slices.Concat(anywhere, labels) {
			if bytes.Contains(data, []byte(word)) {
				t.Errorf("%s holds %s", p, word)
			}
		}
		if strings.HasPrefix(p, filepath.Join(root, "cmd", "parley", "internal", "config", "prompts")) && bytes.Contains(bytes.ToLower(data), []byte("classif")) {
			t.Errorf("%s: a prompt speaks of classification", p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Errorf("only %d files were looked at", seen)
	}
}
