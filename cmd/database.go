package cmd

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/storage/admin"
)

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate the database to this version's schema, as serve does",
		Long: "Migrate the database to this version's schema, as serve does. It fails while a server uses the database that cannot go on " +
			"after the migration: on SQLite any server, on PostgreSQL one of a version that is too old.",
		Args: cobra.NoArgs,
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
	config.Flags(cmd.Flags(), append(logFlags, "database")...)
	return cmd
}

func backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup DEST",
		Short: "Copy a SQLite database to a new file, even while a server uses it",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			if err := admin.Backup(cmd.Context(), cfg.Database, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "backed up to", args[0])
			return err
		},
	}
	config.Flags(cmd.Flags(), "database")
	return cmd
}

func restoreCommand() *cobra.Command {
	var discard bool
	cmd := &cobra.Command{
		Use:   "restore FROM",
		Short: "Replace the configured SQLite database with a copy",
		Long: "Restore checks the copy, replaces the configured database with it, and keeps the replaced database beside it.\n" +
			"It fails while a server uses the database. The next start migrates a copy that has an older schema.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			kept, err := admin.Restore(cmd.Context(), cfg.Database, args[0], discard)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if _, err := fmt.Fprintln(out, "restored", args[0]); err != nil || kept == "" {
				return err
			}
			_, err = fmt.Fprintln(out, "the replaced database is kept as", kept)
			return err
		},
	}
	config.Flags(cmd.Flags(), "database")
	cmd.Flags().BoolVar(&discard, "discard", false, "do not keep the replaced database")
	return cmd
}

func vacuumCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "vacuum",
		Short: "Shrink a SQLite file to the size of its data; meanwhile needs that much free disk space",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			if err := admin.Vacuum(cmd.Context(), cfg.Database); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the file has the size of its data")
			return err
		},
	}
	config.Flags(cmd.Flags(), "database")
	return cmd
}

// databaseName returns the database's address without parts that may be secret.
func databaseName(database string) string {
	if strings.HasPrefix(database, "sqlite:") {
		return database
	}
	u, err := url.Parse(database)
	if err != nil || strings.Contains(u.Path, "@") { // a password that was not escaped
		return "postgres"
	}
	return u.Scheme + "://" + cmp.Or(u.Host, u.Query().Get("host")) + u.Path
}
