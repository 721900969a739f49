package config

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the reference of the settings")

const (
	settingsPage = "../docs/settings.md"
	opening      = "```yaml\n"
	closing      = "```\n"
)

// TestReference_ListsAllSettings compares docs/settings.md with the settings.
func TestReference_ListsAllSettings(t *testing.T) {
	want, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(settingsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), opening)
	got, after, ok := strings.Cut(rest, closing)
	if !ok {
		t.Fatal("the page has no file")
	}
	if *update {
		if err := os.WriteFile(settingsPage, []byte(before+opening+want+closing+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the page is outdated; go test ./config -update rewrites it (-settings +page):\n%s", diff)
	}
}

// TestReference_SetsTheDefaults reads the reference as a file.
func TestReference_SetsTheDefaults(t *testing.T) {
	text, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "# ;") || strings.Contains(line, "# \n") {
			t.Errorf("no description in %q", line)
		}
	}
	got, err := loadText(t, text)
	if err != nil {
		t.Fatal(err)
	}
	got.Path = ""
	if diff := cmp.Diff(Default().String(), got.String()); diff != "" {
		t.Errorf("the reference sets other values (-want +got):\n%s", diff)
	}
}

// reference returns a file with all settings, their defaults, comments and environment variables.
func reference() (string, error) {
	notes, err := comments()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	section := ""
	def := reflect.ValueOf(Default())
	for _, s := range settings() {
		if s.secret { // a file must not contain it
			continue
		}
		head, name, nested := strings.Cut(s.key, ".")
		indent := ""
		if !nested {
			name = head
		} else {
			indent = "  "
		}
		if nested && head != section {
			fmt.Fprintf(&b, "\n# %s\n%s:\n", notes[head], head)
		}
		section = head
		v := def.FieldByIndex(s.index)
		fmt.Fprintf(&b, "%s%s: %s # %s; %s\n", indent, name, written(v), notes[s.key], s.env)
	}
	return b.String(), nil
}

// written returns a default in the form of a file.
func written(v reflect.Value) string {
	switch {
	case v.Kind() == reflect.Slice:
		return strings.ReplaceAll(fmt.Sprint(v), " ", ", ")
	case v.Kind() == reflect.String && v.String() == "":
		return `""`
	}
	return fmt.Sprint(text(v))
}

// comments returns the source's comments on settings, by key, and on sections, by name, without the default in brackets at
// the end.
func comments() (map[string]string, error) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		return nil, err
	}
	var decls []ast.Decl
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		decls = append(decls, file.Decls...)
	}
	structs := map[string]*ast.StructType{}
	notes := map[string]string{}
	for _, d := range decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, spec := range g.Specs {
			t := spec.(*ast.TypeSpec)
			if st, ok := t.Type.(*ast.StructType); ok {
				structs[t.Name.Name] = st
				notes[t.Name.Name] = sentence(strings.TrimPrefix(g.Doc.Text(), t.Name.Name+" "))
			}
		}
	}
	var walk func(name, prefix string)
	walk = func(name, prefix string) {
		for _, f := range structs[name].Fields.List {
			if f.Tag == nil {
				continue
			}
			key := prefix + reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("yaml")
			if section, ok := f.Type.(*ast.Ident); ok && structs[section.Name] != nil {
				notes[key] = notes[section.Name]
				walk(section.Name, key+".")
				continue
			}
			text := strings.TrimSpace(f.Comment.Text())
			if i := strings.LastIndex(text, " ("); i > 0 && strings.HasSuffix(text, ")") {
				text = text[:i]
			}
			notes[key] = text
		}
	}
	walk("Config", "")
	return notes, nil
}

// sentence returns a comment on one line with a capital at its start.
func sentence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):]
}
