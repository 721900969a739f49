package cmd

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/storage"
)

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to this version's schema (serve does so too)",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			log := newLogger(cfg.Log, cmd.ErrOrStderr())
			if err := storage.Migrate(cmd.Context(), storage.Config{URL: cfg.Database, Log: log}); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the database has this version's schema")
			return err
		},
	}
	config.Flags(cmd.Flags())
	return cmd
}

func backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup DEST",
		Short: "Copy a SQLite database to a new file, also while a server writes to it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			if err := storage.Backup(cmd.Context(), cfg.Database, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "backed up to", args[0])
			return err
		},
	}
	config.Flags(cmd.Flags())
	return cmd
}

func restoreCommand() *cobra.Command {
	var discard bool
	cmd := &cobra.Command{
		Use:   "restore FROM",
		Short: "Put a copy of a SQLite database in the place of the configured one",
		Long: "Restore checks the copy, puts it in the place of the configured database, and keeps what was there beside it.\n" +
			"It refuses while a server has the database. A copy of an older version is migrated by the next start.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			kept, err := storage.Restore(cmd.Context(), cfg.Database, args[0], discard)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if _, err := fmt.Fprintln(out, "restored", args[0]); err != nil || kept == "" {
				return err
			}
			_, err = fmt.Fprintln(out, "what was there is kept as", kept)
			return err
		},
	}
	config.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&discard, "discard", false, "do not keep the database that is replaced")
	return cmd
}

func vacuumCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vacuum",
		Short: "Make a SQLite file as small as its data; needs as much room again meanwhile",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			if err := storage.Vacuum(cmd.Context(), storage.Config{URL: cfg.Database}); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the database is as small as its data")
			return err
		},
	}
	config.Flags(cmd.Flags())
	return cmd
}

// databaseName names a database without what may be secret.
func databaseName(database string) string {
	if strings.HasPrefix(database, "sqlite:") {
		return database
	}
	u, err := url.Parse(database)
	if err != nil || strings.Contains(u.Path, "@") { // a password that was not escaped
		return "postgres"
	}
	return u.Scheme + "://" + u.Host + u.Path
}
