package cmd

import (
	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/runtime"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the settings in force, without secrets",
		Long: "Config prints the settings that serve would use, as a file that it would read: the defaults, then\n" +
			config.File + " or the file given with --config, then BATON_… variables, then flags. Passwords are masked,\n" +
			"and limits.runs and limits.runs_bytes are what this machine carries where nothing else is said.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := load(cmd)
			if err != nil {
				return err
			}
			if cfg.Limits.Runs == 0 {
				cfg.Limits.Runs = runtime.Carried()
			}
			if cfg.Limits.RunsBytes == 0 {
				cfg.Limits.RunsBytes = config.Size(runtime.CarriedBytes())
			}
			return cfg.WriteYAML(cmd.OutOrStdout())
		},
	}
	config.Flags(cmd.Flags())
	return cmd
}
