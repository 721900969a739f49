package runtime_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGrantsComeFromCallers reads the package's sources: reads by key take a grant, and only few functions make a
// grant, each after a check of the owner. The compiler ensures that requests have no other way to read by key.
func TestGrantsComeFromCallers(t *testing.T) {
	t.Parallel()
	found := make(map[string]bool)
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		must(t, err)
		for _, decl := range parsed.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			note := func(what string) { found[what+" in "+fn.Name.Name+" of "+file] = true }
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if name, ok := n.Type.(*ast.Ident); ok && (name.Name == "grant" && len(n.Elts) > 0 || name.Name == "keyed") {
						note(name.Name + " made")
					}
				case *ast.CallExpr:
					if name, ok := n.Fun.(*ast.Ident); ok && slices.Contains([]string{"granted", "grantedRun", "grantedStart"}, name.Name) {
						note(name.Name)
					}
				case *ast.SelectorExpr:
					switch of, _ := n.X.(*ast.SelectorExpr); {
					case n.Sel.Name == "byKey" && file != "keyed.go":
						note("byKey")
					case n.Sel.Name == "logs" && file != "keyed.go":
						note("logs")
					case n.Sel.Name == "Store" && of != nil && of.Sel.Name == "cfg":
						note("the whole store")
					}
				case *ast.AssignStmt:
					for _, left := range n.Lhs {
						if s, ok := left.(*ast.SelectorExpr); ok && (s.Sel.Name == "granted" || s.Sel.Name == "thread") {
							note("a grant changed")
						}
					}
				}
				return true
			})
		}
	}
	want := []string{
		"grant made in granted of handle.go", "grant made in grantedRun of handle.go", "grant made in grantedStart of handle.go",
		"keyed made in New of runtime.go",
		// These read the store with the caller's project, and check the user.
		"granted in Get of threads.go", "granted in latest of history.go", "granted in readThread of start.go",
		"grantedRun in visible of runs.go", "grantedRun in Of of runs.go", "grantedRun in List of runs.go",
		"grantedStart in started of start.go",
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("grants and keys are in\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}
