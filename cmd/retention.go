package cmd

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton"
	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
)

func retentionCommand() *cobra.Command {
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "retention",
		Short: "Remove what the settings say has been kept long enough, or tell what that is",
		Long: "Retention removes the runs, events, attachments and entries of the audit that have been kept for as many days as the\n" +
			"section retention of the settings says. A server does so by itself, each hour; without --dry-run this is for a\n" +
			"database that no server has. With --dry-run it changes nothing, and may run beside a server.\n\n" +
			"STRIPPED are the runs that stay and of which the events alone go. EVENTS and BYTES, which are about, are of both.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := retired(cmd, dry)
			var held *runtime.HeldError
			switch {
			case errors.Is(err, storage.ErrLocked) || errors.As(err, &held):
				return fmt.Errorf("%w; it removes what has been kept long enough itself, each hour, and --dry-run tells what that is", err)
			case err != nil:
				return err
			case asJSON:
				return printJSON(cmd.OutOrStdout(), list)
			}
			return writeRetired(cmd.OutOrStdout(), list, dry)
		},
	}
	config.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&dry, "dry-run", false, "tell what would go, and change nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each project")
	return cmd
}

func retired(cmd *cobra.Command, dry bool) (list []runtime.Retired, err error) {
	if err := cmd.Flags().Set("insecure", "true"); err != nil { // it listens nowhere
		return nil, err
	}
	cfg, err := load(cmd)
	if err != nil {
		return nil, err
	}
	db, err := storage.Open(cmd.Context(), storage.Config{
		URL: cfg.Database, Serve: !dry, Migrate: !dry, Lease: cfg.Timeouts.Lease, Log: newLogger(cfg.Log, cmd.ErrOrStderr()),
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	policy := *retentionOf(cfg.Retention)
	if dry {
		return runtime.Retirable(cmd.Context(), db, policy, time.Now())
	}
	return runtime.RetireAlone(cmd.Context(), db, db, policy, time.Now())
}

func writeRetired(w io.Writer, list []runtime.Retired, dry bool) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "nothing has been kept long enough")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PROJECT\tRUNS\tSTRIPPED\tEVENTS\tBYTES\tATTACHMENTS\tAUDIT")
	for i := range list {
		r := &list[i]
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\n", printable(r.Project), r.Runs, r.Stripped, r.Events, r.Bytes, r.Attachments, r.Audit)
	}
	if err := table.Flush(); err != nil || !dry {
		return err
	}
	_, err := fmt.Fprintln(w, "nothing was removed")
	return err
}

// retentionOf is a policy of settings that are valid.
func retentionOf(r config.Retention) *baton.RetentionPolicy {
	days := func(r config.Retention) baton.Retention {
		const day = 24 * time.Hour
		return baton.Retention{
			Runs: time.Duration(r.Runs) * day, Events: time.Duration(r.Events) * day,
			Attachments: time.Duration(r.Attachments) * day, Audit: time.Duration(r.Audit) * day,
		}
	}
	p := &baton.RetentionPolicy{Retention: days(r), Projects: map[string]baton.Retention{}}
	projects, _ := r.OfProjects() // Validate has seen the error
	for name, own := range projects {
		p.Projects[name] = days(own)
	}
	return p
}
