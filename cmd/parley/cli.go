package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"parley/cmd/parley/internal/build"
	"parley/cmd/parley/internal/config"
)

// commandLine lists the commands and flags. The flags belong to every command, because
// "config check" and "doctor" must see what "serve" would see.
type commandLine struct {
	Config string   `placeholder:"FILE" help:"Configuration file (default: config.toml if it exists)."`
	Listen string   `placeholder:"ADDR" help:"Address of the main listener; the key listen (default 127.0.0.1:8080)."`
	Data   string   `placeholder:"DIR" help:"Data directory; the key data (default ./data)."`
	Set    []string `placeholder:"KEY=VALUE" sep:"none" help:"Any key of the configuration, for example --set inbox.mode=queue. May be repeated."`

	Serve   struct{}   `cmd:"" default:"1" help:"Run the server (the default command)."`
	Conf    confCmd    `cmd:"" name:"config" help:"Look at the configuration."`
	Doctor  doctorCmd  `cmd:"" help:"Check the configuration, the data directory, the port, the models and the channels without starting."`
	Backup  backupCmd  `cmd:"" help:"Copy the store, also while its server runs."`
	Restore restoreCmd `cmd:"" help:"Make a data directory of a backup."`
	Verify  verifyCmd  `cmd:"" help:"Read a whole store and say where its parts contradict each other."`
	Mig     struct{}   `cmd:"" name:"migrate" help:"Make or upgrade the tables of store.postgres, before a new version starts."`
	Key     keyCmd     `cmd:"" help:"Make, show and take back the keys of auth.mode \"keys\"."`
	Export  exportCmd  `cmd:"" help:"Write all sessions as JSON Lines, for people and scripts (--resume goes on after an interruption); nothing reads them back (\"move out\" writes what \"import\" reads)."`
	Import  moveInCmd  `cmd:"" help:"Another name of \"move in\"."`
	Move    moveCmd    `cmd:"" help:"Carry the whole store to another place: from a data directory to PostgreSQL, and back."`
	Health  healthCmd  `cmd:"" help:"Ask a running server whether it is well: for containers and scripts."`
	Chat    chatCmd    `cmd:"" help:"Talk to a running server: at a terminal, in a pipe, or in a script."`
	ACP     acpCmd     `cmd:"" name:"acp" help:"Carry the Agent Client Protocol between an editor, which starts this, and a running server."`
	Ver     versionCmd `cmd:"" name:"version" help:"Print the version, and what the program was built from."`
}

type versionCmd struct {
	JSON bool `name:"json" help:"As a JSON object."`
}

type doctorCmd struct {
	Offline bool `help:"Ask no model's address whether it is there, and no chat platform."`
}

type confCmd struct {
	Check struct{} `cmd:"" help:"Check the configuration; say everything that is wrong with it."`
	Print struct{} `cmd:"" help:"Print the effective configuration as TOML, with secrets masked."`
}

// UsageError is a command line that cannot be understood. Exit code 2.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// errHelp says that help was asked for and printed.
var errHelp = errors.New("help was printed")

// ParseFlags reads the command line and, for the commands that need it, the
// configuration. A *UsageError or a *config.Error means exit code 2.
func (m *Main) ParseFlags(args []string) error {
	var line commandLine
	helped := false
	parser, err := kong.New(&line,
		kong.Name("parley"),
		kong.Description("A conversation engine: people write whenever they like, everyone gets their own answer, in order, durably, live."),
		kong.Writers(m.Stdout, m.Stderr),
		kong.Exit(func(int) { helped = true }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	if len(args) > 0 && args[0] == "help" { // as other programs have it: "help" and "help backup"
		args = append(slices.Clone(args[1:]), "--help")
	}
	parsed, err := parser.Parse(args)
	if helped {
		return errHelp
	}
	if err != nil {
		return &UsageError{usage(err)}
	}
	m.command, _, _ = strings.Cut(parsed.Command(), " <")
	m.command, _, _ = strings.Cut(m.command, " [")
	m.line = line
	if m.command == "version" || m.command == "chat" || m.command == "acp" || line.Health.URL != "" {
		return nil
	}
	if _, err := os.Stat(m.sources().Path); err == nil {
		m.configPath = m.sources().Path
	}
	m.Config, err = m.readConfig()
	return err
}

// usage says what is wrong with a command line, and where to look.
func usage(err error) string {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context != nil && wrong.Context.Selected() != nil {
		command := wrong.Context.Selected().FullPath()
		if missing, ok := strings.CutPrefix(err.Error(), "expected "); ok {
			return fmt.Sprintf("%s needs %s; \"%s --help\" shows how", command, strings.NewReplacer(`"<`, "<", `>"`, ">").Replace(missing), command)
		}
	}
	return err.Error() + "; \"parley --help\" shows what there is"
}

// sources are where the command line says that the configuration comes from.
func (m *Main) sources() config.Sources {
	line := m.line
	from := config.Sources{Path: "config.toml", Environ: m.Environ, Listen: line.Listen, Data: line.Data, Set: line.Set}
	if line.Config != "" {
		from.Path, from.Required = line.Config, true
	}
	return from
}

// readConfig reads the configuration as it is now.
func (m *Main) readConfig() (config.Config, error) { return config.Load(m.sources()) }

// version is the version of this program, as clients, backups and the log see it.
func version() string { return build.This().Version }
