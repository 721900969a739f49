// Command goals measures how large the project is and how its parts depend on each other, one measure a line:
//
//	go run -modfile=.ci/tools.mod ./.ci/goals
//
// It fails when a measure exceeds its limit, so that growth is a decision and not an accident. A change that lowers a measure lowers its
// limit too.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/tools/go/packages"
)

const module = "github.com/batonrun/baton/"

// kits are folders with code for tests in files that are not named _test.go.
var kits = []string{
	"cmd/bench", "cmd/clients", "cmd/cmdtest", "cmd/e2e", "plugins/host/hosttest", "plugins/llm/llmtest", "plugins/plugintest", "runtime/bus/bustest", "runtime/bus/natsbus/natstest", "runtime/sim",
	"storage/blob/blobtest", "storage/blob/cloud/s3test", "storage/postgrestest", "storage/sqlitetest", "storage/storagetest",
	"transports/certs/certstest", "transports/transporttest", ".ci",
}

// limits are the highest values that the measures may have. A type or a package that is missing here has the default for its kind.
var limits = map[string]int{
	"product lines": 111_159, "engine lines": 49_571, "kit lines": 26_443, "test lines": 91_172, "settings": 60, "functions over 80 lines": 14,
	"direct dependencies": 39, "KiB of the stripped program": 45_000, "comment lines in ten thousand with what, who, nobody …": 402,

	"methods of plugins.Run": 73,

	"upward arrows in cmd": 23,
}

const (
	maxMethods = 45 // of a type, those of embedded types counted
	maxUpward  = 20 // arrows in a package
	maxLines   = 80 // of a function
)

func main() {
	log.SetFlags(0)
	ok := true
	report := func(measure string, n, limit int, note string) {
		mark := ""
		if n > limit {
			ok, mark = false, "too many"
		}
		fmt.Printf("%-56s %7d  limit %7d  %-9s %s\n", measure, n, limit, mark, note)
	}
	size := lines()
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
	}, "./...")
	if err != nil {
		log.Fatal(err)
	}
	measures := map[string]int{
		"product lines": size.product, "engine lines": size.engine, "kit lines": size.kits, "test lines": size.tests,
		"settings": settings(), "functions over 80 lines": longFunctions(pkgs), "direct dependencies": dependencies(), "KiB of the stripped program": programSize(),
		"comment lines in ten thousand with what, who, nobody …": 10_000 * size.wordy / size.comments,
	}
	for _, m := range slices.Sorted(maps.Keys(measures)) {
		report(m, measures[m], limits[m], "")
	}
	for _, p := range pkgs {
		path := strings.TrimPrefix(p.PkgPath, module)
		if isKit(path) {
			continue
		}
		for _, name := range p.Types.Scope().Names() {
			measure := "methods of " + path + "." + name
			limit, listed := limits[measure]
			if n := methods(p.Types.Scope().Lookup(name)); n > maxMethods || listed {
				report(measure, n, max(limit, maxMethods), "")
			}
		}
		measure := "upward arrows in " + path
		limit, listed := limits[measure]
		if up, all := upward(p); len(up) > maxUpward || listed || slices.Contains(os.Args[1:], path) {
			report(measure, len(up), max(limit, maxUpward), fmt.Sprintf("of %d", all))
			if slices.Contains(os.Args[1:], path) {
				fmt.Println(strings.Join(up, "\n"))
			}
		}
	}
	if !ok {
		os.Exit(1)
	}
}

// sizes counts lines of Go, blank lines and comments included.
type sizes struct{ product, engine, kits, tests, comments, wordy int }

var wordy = regexp.MustCompile(`(?i)\b(what|who|whose|nobody|somebody|tell|tells|told)\b`)

// lines counts the files that Git knows: others come and go while tests run.
func lines() (s sizes) {
	files, err := exec.Command("git", "ls-files", "*.go").Output()
	if err != nil {
		log.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(files)) {
		n := 0
		for line := range bytes.Lines(read(path)) {
			n++
			if text := bytes.TrimSpace(line); bytes.HasPrefix(text, []byte("//")) {
				s.comments++
				if wordy.Match(text) {
					s.wordy++
				}
			}
		}
		switch {
		case strings.HasSuffix(path, "_test.go"):
			s.tests += n
		case isKit(filepath.Dir(path)):
			s.kits += n
		default:
			s.product += n
			if in(path, "storage") || in(path, "runtime") && !in(path, "runtime/agui") {
				s.engine += n
			}
		}
	}
	return s
}

// in reports whether a path is a folder or in it.
func in(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func isKit(path string) bool {
	return slices.ContainsFunc(kits, func(kit string) bool { return in(path, kit) })
}

// settings counts the settings in the example of docs/settings.md, each of which names its environment variable.
func settings() int {
	n := 0
	for line := range strings.Lines(string(read("docs/settings.md"))) {
		if key, comment, ok := strings.Cut(line, "#"); ok && strings.Contains(key, ":") && strings.Contains(comment, "BATON_") {
			n++
		}
	}
	return n
}

// dependencies counts the modules that go.mod requires directly.
func dependencies() (n int) {
	mod, err := modfile.Parse("go.mod", read("go.mod"), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range mod.Require {
		if !r.Indirect {
			n++
		}
	}
	return n
}

// programSize builds the program as a release does, and returns its size in KiB.
func programSize() int {
	dir, err := os.MkdirTemp("", "goals-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "baton")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "./cmd/baton")
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="), os.Stderr
	if err := cmd.Run(); err != nil {
		log.Fatal(err)
	}
	info, err := os.Stat(bin)
	if err != nil {
		log.Fatal(err)
	}
	return int(info.Size() >> 10)
}

func read(path string) []byte {
	data, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	return data
}

// longFunctions counts the functions with more than maxLines lines.
func longFunctions(pkgs []*packages.Package) (n int) {
	for _, p := range pkgs {
		for _, f := range p.Syntax {
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if p.Fset.Position(fn.End()).Line-p.Fset.Position(fn.Pos()).Line >= maxLines {
					n++
				}
			}
		}
	}
	return n
}

// methods returns how many methods of the project a pointer to a type has, or the type itself if it is an interface.
func methods(o types.Object) (n int) {
	name, ok := o.(*types.TypeName)
	if !ok || name.IsAlias() {
		return 0
	}
	t := name.Type()
	if !types.IsInterface(t) {
		t = types.NewPointer(t)
	}
	for m := range types.NewMethodSet(t).Methods() {
		if pkg := m.Obj().Pkg(); pkg != nil && strings.HasPrefix(pkg.Path(), module) {
			n++
		}
	}
	return n
}

// upward returns the arrows between files of a package that run up if the files stand in their best order, and how many arrows there are.
// An arrow runs from a file to another one whose functions it uses.
func upward(p *packages.Package) (up []string, all int) {
	file := func(o types.Object) string { return filepath.Base(p.Fset.Position(o.Pos()).Filename) }
	arrows := make(map[[2]string][]string)
	for _, f := range p.Syntax {
		from := filepath.Base(p.Fset.Position(f.Pos()).Filename)
		ast.Inspect(f, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if fn, ok := p.TypesInfo.Uses[id].(*types.Func); ok && fn.Pkg() == p.Types && file(fn) != from {
				arrows[[2]string{from, file(fn)}] = append(arrows[[2]string{from, file(fn)}], fn.Name())
			}
			return true
		})
	}
	rank := make(map[string]int)
	for i, name := range ordered(slices.Collect(maps.Keys(arrows))) {
		rank[name] = i
	}
	for _, a := range slices.SortedFunc(maps.Keys(arrows), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		if rank[a[1]] < rank[a[0]] {
			slices.Sort(arrows[a])
			up = append(up, fmt.Sprintf("\t%s -> %s: %s", a[0], a[1], strings.Join(slices.Compact(arrows[a]), " ")))
		}
	}
	return up, len(arrows)
}

// ordered returns the files in an order with few arrows that run up. It takes a file that no arrow reaches from above first, a file without
// arrows last, and otherwise the file with the most arrows down beside those up (the heuristic of Eades, Lin and Smyth).
func ordered(arrows [][2]string) []string {
	down, into := make(map[string]int), make(map[string]int)
	for _, a := range arrows {
		down[a[0]], into[a[1]] = down[a[0]]+1, into[a[1]]+1
		down[a[1]], into[a[0]] = down[a[1]]+0, into[a[0]]+0
	}
	var first, last []string
	for len(down) > 0 {
		best, isSink := "", false
		for _, f := range slices.Sorted(maps.Keys(down)) {
			if isSink = down[f] == 0; isSink {
				best = f
				break
			}
			if best == "" || into[best] > 0 && (into[f] == 0 || down[f]-into[f] > down[best]-into[best]) {
				best = f
			}
		}
		for _, a := range arrows {
			if _, ok := down[a[0]]; ok && a[1] == best {
				down[a[0]]--
			}
			if _, ok := into[a[1]]; ok && a[0] == best {
				into[a[1]]--
			}
		}
		delete(down, best)
		delete(into, best)
		if isSink {
			last = append(last, best)
		} else {
			first = append(first, best)
		}
	}
	slices.Reverse(last)
	return append(first, last...)
}
