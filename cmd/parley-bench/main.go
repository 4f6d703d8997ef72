package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"parley/cmd/parley-bench/internal/chaos"
	"parley/cmd/parley-bench/internal/checker"
	"parley/cmd/parley-bench/internal/conform"
	"parley/cmd/parley-bench/internal/hostile"
	"parley/cmd/parley-bench/internal/load"
	"parley/cmd/parley-bench/internal/nodes"
	"parley/cmd/parley-bench/internal/peers"
	"parley/cmd/parley-bench/internal/receipts"
	"parley/cmd/parley-bench/internal/rooms"
	"parley/cmd/parley-bench/internal/scaling"
	"parley/cmd/parley-bench/internal/soak"
)

type commandLine struct {
	Run      load.Measure    `cmd:"" default:"withargs" help:"Measure and print Markdown tables."`
	Backup   load.Backup     `cmd:"" help:"Measure what a backup costs those who use the server."`
	Profile  rooms.ByRoom    `cmd:"" help:"Say in which rooms of the server a turn's time and allocations are."`
	Soak     soak.Soak       `cmd:"" help:"Make and erase sessions at a rate, for long: is anything left behind?"`
	Start    load.Start      `cmd:"" help:"Measure starts on a data directory."`
	Peers    peers.Peers     `cmd:"" help:"Measure the server beside programs of others, which it installs."`
	Size     scaling.Size    `cmd:"" help:"Say what machine a load needs, by the arithmetic of docs/SCALING.md."`
	Crash    checker.Crash   `cmd:"" help:"Kill the server with -9 under load, again and again, and check what it kept."`
	Runtimes chaos.Runtimes  `cmd:"" help:"Kill outside runtimes and the server with -9 while messages are answered, and check every log."`
	Chaos    nodes.Chaos     `cmd:"" help:"End and freeze the nodes and the database of a cluster under load, and check what it kept."`
	Failover nodes.Failover  `cmd:"" help:"Measure how long clients notice that a node of a cluster is gone."`
	Compare  nodes.Compare   `cmd:"" help:"Measure one node and three on PostgreSQL beside one with its own store, and the way to another node."`
	Cluster  nodes.Local     `cmd:"" help:"Run a PostgreSQL and some nodes on this machine until Ctrl-C, to look at."`
	Hostile  hostile.Hostile `cmd:"" help:"Attack a server, and say what an honest client notices."`

	Conform conform.Conform `cmd:"" help:"Check a client of the protocol through a proxy that misbehaves."`

	Receipts receipts.Receipts `cmd:"" help:"Hold conversations with a model, and say how many of its receipts are true."`

	// Child processes of the three.
	Echo     load.Echo        `cmd:"" hidden:"" help:"The bare WebSocket server of the baselines."`
	Journal  checker.Journal  `cmd:"" hidden:"" help:"The tool whose effect the crash mode counts, as an MCP server."`
	Attacker hostile.Attacker `cmd:"" hidden:"" help:"Who attacks."`
	Worker   chaos.Worker     `cmd:"" hidden:"" help:"A runtime that the runtimes mode kills."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var line commandLine
	parsed := kong.Parse(&line, kong.Name("parley-bench"),
		kong.Description("Measures a parley server and its model, or kills it under load."),
		kong.BindTo(ctx, (*context.Context)(nil)))
	parsed.FatalIfErrorf(parsed.Run())
}
