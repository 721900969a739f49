// Command goals prints how large the project is and how its parts depend on each other, one measure a line:
//
//	go run -modfile=.ci/tools.mod ./.ci/goals
//
// It fails when a measure exceeds its limit, so that growth is a decision and not an accident.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"io/fs"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// kits are folders with code for tests in files that are not named _test.go.
var kits = []string{
	"cmd/bench", "cmd/clients", "cmd/e2e", "plugins/host/hosttest", "plugins/llm/llmtest", "plugins/plugintest", "runtime/bus/bustest", "runtime/bus/natsbus/natstest", "runtime/sim",
	"storage/blob/blobtest", "storage/blob/cloud/s3test", "storage/postgrestest", "storage/sqlitetest", "storage/storagetest",
	"transports/certs/certstest", "transports/transporttest", ".ci",
}

// order lists the files of two packages such that calls run down: from a file to the files behind it. A file that is missing here comes
// first.
var order = map[string]string{
	"runtime/work": `
result.go engine.go recover.go wait.go toolask.go hints.go attachment.go usage.go dispatch.go close.go claim.go execute.go opening.go
resumed.go execution.go guard.go expire.go snapshot.go reply.go budgetask.go budgets.go beside.go capacity.go calls.go agents.go
live.go handover.go replay.go share.go deletions.go weight.go end.go peers.go commands.go observe.go idle.go step.go history.go
prompts.go ids.go bounds.go told.go owners.go abandon.go clock.go admission.go queue.go offers.go runs.go retract.go span.go load.go
nodes.go journal.go clienttools.go text.go`,
	"storage": `
notify.go saved.go servers.go ties.go blobs.go implied.go commit.go duties.go seal.go retention.go nodes.go instances.go inspect.go
storage.go locks.go partitions.go delete.go put.go prompts.go view.go usage.go keys.go alone.go events.go byname.go runlist.go
messages.go history.go accounts.go audit.go threads.go postgres.go segments.go attachments.go steps.go memos.go counts.go statsread.go
stats.go threadlist.go sqlite.go terms.go tx.go writer.go watch.go runs.go direct.go questions.go users.go page.go process_linux.go
migrate.go pool.go errors.go dialect.go values.go`,
}

// limits are the highest values that each measure may have.
var limits = map[string]int{
	"product lines": 66_000, "engine lines": 25_000, "test lines": 61_000, "methods of the largest type": 40, "settings": 55,
	"comment lines in ten thousand with what, who, nobody …": 400, "upward arrows in runtime/work": 20, "upward arrows in storage": 30,
}

func main() {
	log.SetFlags(0)
	size := lines()
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedImports | packages.NeedDeps,
	}, "./...")
	if err != nil {
		log.Fatal(err)
	}
	largest, methods := largestType(pkgs)
	ok := true
	report := func(measure string, n int, note string) {
		limit := limits[measure]
		mark := ""
		if n > limit {
			ok, mark = false, "too many"
		}
		fmt.Printf("%-56s %7d  limit %6d  %-9s %s\n", measure, n, limit, mark, note)
	}
	report("product lines", size.product, fmt.Sprintf("and %d in test kits", size.kits))
	report("engine lines", size.engine, "")
	report("test lines", size.tests, "")
	report("methods of the largest type", methods, largest)
	report("settings", settings(), "")
	report("comment lines in ten thousand with what, who, nobody …", 10_000*size.wordy/size.comments, fmt.Sprintf("%d of %d", size.wordy, size.comments))
	for _, path := range []string{"runtime/work", "storage"} {
		i := slices.IndexFunc(pkgs, func(p *packages.Package) bool { return strings.HasSuffix(p.PkgPath, "/baton/"+path) })
		up, all := upward(pkgs[i], strings.Fields(order[path]))
		report("upward arrows in "+path, len(up), fmt.Sprintf("of %d", all))
		if len(os.Args) > 1 {
			fmt.Println(strings.Join(up, "\n"))
		}
	}
	if !ok {
		os.Exit(1)
	}
}

// sizes counts lines of Go, blank lines and comments included.
type sizes struct{ product, engine, kits, tests, comments, wordy int }

var wordy = regexp.MustCompile(`(?i)\b(what|who|whose|nobody|somebody|tell|tells|told)\b`)

func lines() (s sizes) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "node_modules" || name == "testdata" || name == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n, in := 0, func(dirs ...string) bool {
			return slices.ContainsFunc(dirs, func(dir string) bool { return strings.HasPrefix(path, dir+"/") })
		}
		for sc := bufio.NewScanner(f); sc.Scan(); n++ {
			if text := strings.TrimSpace(sc.Text()); strings.HasPrefix(text, "//") {
				s.comments++
				if wordy.MatchString(text) {
					s.wordy++
				}
			}
		}
		switch {
		case strings.HasSuffix(path, "_test.go"):
			s.tests += n
		case in(kits...):
			s.kits += n
		default:
			s.product += n
			if in("storage") || in("runtime") && !in("runtime/agui") {
				s.engine += n
			}
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	return s
}

// settings counts the settings in the example of docs/settings.md, each of which names its environment variable.
func settings() int {
	page, err := os.ReadFile("docs/settings.md")
	if err != nil {
		log.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(page)) {
		if key, comment, ok := strings.Cut(line, "#"); ok && strings.Contains(key, ":") && strings.Contains(comment, "BATON_") {
			n++
		}
	}
	return n
}

// largestType returns the type with the most methods, those of embedded types apart.
func largestType(pkgs []*packages.Package) (name string, most int) {
	for _, p := range pkgs {
		for _, n := range p.Types.Scope().Names() {
			if t, ok := p.Types.Scope().Lookup(n).Type().(*types.Named); ok && !types.IsInterface(t) && t.NumMethods() > most {
				name, most = p.Types.Name()+"."+n, t.NumMethods()
			}
		}
	}
	return name, most
}

// upward returns the arrows between files of a package that run against the order: from a file with a use of a function to an earlier
// file, which declares it. all counts the arrows in both directions.
func upward(p *packages.Package, order []string) (up []string, all int) {
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
	for i, name := range order {
		rank[name] = i + 1
	}
	for _, a := range slices.SortedFunc(maps.Keys(arrows), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }) {
		if rank[a[1]] < rank[a[0]] || len(order) == 0 {
			slices.Sort(arrows[a])
			up = append(up, fmt.Sprintf("\t%s -> %s: %s", a[0], a[1], strings.Join(slices.Compact(arrows[a]), " ")))
		}
	}
	return up, len(arrows)
}
