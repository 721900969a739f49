// Command typecheck type-checks packages and their imports for another operating system. It takes a tenth of the time of compiling
// them.
//
//	typecheck GOOS package...
package main

import (
	"log"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: typecheck GOOS package...")
	}
	pkgs, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesSizes,
		Env:  append(os.Environ(), "GOOS="+os.Args[1], "CGO_ENABLED=0"),
	}, os.Args[2:]...)
	if err != nil {
		log.Fatal(err)
	}
	if packages.PrintErrors(pkgs) > 0 {
		os.Exit(1)
	}
}
