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
		Long: "Keys are what a server knows people and programs by when it is told auth.mode: api-key (BATON_AUTH=api-key).\n" +
			"They are written into the database, also while a server has it: a new one is good at once, one that was\n" +
			"revoked opens nothing more after half a minute, and what it had open ends within a minute and a half.",
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
		Short: "Make a key, and print it: this once",
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
				return db.PutAPIKey(cmd.Context(), &row, byHost("create_key", row.CreatedAt))
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "key %s, which baton keys revoke takes; what follows is shown this once\n", row.ID)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
	config.Flags(cmd.Flags())
	cmd.Flags().StringVar(&owner, "user", "", "`user` that the key is for")
	cmd.Flags().StringArrayVar(&projects, "project", nil, "`project` that it is for; the first of several is the default one")
	cmd.Flags().StringVar(&name, "name", "", "what people call the key")
	cmd.Flags().StringVar(&role, "role", "user", "user, viewer, operator or admin")
	cmd.Flags().DurationVar(&lasts, "expires", 0, "how long it is good (default until it is revoked)")
	return cmd
}

// byHost is how the audit tells of what was done on the host of the database: by the user that the system knows.
func byHost(action string, at time.Time) *runtime.Audit {
	by := &runtime.Audit{At: at, Action: action, Credential: "host"}
	if u, err := user.Current(); err == nil {
		by.Actor = u.Username
	}
	return by
}

func listKeysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the keys, the latest first",
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
	config.Flags(cmd.Flags())
	return cmd
}

func allKeys(ctx context.Context, db *storage.DB) (list []runtime.APIKey, err error) {
	const page = 1000
	for after := ""; ; after = list[len(list)-1].ID {
		some, err := db.APIKeysAfter(ctx, after, page)
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
		state := "good"
		switch {
		case k.RevokedAt != nil:
			state = "revoked " + k.RevokedAt.Format(time.RFC3339)
		case !k.Good(now):
			state = "expired " + k.ExpiresAt.Format(time.RFC3339)
		case k.ExpiresAt != nil:
			state = "good until " + k.ExpiresAt.Format(time.RFC3339)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, printable(k.Name), printable(k.User), printable(strings.Join(k.Projects, ",")),
			k.Role, k.CreatedAt.Format(time.RFC3339), state)
	}
	return table.Flush()
}

func revokeKeyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "revoke ID...",
		Short: "Revoke keys, by the IDs that list shows",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, ids []string) error {
			return withDatabase(cmd, func(db *storage.DB) error {
				var errs []error
				for _, id := range ids {
					now := time.Now()
					err := db.RevokeAPIKey(cmd.Context(), id, now, byHost("revoke_key", now))
					switch {
					case strings.HasPrefix(id, "baton_"):
						err = errors.New("name a key by its ID, which list shows, and not by itself")
					case errors.Is(err, runtime.ErrNotFound):
						err = fmt.Errorf("there is no key %s that could be revoked", printable(id))
					case err == nil:
						_, err = fmt.Fprintln(cmd.OutOrStdout(), "revoked", id)
					}
					errs = append(errs, err)
				}
				return errors.Join(errs...)
			})
		},
	}
	config.Flags(cmd.Flags())
	return cmd
}

func resetSecretsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reset-secrets",
		Short: "Make all tickets, signed URLs and cursors void that were handed out",
		Long: "Reset-secrets replaces the secrets in the database that tickets of streams and URLs of attachments are signed and\n" +
			"the cursors of lists are sealed with, as after a backup got into the wrong hands. Within a minute what was handed\n" +
			"out opens nothing any more, on all servers of the database: tickets and URLs are had anew, and lists are read\n" +
			"anew from their first page. Streams that are open stay so. API keys are revoked one by one.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := withDatabase(cmd, func(db *storage.DB) error { return db.RemoveSecrets(cmd.Context()) })
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "within a minute the tickets, signed URLs and cursors that were handed out are void")
			return err
		},
	}
	config.Flags(cmd.Flags())
	return cmd
}

// withDatabase calls fn with the configured database, which a server may have meanwhile. Of one that nobody has it sees to
// it that it is there, and of this version.
func withDatabase(cmd *cobra.Command, fn func(*storage.DB) error) error {
	if err := cmd.Flags().Set("insecure", "true"); err != nil { // it listens nowhere
		return err
	}
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
