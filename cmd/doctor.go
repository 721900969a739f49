package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/runtime"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/certs"
	"github.com/batonrun/baton/transports/telemetry/traces"
)

func (p *Program) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Diagnose this installation",
		Long: "Doctor checks the settings and declarations, the database, the storage of attachments, the keys that verify\n" +
			"tokens, TLS certificates, addresses, disk space and the limits of this process. It changes nothing. Run it as the\n" +
			"user of the server, because it checks the rights of its own user. Each finding is a line that begins with ok,\n" +
			"note, or wrong; the text of a wrong finding says how to fix it. The exit code is 1 if anything is wrong.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			d := p.examine(ctx, cmd)
			if err := d.print(cmd.OutOrStdout(), asJSON); err != nil {
				return err
			}
			if d.wrong {
				return exitCode(exitFailure)
			}
			return nil
		},
	}
	config.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "write each finding as a line of JSON")
	return cmd
}

// finding is one result of a check.
type finding struct {
	State string `json:"state"` // ok, note or wrong
	About string `json:"about"`
	Text  string `json:"text"`
}

// doctor collects findings.
type doctor struct {
	findings []finding
	wrong    bool
}

func (d *doctor) ok(about, format string, args ...any) {
	d.findings = append(d.findings, finding{"ok", about, fmt.Sprintf(format, args...)})
}

func (d *doctor) note(about, format string, args ...any) {
	d.findings = append(d.findings, finding{"note", about, fmt.Sprintf(format, args...)})
}

func (d *doctor) fault(about, format string, args ...any) {
	d.findings = append(d.findings, finding{"wrong", about, fmt.Sprintf(format, args...)})
	d.wrong = true
}

func (d *doctor) print(w io.Writer, asJSON bool) error {
	for _, f := range d.findings {
		if asJSON {
			if err := json.NewEncoder(w).Encode(f); err != nil {
				return err
			}
			continue
		}
		text := strings.ReplaceAll(withoutSecrets(printable(strings.TrimSpace(f.Text))), "\n", "\n"+strings.Repeat(" ", 17))
		if _, err := fmt.Fprintf(w, "%-5s  %-9s %s\n", f.State, f.About, text); err != nil {
			return err
		}
	}
	return nil
}

// examine runs all checks.
func (p *Program) examine(ctx context.Context, cmd *cobra.Command) *doctor {
	d := new(doctor)
	cfg, err := config.Load(cmd.Flags())
	d.process(cfg)
	if err != nil {
		d.fault("settings", "%v", err)
		return d // the other checks need the settings
	}
	if cfg.Path == "" {
		d.note("settings", "There is no %s in this directory; the settings come from the environment, flags and defaults. baton init writes a file.", config.File)
	} else {
		d.ok("settings", "%s has no errors.", cfg.Path)
	}
	p.examinePlugins(d, cfg)
	running := d.database(ctx, cfg)
	d.hints(ctx, cfg.NATS)
	d.attachments(ctx, &cfg)
	d.tokens(ctx, &cfg.Auth)
	d.certificate(&cfg)
	d.addresses(ctx, cfg, running)
	if traced, err := traces.FromEnv(ctx, buildVersion(), slog.New(slog.DiscardHandler)); err != nil {
		d.fault("traces", "%v", err)
	} else if traced != nil {
		d.collector(ctx)
		_ = traced.Shutdown(ctx) // there are no spans
	}
	return d
}

// examinePlugins checks the plugins that the file declares, and the keys of model providers.
func (p *Program) examinePlugins(d *doctor, cfg config.Config) {
	o, err := p.offers(cfg, offers{})
	switch {
	case err != nil:
		d.fault("agents", "%v", err)
	case cfg.Role != config.RoleGateway && d.missingPrograms(o.list):
	case o.assistant != nil:
		d.ok("agents", "%d agents, tools and workflows, including the agent assistant, whose model comes from the environment.", len(o.list))
	case o.declared != nil && len(o.declared.Plugins()) > 0:
		d.ok("agents", "%d agents, tools and workflows.", len(o.list))
	default:
		d.note("agents", "The settings declare no agents, and the environment has no key of a model provider such as OPENAI_API_KEY: "+
			"the server has only the built-in plugins.")
	}
}

// missingPrograms checks that the programs of agents and tool servers exist. A server starts without them, and reports their
// agents and tools as unhealthy. A gateway starts none.
func (d *doctor) missingPrograms(list []plugins.Plugin) (missing bool) {
	for _, plugin := range list {
		if p, ok := plugin.(interface{ Findable() error }); ok {
			if err := p.Findable(); err != nil {
				d.fault("agents", "%s cannot be started: %v. Correct its command, or install it.", plugin.Info().Name, err)
				missing = true
			}
		}
	}
	return missing
}

// database checks the database, and returns the address of the server that uses it, "" for none.
func (d *doctor) database(ctx context.Context, cfg config.Config) (server string) {
	name := databaseName(cfg.Database)
	r, err := storage.Inspect(ctx, storage.Config{URL: cfg.Database, Timeout: 10 * time.Second})
	switch {
	case err != nil:
		d.fault("database", "%s cannot be used: %s.", name, withCure(err))
	case !r.Exists:
		d.ok("database", "%s does not exist yet; the first start creates it.", name)
	case r.Schema == 0:
		d.ok("database", "%s is reachable (%s) and has no tables of Baton; the first start creates them.", name, r.Software)
	case r.Schema < r.Wanted:
		d.note("database", "%s is reachable (%s); the next start migrates its schema from version %d to %d. Back it up first: baton backup.", name, r.Software, r.Schema, r.Wanted)
	case r.Schema > r.Wanted:
		d.ok("database", "%s is reachable (%s) and has the schema of a newer Baton, which suits this one.", name, r.Software)
	default:
		d.ok("database", "%s is reachable (%s) and has this version's schema.", name, r.Software)
	}
	if r.Unread {
		d.note("database", "%s is too large to be read to its end here, so it may have damage that was not found. baton backup reads all of it.", name)
	}
	if err == nil && cfg.Auth.Mode == config.AuthAPIKey && !r.Keys && (r.Schema == 0 || r.Schema >= r.Wanted) {
		d.note("accounts", "There is no valid API key, so all requests are rejected. Create one with baton keys create, even while a server runs.")
	}
	if err == nil && r.Skew.Abs() > 2*time.Second {
		d.fault("clock", "The clock of the database is %s ahead of this machine's; the times of runs and approvals depend on both. Synchronize both clocks.", r.Skew)
	}
	d.activity(&r)
	if r.Dir == "" {
		if err == nil && r.Schema >= r.Wanted {
			d.cluster(ctx, cfg.Database)
		}
		return ""
	}
	d.disk(&r)
	if r.Held {
		server = r.Holder
		d.ok("server", "A server uses the database%s.", atAddress(server))
	}
	return server
}

// activity checks what other sessions of PostgreSQL do to all.
func (d *doctor) activity(r *storage.Report) {
	for _, s := range r.Snapshots {
		from := ""
		if s.Addr != "" {
			from = " at " + s.Addr
		}
		d.note("database", "Session %d (application_name %q, user %s%s) has had a snapshot of the database since %s. Until its transaction ends, PostgreSQL cannot remove dead rows, "+
			"and commits become slower. If nobody needs it, end it: SELECT pg_terminate_backend(%d). Take long dumps from a replica.",
			s.PID, s.Application, s.User, from, s.Since.Format(time.DateTime), s.PID)
	}
	if r.Queue > 0.25 {
		d.fault("database", "PostgreSQL's queue of notifications is %.0f %% full: a session that listens does not read them. Once it is full, hints between servers and all other "+
			"notifications fail. End the session: in pg_stat_activity its wait_event is ClientWrite, or it has been in a transaction for long.", 100*r.Queue)
	}
}

// cluster shows the servers of a cluster, and how they differ.
func (d *doctor) cluster(ctx context.Context, database string) {
	rows, err := storage.Cluster(ctx, storage.Config{URL: database, Timeout: 10 * time.Second})
	if err != nil {
		d.fault("servers", "The servers of the cluster cannot be read: %v.", err)
		return
	}
	list := runtime.ServersOf(rows)
	for i := range list {
		s := &list[i]
		about := cmp.Or(s.Role, config.RoleAll)
		if len(s.Labels) > 0 {
			about += ", labels " + strings.Join(s.Labels, " ")
		}
		if s.Draining {
			about += ", stops"
		}
		d.ok("servers", "%s%s, Baton %s, role %s, executes %d runs and has room for %d, %d are queued, seen %s.", cmp.Or(s.Name, s.ID), atAddress(s.Addr), s.Version, about,
			s.Running, s.Free, s.Queued, s.SeenAt.Format(time.DateTime))
		if s.Deaf {
			d.note("servers", "Hints of the other servers do not reach %s, so it learns up to a second later what concerns it. See its log.", cmp.Or(s.Name, s.ID))
		}
	}
	for _, difference := range runtime.Differences(list) {
		d.note("servers", "%s.", difference)
	}
}

func atAddress(addr string) string {
	if addr == "" {
		return ""
	}
	return ", at " + addr
}

// disk checks the directory of a SQLite database.
func (d *doctor) disk(r *storage.Report) {
	if err := writable(r.Dir); err != nil {
		d.fault("disk", "The directory of the database, %s, is not writable: %v. SQLite needs it for its WAL.", r.Dir, err)
	}
	if r.WAL > 1<<30 {
		d.fault("disk", "The WAL of the database has %d MiB: a reader never ends, or checkpoints fail. See the server's log.", r.WAL>>20)
	}
	free, ok := freeSpace(r.Dir)
	switch need := max(1<<30, r.Size/10); {
	case !ok:
	case free < 64<<20:
		d.fault("disk", "Only %d MiB are free in the directory of the database, %s: runs will wait for disk space. Free some, or enough for baton vacuum to shrink the file.", free>>20, r.Dir)
	case free < need:
		d.note("disk", "%d MiB are free in the directory of the database, %s.", free>>20, r.Dir)
	default:
		d.ok("disk", "%d MiB are free in the directory of the database, %s.", free>>20, r.Dir)
	}
}

// process checks the limits of this process, its clock, and settings that expose the server.
func (d *doctor) process(cfg config.Config) {
	const few, enough = 1024, 10_000
	switch n, ok := openFiles(); {
	case !ok:
	case n < few:
		d.fault("limits", "A process may open %d files, and each connection needs one. Raise the limit to 65536 (ulimit -n, LimitNOFILE in systemd).", n)
	case n < enough:
		d.note("limits", "A process may open %d files, and each connection needs one. Raise the limit for thousands of clients (ulimit -n, LimitNOFILE in systemd).", n)
	default:
		d.ok("limits", "A process may open %d files.", n)
	}
	if now := time.Now(); now.Year() < 2025 {
		d.fault("clock", "This machine's clock says %s. Set it: ids and approvals depend on it.", now.Format(time.DateOnly))
	}
	if !cfg.TLS.On() && len(cfg.Proxies) == 0 && (cfg.Insecure || len(cfg.Hosts) > 0) {
		d.note("proxy", "trusted_proxies is empty: behind a proxy that ends TLS, the server answers its own web pages, including the console, with 403. Set it to the proxy's address.")
	}
	if cfg.Insecure {
		d.note("accounts", "insecure is set: without accounts, anyone who reaches the server may do everything, and without TLS, others can read the traffic. Put the server behind a proxy that provides both.")
	}
}

// certificate checks the TLS certificate.
func (d *doctor) certificate(cfg *config.Config) {
	if !cfg.TLS.On() {
		return
	}
	pair, err := certs.Pair(cfg.TLS.CertFile, cfg.TLS.KeyFile)
	if err != nil {
		d.fault("tls", "%v. Name a certificate and its own key, both in PEM.", err)
		return
	}
	const soon = 14 * 24 * time.Hour
	leaf, now := pair.Leaf, time.Now()
	switch until := leaf.NotAfter.Format(time.DateOnly); {
	case now.After(leaf.NotAfter):
		d.fault("tls", "The certificate %s expired on %s: clients reject it. Replace it; a running server reloads it.", cfg.TLS.CertFile, until)
	case now.Before(leaf.NotBefore):
		d.fault("tls", "The certificate %s is not valid before %s, or this machine's clock is wrong.", cfg.TLS.CertFile, leaf.NotBefore.Format(time.DateTime))
	case leaf.NotAfter.Sub(now) < soon:
		d.note("tls", "The certificate %s expires on %s. Replace it before; a running server reloads it.", cfg.TLS.CertFile, until)
	default:
		d.ok("tls", "The certificate %s matches its key and expires on %s.", cfg.TLS.CertFile, until)
	}
}

// addresses checks the addresses of the listeners.
func (d *doctor) addresses(ctx context.Context, cfg config.Config, running string) {
	d.address(ctx, cfg, "listen", cfg.Listen, running)
	if cfg.AdminListen == "" {
		return
	}
	d.address(ctx, cfg, "admin", cfg.AdminListen, running)
	host, _, _ := net.SplitHostPort(cfg.AdminListen)
	if addr, err := netip.ParseAddr(host); host != "" && host != "localhost" && (err != nil || !addr.Unmap().IsLoopback()) {
		d.note("admin", "Other machines can reach %s, which serves metrics and profiles without authentication. Restrict it with a firewall.", cfg.AdminListen)
	}
}

func (d *doctor) address(ctx context.Context, cfg config.Config, about, address, running string) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err == nil {
		_ = ln.Close()
		if about == "listen" && running != "" {
			d.note(about, "The server that uses the database listens on %s, not on %s.", running, address)
			return
		}
		d.ok(about, "%s is free.", address)
		return
	}
	url, client := "http://"+transports.Dialable(address), http.DefaultClient
	if about == "listen" {
		url, client = serverURL(&cfg, address), serverClient(&cfg)
	}
	probe, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	switch readyErr := ready(probe, client, url); {
	case readyErr == nil:
		d.ok(about, "The server on %s is ready.", address)
	case running != "" && about == "listen", errors.Is(readyErr, errNotReady):
		d.fault(about, "The server on %s is not ready: %v.", address, readyErr)
	default:
		d.fault(about, "Cannot listen on %s: %v. Stop the program that uses it, or choose another address.", address, err)
	}
}
