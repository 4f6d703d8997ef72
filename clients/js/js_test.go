package js_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// N-03: the tests beside the modules, which name the ids of requirements, run in node.
func TestModules(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED: the client's modules. There is no node in PATH; their tests need node 20 or newer, nothing else")
	}
	tests, err := filepath.Glob("*.test.js")
	if err != nil || len(tests) == 0 {
		t.Fatalf("no *.test.js here (%v)", err)
	}
	// Read here as well, so that go's cached result is not used after a change.
	modules, err := filepath.Glob("*.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range modules {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"--test", "--test-reporter=tap"}, tests...)
	out, err := exec.CommandContext(t.Context(), node, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("node --test: %v\n%s", err, out)
	}
	// A runner that found no test would be content, too.
	if !bytes.Contains(out, []byte("after a lost connection")) {
		t.Errorf("no test about a lost connection ran:\n%s", out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "# ") && !strings.HasPrefix(line, "# Subtest") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// N-03: with the package ws, as Node 20 needs it, a server that accepts connections and
// answers nothing is given up and tried again, and close() ends the program.
func TestServerThatNeverAnswersWithThePackageWs(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("NOT TESTED: clients/js with the package ws. There is no npm in PATH")
	}
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), npm, "install", "--prefer-offline", "--ignore-scripts", "--no-audit", "--no-fund", "ws@8.23.0")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: clients/js with the package ws. npm cannot get it: %v\n%s", err, out)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the system accepts
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	program := `import { WebSocket } from 'ws';
const { connect } = await import(process.env.CLIENT);
const options = { WebSocket, opening: 100, wait: { least: 1, min: 1, max: 1 } };
const patient = connect(process.env.PARLEY_URL, options);
let lost = 0;
patient.on('status', ({ state }) => { if (state === 'waiting' && ++lost === 3) patient.close(); });
const hasty = connect(process.env.PARLEY_URL, options);
setImmediate(() => hasty.close());
process.on('exit', () => console.log('lost', lost));`
	node := exec.CommandContext(t.Context(), "node", "--input-type=module")
	node.Dir, node.Stdin = dir, strings.NewReader(program)
	node.Env = append(os.Environ(), "PARLEY_URL=http://"+silent.Addr().String(), "CLIENT="+filepath.Join(here, "index.js"))
	if out, err := node.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "lost 3" {
		t.Errorf("%v\n%s", err, out)
	}
}
