package machine_test

import (
	"testing"

	"parley/conversation"
	"parley/conversation/machine"
	"parley/conversation/member"
	"parley/conversation/policy"
)

// Members of a cluster that knows what this program does are given its snapshots.
func TestSnapshotVersionHasAFeature(t *testing.T) {
	s := machine.New(conversation.SessionKey{Tenant: "acme", Session: "s"}, &policy.Rules{Policy: policy.DefaultPolicy()})
	if data, err := member.Snapshot(s, func() member.Feature { return member.Newest }); err != nil || data == nil {
		t.Errorf("version %d has no feature that this program knows: %v", s.SnapshotVersion(), err)
	}
}
