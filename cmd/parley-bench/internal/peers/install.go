package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// restatePackage is the npm package of Restate's server; the programs around the Go
// libraries are pinned by the go.mod of the module that holds them.
const restatePackage = "@restatedev/restate-server@1.7.12"

// programs are the peers' programs; one that is not there has a reason.
type programs struct {
	restate, service, centrifuge string
	noRestate, noService, noFan  error
}

// install brings the programs below dir, and says of each why it is not there. What is
// there already is not fetched again.
func install(ctx context.Context, module, dir string) programs {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return programs{noRestate: err, noService: err, noFan: err}
	}
	p := programs{service: filepath.Join(dir, "restate-service"), centrifuge: filepath.Join(dir, "centrifuge")}
	p.noService = run(ctx, dir, "go", "build", "-C", absolute(module), "-o", p.service, "./restate")
	p.noFan = run(ctx, dir, "go", "build", "-C", absolute(module), "-o", p.centrifuge, "./centrifuge")
	p.restate, p.noRestate = installRestate(ctx, dir)
	return p
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// installRestate runs none of the package's scripts: one of them reports the installation.
func installRestate(ctx context.Context, dir string) (program string, err error) {
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	program = filepath.Join(dir, "node_modules", "@restatedev", "restate-server-"+runtime.GOOS+"-"+arch, "bin", "restate-server")
	_, version, _ := strings.Cut(restatePackage[1:], "@")
	if said, err := exec.CommandContext(ctx, program, "--version").Output(); err == nil && bytes.Contains(said, []byte(version)) {
		return program, nil
	}
	if err := run(ctx, dir, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--prefix", dir, restatePackage); err != nil {
		return "", err
	}
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("%s has no program for %s/%s", restatePackage, runtime.GOOS, runtime.GOARCH)
	}
	return program, nil
}

// run runs an installer; its error says in one line what it said first.
func run(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "go: downloading") {
			return errors.New(strings.ReplaceAll(fmt.Sprintf("%s: %.160s", name, line), "|", "/"))
		}
	}
	return err
}
