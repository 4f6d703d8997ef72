// Package deploy holds no code: what people install parley with, and the tests of it. The
// systemd unit, the Helm chart, what Prometheus and Grafana of compose.yaml read; the
// Dockerfile and compose.yaml stand at the root, .ci/release makes the archives.
package deploy
