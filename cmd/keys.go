package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports/auth/apikey"
)

func keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Create, list and revoke API keys",
		Long: "API keys authenticate users and programs on a server with auth.mode: api-key (BATON_AUTH=api-key). The commands\n" +
			"change the database, even while a server uses it. A new key is valid immediately. A revoked key is rejected\n" +
			"after at most half a minute, and its open streams end within a minute and a half.",
		Args: knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(createKeyCommand(), listKeysCommand(), revokeKeyCommand(), resetSecretsCommand())
	return cmd
}

func createKeyCommand() *cobra.Command {
	var name, owner, role string
	var projects []string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a key and print it; it cannot be shown again",
		Example: "  baton keys create --user alice --project p1 --role user\n" +
			"  baton keys create --user ci --project p1 --project p2 --role operator --expires 2160h",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			is, err := runtime.ParseRole(role)
			if err != nil {
				return &usageError{err}
			}
			var expires time.Time
			if lasts != 0 {
				expires = time.Now().Add(lasts)
			}
			text, row, err := apikey.New(name, owner, projects, is, expires)
			if err != nil {
				return &usageError{err}
			}
			err = withDatabase(cmd, func(db *storage.DB) error {
				return db.Accounts.PutAPIKey(cmd.Context(), &row, hostAudit("create_key", row.CreatedAt))
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "created key %s (the ID for baton keys revoke); the key cannot be shown again:\n", row.ID)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	config.Flags(cmd.Flags(), "database")
	cmd.Flags().StringVar(&owner, "user", "", "`user` of the key")
	cmd.Flags().StringArrayVar(&projects, "project", nil, "`project` of the key; the first of several is the default")
	cmd.Flags().StringVar(&name, "name", "", "display name of the key")
	cmd.Flags().StringVar(&role, "role", "user", "user, viewer, operator or admin")
	cmd.Flags().DurationVar(&lasts, "expires", 0, "how long the key is valid (default until it is revoked)")
	return cmd
}

// hostAudit returns the audit entry of an action on this host. The actor is the operating system's user.
func hostAudit(action string, at time.Time) *runtime.Audit {
	by := &runtime.Audit{At: at, Action: action, Credential: "host"}
	if u, err := user.Current(); err == nil {
		by.Actor = u.Username
	}
	return by
}

func listKeysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the keys, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list []runtime.APIKey
			err := withDatabase(cmd, func(db *storage.DB) (err error) {
				list, err = allKeys(cmd.Context(), db)
				return err
			})
			if err != nil {
				return err
			}
			return writeKeys(cmd.OutOrStdout(), list, time.Now())
		},
	}
	config.Flags(cmd.Flags(), "database")
	return cmd
}

func allKeys(ctx context.Context, db *storage.DB) (list []runtime.APIKey, err error) {
	const page = 1000
	for after := ""; ; after = list[len(list)-1].ID {
		some, err := db.Accounts.APIKeysAfter(ctx, after, page)
		if list = append(list, some...); err != nil || len(some) < page {
			return list, err
		}
	}
}

func writeKeys(w io.Writer, list []runtime.APIKey, now time.Time) error {
	slices.SortStableFunc(list, func(a, b runtime.APIKey) int { return b.CreatedAt.Compare(a.CreatedAt) })
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tUSER\tPROJECTS\tROLE\tCREATED\tSTATE")
	for i := range list {
		k := &list[i]
		state := "valid"
		switch {
		case k.RevokedAt != nil:
			state = "revoked " + k.RevokedAt.Format(time.RFC3339)
		case !k.Good(now):
			state = "expired " + k.ExpiresAt.Format(time.RFC3339)
		case k.ExpiresAt != nil:
			state = "valid until " + k.ExpiresAt.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, printable(k.Name), printable(k.User), printable(strings.Join(k.Projects, ",")),
			k.Role, k.CreatedAt.Format(time.RFC3339), state)
	}
	return table.Flush()
}

func revokeKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Revoke keys by their IDs",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return withDatabase(cmd, func(db *storage.DB) error {
				var errs []error
				for _, id := range ids {
					now := time.Now()
					err := db.Accounts.RevokeAPIKey(cmd.Context(), id, now, hostAudit("revoke_key", now))
					switch {
					case strings.HasPrefix(id, "baton_"):
						err = errors.New("want the ID of a key, as baton keys list shows it, not the key itself")
					case errors.Is(err, runtime.ErrNotFound):
						err = fmt.Errorf("there is no valid key %s", printable(id))
					case err == nil:
						_, err = fmt.Fprintln(cmd.OutOrStdout(), "revoked", id)
					}
					errs = append(errs, err)
				}
				return errors.Join(errs...)
			})
		},
	}
	config.Flags(cmd.Flags(), "database")
	return cmd
}

func resetSecretsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset-secrets",
		Short: "Invalidate all stream tickets, signed URLs and list cursors",
		Long: "Reset-secrets replaces the secrets in the database that sign stream tickets and attachment URLs and encrypt list\n" +
			"cursors, for example after a backup was stolen. Within a minute all servers of the database reject the old\n" +
			"ones: clients request new tickets and URLs, and read lists again from the first page. Open streams stay open.\n" +
			"API keys stay valid; use baton keys revoke.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := withDatabase(cmd, func(db *storage.DB) error { return db.Saved().RemoveSecrets(cmd.Context()) })
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "existing tickets, signed URLs and cursors become invalid within a minute")
			return err
		},
	}
	config.Flags(cmd.Flags(), "database")
	return cmd
}

// withDatabase calls fn with the configured database, which a server may use meanwhile. It creates or migrates the database if
// necessary.
func withDatabase(cmd *cobra.Command, fn func(*storage.DB) error) error {
	cfg, err := load(cmd)
	if err != nil {
		return err
	}
	settings := storage.Config{URL: cfg.Database}
	db, err := storage.Open(cmd.Context(), settings)
	if errors.Is(err, storage.ErrSchema) {
		if err = storage.Migrate(cmd.Context(), settings); err != nil {
			return err
		}
		db, err = storage.Open(cmd.Context(), settings)
	}
	if err != nil {
		return err
	}
	return errors.Join(fn(db), db.Close())
}
