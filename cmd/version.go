package cmd

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
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

// buildVersion is what the linker was told, else the module's version, else the commit.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	const path = "github.com/batonrun/baton"
	for _, m := range append(info.Deps, &info.Main) { // a dependency in a user's own binary
		if m.Path == path && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && info.Main.Path == path {
			return s.Value[:min(len(s.Value), 12)]
		}
	}
	return "devel"
}
