package declared

import (
	"net/url"

	"github.com/batonrun/baton/plugins/host"
)

// origin returns the origin of a declaration.
func (r *reader) origin(path string, declaration any) host.Origin {
	o := host.Origin{Kind: host.OriginYAML, File: r.file}
	if n := r.at[path]; n != nil {
		o.Line = n.Line
	}
	switch d := declaration.(type) {
	case Server:
		o.Kind, o.Server, o.URL = host.OriginMCP, d.Name, place(d.URL)
	case Tools:
		o.Kind = host.OriginProcess
	case Agent:
		switch {
		case d.AGUI != nil:
			o.Kind, o.URL = host.OriginRemote, place(d.AGUI.URL)
		case d.Command != nil:
			o.Kind = host.OriginProcess
		default:
			o.Provider, o.Model, o.System, o.Tools = d.Provider, d.Model, d.System, d.Tools
		}
	}
	return o
}

// place returns the scheme and host of a URL; its other parts can be secrets.
func place(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
