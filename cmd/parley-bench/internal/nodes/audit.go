package nodes

import (
	"fmt"
	"strconv"
	"strings"
)

// auditRow is a write to a session's row, as the database saw it.
type auditRow struct {
	session string
	epoch   uint64
	head    uint64
	writer  string // the process: its node and the number of its run
}

// auditSummary says what an audit has found to be right.
type auditSummary struct {
	writes, sessions, epochs int
	moved                    int // epochs that another process began than the one before
}

// readAudit reads rows of the form session|epoch|head|writer.
func readAudit(text string) (rows []auditRow, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 4 {
			return nil, fmt.Errorf("a line of the audit: %q", line)
		}
		r := auditRow{session: fields[0], writer: fields[3]}
		if r.epoch, err = strconv.ParseUint(fields[1], 10, 64); err == nil {
			r.head, err = strconv.ParseUint(fields[2], 10, 64)
		}
		if err != nil {
			return nil, fmt.Errorf("a line of the audit: %q: %w", line, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// judgeAudit finds two writers of one epoch, and an epoch or a head that falls. The rows
// are in the order of the writes.
func judgeAudit(rows []auditRow) (auditSummary, error) {
	sum := auditSummary{writes: len(rows)}
	last := map[string]auditRow{}
	for _, r := range rows {
		before, known := last[r.session]
		switch {
		case !known:
			sum.sessions++
			sum.epochs++
		case r.epoch < before.epoch:
			return sum, violationf("session %s: %s wrote under epoch %d after %s under %d", r.session, r.writer, r.epoch, before.writer, before.epoch)
		case r.head < before.head:
			return sum, violationf("session %s: its head was %d and is %d (epoch %d, %s)", r.session, before.head, r.head, r.epoch, r.writer)
		case r.epoch == before.epoch && r.writer != before.writer:
			return sum, violationf("session %s: epoch %d has two writers, %s and %s", r.session, r.epoch, before.writer, r.writer)
		case r.epoch > before.epoch:
			sum.epochs++
			if r.writer != before.writer {
				sum.moved++
			}
		}
		last[r.session] = r
	}
	return sum, nil
}
