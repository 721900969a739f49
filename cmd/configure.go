package cmd

import (
	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/runtime"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective settings, without secrets",
		Long: "Config prints the settings that serve would use, as a settings file. Flags override BATON_… variables, which\n" +
			"override " + config.File + " or the file given with --config, which overrides the defaults. Passwords are masked.\n" +
			"Unless they are set, limits.runs and limits.runs_bytes show the capacity of this machine.",
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
