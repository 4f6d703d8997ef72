package shared

import (
	"context"
	"encoding/json"
	"time"

	"parley/conversation"
	"parley/tools/mcp"
)

// Follow learns the tools of the server, as long as ctx lasts: those that it has, and those
// that it gets or brings with it when it moves.
func (s *Single) Follow(ctx context.Context) {
	known := ""
	for ctx.Err() == nil {
		began := time.Now()
		list := s.ask(ctx, known)
		if list != nil && list.Version != known {
			s.learn(list)
			known = list.Version
		}
		if list == nil || time.Since(began) < askPause { // a server may change its tools all the time
			pause := time.NewTimer(askPause)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			pause.Stop()
		}
	}
}

// Learned is closed when the tools have been learned for the first time.
func (s *Single) Learned() <-chan struct{} { return s.learned }

// ask asks for the tools; nil = nobody has said.
func (s *Single) ask(ctx context.Context, known string) *listed {
	out, err := s.o.Ask(ctx, encode(request{List: &listAsked{known}}), askWait, func(context.Context, []byte) ([]byte, error) { return nil, nil })
	var a answer
	if err != nil || json.Unmarshal(out, &a) != nil {
		return nil
	}
	return a.List
}

// learn lets tools join that were never seen. Those that were seen keep their meaning.
func (s *Single) learn(list *listed) {
	defer s.once.Do(func() { close(s.learned) })
	var tools []conversation.Tool
	var names []string
	for i := range list.Tools {
		shown := &list.Tools[i]
		if s.seen[shown.Name] {
			continue
		}
		check, err := mcp.Checker(shown.Schema, s.o.MCP.Limits.Schema)
		if err != nil {
			s.say(shown.Name, err)
			continue
		}
		tools = append(tools, &remote{s, shown.spec(), check})
		names = append(names, shown.Name)
	}
	if len(tools) == 0 {
		return
	}
	if err := s.o.Join(tools); err != nil {
		for _, name := range names {
			s.say(name, err)
		}
		return
	}
	for _, name := range names {
		s.seen[name] = true
	}
	s.log.Info("tools of an MCP server that one node runs have joined", "tools", names)
}

// say says once why a tool cannot be used.
func (s *Single) say(tool string, why error) {
	if !s.refused[tool] {
		s.refused[tool] = true
		s.log.Warn("a tool of an MCP server cannot be used", "tool", tool, "reason", why)
	}
}
