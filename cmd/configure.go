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
		Long: "Config prints the settings that serve would use, in the form of a file: the defaults, then " + config.File + "\n" +
			"or the file given with --config, then BATON_… variables, then flags. Passwords are masked. Unless they are\n" +
			"set, limits.runs and limits.runs_bytes are the capacity of this machine.",
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
