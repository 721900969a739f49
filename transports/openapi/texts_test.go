package openapi_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// described are the packages that have types of the document, with the names of these; none for all.
var described = map[string]string{
	"../wire": "", "../attachments": "Uploaded Signed", "../ticket": "Issued", "..": "Problem",
	"../../plugins": "PromptTool PromptChange", "../../runtime/prompts": "HiddenPrompt", "../../runtime/data": "SavedView",
	"../../runtime/monitor": "AgentStatus",
	"../../runtime/agui":    "Context FinishMetadata Interrupt Outcome OutputError Part ResumeEntry RunAgentInput Source TokenUsage Tool ToolOutput WorkerOutput",
}

// TestTextsAreThoseOfTheTypes compares texts.json with the comments of the types in the document. With -update, it writes the file.
func TestTextsAreThoseOfTheTypes(t *testing.T) {
	t.Parallel()
	texts := make(map[string]map[string]string)
	for dir, names := range described {
		comments(t, dir, strings.Fields(names), texts)
	}
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	must(t, enc.Encode(texts))
	if flag.Lookup("update").Value.String() == "true" { // a flag of transporttest
		must(t, os.WriteFile("texts.json", want.Bytes(), 0o600))
		return
	}
	got, err := os.ReadFile("texts.json")
	must(t, err)
	if !bytes.Equal(want.Bytes(), got) {
		t.Error("texts.json is not what the comments say; run go generate in transports/openapi")
	}
}

// comments adds the comments of structs of a package and of their JSON members. Go's readers alone see the paragraphs after the first.
func comments(t *testing.T, dir string, names []string, texts map[string]map[string]string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	must(t, err)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		must(t, err)
		for _, decl := range file.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				continue
			}
			for _, spec := range d.Specs {
				spec := spec.(*ast.TypeSpec)
				s, ok := spec.Type.(*ast.StructType)
				if !ok || !spec.Name.IsExported() || len(names) > 0 && !slices.Contains(names, spec.Name.Name) {
					continue
				}
				members := commented(s)
				members[""] = sentence(spec.Name.Name, d.Doc)
				texts[file.Name.Name+"."+spec.Name.Name] = members
			}
		}
	}
}

// commented returns the comments of a struct's JSON members.
func commented(s *ast.StructType) map[string]string {
	texts := make(map[string]string)
	for _, f := range s.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag := reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		if text := cmp.Or(firstParagraph(f.Comment), firstParagraph(f.Doc)); name != "" && text != "" {
			texts[name] = text
		}
	}
	return texts
}

// sentence returns the first paragraph of a type's comment without "Name is".
func sentence(name string, doc *ast.CommentGroup) string {
	text := firstParagraph(doc)
	for _, verb := range []string{" is ", " are "} {
		if rest, ok := strings.CutPrefix(text, name+verb); ok {
			return strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return text
}

func firstParagraph(doc *ast.CommentGroup) string {
	text, _, _ := strings.Cut(doc.Text(), "\n\n")
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", " ")
}
