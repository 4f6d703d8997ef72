package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oasdiff/yaml"
)

// manifest is what the tests look at of one.
type manifest struct {
	APIVersion, Kind string
	Metadata         struct {
		Name   string
		Labels map[string]string
	}
	Data map[string]string
	Spec struct {
		Replicas       int
		MaxUnavailable int
		ServiceName    string
		ClusterIP      string
		Rules, Groups  []any
		Ingress        []struct {
			Ports []struct{ Port any }
			From  []any
		}
		Endpoints            []struct{ Authorization any }
		VolumeClaimTemplates []any
		Template             struct{ Spec podSpec }
	}
}

type podSpec struct {
	Grace           int            `json:"terminationGracePeriodSeconds"`
	ServiceLinks    *bool          `json:"enableServiceLinks"`
	Token           *bool          `json:"automountServiceAccountToken"`
	SecurityContext map[string]any `json:"securityContext"`
	Affinity        map[string]any
	Containers      []struct {
		Image string
		Env   []struct {
			Name, Value string
			ValueFrom   map[string]any
		}
		Startup   probe          `json:"startupProbe"`
		Liveness  probe          `json:"livenessProbe"`
		Readiness probe          `json:"readinessProbe"`
		Lifecycle map[string]any `json:"lifecycle"`
		Security  map[string]any `json:"securityContext"`
		Resources map[string]any
	}
}

type probe struct {
	HTTPGet struct {
		Path string
		Port any
	}
}

// chart is the packed chart, and helm, once for all tests of it.
type chart struct {
	t    *testing.T
	dir  string
	helm string
}

func newChart(t *testing.T) chart {
	t.Helper()
	out := t.TempDir()
	if text, err := command(t, []string{"OUT=" + out, "VERSION=v0.1.0"}, "bash", ".ci/chart"); err != nil {
		t.Fatalf(".ci/chart: %v\n%s", err, text)
	}
	if len(glob(t, out, "parley-0.1.0.tgz")) != 1 {
		t.Error("the chart was not packed")
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(out, "helm"), "helm.sh/helm/v4/cmd/helm")
	build.Dir = filepath.Join(root, ".ci", "helm")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("helm, by .ci/helm: %v\n%s", err, text)
	}
	return chart{t: t, dir: filepath.Join(out, "chart", "parley"), helm: filepath.Join(out, "helm")}
}

// run runs helm, away from what a user of this machine has set up.
func (c chart) run(args ...string) (string, error) {
	home := c.t.TempDir()
	return command(c.t, []string{"HOME=" + home, "HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home, "KUBECONFIG=" + home + "/none"}, c.helm, args...)
}

// rendered lints and renders the chart with a file of values, and holds it against the types of Kubernetes.
func (c chart) rendered(values string) []manifest {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "values.yaml")
	if err := os.WriteFile(path, []byte(values), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if out, err := c.run("lint", "--strict", c.dir, "-f", path); err != nil {
		c.t.Fatalf("helm lint: %v\n%s", err, out)
	}
	out, err := c.run("template", "chat", c.dir, "--namespace", "talk", "-f", path)
	if err != nil {
		c.t.Fatalf("helm template: %v\n%s", err, out)
	}
	check := exec.CommandContext(c.t.Context(), "go", "run", "./check")
	check.Dir, check.Stdin = filepath.Join(root, ".ci", "helm"), strings.NewReader(out)
	if text, err := check.CombinedOutput(); err != nil {
		c.t.Errorf("the types of Kubernetes do not take what is rendered: %v\n%s", err, text)
	}
	var all []manifest
	for _, document := range strings.Split("\n"+out, "\n---") {
		if !strings.Contains(document, "\nkind:") {
			continue
		}
		var m manifest
		if _, err := yaml.Unmarshal([]byte(document), &m, yaml.DecodeOpts{}); err != nil {
			c.t.Fatalf("%v in\n%s", err, document)
		}
		all = append(all, m)
	}
	return all
}

// refused is the sentence with which the chart refuses values.
func (c chart) refused(set string) string {
	c.t.Helper()
	out, err := c.run("template", "chat", c.dir, "--set-json", set)
	if err == nil {
		c.t.Errorf("the chart takes %s", set)
	}
	return out
}

func of(t *testing.T, all []manifest, kind string) []manifest {
	t.Helper()
	var found []manifest
	for _, m := range all {
		if m.Kind == kind {
			found = append(found, m)
		}
	}
	return found
}

// pod is the one pod that is rendered, after a look at what every form of it has.
func pod(t *testing.T, all []manifest) podSpec {
	t.Helper()
	sets := of(t, all, "StatefulSet")
	if len(sets) != 1 || len(sets[0].Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%d StatefulSets", len(sets))
	}
	p := sets[0].Spec.Template.Spec
	c := p.Containers[0]
	if c.Startup.HTTPGet.Path != "/livez" || c.Liveness.HTTPGet.Path != "/livez" || c.Readiness.HTTPGet.Path != "/readyz" {
		t.Errorf("the probes are %+v, %+v, %+v", c.Startup, c.Liveness, c.Readiness)
	}
	if p.Grace < 10+15+15 || c.Lifecycle["preStop"] == nil {
		t.Errorf("a pod's end is given %d s after %v", p.Grace, c.Lifecycle)
	}
	if p.SecurityContext["runAsNonRoot"] != true || c.Security["readOnlyRootFilesystem"] != true || c.Security["allowPrivilegeEscalation"] != false || p.Token == nil || *p.Token {
		t.Errorf("the pod may too much: %v, %v", p.SecurityContext, c.Security)
	}
	if p.ServiceLinks == nil || *p.ServiceLinks { // PARLEY_PORT of a service is no key, and the server would not start
		t.Error("the variables of services look like keys of the configuration")
	}
	if c.Resources["requests"] == nil || p.Affinity["podAntiAffinity"] == nil {
		t.Errorf("no resources or no affinity: %v, %v", c.Resources, p.Affinity)
	}
	for _, m := range of(t, all, "ConfigMap") {
		for key, text := range m.Data {
			if strings.Contains(text, "secret-value") || strings.Contains(text, "postgres://") {
				t.Errorf("a secret stands in the ConfigMap %s, %s", m.Metadata.Name, key)
			}
		}
	}
	return p
}

// variables are those of the pod; one from elsewhere has where it is from as JSON.
func variables(t *testing.T, p podSpec) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, e := range p.Containers[0].Env {
		if _, twice := all[e.Name]; twice {
			t.Errorf("the variable %s is there twice", e.Name)
		}
		all[e.Name] = e.Value
		if e.ValueFrom != nil {
			text, err := json.Marshal(e.ValueFrom)
			if err != nil {
				t.Fatal(err)
			}
			all[e.Name] = string(text)
		}
	}
	return all
}

// What Helm makes of the chart for one node, for several, and with everything that can be switched on.
// The program itself takes the configuration that the pod would have.
func TestHelmChart(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: the Helm chart. helm is built for it, which takes minutes the first time")
	}
	c := newChart(t)
	t.Run("one node", func(t *testing.T) {
		all := c.rendered("")
		p := pod(t, all)
		set := of(t, all, "StatefulSet")[0]
		if set.Spec.Replicas != 1 || len(set.Spec.VolumeClaimTemplates) != 1 || p.Containers[0].Image != "parley:v0.1.0" {
			t.Errorf("%d replicas of %s with %d volumes", set.Spec.Replicas, p.Containers[0].Image, len(set.Spec.VolumeClaimTemplates))
		}
		if v := variables(t, p); v["PARLEY_DATA"] != "/data/parley" || v["PARLEY_CLUSTER_LISTEN"] != "" || v["PARLEY_STORE_POSTGRES"] != "" || v["PARLEY_ADMIN_LISTEN"] != "" {
			t.Errorf("its variables are %v", v)
		}
		if len(of(t, all, "PodDisruptionBudget")) != 0 {
			t.Error("a budget of one would hold up every drain of its machine")
		}
		starts(t, p, nil)
	})
	const cluster = `
replicas: 3
postgres: {secret: db}
cluster: {tlsSecret: nodes}
auth: {keysSecret: keys}
drainSeconds: 60
`
	t.Run("several", func(t *testing.T) {
		all := c.rendered(cluster)
		p := pod(t, all)
		v := variables(t, p)
		if v["PARLEY_STORE_POSTGRES"] != "env:DATABASE_URL" || !strings.Contains(v["DATABASE_URL"], `"name":"db"`) || v["PARLEY_CLUSTER_NODE"] != "$(POD_NAME)" ||
			v["PARLEY_CLUSTER_ADVERTISE"] != "$(POD_NAME).chat-parley-nodes:7950" || v["PARLEY_AUTH_KEYS_FILE"] == "" || v["PARLEY_DRAIN_TIMEOUT"] != "60s" {
			t.Errorf("its variables are %v", v)
		}
		if p.Grace < 3+60+15+15 {
			t.Errorf("a drain of 60 s has %d s", p.Grace)
		}
		headless := slices.ContainsFunc(of(t, all, "Service"), func(m manifest) bool {
			return m.Metadata.Name == of(t, all, "StatefulSet")[0].Spec.ServiceName && m.Spec.ClusterIP == "None"
		})
		budgets := of(t, all, "PodDisruptionBudget")
		if !headless || len(budgets) != 1 || budgets[0].Spec.MaxUnavailable != 1 {
			t.Errorf("headless %t, %d budgets", headless, len(budgets))
		}
		nodes := 0
		for _, rule := range of(t, all, "NetworkPolicy")[0].Spec.Ingress {
			if rule.Ports[0].Port == "nodes" && len(rule.From) == 1 {
				nodes++
			}
		}
		if nodes != 1 {
			t.Error("others than the nodes reach the port of the nodes")
		}
		starts(t, p, map[string]string{"DATABASE_URL": "postgres://secret-value@db/parley"})
	})
	t.Run("everything", func(t *testing.T) {
		boards, rules := glob(t, root, "metrics", "grafana", "*.json"), glob(t, root, "metrics", "prometheus", "*.yml")
		all := c.rendered(cluster + `
config: |
  [inbox]
  mode = "queue"
secretEnv: {OPENAI_API_KEY: {secret: models, key: openai}}
env: [{name: PARLEY_LOG_LEVEL, value: debug}]
ingress: {enabled: true, className: nginx, host: chat.example.org, tlsSecret: web, trustedProxies: [10.0.0.0/8, 10.1.0.0/16]}
networkPolicy: {from: [{podSelector: {}}], metricsFrom: [{namespaceSelector: {matchLabels: {a: b}}}]}
persistence: {enabled: false}
service: {type: LoadBalancer, port: 8080}
imagePullSecrets: [{name: registry}]
priorityClassName: high
nodeSelector: {disk: fast}
tolerations: [{operator: Exists}]
podLabels: {team: chat}
podAnnotations: {a: b}
metrics: {enabled: true, keySecret: scrape, serviceMonitor: {enabled: true}, rules: {enabled: true, labels: {release: prometheus}}, dashboards: {enabled: true}}
`)
		p := pod(t, all)
		v := variables(t, p)
		if v["PARLEY_GATEWAY_PUBLIC_HOSTS"] != "https://chat.example.org" || v["PARLEY_GATEWAY_TRUSTED_PROXIES"] != "10.0.0.0/8,10.1.0.0/16" || v["PARLEY_ADMIN_INSECURE"] != "false" || !strings.Contains(v["OPENAI_API_KEY"], `"key":"openai"`) {
			t.Errorf("its variables are %v", v)
		}
		if probes := p.Containers[0].Readiness.HTTPGet.Port; probes != "admin" {
			t.Errorf("probes ask the port %v, which clients may fill", probes)
		}
		monitors := of(t, all, "ServiceMonitor")
		if len(monitors) != 1 || monitors[0].Spec.Endpoints[0].Authorization == nil || len(of(t, all, "Ingress")) != 1 {
			t.Errorf("the ServiceMonitor is %+v", monitors)
		}
		if got := of(t, all, "PrometheusRule"); len(got) != len(rules) || slices.ContainsFunc(got, func(m manifest) bool { return len(m.Spec.Groups) == 0 }) {
			t.Errorf("%d PrometheusRules of %d files", len(got), len(rules))
		}
		found := 0
		for _, m := range of(t, all, "ConfigMap") {
			for name, text := range m.Data {
				if m.Metadata.Labels["grafana_dashboard"] == "1" && text == read(t, root, "metrics", "grafana", name) {
					found++
				}
			}
		}
		if found != len(boards) {
			t.Errorf("%d of %d dashboards are ConfigMaps", found, len(boards))
		}
		starts(t, p, map[string]string{"DATABASE_URL": "postgres://secret-value@db/parley", "OPENAI_API_KEY": "secret-value"})
	})
	t.Run("refused", func(t *testing.T) {
		for set, want := range map[string]string{
			`replicas=3`:                          "replicas is more than 1 without postgres.secret",
			`replicas=3,postgres={"secret":"db"}`: "without cluster.tlsSecret",
			`replicas=3,postgres={"secret":"db"},cluster={"insecure":true}`: "without auth.keysSecret",
			`metrics={"enabled":true}`:                                      "metrics.enabled needs metrics.keySecret",
			`metrics={"serviceMonitor":{"enabled":true}}`:                   "needs metrics.enabled",
			`ingress={"enabled":true}`:                                      "needs ingress.host",
			`config="[store]\npostgres = \"postgres://u:p@db/x\""`:          "config holds a secret",
			`auth={"mode":"none"}`:                                          "auth/mode",
			`replica=3`:                                                     "replica",
		} {
			if out := c.refused(set); !strings.Contains(out, want) {
				t.Errorf("%s is refused with %s, want %q", set, out, want)
			}
		}
	})
}

// starts lets the program check the configuration that the pod's variables make.
func starts(t *testing.T, p podSpec, from map[string]string) {
	t.Helper()
	environment := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GOCACHE=" + goEnv(t, "GOCACHE"), "GOMODCACHE=" + goEnv(t, "GOMODCACHE"), "GOFLAGS=-buildvcs=false", "POD_NAME=chat-parley-0"}
	for _, e := range p.Containers[0].Env {
		switch {
		case e.ValueFrom == nil && e.Name != "POD_NAME":
			environment = append(environment, e.Name+"="+strings.ReplaceAll(e.Value, "$(POD_NAME)", "chat-parley-0"))
		case from[e.Name] != "":
			environment = append(environment, e.Name+"="+from[e.Name])
		}
	}
	check := exec.CommandContext(t.Context(), "go", "run", "./cmd/parley", "config", "check")
	check.Dir, check.Env = root, environment
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("the program does not take the pod's variables: %v\n%s\n%q", err, out, environment)
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
