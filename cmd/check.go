package cmd

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batonrun/baton/config"
	"github.com/batonrun/baton/plugins"
	"github.com/batonrun/baton/plugins/declared"
	"github.com/batonrun/baton/storage"
	"github.com/batonrun/baton/transports/certs"
)

func (p *Program) checkCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Check a settings file and its declarations",
		Long: "Check reads " + config.File + ", or the named file, as serve would, and reports every error with its line and\n" +
			"column. It also reads the files that the settings name. It connects to nothing and starts no program: doctor\n" +
			"examines the database and the machine of a server. The exit code is 1 when there are errors.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := cmd.Flags().Set("config", args[0]); err != nil {
					return err
				}
			}
			return p.check(cmd, asJSON)
		},
	}
	config.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "write the errors as JSON")
	return cmd
}

// verdict is the result of check.
type verdict struct {
	File   string          `json:"file"`
	OK     bool            `json:"ok"`
	Errors declared.Errors `json:"errors"`

	Warnings []string `json:"warnings,omitempty"` // the server starts nevertheless
}

func (p *Program) check(cmd *cobra.Command, asJSON bool) error {
	cfg, err := config.Load(cmd.Flags())
	file := cfg.Path
	if named := cmd.Flags().Lookup("config").Value.String(); named != "" {
		file = named
	}
	v := verdict{File: cmp.Or(file, config.File), Errors: problems(cmp.Or(file, "environment and flags"), err)}
	if file == "" {
		v.Errors = append(v.Errors, &declared.Error{File: config.File, Message: "not found in this directory; baton init writes one"})
	}
	if err == nil {
		v.named(&cfg)
	}
	var o offers
	if cfg.Path != "" {
		cfg.Path = file
		o, err = p.offers(cfg, offers{})
		found, ok := errors.AsType[declared.Errors](err)
		if !ok {
			found = problems(file, err)
		}
		v.Errors = append(v.Errors, v.without(found)...)
	}
	slices.SortStableFunc(v.Errors, func(a, b *declared.Error) int { return a.Line - b.Line })
	for _, plugin := range o.list {
		if p, ok := plugin.(interface{ Findable() error }); ok {
			if err := p.Findable(); err != nil {
				v.Warnings = append(v.Warnings, fmt.Sprintf("%s cannot be started: %v", plugin.Info().Name, err))
			}
		}
	}
	if names := plugins.Excluding(o.list); cfg.Auth.Mode == config.AuthNone && len(names) > 0 {
		v.Warnings = append(v.Warnings, "anybody may give the approvals of "+strings.Join(names, ", ")+": without accounts (auth.mode) by and not have no effect")
	}
	v.OK = len(v.Errors) == 0
	if err := v.write(p.Stdout, o, asJSON); err != nil {
		return err
	}
	if !v.OK {
		return exitCode(exitFailure)
	}
	return nil
}

// named checks what valid settings name, without a connection.
func (v *verdict) named(cfg *config.Config) {
	wrong := func(setting string, err error) {
		if err != nil {
			v.Errors = append(v.Errors, &declared.Error{File: v.File, Message: setting + ": " + err.Error()})
		}
	}
	wrong("database", storage.CheckURL(cfg.Database))
	if cfg.TLS.On() {
		_, err := certs.Pair(cfg.TLS.CertFile, cfg.TLS.KeyFile)
		wrong("tls", err)
	}
	if cfg.Auth.Mode == config.AuthJWT {
		_, err := newTokens(&cfg.Auth, slog.New(slog.DiscardHandler))
		wrong("auth", err)
	}
	if cfg.Attachments.Directory != "" && cfg.Attachments.URL == "" {
		if err := writable(cfg.Attachments.Directory); err != nil {
			v.Warnings = append(v.Warnings, fmt.Sprintf("attachments.directory: this user cannot store files in %s: %v", cfg.Attachments.Directory, err))
		}
	}
}

// without removes errors at places that v.Errors has already: both readers of a file report malformed YAML.
func (v *verdict) without(found declared.Errors) declared.Errors {
	return slices.DeleteFunc(found, func(e *declared.Error) bool {
		return slices.ContainsFunc(v.Errors, func(known *declared.Error) bool {
			return known.Line == e.Line && known.Column == e.Column && e.Line > 0
		})
	})
}

func (v *verdict) write(w io.Writer, o offers, asJSON bool) error {
	if asJSON {
		if v.Errors == nil {
			v.Errors = declared.Errors{}
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	}
	if !v.OK {
		_, err := fmt.Fprintln(w, v.Errors)
		return err
	}
	for _, warning := range v.Warnings {
		if _, err := fmt.Fprintf(w, "%s: warning: %s\n", v.File, warning); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s: no errors", v.File)
	if names := o.declared.String(); names != "" && err == nil {
		_, err = fmt.Fprintf(w, "; declares %s", names)
	}
	if err == nil {
		_, err = fmt.Fprintln(w)
	}
	return err
}

// problems splits an error of the settings into its lines. A line that names a place gets Line and Column.
func problems(file string, err error) (all declared.Errors) {
	if err == nil {
		return nil
	}
	for line := range strings.Lines(err.Error()) {
		e := &declared.Error{File: file, Message: strings.TrimSpace(line)}
		if rest, ok := strings.CutPrefix(e.Message, file+":"); ok {
			parts := strings.SplitN(rest, ":", 3)
			if len(parts) == 3 {
				e.Line, _ = strconv.Atoi(parts[0])
				e.Column, _ = strconv.Atoi(parts[1])
				e.Message = strings.TrimSpace(parts[2])
			} else {
				e.Message = strings.TrimSpace(rest)
			}
		}
		all = append(all, e)
	}
	return all
}

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a settings file, for editors",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(schema())
			return err
		},
	}
}

// schema returns the JSON Schema of a settings file.
func schema() []byte {
	properties := config.Schema()
	maps.Copy(properties, declared.Schema())
	text, err := json.MarshalIndent(map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "Baton",
		"description":          "Settings of a Baton server, and the agents, tool servers and workflows that it offers.",
		"type":                 "object",
		"properties":           properties,
		"additionalProperties": false,
	}, "", "  ")
	if err != nil {
		panic(err) // cannot happen: it has only strings and numbers
	}
	return append(text, '\n')
}

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Write a commented " + config.File + " that runs",
		Long: "Init writes " + config.File + " into this directory, with an agent for the model provider that has a key in the\n" +
			"environment, and " + schemaFile + " beside it, for editors. It does not overwrite an existing " + config.File + ".",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := create(config.File, []byte(template(os.Getenv)))
			if errors.Is(err, os.ErrExist) {
				return fmt.Errorf("%s exists already; it was not changed", config.File)
			}
			if err == nil {
				if err = os.Remove(schemaFile); errors.Is(err, os.ErrNotExist) {
					err = nil
				}
			}
			if err == nil {
				err = create(schemaFile, schema())
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s; next: baton check, baton serve\n", config.File)
			return err
		},
	}
}

// create writes a new file. It does not follow links.
func create(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// schemaFile is the schema beside the settings file, which refers to it.
const schemaFile = "baton.schema.json"
