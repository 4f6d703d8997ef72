package config_test

import (
	"strings"
	"testing"

	"parley/cmd/parley/internal/config"
)

// Settings of a cluster that make no sense are refused by the key that is wrong.
func TestClustersThatMakeNoSense(t *testing.T) {
	const db, port, open = "store.postgres=env:DB", "cluster.listen=10.0.0.1:7950", "cluster.insecure=true"
	tests := map[string]struct {
		set []string
		key string // "" = it is right
	}{
		"a cluster":                         {[]string{db, port, open}, ""},
		"a cluster with certificates":       {[]string{db, port, "cluster.tls_cert=c", "cluster.tls_key=k", "cluster.tls_ca=a"}, ""},
		"one node on a database":            {[]string{db}, ""},
		"every address, and a name":         {[]string{db, open, "cluster.listen=:7950", "cluster.advertise=n1:7950"}, ""},
		"every address":                     {[]string{db, open, "cluster.listen=0.0.0.0:7950"}, "cluster.advertise"},
		"told to come to every address":     {[]string{db, port, open, "cluster.advertise=0.0.0.0:7950"}, "cluster.advertise"},
		"told to come to no host":           {[]string{db, port, open, "cluster.advertise=:7950"}, "cluster.advertise"},
		"told to come to every one of IPv6": {[]string{db, port, open, "cluster.advertise=[::]:7950"}, "cluster.advertise"},
		"no port":                           {[]string{db, open, "cluster.listen=10.0.0.1"}, "cluster.listen"},
		"no database":                       {[]string{port, open}, "cluster.listen"},
		"in memory":                         {[]string{db, "memory.mode=ephemeral"}, "memory.mode"},
		"a gateway that is alone":           {[]string{db, "cluster.gateway_only=true"}, "cluster.gateway_only"},
		"no certificates, and not said":     {[]string{db, port}, "cluster.insecure"},
		"certificates, and without":         {[]string{db, port, open, "cluster.tls_cert=c", "cluster.tls_key=k", "cluster.tls_ca=a"}, "cluster.insecure"},
		"a certificate without its signers": {[]string{db, port, "cluster.tls_cert=c", "cluster.tls_key=k"}, "cluster.tls_cert"},
		"a name with spaces":                {[]string{db, port, open, "cluster.name=a b"}, "cluster.name"},
		"a node with a slash":               {[]string{db, port, open, "cluster.node=a/b"}, "cluster.node"},
		"a lease of nothing":                {[]string{db, port, open, "cluster.lease=1ms"}, "cluster.lease"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(config.Sources{Set: tt.set})
			if tt.key == "" && err != nil {
				t.Error(err)
			}
			if tt.key != "" && (err == nil || !strings.Contains(err.Error(), tt.key+":") && !strings.Contains(err.Error(), tt.key+" ")) {
				t.Errorf("%v, want a complaint about %s", err, tt.key)
			}
		})
	}
}

// A node is called by its setting, else by its host and port; the password of a database
// is not shown.
func TestNamesAndSecretsOfNodes(t *testing.T) {
	c, err := config.Load(config.Sources{Set: []string{"store.postgres=postgres://u:HIDDEN@h/db", "cluster.listen=127.0.0.1:7950", "cluster.insecure=true"}})
	if err != nil {
		t.Fatal(err)
	}
	if name := c.NodeName(); !strings.HasSuffix(name, ":7950") || strings.HasPrefix(name, ":") {
		t.Errorf("it is called %q", name)
	}
	var out strings.Builder
	if err := config.Print(&out, c); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "HIDDEN") {
		t.Errorf("config print shows the password:\n%s", out.String())
	}
	shown := strings.Join(config.ShownArgs([]string{"serve", "--set", "store.postgres=postgres://u:HIDDEN@h/db", "--set=store.postgres=host=h password=HIDDEN"}), " ")
	if strings.Contains(shown, "HIDDEN") {
		t.Errorf("the command line is shown as %s", shown)
	}
	c.Cluster.Node = "n1"
	if c.NodeName() != "n1" {
		t.Errorf("it is called %q", c.NodeName())
	}
}
