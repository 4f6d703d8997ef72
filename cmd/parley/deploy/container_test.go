package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The image as buildah makes it: without a daemon and without a network. Its builder stage would have to be
// fetched, so its commands run on this machine's Go, and the final stage is the Dockerfile's own.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: the container image. The program is built for it")
	}
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skip("NOT RUN: the container image. There is no buildah in PATH (Debian: apt-get install buildah, as root)")
	}
	build, final := stages(t)
	store := t.TempDir()
	buildah := func(args ...string) (string, error) {
		return command(t, []string{"HOME=" + store}, "buildah", append([]string{"--root", store + "/root", "--runroot", store + "/run", "--storage-driver", "vfs"}, args...)...)
	}
	context := t.TempDir()
	image := filepath.Join(context, "image")
	script := strings.ReplaceAll(build, "/image", image)
	if _, err := os.Stat("/etc/ssl/certs/ca-certificates.crt"); err != nil {
		t.Skip("NOT RUN: the container image. There is no /etc/ssl/certs/ca-certificates.crt (Debian: ca-certificates)")
	}
	if os.Getuid() != 0 {
		t.Skip("NOT RUN: the container image. Its files belong to another user, which root alone can make")
	}
	if out, err := command(t, []string{"VERSION=v0.1.0-test", "REVISION=0123456789abcdef", "DATE=2026-01-02T03:04:05Z"}, "bash", "-ec", script); err != nil {
		t.Fatalf("the commands of the builder stage: %v\n%s", err, out)
	}
	file := filepath.Join(context, "Dockerfile")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(final, "COPY --from=build ", "COPY ")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := buildah("bud", "--isolation", "chroot", "--build-arg", "VERSION=v0.1.0-test", "--format", "docker", "-t", "parley", "-f", file, context); err != nil {
		if strings.Contains(out, "operation not permitted") { // a container without the right to mount
			t.Skipf("NOT RUN: the container image. buildah may not work here: %s", lastLine(out))
		}
		t.Fatalf("buildah bud: %v\n%s", err, out)
	}
	defer func() { _, _ = buildah("rm", "--all") }()

	out, err := buildah("inspect", "--type", "image", "parley")
	var is struct {
		Docker struct {
			Config struct {
				User, WorkingDir     string
				Env, Entrypoint, Cmd []string
				Volumes              map[string]any
				ExposedPorts         map[string]any
				Labels               map[string]string
				Healthcheck          struct{ Test []string }
			} `json:"config"`
		}
	}
	if err != nil || json.Unmarshal([]byte(out), &is) != nil {
		t.Fatalf("buildah inspect: %v\n%s", err, out)
	}
	c := is.Docker.Config
	_, volume := c.Volumes["/data"]
	_, port := c.ExposedPorts["8080/tcp"]
	if c.User != "65532:65532" || !volume || !port || !slices.Equal(c.Entrypoint, []string{"/usr/local/bin/parley"}) || !slices.Equal(c.Cmd, []string{"serve"}) ||
		!slices.Equal(c.Healthcheck.Test, []string{"CMD", "/usr/local/bin/parley", "health"}) || c.Labels["org.opencontainers.image.version"] != "v0.1.0-test" {
		t.Errorf("the image is %+v", c)
	}

	from, err := buildah("from", "parley")
	if err != nil {
		t.Skipf("NOT RUN: a container of the image. buildah may not work here: %s", lastLine(from))
	}
	container := lastLine(from)
	run := func(args ...string) (string, error) {
		return buildah(append([]string{"run", "--isolation", "chroot", container, "--", "/usr/local/bin/parley"}, args...)...)
	}
	if out, err := run("version"); err != nil || !strings.Contains(out, "parley v0.1.0-test commit 0123456789ab of 2026-01-02T03:04:05Z") {
		t.Fatalf("the program in the image: %v\n%s", err, out)
	}
	if out, err := run("doctor", "--listen", "0.0.0.0:0", "--offline"); err != nil || !strings.Contains(out, "ok  data          /data/parley") {
		t.Errorf("doctor in the image: %v\n%s", err, out)
	}
	if out, err := run("key", "create", "--user", "me"); err != nil || !strings.Contains(out, "parley_") {
		t.Errorf("the first key in the image: %v\n%s", err, out)
	}
	if out, err := run("health", "--timeout", "1s"); err == nil || !strings.Contains(out, "http://127.0.0.1:8080 does not answer") {
		t.Errorf("the image's own health check where no server runs: %v\n%s", err, out)
	}
}

// stages are the commands of the Dockerfile's builder stage, and its final stage.
func stages(t *testing.T) (build, final string) {
	t.Helper()
	text := read(t, root, "Dockerfile")
	before, final, ok := strings.Cut(text, "\nFROM scratch\n")
	_, build, found := strings.Cut(before, "\nRUN CGO_ENABLED=0")
	if !ok || !found || strings.Contains(final, "\nRUN ") || strings.Contains(final, "\nFROM ") {
		t.Fatal("the Dockerfile is not a builder stage, and a final one from scratch without a command")
	}
	return "CGO_ENABLED=0" + build, "FROM scratch\n" + final
}

// What does not need buildah: that a change of the configuration leaves the image one that starts.
func TestDockerfile(t *testing.T) {
	build, final := stages(t)
	for _, want := range []string{
		"\nUSER 65532:65532\n", "\nVOLUME /data\n", "\nEXPOSE 8080\n", "PARLEY_AUTH_MODE=keys", "PARLEY_LISTEN=0.0.0.0:8080", "PARLEY_DATA=/data/parley ", "--chown=65532:65532",
		`CMD ["/usr/local/bin/parley", "health"]`, "org.opencontainers.image.licenses=\"Apache-2.0\"",
	} {
		if !strings.Contains(final, want) {
			t.Errorf("the final stage has no %q", want)
		}
	}
	for _, want := range []string{"ca-certificates.crt", "lib/time", "-trimpath"} {
		if !strings.Contains(build, want) {
			t.Errorf("the builder stage has no %q", want)
		}
	}
	if want, _, _ := strings.Cut(strings.SplitAfter(read(t, root, "go.mod"), "\ngo ")[1], "\n"); !strings.Contains(read(t, root, "Dockerfile"), "ARG BUILDER=golang:"+want+"-") {
		t.Errorf("the builder is not of Go %s, which go.mod names", want)
	}
	if engine := exec.CommandContext(t.Context(), "docker", "info"); engine.Run() != nil {
		t.Log("NOT RUN: docker build of the Dockerfile as it is. There is no docker engine")
		return
	}
	if os.Getenv("PARLEY_DOCKER") == "" {
		t.Log("NOT RUN: docker build of the Dockerfile as it is. It fetches its builder: PARLEY_DOCKER=1 runs it")
		return
	}
	if out, err := command(t, nil, "docker", "build", "-t", "parley:test", "."); err != nil {
		t.Errorf("docker build: %v\n%s", err, out)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
