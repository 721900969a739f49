package cmd

import (
	"cmp"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton"
)

// version is set by the linker: -X github.com/batonrun/baton/cmd.version=v1.2.3.
var version string

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "baton %s\n", versionText())
			return err
		},
	}
}

func versionText() string {
	return fmt.Sprintf("%s (%s %s/%s)", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildVersion returns the version that the linker has set, or else the module's.
func buildVersion() string { return cmp.Or(version, baton.Version()) }
