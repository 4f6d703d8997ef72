package command

import (
	"maps"
	"slices"
	"strings"
)

// environment makes the agent's environment of the server's: without what is another's
// secret, and with its own variables.
func (o *Options) environment(servers []string) []string {
	env := slices.DeleteFunc(slices.Clone(servers), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, own := o.Env[name]
		return own || slices.Contains(o.Withhold, name)
	})
	for _, name := range slices.Sorted(maps.Keys(o.Env)) {
		env = append(env, name+"="+o.Env[name])
	}
	return env
}
