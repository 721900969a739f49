package baton

import "runtime/debug"

// Version returns the version of Baton in this program: that of its module, or the commit that it was built from.
func Version() string {
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
