package assemble

import (
	"crypto/tls"
	"log/slog"

	"parley/actors/cluster"
	"parley/cmd/parley/internal/config"
	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/conversation/member"
	"parley/metrics"
	"parley/persistence/postgres"
)

// Shared makes the options of a store that several nodes share.
func Shared(c *config.Config, dsn string, log *slog.Logger, m *metrics.Persistence) store.SharedOptions {
	return store.SharedOptions{
		Migrate: c.Shared.Migrate, Cluster: c.Cluster.Name,
		StoreOptions: postgres.StoreOptions{
			DSN: dsn, Logger: log, Metrics: m, Patience: c.Shared.Patience, Connections: c.Shared.Connections,
			SessionsPerTenant: c.Store.SessionsPerTenant, StoredBytesPerTenant: c.Store.StoredBytesPerTenant,
		},
	}
}

// Cluster makes the options of this node. Its certificates are read, and read again when their
// files have changed.
func Cluster(c *config.Config, version string, log *slog.Logger) (cluster.Options, error) {
	var certificates *tls.Config // nil = there are none
	if o := c.Cluster; o.Cert != "" {
		var err error
		if certificates, err = cluster.Certificates(o.Cert, o.Key, o.CA, log); err != nil {
			return cluster.Options{}, err
		}
	}
	return cluster.Options{
		Name: c.Cluster.Name, Node: conversation.NodeID(c.NodeName()), Listen: c.Cluster.Listen, Advertise: c.Cluster.Advertise,
		Lease: c.Cluster.Lease, TLS: certificates, GatewayOnly: c.Cluster.GatewayOnly, Version: version, Feature: member.Newest,
		RequestTimeout: c.Gateway.Times.Request,
	}, nil
}
