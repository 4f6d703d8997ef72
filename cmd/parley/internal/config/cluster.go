package config

import (
	"net"
	"os"
	"regexp"
	"time"
)

// SharedStore is about a store that several nodes share: a PostgreSQL in the place of data.
type SharedStore struct {
	Postgres    string        `key:"store.postgres" secret:"inline"`        // its DSN, or where that is; "" = there is none
	Migrate     bool          `key:"store.migrate"`                         // a node makes and upgrades the tables when it starts
	Connections int           `key:"store.connections" min:"4" max:"10000"` // of this node, at most
	Patience    time.Duration `key:"store.patience" min:"100ms" max:"10m"`  // how long a statement is tried while the database does not answer
}

// Cluster is about this process as one of several nodes.
type Cluster struct {
	Listen      string        `key:"cluster.listen"`                      // host:port for the other nodes; "" = there are none
	Advertise   string        `key:"cluster.advertise"`                   // host:port where they reach it; "" = Listen
	Name        string        `key:"cluster.name"`                        // of the cluster: one database may have several
	Node        string        `key:"cluster.node"`                        // of this node; "" = its host's name and the port
	Lease       time.Duration `key:"cluster.lease" min:"500ms" max:"10m"` // a node that is silent for so long is taken for dead
	Cert        string        `key:"cluster.tls_cert"`                    // a PEM file: what this node shows to the others
	Key         string        `key:"cluster.tls_key"`                     // its key
	CA          string        `key:"cluster.tls_ca"`                      // who signs for the nodes
	Insecure    bool          `key:"cluster.insecure"`                    // the nodes talk without TLS, and believe whoever reaches the port
	GatewayOnly bool          `key:"cluster.gateway_only"`                // it serves clients, and runs no sessions
}

// defaultShared is for someone who names a database and says nothing more.
func defaultShared() SharedStore {
	return SharedStore{Migrate: true, Connections: 8, Patience: 10 * time.Second}
}

// defaultCluster is that of someone who says nothing.
func defaultCluster() Cluster { return Cluster{Name: "parley", Lease: 5 * time.Second} }

// Clustered is true for a node that has others beside it.
func (c *Config) Clustered() bool { return c.Cluster.Listen != "" }

// nodeName is what a node or a cluster may be called: it stands in logs and metrics.
var nodeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// cluster complains about a shared store and a cluster that make no sense.
func (l *loader) cluster(c *Config) {
	l.references(c.Shared.Postgres)
	if where := l.origin["store.postgres"]; where.line > 0 {
		c.Shared.Postgres = filesBeside(where, c.Shared.Postgres)
	}
	for key, path := range map[string]*string{"cluster.tls_cert": &c.Cluster.Cert, "cluster.tls_key": &c.Cluster.Key, "cluster.tls_ca": &c.Cluster.CA} {
		if where := l.origin[key]; where.line > 0 && *path != "" {
			*path = beside(where, *path)
		}
	}
	o := c.Cluster
	if c.Shared.Postgres != "" && c.Ephemeral() {
		l.wrong("memory.mode", `must be "durable" with store.postgres: the database keeps everything`)
	}
	if !nodeName.MatchString(o.Name) {
		l.wrong("cluster.name", "must be 1 to 128 letters, digits and . _ : -")
	}
	if o.Node != "" && !nodeName.MatchString(o.Node) {
		l.wrong("cluster.node", "must be 1 to 128 letters, digits and . _ : -")
	}
	if o.Listen == "" {
		if o.GatewayOnly {
			l.wrong("cluster.gateway_only", "needs cluster.listen: without other nodes nobody would run the sessions")
		}
		return
	}
	if c.Shared.Postgres == "" {
		l.wrong("cluster.listen", "needs store.postgres: nodes share their sessions in a PostgreSQL")
	}
	for key, addr := range map[string]string{"cluster.listen": o.Listen, "cluster.advertise": o.Advertise} {
		if _, _, err := net.SplitHostPort(addr); err != nil && addr != "" {
			l.wrong(key, `must be an address such as "10.0.0.1:7950"`)
		}
	}
	switch {
	case o.Advertise == "" && everyAddress(o.Listen):
		l.wrong("cluster.advertise", "must say where the other nodes reach this one, because cluster.listen is every address")
	case everyAddress(o.Advertise):
		l.wrong("cluster.advertise", "must say where the other nodes reach this one, and is every address")
	}
	switch files := o.Cert != "" || o.Key != "" || o.CA != ""; {
	case files && (o.Cert == "" || o.Key == "" || o.CA == ""):
		l.wrong("cluster.tls_cert", "cluster.tls_cert, cluster.tls_key and cluster.tls_ca belong together: nodes prove to each other who they are")
	case files && o.Insecure:
		l.wrong("cluster.insecure", "must be false with cluster.tls_cert")
	case !files && !o.Insecure:
		l.wrong("cluster.insecure", "must be true without cluster.tls_cert, cluster.tls_key and cluster.tls_ca: whoever reaches the port could say anything in any user's name; "+
			"say it only where nobody else reaches that port")
	}
}

// everyAddress says whether an address has no host, or one that means all of a machine.
func everyAddress(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && (host == "" || net.ParseIP(host).IsUnspecified())
}

// DSN reads where the database is.
func (c *Config) DSN(look Lookup) (string, error) { return Fill(c.Shared.Postgres, look) }

// NodeName is what this node is called.
func (c *Config) NodeName() string {
	switch {
	case c.Cluster.Node != "":
		return c.Cluster.Node
	case c.Shared.Postgres == "":
		return "local"
	}
	host, err := os.Hostname()
	if err != nil || !nodeName.MatchString(host) {
		host = "node"
	}
	if _, port, err := net.SplitHostPort(c.Cluster.Listen); err == nil {
		host += ":" + port
	}
	return host
}
