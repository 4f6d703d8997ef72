// Package policy holds what a machine is configured with: the policies where the
// requirements leave a choice (docs/POLICIES.md), the agents and the rules of
// tools. Decisions read it; Apply never does, so a log means the same under every
// configuration.
package policy
