// Package alarm is the one timer of a session. It owns no goroutine; only the session's actor
// uses an Alarm.
package alarm
