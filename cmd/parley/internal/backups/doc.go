// Package backups makes backups of the running server on a schedule and removes old ones.
//
// cmd/parley runs a Schedule in serve; config reads its Settings; doctor asks Look. Its one
// goroutine is its caller's: Run sleeps, makes a backup by the code of POST /admin/backup,
// and removes the oldest beyond Keep. No writer ever waits for it.
//
// The directory is the memory of the schedule: nothing else is written down. When the next
// one is due follows from the newest backup that lies there. Only directories whose name the
// schedule gives and whose BACKUP.json names this log are counted or removed; a store that
// was restored has another log, so what it was restored from is not removed by it. What was
// begun has a file beside it (NAME.begun, with the log) until it has ended: by that a start
// knows which NAME.writing is its own, and servers that share the directory never make two
// of one name: NAME.begun is made by one of them, and the other takes the next second.
//
// While the process runs, time is that of its own clock of seconds, which no change of the
// date touches. The date names the directories, and says after a start how old the last one is.
// A backup of a time to come counts as older than all others: it was made while the date was
// wrong, and good ones follow it.
package backups
