package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports"
	"github.com/batonrun/baton/transports/certs"
	"github.com/batonrun/baton/transports/telemetry/traces"
)

func (p *Program) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Tell what is wrong with this installation, in sentences",
		Long: "Doctor looks at the settings and what they declare, the database, where attachments are kept, what tokens are\n" +
			"signed with, the addresses, the disk and the limits of this process, and changes nothing. Each finding is a line: what is well (ok), what is worth knowing (note), and what is\n" +
			"wrong and how to cure it (wrong). The exit code is 1 when something is wrong.",
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

// finding is one thing that doctor has to say.
type finding struct {
	State string `json:"state"` // ok, note or wrong
	About string `json:"about"`
	Text  string `json:"text"`
}

// doctor gathers findings.
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

// print writes the findings.
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

// examine looks at everything that it can reach.
func (p *Program) examine(ctx context.Context, cmd *cobra.Command) *doctor {
	d := new(doctor)
	cfg, err := config.Load(cmd.Flags())
	d.process(cfg)
	if err != nil {
		d.fault("settings", "%v", err)
		return d // all else depends on them
	}
	if cfg.Path == "" {
		d.note("settings", "There is no %s here; the defaults, the environment and the flags hold. baton init writes a file.", config.File)
	} else {
		d.ok("settings", "%s is in order.", cfg.Path)
	}
	p.declared(d, cfg)
	running := d.database(ctx, cfg)
	d.attached(ctx, &cfg)
	d.tokens(ctx, &cfg.Auth)
	d.certificate(&cfg)
	d.addresses(ctx, cfg, running)
	if traced, err := traces.FromEnv(ctx, buildVersion(), slog.New(slog.DiscardHandler)); err != nil {
		d.fault("traces", "%v", err)
	} else if traced != nil {
		d.collector(ctx)
		_ = traced.Shutdown(ctx) // there are none
	}
	return d
}

// declared looks at what the file declares, and at the keys of providers.
func (p *Program) declared(d *doctor, cfg config.Config) {
	o, err := p.offers(cfg, offers{})
	switch {
	case err != nil:
		d.fault("agents", "%v", err)
	case d.missing(o.list):
	case o.assistant != nil:
		d.ok("agents", "%d agents, tools and workflows are offered, among them the assistant that the environment has a model for.", len(o.list))
	case o.declared != nil && len(o.declared.Plugins()) > 0:
		d.ok("agents", "%d agents, tools and workflows are offered.", len(o.list))
	default:
		d.note("agents", "No key of a provider, such as OPENAI_API_KEY, is in the environment, and no agent is declared: "+
			"only what this program brings itself is offered.")
	}
}

// missing looks for the programs that are agents and servers of tools, without any of which no server starts.
func (d *doctor) missing(list []plugins.Plugin) (missing bool) {
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

// database looks at the database, and returns where the server listens that has it, "" for none.
func (d *doctor) database(ctx context.Context, cfg config.Config) (server string) {
	name := databaseName(cfg.Database)
	r, err := storage.Inspect(ctx, storage.Config{URL: cfg.Database, Timeout: 10 * time.Second})
	switch {
	case errors.Is(err, storage.ErrSchema):
		d.fault("database", "%s was made by a newer Baton: %v. Start that version.", name, err)
	case err != nil:
		d.fault("database", "%s cannot be used: %v.", name, err)
	case !r.Exists:
		d.ok("database", "%s does not exist yet; the first start makes it.", name)
	case r.Schema == 0:
		d.ok("database", "%s is reached (%s) and empty; the first start makes its tables.", name, r.Software)
	case r.Schema < r.Wanted:
		d.note("database", "%s is reached (%s); the next start brings its schema from version %d to %d. Make a copy first: baton backup.", name, r.Software, r.Schema, r.Wanted)
	default:
		d.ok("database", "%s is reached (%s), with this version's schema.", name, r.Software)
	}
	if err == nil && cfg.Auth.Mode == config.AuthAPIKey && !r.Keys && (r.Schema == 0 || r.Schema == r.Wanted) {
		d.note("accounts", "Nobody has a key that is good, so nobody gets in: baton keys create makes one, beside a server too.")
	}
	if err == nil && r.Skew.Abs() > 2*time.Second {
		d.fault("clock", "The clock of the database is %s ahead of this machine's; runs and approvals are timed by both. Have both follow a time server.", r.Skew)
	}
	if r.Dir == "" {
		return ""
	}
	d.files(&r)
	if r.Held {
		server = r.Holder
		d.ok("server", "A server has the database%s.", at(server))
	}
	return server
}

func at(addr string) string {
	if addr == "" {
		return ""
	}
	return ", at " + addr
}

// files looks at where a SQLite database lies.
func (d *doctor) files(r *storage.Report) {
	f, err := os.CreateTemp(r.Dir, ".baton-doctor-")
	if err != nil {
		d.fault("disk", "The directory of the database, %s, cannot be written to: %v. SQLite needs that for its WAL.", r.Dir, err)
	} else {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
	if r.WAL > 1<<30 {
		d.fault("disk", "The WAL of the database has %d MiB: something reads from it without an end, or checkpoints fail. The log of the server may say more.", r.WAL>>20)
	}
	free, ok := freeSpace(r.Dir)
	switch need := max(1<<30, r.Size/10); {
	case !ok:
	case free < 64<<20:
		d.fault("disk", "Only %d MiB are free where the database lies, %s: runs will wait for room. Make some, or give baton vacuum room to shrink it.", free>>20, r.Dir)
	case free < need:
		d.note("disk", "%d MiB are free where the database lies, %s.", free>>20, r.Dir)
	default:
		d.ok("disk", "%d MiB are free where the database lies, %s.", free>>20, r.Dir)
	}
}

// process looks at the limits of this process and at its clock.
func (d *doctor) process(cfg config.Config) {
	const few, enough = 1024, 10_000
	switch n, ok := openFiles(); {
	case !ok:
	case n < few:
		d.fault("limits", "A process may have %d files open, and each connection is one: raise that to 65536 (ulimit -n, LimitNOFILE in systemd).", n)
	case n < enough:
		d.note("limits", "A process may have %d files open, and each connection is one; for thousands of readers raise that (ulimit -n, LimitNOFILE in systemd).", n)
	default:
		d.ok("limits", "A process may have %d files open.", n)
	}
	if now := time.Now(); now.Year() < 2025 {
		d.fault("clock", "This machine thinks that it is %s: ids and approvals need the right time.", now.Format(time.DateOnly))
	}
	if !cfg.TLS.On() && len(cfg.Proxies) == 0 && (cfg.Insecure || len(cfg.Hosts) > 0) {
		d.note("proxy", "trusted_proxies names nobody: behind a proxy that ends TLS, web pages of this server, its console too, are refused with 403 until it names the proxy's address.")
	}
	if cfg.Insecure {
		d.note("accounts", "insecure is set: whoever reaches the server may do everything, and what is sent can be read on its way. Put a proxy with accounts and TLS before it.")
	}
}

// certificate looks at what TLS is spoken with.
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
		d.fault("tls", "The certificate %s expired on %s: clients refuse it. Put a new one in its place; a server at work takes it up.", cfg.TLS.CertFile, until)
	case now.Before(leaf.NotBefore):
		d.fault("tls", "The certificate %s is not good before %s, or this machine's clock is wrong.", cfg.TLS.CertFile, leaf.NotBefore.Format(time.DateTime))
	case leaf.NotAfter.Sub(now) < soon:
		d.note("tls", "The certificate %s expires on %s. Put a new one in its place before; a server at work takes it up.", cfg.TLS.CertFile, until)
	default:
		d.ok("tls", "The certificate %s and its key belong together; it expires on %s.", cfg.TLS.CertFile, until)
	}
}

// addresses looks at where the server would listen, or does.
func (d *doctor) addresses(ctx context.Context, cfg config.Config, running string) {
	d.address(ctx, cfg, "listen", cfg.Listen, running)
	if cfg.AdminListen == "" {
		return
	}
	d.address(ctx, cfg, "admin", cfg.AdminListen, running)
	host, _, _ := net.SplitHostPort(cfg.AdminListen)
	if addr, err := netip.ParseAddr(host); host != "" && host != "localhost" && (err != nil || !addr.Unmap().IsLoopback()) {
		d.note("admin", "Other machines reach %s, where metrics and profiles are shown without accounts: let a firewall decide which.", cfg.AdminListen)
	}
}

func (d *doctor) address(ctx context.Context, cfg config.Config, about, address, running string) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err == nil {
		_ = ln.Close()
		if about == "listen" && running != "" {
			d.note(about, "The server that has the database listens on %s, and not on %s.", running, address)
			return
		}
		d.ok(about, "%s is free.", address)
		return
	}
	url, client := "http://"+transports.Dialable(address), http.DefaultClient
	if about == "listen" {
		url, client = ownURL(&cfg, address), ownClient(&cfg)
	}
	probe, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	switch readyErr := ready(probe, client, url); {
	case readyErr == nil:
		d.ok(about, "The server on %s is ready.", address)
	case running != "" && about == "listen":
		d.fault(about, "The server on %s does not serve: %v.", address, readyErr)
	default:
		d.fault(about, "%s cannot be listened on: %v. Stop what has it, or choose another address.", address, err)
	}
}
