package assemble

import (
	"log/slog"

	"parley/cmd/parley/internal/config"
	"parley/gateway"
	"parley/gateway/auth"
)

// SignIn makes what knows who clients are, by auth.mode. keys is it once more if it holds
// keys, reload reads again what it has read; both may be nil.
func SignIn(c *config.Config, look config.Lookup, log *slog.Logger) (in gateway.Authenticator, keys *auth.Keys, reload func() error, err error) {
	resolve := func(reference string) (string, error) { return config.Fill(reference, look) }
	switch c.Auth.Mode {
	case auth.ModeKeys:
		keys, err = auth.NewKeys(c.Auth.Keys, c.KeysFile(), resolve, log)
		if err != nil {
			return nil, nil, nil, err
		}
		return keys, keys, keys.Reload, nil
	case auth.ModeJWT:
		j, err := auth.NewJWT(c.Auth, resolve, log)
		if err != nil {
			return nil, nil, nil, err
		}
		return j, nil, j.Reload, nil
	case auth.ModeProxy:
		return auth.NewProxy(c.Auth), nil, nil, nil
	}
	return gateway.NoAuth{}, nil, nil, nil
}
