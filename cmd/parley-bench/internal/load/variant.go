package load

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// A variant is one of the servers that a run measures side by side: a program with
// settings and an environment.
type variant struct {
	name, path string
	set, env   []string
}

func (v variant) start(data string, set ...string) (*Server, error) {
	return Launch{Path: v.path, Data: data, Env: v.env, Set: slices.Concat(v.set, set)}.Start()
}

// StartVariant starts a server (built if path is "") with the settings and environment
// of a --variant, or "". cleanup removes the program if it was built.
func StartVariant(path, text, data string, set ...string) (s *Server, cleanup func(), err error) {
	var more []string
	if text != "" {
		more = []string{text}
	}
	all, cleanup, err := variantsOf([]string{path}, more)
	if err != nil {
		return nil, nil, err
	}
	if s, err = all[len(all)-1].start(data, set...); err != nil {
		cleanup()
		return nil, nil, err
	}
	return s, cleanup, nil
}

// variantsOf reads what the flags --server and --variant say. Each server is a
// variant; with --variant there is one more of each server for each of them. The
// programs that it had to build are removed by cleanup.
func variantsOf(servers, more []string) (all []variant, cleanup func(), err error) {
	cleanup = func() {}
	if len(servers) == 0 {
		servers = []string{""}
	}
	for i, s := range servers {
		name, path, named := strings.Cut(s, "=")
		if !named {
			name, path = "parley", s
			if i > 0 {
				name = fmt.Sprintf("parley%d", i+1)
			}
		}
		built, remove, err := BuildServer(path)
		if err != nil {
			cleanup()
			return nil, func() {}, err
		}
		before := cleanup
		cleanup = func() { before(); remove() }
		if _, err := os.Stat(built); err != nil {
			cleanup()
			return nil, func() {}, fmt.Errorf("the server %q: %w", name, err)
		}
		all = append(all, variant{name: name, path: built})
	}
	for _, server := range slices.Clone(all) {
		for _, text := range more {
			v, err := server.with(text)
			if err != nil {
				cleanup()
				return nil, func() {}, err
			}
			if len(servers) > 1 {
				v.name = server.name + " " + v.name
			}
			all = append(all, v)
		}
	}
	for i, v := range all {
		if slices.ContainsFunc(all[:i], func(before variant) bool { return before.name == v.name }) {
			cleanup()
			return nil, func() {}, fmt.Errorf("two servers are called %q: their figures would be taken for one's", v.name)
		}
	}
	return all, cleanup, nil
}

// with is the same program with "NAME:key=value,VARIABLE=value": names with a small
// letter are settings, the others are of the environment.
func (v variant) with(text string) (variant, error) {
	name, values, found := strings.Cut(text, ":")
	if !found || name == "" || values == "" {
		return v, fmt.Errorf("--variant %q: write NAME:key=value,VARIABLE=value", text)
	}
	v.name = name
	for kv := range strings.SplitSeq(values, ",") {
		key, _, found := strings.Cut(kv, "=")
		switch {
		case !found || key == "":
			return v, fmt.Errorf("--variant %q: %q is no key=value", text, kv)
		case key == strings.ToUpper(key):
			v.env = append(slices.Clone(v.env), kv)
		default:
			v.set = append(slices.Clone(v.set), kv)
		}
	}
	return v, nil
}
