package config

import (
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// File is read when it exists and no other file is named.
const File = "baton.yaml"

// annotation holds the name of the setting that a flag of Flags sets.
const annotation = "baton_setting"

// Flags adds --config and the named flags of settings, or without names all that there are. Load understands them. A command without
// the flag insecure does not listen: Load accepts any address to listen on.
func Flags(fs *pflag.FlagSet, names ...string) {
	all := allFlags()
	all.VisitAll(func(f *pflag.Flag) {
		if len(names) == 0 || f.Name == "config" || slices.Contains(names, f.Name) {
			fs.AddFlag(f)
		}
	})
}

func allFlags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	def := Default()
	fs.String("config", "", "settings `file` (default "+File+" if it exists)")
	fs.String("listen", def.Listen, "`address` to serve on")
	fs.String("admin-listen", def.AdminListen, "separate `address` for metrics and profiles, without authentication")
	fs.String("database", def.Database, "sqlite:<file> or a postgres:// `URL`")
	fs.Bool("insecure", def.Insecure, "allow other machines to connect over plain HTTP or without authentication")
	fs.Bool("console", def.Console, "serve the console at /")
	fs.String("tls-cert", def.TLS.CertFile, "serve HTTPS with the certificate in this `file`")
	fs.String("tls-key", def.TLS.KeyFile, "`file` with the certificate's key")
	fs.String("log-level", strings.ToLower(def.Log.Level.String()), "debug, info, warn or error")
	fs.String("log-format", def.Log.Format, "text, json or auto")
	for _, name := range []string{"listen", "database", "insecure", "console", "log-level", "log-format"} {
		fs.Lookup(name).Annotations = map[string][]string{annotation: {strings.ReplaceAll(name, "-", ".")}}
	}
	for name, key := range map[string]string{"admin-listen": "admin_listen", "tls-cert": "tls.cert_file", "tls-key": "tls.key_file"} {
		fs.Lookup(name).Annotations = map[string][]string{annotation: {key}}
	}
	return fs
}

// Load merges the defaults, the file, the environment and the flags that were set in fs, and validates the result.
// It ignores other flags of fs, which may be nil. The file is the one that --config or BATON_CONFIG names, which must
// exist, or else File, which need not exist.
func Load(fs *pflag.FlagSet) (Config, error) {
	env, file, err := fromEnv(os.Environ())
	if err != nil {
		return Config{}, err
	}
	flags := layer{}
	if fs != nil {
		fs.Visit(func(f *pflag.Flag) {
			if f.Name == "config" {
				file = f.Value.String()
			}
			if keys := f.Annotations[annotation]; len(keys) == 1 {
				flags[keys[0]] = entry{where: "--" + f.Name, text: []string{f.Value.String()}}
			}
		})
		if fs.Lookup("insecure") == nil {
			flags["insecure"] = entry{where: "a command that does not listen", text: []string{"true"}}
		}
	}
	written, path, fileErr := fromFile(file)
	if fileErr != nil && written == nil {
		return Config{}, fileErr
	}
	cfg, err := merge(written, env, flags)
	cfg.Path = path
	return cfg, errors.Join(fileErr, err)
}

// A layer maps the keys of settings to the values in one source.
type layer map[string]entry

type entry struct {
	where string   // place for error messages: "baton.yaml:3:3: limits.runs", "BATON_LIMITS_RUNS"
	file  bool     // the source is the file
	text  []string // has one element unless the value is a list

	written []string // of the file: text with ${NAME} for the values of variables
}

// merge applies the layers to the defaults in order. An error shows a value from the file as it is written, because variables may
// be secrets.
func merge(layers ...layer) (Config, error) {
	cfg, wrong := apply(layers)
	secret := false
	for _, l := range layers {
		for key, e := range l {
			if e.file && !slices.Equal(e.text, e.written) {
				secret, e.text = true, e.written
				l[key] = e
			}
		}
	}
	if secret && len(wrong) > 0 {
		_, written := apply(layers)
		for i, p := range wrong {
			wrong[i].err = fmt.Errorf("%s: is not valid with the values of the file's variables", p.where)
			if at := slices.IndexFunc(written, func(w problem) bool { return w.where == p.where }); at >= 0 {
				wrong[i] = written[at]
				written = slices.Delete(written, at, at+1)
			}
		}
	}
	errs := make([]error, len(wrong))
	for i, p := range wrong {
		errs[i] = p.err
	}
	return cfg, errors.Join(errs...)
}

// problem is an error about a setting.
type problem struct {
	where string // its place in the file, or its name
	err   error
}

func apply(layers []layer) (Config, []problem) {
	known := map[string]setting{}
	for _, s := range settings() {
		known[s.key] = s
	}
	cfg := Default()
	var wrong []problem
	where := map[string]string{} // places of the settings that the file sets
	for _, l := range layers {
		for _, key := range slices.Sorted(maps.Keys(l)) { // sorted, so that errors have a fixed order
			e, s := l[key], known[key]
			v, err := parse(s.typ, e.text)
			if err != nil {
				wrong = append(wrong, problem{e.where, fmt.Errorf("%s: %w", e.where, err)})
				continue
			}
			reflect.ValueOf(&cfg).Elem().FieldByIndex(s.index).Set(reflect.ValueOf(v))
			if where[key] = e.where; !e.file {
				delete(where, key)
			}
		}
	}
	cfg.Database = hostsInQuery(cfg.Database)
	for _, err := range cfg.problems() {
		key, _, _ := strings.Cut(err.Error(), ": ")
		at := key
		if where[key] != "" {
			at = where[key]
			err = fmt.Errorf("%s%s", at, strings.TrimPrefix(err.Error(), key))
		}
		wrong = append(wrong, problem{at, err})
	}
	return cfg, wrong
}

// parse reads a value of type t. Every source provides text, so the type of the setting, not YAML, decides how it is read.
func parse(t reflect.Type, text []string) (any, error) {
	if t == reflect.TypeFor[[]string]() {
		list := []string{}
		for item := range strings.SplitSeq(strings.Join(text, ","), ",") {
			if item = strings.TrimSpace(item); item != "" {
				list = append(list, item)
			}
		}
		return list, nil
	}
	if len(text) != 1 {
		return nil, fmt.Errorf("want one value, got a list of %d", len(text))
	}
	v := reflect.New(t)
	var err error
	want := ""
	switch p := v.Interface().(type) {
	case *string:
		*p = text[0]
	case *bool:
		want = "true or false"
		*p, err = strconv.ParseBool(text[0])
	case *int:
		want = "a whole number"
		*p, err = strconv.Atoi(text[0])
	case *time.Duration:
		want = "a duration such as 1m30s"
		*p, err = time.ParseDuration(text[0])
	case *slog.Level:
		want = "debug, info, warn or error"
		err = p.UnmarshalText([]byte(text[0]))
	case encoding.TextUnmarshaler:
		want = "a size such as 8MiB"
		err = p.UnmarshalText([]byte(text[0]))
	default:
		panic("config: no way to read a " + t.String())
	}
	if err != nil {
		return nil, fmt.Errorf("want %s, got %q", want, text[0])
	}
	return v.Elem().Interface(), nil
}

// A setting is a leaf of Config.
type setting struct {
	key    string // its names from the root, joined by dots
	env    string // its environment variable
	secret bool   // a settings file must not contain it
	typ    reflect.Type
	index  []int // for reflect.Value.FieldByIndex
}

func newSetting(key string, f reflect.StructField, index []int) setting {
	env := f.Tag.Get("env")
	if env == "" {
		env = "BATON_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
	}
	_, secret := f.Tag.Lookup("secret")
	return setting{key, env, secret, f.Type, index}
}

// nameOf returns the name of a field in a file, "-" when it is no setting.
func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return name
}

// settings lists the leaves of Config in order.
func settings() []setting {
	var all []setting
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		name := nameOf(f)
		if name == "-" {
			continue
		}
		if f.Type.Kind() != reflect.Struct {
			all = append(all, newSetting(name, f, f.Index))
			continue
		}
		for _, sub := range reflect.VisibleFields(f.Type) {
			all = append(all, newSetting(name+"."+nameOf(sub), sub, append(f.Index[:1:1], sub.Index...)))
		}
	}
	return all
}
