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
	"github.com/batonrun/baton/runtime/retention"
	"github.com/batonrun/baton/storage"
)

func retentionCommand() *cobra.Command {
	var dry, asJSON bool
	cmd := &cobra.Command{
		Use:   "retention",
		Short: "Remove data that is older than the settings allow",
		Long: "Retention removes runs, events, attachments and entries of the audit log that are older than the section retention\n" +
			"of the settings allows. A server does this every hour; without --dry-run the command needs a database that no\n" +
			"server uses. With --dry-run it changes nothing, and may run beside a server.\n\n" +
			"STRIPPED counts runs that stay without their events. EVENTS and BYTES are estimates and cover both.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := retired(cmd, dry)
			var held *runtime.HeldError
			switch {
			case errors.Is(err, storage.ErrLocked) || errors.As(err, &held):
				return fmt.Errorf("%w; that server removes old data itself, every hour; --dry-run shows what it would remove", err)
			case err != nil:
				return err
			case asJSON:
				return printJSON(cmd.OutOrStdout(), list)
			}
			return writeRetired(cmd.OutOrStdout(), list, dry)
		},
	}
	config.Flags(cmd.Flags(), append(logFlags, "database")...)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would be removed, and change nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each project")
	return cmd
}

func retired(cmd *cobra.Command, dry bool) (list []retention.Retired, err error) {
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
		return retention.Due(cmd.Context(), db.Retention, policy, time.Now())
	}
	return retention.Alone(cmd.Context(), db, db.Registry.Unused, db.Retention, policy, time.Now())
}

func writeRetired(w io.Writer, list []retention.Retired, dry bool) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "nothing to remove")
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

// retentionOf converts valid settings to a policy.
func retentionOf(r config.Retention) *baton.RetentionPolicy {
	days := func(r config.Retention) baton.Retention {
		const day = 24 * time.Hour
		return baton.Retention{
			Runs: time.Duration(r.Runs) * day, Events: time.Duration(r.Events) * day,
			Attachments: time.Duration(r.Attachments) * day, Audit: time.Duration(r.Audit) * day,
		}
	}
	p := &baton.RetentionPolicy{Retention: days(r), Projects: map[string]baton.Retention{}}
	projects, _ := r.OfProjects() // Validate has checked it
	for name, own := range projects {
		p.Projects[name] = days(own)
	}
	return p
}
