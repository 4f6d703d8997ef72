package scaling

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// Size is the command that sizes a machine; its fields are its flags.
type Size struct {
	Sessions float64 `help:"Sessions in memory." default:"10000"`
	Sockets  float64 `help:"WebSockets, each following a session." default:"10000"`
	Turns    float64 `help:"Turns a second." default:"100"`
	Scripted bool    `help:"The model answers at once, as in the load test. Without it answers are streamed."`
}

// Validate refuses a load below nothing.
func (s *Size) Validate() error {
	if min(s.Sessions, s.Sockets, s.Turns) < 0 {
		return errors.New("--sessions, --sockets and --turns are at least 0")
	}
	return nil
}

// Run prints what the load takes, to standard output.
func (s *Size) Run(context.Context) error {
	printSizes(os.Stdout, []Load{{s.Sessions, s.Sockets, s.Turns, !s.Scripted}})
	return nil
}

func printSizes(out io.Writer, loads []Load) {
	fmt.Fprintln(out, "| sessions in memory | sockets | turns/s | model | cores | memory | log | disk a day | to clients | calls at once |")
	fmt.Fprintln(out, "|---:|---:|---:|---|---:|---:|---:|---:|---:|---:|")
	for _, l := range loads {
		n, model := l.need(), "at once"
		if l.Streams {
			model = "streams"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s GB | %s MB/s | %s GB | %s MB/s | %s |\n",
			number(l.Sessions), number(l.Sockets), number(l.Turns), model, number(max(1, n.Cores)), number(n.Memory),
			number(n.LogMB), number(n.DiskGBADay), number(n.NetworkMB), number(n.RunningNow))
	}
}

// number writes two digits, with commas between thousands.
func number(v float64) string {
	v = round(v)
	if v < 10 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	var b strings.Builder
	for i, r := range s {
		if i > 0 && (len(s)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// printConstants is the table of all numbers that the others are made of.
func printConstants(out io.Writer) {
	fmt.Fprintln(out, "| | value | | by |")
	fmt.Fprintln(out, "|---|---:|---|---|")
	for _, c := range []constant{
		turnCPU, sessionCPU, mergeCPU, sendCPU, readCPU, logCPU, modelCPU, finishCPU, commits, keys, logBytes, keptBytes, syncTime, writes, outBytes, deliverCPU, burstCPU,
		poolLocks, senderLocks, slotLocks, groupLocks, socketBytes, sessionIdle, fixedMemory,
		lockTime, busy, serialBusy, diskSpeed, rewriting, netSpeed, callTime, shownEvery, streamCPU, callMemory, spare,
	} {
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", c.what, strings.TrimSpace(strconv.FormatFloat(c.value, 'f', -1, 64)+" "+c.unit), c.from, c.how)
	}
}

// printNode is what one node does with more and more cores.
func printNode(out io.Writer) {
	fmt.Fprintln(out, "| cores | turns/s, model at once | ends first | if one goroutine merged all commits | ends first | turns/s, streamed answers | ends first |")
	fmt.Fprintln(out, "|---:|---:|---|---:|---|---:|---|")
	for _, cores := range []float64{2, 4, 8, 16, 32, 64} {
		now, one, streamed := limits(cores, mergersOf(cores), false)[0], limits(cores, 1, false)[0], limits(cores, mergersOf(cores), true)[0]
		fmt.Fprintf(out, "| %.0f | %s | %s | %s | %s | %s | %s |\n", cores, number(now.turns), now.resource,
			number(one.turns), one.resource, number(streamed.turns), streamed.resource)
	}
}

// printLimits is each resource of a node with 32 cores.
func printLimits(out io.Writer) {
	fmt.Fprintln(out, "| resource of a node with 32 cores | ends at turns/s |")
	fmt.Fprintln(out, "|---|---:|")
	for _, l := range limits(32, mergersOf(32), false) {
		fmt.Fprintf(out, "| %s | %s |\n", l.resource, number(l.turns))
	}
}

// printLatency is the least time of a turn, by the sync of the disk.
func printLatency(out io.Writer) {
	fmt.Fprintln(out, "| a sync takes | a turn waits for the disk at least |")
	fmt.Fprintln(out, "|---:|---:|")
	for _, sync := range []float64{20, 100, syncTime.value, 2000, 10_000} {
		fmt.Fprintf(out, "| %s µs | %s ms |\n", number(sync), number(latency(sync)))
	}
}

// million is the load of a million sessions with a socket each and a turn a minute.
var million = Load{Sessions: 1e6, Sockets: 1e6, Turns: 1e6 / 60, Streams: true}

// printCluster is that load on so many nodes.
func printCluster(out io.Writer) {
	fmt.Fprintln(out, "| nodes | sockets each | turns/s each | calls at once each | cores each | memory each | log each | one goroutine that merged all would be busy |")
	fmt.Fprintln(out, "|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, nodes := range []float64{1, 4, 8, 16} {
		l := million
		l.Sessions, l.Sockets, l.Turns = l.Sessions/nodes, l.Sockets/nodes, l.Turns/nodes
		n := l.need()
		fmt.Fprintf(out, "| %.0f | %s | %s | %s | %s | %s GB | %s MB/s | %.0f %% |\n", nodes, number(l.Sockets), number(l.Turns),
			number(n.RunningNow), number(n.Cores), number(n.Memory), number(n.LogMB), n.MergeShare*100)
	}
}

// printStore is what the same load asks of a store that all nodes share.
func printStore(out io.Writer) {
	n := million.need()
	fmt.Fprintln(out, "| of a shared store | a turn | all of them |")
	fmt.Fprintln(out, "|---|---:|---:|")
	fmt.Fprintf(out, "| transactions, one for each commit | %s | %s /s |\n", number(commits.value), number(n.Transaction))
	fmt.Fprintf(out, "| transactions, 50 commits in each | %s | %s /s |\n", number(commits.value/50), number(n.Transaction/50))
	fmt.Fprintf(out, "| rows written | %s | %s /s |\n", number(keys.value), number(million.Turns*keys.value))
	fmt.Fprintf(out, "| bytes of keys and values | %s | %s MB/s |\n", number(logBytes.value), number(n.LogMB))
	fmt.Fprintf(out, "| disk a day, packed as here | | %s GB |\n", number(n.DiskGBADay))
}

// sizes are the loads of the table by which a machine is chosen.
var sizes = []Load{
	{100, 100, 1, true}, {1000, 1000, 10, true}, {10_000, 10_000, 100, true}, {50_000, 50_000, 800, true}, {100_000, 100_000, 1600, true},
	{1000, 200, 5000, false}, {10_000, 1000, 20_000, false},
}
