package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/batonrun/baton/config"
)

func Example() {
	flags := pflag.NewFlagSet("baton", pflag.ContinueOnError)
	config.Flags(flags)
	if err := flags.Parse([]string{"--listen", "127.0.0.1:9000"}); err != nil {
		fmt.Println(err)
		return
	}
	cfg, err := config.Load(flags)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Listen, cfg.Timeouts.Step, cfg.Limits.Input)
	// Output: 127.0.0.1:9000 10m0s 32MiB
}

// load runs Load in a directory with that baton.yaml (none if empty), environment and command line.
func load(t *testing.T, file string, env map[string]string, args ...string) (config.Config, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if file != "" {
		write(t, config.File, file)
	}
	for name, val := range env {
		t.Setenv(name, val)
	}
	flags := pflag.NewFlagSet("baton", pflag.ContinueOnError)
	config.Flags(flags)
	flags.Bool("follow", false, "not a setting")
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return config.Load(flags)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLoad_DefaultsWithoutSources(t *testing.T) {
	for name, file := range map[string]string{
		"no file":        "",
		"empty":          "\n",
		"comments":       "# listen: 127.0.0.1:1\n",
		"empty sections": "limits:\n  # runs: 1\nlisten:\n",
		"null document":  "---\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := load(t, file, map[string]string{"BATON_LISTEN": ""}, "--follow")
			if err != nil {
				t.Fatal(err)
			}
			want := config.Default()
			want.Path = got.Path
			if diff := cmp.Diff(want, got); diff != "" || (got.Path == config.File) != (file != "") {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoad_FlagsOverrideEnvironmentOverridesFile(t *testing.T) {
	file := `
listen: 127.0.0.1:1
database: sqlite:file.db
hosts: [a.example, b.example]
log: {level: debug, format: text}
limits.runs: 7
limits:
  runs_per_user: 2
  input: 4MiB
  queue: 1000
timeouts: {step: 90s}
`
	env := map[string]string{
		"BATON_LISTEN":               "127.0.0.1:2",
		"BATON_DATABASE":             "sqlite:env.db",
		"BATON_ORIGINS":              "https://a.example, http://localhost:3000",
		"BATON_LIMITS_RUNS_PER_USER": "3",
		"BATON_ATTACHMENTS_SIZE":     "1 kb",
		"BATON_INSECURE":             "true",
	}
	got, err := load(t, file, env, "--listen=127.0.0.1:3", "--log-level=warn", "--insecure=false")
	if err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Path = config.File
	want.Listen = "127.0.0.1:3"
	want.Database = "sqlite:env.db"
	want.Hosts = []string{"a.example", "b.example"}
	want.Origins = []string{"https://a.example", "http://localhost:3000"}
	want.Log = config.Log{Level: slog.LevelWarn, Format: "text"}
	want.Limits.Runs = 7
	want.Limits.RunsPerUser = 3
	want.Limits.Input = 4 << 20
	want.Limits.Queue = 1000
	want.Timeouts.Step = 90 * time.Second
	want.Attachments.Size = 1000
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

func TestLoad_NamedFile(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, a, "limits: {runs: 1}")
	write(t, b, "limits: {runs: 2}")
	for _, test := range []struct {
		env  string
		args []string
		want int
	}{
		{"", nil, 3},
		{a, nil, 1},
		{a, []string{"--config", b}, 2},
	} {
		got, err := load(t, "limits: {runs: 3}", map[string]string{"BATON_CONFIG": test.env}, test.args...)
		if err != nil {
			t.Fatal(err)
		}
		if got.Limits.Runs != test.want {
			t.Errorf("BATON_CONFIG=%q %q: limits.runs is %d, want %d", test.env, test.args, got.Limits.Runs, test.want)
		}
	}
	if _, err := load(t, "", nil, "--config", "gone.yaml"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a named file that is not there: got %v, want %v", err, fs.ErrNotExist)
	}
}

func TestLoad_ErrorsNameTheSetting(t *testing.T) {
	for _, test := range []struct {
		name, file string
		env        map[string]string
		args       []string
		want       string
	}{
		{name: "unknown key", file: "colour: red", want: "baton.yaml:1:1: colour is not a setting"},
		{name: "near miss", file: "\nlimits:\n  rusn: 3", want: "baton.yaml:3:3: limits.rusn is not a setting; did you mean limits.runs?"},
		{name: "section forgotten", file: "step: 3s", want: "baton.yaml:1:1: step is not a setting; did you mean timeouts.step?"},
		{name: "unknown section", file: "limit: {runs: 3}", want: "baton.yaml:1:1: limit is not a setting"},
		{name: "merge key", file: "<<: {listen: 127.0.0.1:1}", want: "baton.yaml:1:1: << is not a setting"},
		{name: "twice", file: "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2", want: "baton.yaml:2:1: listen is set twice"},
		{name: "twice, once null", file: "listen: 127.0.0.1:1\nlisten:", want: "baton.yaml:2:1: listen is set twice"},
		{name: "section as value", file: "limits: 3", want: "baton.yaml:1:9: want lines of name: value"},
		{name: "list of settings", file: "- listen", want: "baton.yaml:1:1: want lines of name: value"},
		{name: "two documents", file: "insecure: true\n---\ninsecure: false", want: "baton.yaml:2:1: want one YAML document, got more"},
		{name: "not YAML", file: "a: b: c", want: "baton.yaml:1:1: there is a colon too many"},
		{name: "structure", file: "listen: {port: 1}", want: "baton.yaml:1:1: listen: want a value, got a structure"},
		{name: "alias to itself", file: "hosts: &a [*a]", want: "baton.yaml:1:1: hosts: want a value, got a structure"},
		{name: "list", file: "listen: [a, b]", want: "baton.yaml:1:1: listen: want one value, got a list of 2"},
		{name: "fraction", file: "limits: {runs: 2.5}", want: `baton.yaml:1:10: limits.runs: want a whole number, got "2.5"`},
		{name: "not a switch", file: "insecure: yes", want: `baton.yaml:1:1: insecure: want true or false, got "yes"`},
		{name: "no unit", file: "timeouts: {step: 10}", want: `baton.yaml:1:12: timeouts.step: want a duration such as 1m30s, got "10"`},
		{name: "no size", file: "limits: {input: 2 apples}", want: `baton.yaml:1:10: limits.input: want a size such as 8MiB, got "2 apples"`},
		{name: "size overflow", file: "limits: {input: 9999999999GiB}", want: `want a size such as 8MiB, got "9999999999GiB"`},
		{name: "level", args: []string{"--log-level", "loud"}, want: `--log-level: want debug, info, warn or error, got "loud"`},
		{name: "format", args: []string{"--log-format", "xml"}, want: `log.format: want text, json or auto, got "xml"`},
		{name: "value in environment", env: map[string]string{"BATON_LIMITS_RUNS": "many"}, want: `BATON_LIMITS_RUNS: want a whole number, got "many"`},
		{name: "unknown variable", env: map[string]string{"BATON_LIMITS_RUN": "3"}, want: "environment variable BATON_LIMITS_RUN is not a setting; did you mean BATON_LIMITS_RUNS?"},
		{name: "empty unknown variable", env: map[string]string{"BATON_COLOUR": ""}, want: "environment variable BATON_COLOUR is not a setting"},
		{name: "port variable", env: map[string]string{"BATON_PORT": "8080"}, want: "environment variable BATON_PORT is not a setting"},
		{name: "listen", args: []string{"--listen", "8080"}, want: `listen: want an address and a port such as 127.0.0.1:8080, got "8080"`},
		{name: "port", args: []string{"--listen", "127.0.0.1:99999"}, want: `listen: want an address and a port`},
		{name: "open to all", args: []string{"--listen", ":8080"}, want: "listen: other machines can reach :8080 over plain HTTP"},
		{name: "open to the network", args: []string{"--listen", "192.0.2.1:8080"}, want: "allow it with insecure: true (--insecure, BATON_INSECURE=true)"},
		{name: "host with port", file: "hosts: ['a.example:80']", want: `hosts: want a host name as clients send it`},
		{name: "host in Unicode", file: "hosts: ['bücher.example']", want: `hosts: want a host name as clients send it`},
		{name: "host with a dot", file: "hosts: ['a.example.']", want: `hosts: want a host name as clients send it`},
		{name: "host of many zeros", file: "hosts: ['2001:db8:0:0:0:0:0:1']", want: `hosts: want a host name as clients send it`},
		{name: "any origin", file: "origins: ['*']", want: `got "*"`},
		{name: "origin with its own port", file: "origins: ['https://a.example:443']", want: `got "https://a.example:443"`},
		{name: "origin with a port of zeros", file: "origins: ['https://a.example:08443']", want: `got "https://a.example:08443"`},
		{name: "origin in Unicode", file: "origins: ['https://bücher.example']", want: `origins: want a scheme, a host and a port`},
		{name: "origin with a dot", file: "origins: ['https://a.example.']", want: `got "https://a.example."`},
		{name: "origin without a port", file: "origins: ['https://a.example:']", want: `got "https://a.example:"`},
		{name: "type in upper case", file: "attachments: {types: [Image/PNG]}", want: `attachments.types: want a media type such as image/png or image/*, got "Image/PNG"`},
		{name: "type with a parameter", file: "attachments: {types: ['text/plain; charset=utf-8']}", want: `got "text/plain; charset=utf-8"`},
		{name: "proxies mapped to version 6", file: "trusted_proxies: ['::ffff:10.0.0.0/104']", want: `got "::ffff:10.0.0.0/104"`},
		{name: "unset variable", file: "listen: ${GONE}", want: "baton.yaml:1:1: listen: the environment variable GONE is not set"},
		{name: "no variable", file: "listen: '${a b}'", want: "baton.yaml:1:1: listen: want the name of an environment variable"},
		{name: "variable as written", file: "limits: {runs: '${SECRET}'}", env: map[string]string{"SECRET": "s3cr3t"}, want: `baton.yaml:1:10: limits.runs: want a whole number, got "${SECRET}"`},
		{name: "part of a variable", file: "origins: ['${SECRET}']", env: map[string]string{"SECRET": "https://x.example,s3cr3t"}, want: `baton.yaml:1:1: origins: want a scheme`},
		{name: "variable of another setting", file: "admin_listen: '127.0.0.1:1'\nlisten: '${SECRET}'", env: map[string]string{"SECRET": "127.0.0.1:1"}, want: "baton.yaml:1:1: admin_listen: is not valid with the values of the file's variables"},
		{name: "origin with path", file: "origins: ['https://a.example/']", want: `got "https://a.example/"`},
		{name: "database", file: "database: baton.db", want: "database: want sqlite:<file> or a URL"},
		{name: "NATS on a file", file: "nats: nats://host", want: "nats: a SQLite file has one server"},
		{name: "NATS", file: "nats: 'nats://:4222'", want: "nats: want URLs such as nats://host:4222"},
		{name: "role", file: "role: boss", want: `role: want all, gateway or worker, got "boss"`},
		{name: "role alone", file: "role: worker", want: "role: the only server of a SQLite file does everything"},
		{name: "label", file: "labels: ['g p u']", want: `labels: want letters, digits, dots, dashes and underscores, at most 64, got "g p u"`},
		{name: "negative runs", file: "limits: {runs: -1}", want: "limits.runs: want a positive number, or 0 for the default, got -1"},
		{name: "negative rate", file: "limits: {requests_per_user: -1}", want: "limits.requests_per_user: want a positive number, or 0 for no limit, got -1"},
		{name: "no queue", file: "limits: {queue: 0}", want: "limits.queue: want more than 0, got 0"},
		{name: "negative cap", file: "limits: {runs_per_user: -1}", want: "limits.runs_per_user: want a positive number, or 0 for the default, got -1"},
		{name: "no time", file: "timeouts: {drain: 0s}", want: "timeouts.drain: want more than 0, got 0s"},
		{name: "input", file: "limits: {input: 1GiB}", want: "limits.input: want at most 96MiB, got 1GiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, test.file, test.env, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestLoad_ResolvesVariables(t *testing.T) {
	cfg, err := load(t, `
listen: "${ADDRESS}:1"
hosts: ["${HOST}", b.example]
console: "${OFF}"
limits: {runs: "${N}"}
timeouts: {run: "${N}m"}
auth: {mode: jwt, issuer: "${ISSUER}", user_claim: "$${x}", audience: a, secret_file: s}
retention: {projects: {p1: {runs: "${N}"}}}
agents: {a: {api_key: "${GONE}"}} # not ours
`, map[string]string{"ADDRESS": "127.0.0.1", "HOST": "a.example", "OFF": "false", "N": "7", "ISSUER": "https://x.example"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != "127.0.0.1:1" || !slices.Equal(cfg.Hosts, []string{"a.example", "b.example"}) || cfg.Console || cfg.Limits.Runs != 7 || cfg.Timeouts.Run != 7*time.Minute ||
		cfg.Auth.Issuer != "https://x.example" || cfg.Auth.UserClaim != "${x}" || !slices.Equal(cfg.Retention.Projects, []string{"p1.runs=7"}) {
		t.Errorf("got %+v", cfg)
	}
}

func TestLoad_ReportsEveryErrorWithItsPlace(t *testing.T) {
	file := "limits:\n  rusn: 3\n  runs: -1\n  input: much\nagents: {a: [1]}\nmcp: 1\nworkflows:\ntimeouts: {run: 0s}\n"
	_, err := load(t, file, map[string]string{"BATON_TIMEOUTS_RUN": "-1s"}, "--log-level=loud", "--listen=1")
	want := `baton.yaml:2:3: limits.rusn is not a setting; did you mean limits.runs?
baton.yaml:4:3: limits.input: want a size such as 8MiB, got "much"
--log-level: want debug, info, warn or error, got "loud"
listen: want an address and a port such as 127.0.0.1:8080, got "1"
baton.yaml:3:3: limits.runs: want a positive number, or 0 for the default, got -1
timeouts.run: want more than 0, got -1s`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestListen_IsLoopbackUnlessInsecure(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "127.9.9.9:80", "localhost:8080", "[::1]:8080", "[::ffff:127.0.0.1]:1"} {
		if _, err := load(t, "", nil, "--listen", listen); err != nil {
			t.Errorf("%s: %v", listen, err)
		}
	}
	for _, listen := range []string{":8080", "0.0.0.0:8080", "[::]:8080", "example.com:80", "localhost.example:80"} {
		if _, err := load(t, "", nil, "--listen", listen); err == nil {
			t.Errorf("%s was accepted without insecure", listen)
		}
		if _, err := load(t, "", nil, "--listen", listen, "--insecure"); err != nil {
			t.Errorf("%s with insecure: %v", listen, err)
		}
	}
}

func TestLoad_IgnoresForeignVariables(t *testing.T) {
	for name, val := range map[string]string{
		"BATON_PROGRAM":                 "TKZ5H3Q", // of a program that Baton has started, such as baton mcp
		"BATON_SOAK":                    "1",
		"BATON_TEST_POSTGRES":           "postgres://localhost",
		"BATON_SERVICE_HOST":            "10.0.0.1",
		"BATON_SERVICE_PORT":            "8080",
		"BATON_SERVICE_PORT_HTTP":       "8080",
		"BATON_PORT":                    "tcp://10.0.0.1:8080",
		"BATON_PORT_8080_TCP":           "tcp://10.0.0.1:8080",
		"BATON_PORT_8080_TCP_ADDR":      "10.0.0.1",
		"BATON_DB_SERVICE_HOST":         "10.0.0.2",
		"BATON_DB_PORT":                 "tcp://10.0.0.2:5432",
		"BATON_DB_PORT_5432_TCP_PROTO":  "tcp",
		"BATON_DB_SERVICE_PORT_METRICS": "9090",
	} {
		if _, err := load(t, "", map[string]string{name: val}); err != nil {
			t.Errorf("%s=%s: %v", name, val, err)
		}
	}
}

func TestConfig_HidesPasswords(t *testing.T) {
	for _, test := range []struct{ database, want string }{
		{"postgres://baton:s3cret@db/baton?sslmode=require", "postgres://baton:xxxxx@db/baton?sslmode=require"},
		{"postgres://baton:s3cret:@db/baton", "postgres://baton:xxxxx@db/baton"},
		{"postgresql://db/baton?user=u&password=s3cret", "postgresql://db/baton?password=xxxxx&user=u"},
		{"postgres://db/baton?sslpassword=s3cret", "postgres://db/baton?sslpassword=xxxxx"},
		{"postgres:///baton?host=/run/postgresql", "postgres:///baton?host=/run/postgresql"},
		{"postgres://baton:s3c#ret@db/baton", ""},
		{"postgres://baton:12/s3cret@db/baton", ""},
		{"postgres://baton:12#s3cret@db/baton", ""},
		{"postgres://baton:12?s3cret@db/baton", ""},
		{"postgres://db/baton?user=u;password=s3cret", ""},
		{"postgres:baton:s3cret@db", ""},
		{"host=db password=s3cret", ""},
		{"mysql://baton:s3cret@db/baton", ""},
		{"sqlite:baton.db", "sqlite:baton.db"},
	} {
		cfg := config.Default()
		cfg.Database = test.database
		err := cfg.Validate()
		if (err != nil) != (test.want == "") {
			t.Errorf("%s: Validate returned %v", test.database, err)
		}
		shown := cfg.String() + fmt.Sprintf("%v %+v", cfg, &cfg) + cfg.LogValue().String()
		if err != nil {
			shown += err.Error()
		}
		if strings.Contains(shown, "s3c") || strings.Contains(shown, "ret@") {
			t.Errorf("%s is shown in:\n%s", test.database, shown)
		}
		if want := "database: " + test.want + "\n"; test.want != "" && !strings.Contains(shown, want) {
			t.Errorf("%s: no %q in:\n%s", test.database, want, shown)
		}
	}
}

func TestConfig_HidesUsersOfNATS(t *testing.T) {
	for nats, want := range map[string]string{
		"nats://a:4222,tls://u:s3cret@b?ca=file": "nats://a:4222,tls://xxxxx@b?ca=file",
		"nats://s3cret@a":                        "nats://xxxxx@a",
		"nats://u:12/s3cret@a":                   "xxxxx",
		"nats://u:12#s3cret@a":                   "xxxxx",
		"http://u:s3cret@a":                      "xxxxx",
	} {
		cfg := config.Default()
		cfg.Database, cfg.NATS = "postgres://db/baton", nats
		err := cfg.Validate()
		if shown := fmt.Sprint(cfg, err); (err != nil) != (want == "xxxxx") || !strings.Contains(shown, "nats: "+want+"\n") || strings.Contains(shown, "s3c") {
			t.Errorf("%s: Validate returned %v, and it is shown in:\n%s", nats, err, shown)
		}
	}
}

func TestWriteYAML_LoadsAgain(t *testing.T) {
	want, err := load(t, "listen: '[::1]:80'\nhosts: [a.example]\nlog: {level: error}\nlimits: {runs_per_user: 4, input: 8MB}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := load(t, want.String(), nil)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, want)
	}
	if got.String() != want.String() {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if !strings.Contains(want.String(), "input: 8MB\n") || !strings.Contains(want.String(), "size: 20MiB\n") {
		t.Errorf("sizes are not readable in:\n%s", want)
	}
}

func TestSizeText(t *testing.T) {
	for text, want := range map[string]config.Size{
		"0": 0, "1": 1, "1023": 1023, "12B": 12, "1kB": 1000, "1KiB": 1024, "1 kib": 1024, "3mb": 3_000_000,
		"8MiB": 8 << 20, "2GiB": 2 << 30, " 5GB ": 5_000_000_000, "9223372036854775807": 1<<63 - 1,
	} {
		var got, again config.Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q is %d (%v), want %d", text, got, err, want)
		}
		if err := again.UnmarshalText([]byte(got.String())); err != nil || again != want {
			t.Errorf("%q is written %q and read as %d (%v)", text, got, again, err)
		}
	}
	for _, text := range []string{"", "B", "MiB", "-1", "1.5MiB", "1e6", "0x10", "1TB", "8M", "9223372036854775808", "9007199254740993KiB"} {
		var got config.Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

// FuzzLoad checks that no file makes Load panic, and that Load reads the settings that it wrote.
func FuzzLoad(f *testing.F) {
	f.Add(config.Default().String())
	f.Add("limits: &a {runs: 1}\nlog: {level: warn+1}\nhosts: [a, b]\n")
	f.Add("database: postgres://u:p@h:5432/d?sslmode=disable\ninsecure: 1\n")
	f.Add("limits: {input: 1 kB}\ntimeouts: {run: 1h0.5s}\norigins: a://b, c://d:1\n")
	f.Add("? listen\n: !!str 127.0.0.1:1\n...\n")
	f.Fuzz(func(t *testing.T, file string) {
		dir := t.TempDir()
		read := func(text string) (config.Config, error) {
			name := filepath.Join(dir, "baton.yaml")
			write(t, name, text)
			flags := pflag.NewFlagSet("baton", pflag.ContinueOnError)
			config.Flags(flags)
			if err := flags.Parse([]string{"--config", name}); err != nil {
				t.Fatal(err)
			}
			return config.Load(flags)
		}
		cfg, err := read(file)
		if err != nil {
			return
		}
		again, err := read(cfg.String())
		if err != nil {
			t.Fatalf("%v in:\n%s", err, cfg)
		}
		if again.String() != cfg.String() {
			t.Fatalf("read again:\n%s\nwritten:\n%s", again, cfg)
		}
	})
}

// Several hosts of a database are where its driver reads them; one host stays where it is.
func TestLoad_AcceptsSeveralHostsOfADatabase(t *testing.T) {
	for given, want := range map[string]string{
		"postgres://u:p%40@a:5433,b/db?sslmode=disable":           "postgres://u:p%40@/db?host=a%2Cb&port=5433%2C5432&sslmode=disable",
		"postgresql://a,[::1]:1/?target_session_attrs=read-write": "postgresql:///?host=a%2C%3A%3A1&port=5432%2C1&target_session_attrs=read-write",
		"postgres://u:a,b@c:1/db":                                 "postgres://u:a,b@c:1/db",
		"sqlite:a,b.db":                                           "sqlite:a,b.db",
	} {
		cfg, err := load(t, "", map[string]string{"BATON_DATABASE": given + "\n"})
		if err != nil || cfg.Database != want {
			t.Errorf("%s: got %s, %v, want %s", given, cfg.Database, err, want)
		}
	}
}

// A secret is the same with the line feed that a file or a shell adds, wherever it comes from.
func TestLoad_TrimsSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("secret\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"BATON_JWT_SECRET": " secret\n", "BATON_JWT_SECRET_FILE": file + "\n"} {
		cfg, err := load(t, "", map[string]string{name: value})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := cfg.Auth.SecretText(); got != "secret" {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}
