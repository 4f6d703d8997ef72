package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"parley/gateway/audit"
	"parley/gateway/auth"
	"parley/gateway/service"
)

type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Make a key for a user and print it: it is shown this once."`
	List   struct{}     `cmd:"" help:"Show whose keys there are, without what is secret of them."`
	Revoke keyRevokeCmd `cmd:"" help:"Take a key back; what it has open at a running server ends within seconds."`
}

type keyCreateCmd struct {
	User    string        `required:"" placeholder:"USER" help:"The user's id."`
	Tenant  string        `default:"default" placeholder:"TENANT" help:"The user's tenant."`
	Name    string        `placeholder:"NAME" help:"How others see the user (default: the id)."`
	Scopes  []string      `default:"chat,read:tools" placeholder:"SCOPE" help:"What the key is good for: chat, read:tools, runtime, admin, chats."`
	Expires time.Duration `placeholder:"TIME" help:"The key ends after this time, for example 720h (default: never)."`
}

type keyRevokeCmd struct {
	ID string `arg:"" placeholder:"ID" help:"The id that \"key list\" shows; a key begins with parley_ID_."`
}

// key makes, shows and takes back keys, in the file that the configuration names.
func (m *Main) key(ctx context.Context) error {
	path := m.Config.KeysFile()
	if path == "" {
		return errors.New(`memory.mode is "ephemeral", so there is no data directory that keys could be kept in; name a file in auth.keys_file`)
	}
	switch m.command {
	case "key create":
		return m.createKey(ctx, path)
	case "key revoke":
		return m.revokeKey(ctx, path)
	}
	return m.listKeys(path)
}

func (m *Main) createKey(ctx context.Context, path string) error {
	cmd := m.line.Key.Create
	now := time.Now().UTC().Truncate(time.Second)
	id, text, hash := auth.NewKey()
	key := auth.Key{ID: id, Hash: hash, Tenant: cmd.Tenant, User: cmd.User, Name: cmd.Name, Scopes: cmd.Scopes, Created: now.Format(time.RFC3339)}
	if cmd.Expires < 0 {
		return &UsageError{"--expires must be a time from now, for example 720h"}
	}
	if cmd.Expires > 0 {
		key.Expires = now.Add(cmd.Expires).Format(time.RFC3339)
	}
	if err := key.Check(); err != nil {
		return &UsageError{err.Error()}
	}
	if err := m.auditKey(ctx, service.ActKeyCreate, key); err != nil {
		return err
	}
	if err := auth.Add(path, key); err != nil {
		return err
	}
	fmt.Fprintln(m.Stdout, text)
	fmt.Fprintf(m.Stderr, "the key of %s (tenant %s) is the line above; it is not kept anywhere and not shown again\n", key.User, key.Tenant)
	if m.Config.Auth.Mode != auth.ModeKeys {
		fmt.Fprintf(m.Stderr, "auth.mode is %q: set it to \"keys\", or nobody is asked for a key\n", m.Config.Auth.Mode)
	}
	return nil
}

func (m *Main) revokeKey(ctx context.Context, path string) error {
	id := strings.TrimPrefix(m.line.Key.Revoke.ID, "parley_")
	if before, _, whole := strings.Cut(id, "_"); whole {
		id = before // somebody has given the key itself
	}
	keys, err := auth.List(path)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if key.ID != id {
			continue
		}
		if err := m.auditKey(ctx, service.ActKeyRevoke, key); err != nil {
			return err
		}
		_, err := auth.Revoke(path, func(k auth.Key) bool { return k.ID == id })
		if err == nil {
			fmt.Fprintf(m.Stdout, "the key %s of %s (tenant %s) is taken back\n", id, key.User, key.Tenant)
		}
		return err
	}
	return fmt.Errorf("there is no key %s in %s; \"parley key list\" shows them, and those of [[auth.keys]] are taken back in the configuration file", id, path)
}

// auditKey writes down what becomes of a key, before it does.
func (m *Main) auditKey(ctx context.Context, act string, key auth.Key) error {
	if m.Config.Ephemeral() {
		return nil
	}
	// The server alone begins new files; this is a line more in the one that there is.
	return audit.Open(m.Config.Data, audit.Keep{}).Record(ctx, service.Act{
		At: time.Now().UTC(), Act: act, Object: key.ID,
		Detail: fmt.Sprintf("of %s, tenant %s, scopes %s", key.User, key.Tenant, strings.Join(key.Scopes, " ")),
	})
}

func (m *Main) listKeys(path string) error {
	keys, err := auth.List(path)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		fmt.Fprintf(m.Stdout, "there are no keys in %s\n", path)
		return nil
	}
	w := tabwriter.NewWriter(m.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tTENANT\tUSER\tNAME\tSCOPES\tCREATED\tEXPIRES")
	for _, k := range keys {
		expires := k.Expires
		if expires == "" {
			expires = "never"
		} else if at, err := auth.ParseExpiry(expires); err == nil && time.Now().After(at) {
			expires += " (over)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Tenant, k.User, k.Name, strings.Join(k.Scopes, ","), k.Created, expires)
	}
	return w.Flush()
}
