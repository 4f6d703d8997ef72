package supervise

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// What a service manager is told, one line each: sd_notify(3).
const (
	Serving  = daemon.SdNotifyReady
	Stopping = daemon.SdNotifyStopping
)

// Status is the line by which "systemctl status" says in words what the server does.
func Status(text string) string {
	return "STATUS=" + strings.Join(strings.Fields(text), " ") // a new line would be another assignment
}

// Within asks the service manager to wait for the next word for d, also if that is longer
// than the unit says.
func Within(d time.Duration) string {
	return "EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(d.Microseconds(), 10)
}

// readsWithin is how long a service manager may leave its socket full. One that reloads its
// units reads nothing for seconds, and must not miss that the server serves.
const readsWithin = 10 * time.Second

// Tell tells the service manager, if one has started this process with a socket to tell
// it by (NOTIFY_SOCKET). One that does not listen, or does not read for ten seconds, is a
// warning: the server serves all the same.
func Tell(log *slog.Logger, lines ...string) {
	if err := notify(strings.Join(lines, "\n"), time.Now().Add(readsWithin)); err != nil {
		log.Warn("the service manager cannot be told", "lines", lines, "error", err)
	}
}

// notify is daemon.SdNotify with an end: that one waits for ever for room in the socket.
func notify(text string, until time.Time) error {
	path := os.Getenv("NOTIFY_SOCKET") // "@name" is in the abstract namespace, which package net knows
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	err = conn.SetWriteDeadline(until)
	if err == nil {
		_, err = conn.Write([]byte(text))
	}
	return errors.Join(err, conn.Close())
}

// Watch tells the service manager that the server is alive, three times in the time after
// which it would be restarted (WatchdogSec), as long as alive says so, until ctx ends.
// Without a watchdog it returns at once. A server that is not alive is logged each time,
// and the manager decides.
func Watch(ctx context.Context, log *slog.Logger, alive func(context.Context) error) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the service manager's watchdog is not served", "error", err)
	}
	if err != nil || within == 0 {
		return
	}
	every := time.NewTicker(within / 3)
	defer every.Stop()
	for {
		asking, cancel := context.WithTimeout(ctx, within/3)
		err := alive(asking)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Error("the server does not answer itself, so the service manager is not told that it is alive", "error", err)
		default:
			Tell(log, daemon.SdNotifyWatchdog)
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}
