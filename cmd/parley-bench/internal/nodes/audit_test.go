package nodes

import (
	"strings"
	"testing"
)

// The database's own notes: each way in which two writers show is found.
func TestAudit(t *testing.T) {
	const good = "s1|1|0|node-1.1\ns2|1|0|node-2.1\ns1|1|3|node-1.1\ns1|2|3|node-2.1\ns1|2|5|node-2.1\ns1|3|5|node-2.1"
	for _, c := range []struct{ name, rows, says string }{
		{"nothing is wrong", good, ""},
		{"two writers of an epoch", good + "\ns1|3|6|node-1.1", "session s1: epoch 3 has two writers, node-2.1 and node-1.1"},
		{"two processes of a node", good + "\ns1|3|6|node-2.2", "two writers"},
		{"an old epoch writes", good + "\ns1|2|6|node-2.1", "under epoch 2 after node-2.1 under 3"},
		{"the log is shorter", good + "\ns1|4|4|node-1.1", "its head was 5 and is 4"},
		{"a line that cannot be read", good + "\ns1|x|4|node-1.1", "a line of the audit"},
		{"half a line", good + "\ns1|4", "a line of the audit"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, err := readAudit(c.rows)
			var sum auditSummary
			if err == nil {
				sum, err = judgeAudit(rows)
			}
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
			if want := (auditSummary{writes: 6, sessions: 2, epochs: 4, moved: 1}); c.says == "" && sum != want {
				t.Errorf("%+v, want %+v", sum, want)
			}
		})
	}
}
