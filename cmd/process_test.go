//go:build unix

package cmd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batonrun/baton/storage/postgrestest"
)

// The agents of the test end themselves where their queries say so, once for each mark, or always.
var fragile = map[string]string{
	"python": `
import os, signal, time, baton

def agent(run):
    where, mark = run.query.split(" ")
    def at(point):
        if where == "always" or where == point and not os.path.exists(mark):
            open(mark, "a").close()
            os.kill(os.getpid(), signal.SIGKILL)
    def count(name):
        with open(mark + "." + name, "a") as f:
            f.write("x")
    if where == "healthy":
        run.do("begin", lambda: count("began"))
        while not os.path.exists(mark):
            time.sleep(0.01)
    at("before")
    def first():
        count("first")
        at("inside")
        return "a"
    a = run.do("first", first)
    at("between")
    sum = run.tool("sums.add", {"numbers": [1, 2]})["result_summary"]
    run.text("half ")
    at("text")
    run.text("whole %s %s" % (a, sum))

@baton.tool("Adds numbers.", {"type": "object"})
def add(args):
    return str(sum(args["numbers"]))

baton.serve(agent, tools=[add])
`,
	"typescript": `
import { serve } from "DIST";
import { appendFileSync, existsSync } from "node:fs";

const add = { name: "add", description: "Adds numbers.", parameters: { type: "object" }, call: args => String(args.numbers[0] + args.numbers[1]) };
serve(async run => {
  const [where, mark] = run.query.split(" ");
  const at = async point => {
    if (where !== "always" && (where !== point || existsSync(mark))) return;
    appendFileSync(mark, "");
    process.kill(process.pid, "SIGKILL");
    await new Promise(() => {});
  };
  const count = name => appendFileSync(mark + "." + name, "x");
  if (where === "healthy") {
    await run.do("begin", () => count("began"));
    while (!existsSync(mark)) await new Promise(done => setTimeout(done, 10));
  }
  await at("before");
  const a = await run.do("first", async () => {
    count("first");
    await at("inside");
    return "a";
  });
  await at("between");
  const sum = (await run.tool("sums.add", { numbers: [1, 2] })).result_summary;
  run.text("half ");
  await at("text");
  run.text("whole " + a + " " + sum);
}, { tools: [add] });
`,
}

// A program that dies takes none of its runs with it, wherever it does: what is recorded is not done again. One that dies each time ends
// in crash_loop, and a run beside it goes on. New code is started at SIGHUP.
func TestServe_ProgramsDie(t *testing.T) {
	if _, err := os.Stat("../plugins/process/sdk/typescript/dist/baton.js"); err != nil {
		t.Fatal(err)
	}
	sdk, err := filepath.Abs("../plugins/process/sdk")
	must(t, err)
	for language, command := range map[string]string{"python": "python3, agent", "typescript": "node, agent.mjs"} {
		db := "sqlite:baton.db"
		if language == "typescript" {
			db = postgrestest.New(t)
		}
		t.Run(language, func(t *testing.T) {
			t.Chdir(t.TempDir())
			file := strings.Split(command, ", ")[1]
			source := strings.ReplaceAll(fragile[language], "DIST", sdk+"/typescript/dist/baton.js")
			put(t, file, source)
			put(t, "baton.yaml", fmt.Sprintf("agents:\n  fragile: {command: [%[1]s], env: {PYTHONPATH: %[2]s}}\ntools:\n  sums: {command: [%[1]s], env: {PYTHONPATH: %[2]s}, start_timeout: 10m}\n", command, sdk+"/python"))
			var stdout, stderr output
			p := programOf(&stdout, &stderr, "serve", "--listen", "127.0.0.1:0", "--database", db)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			code := make(chan int, 1)
			go func() { code <- p.Run(ctx) }()
			stdout.until(t, "try: curl ")
			url := strings.Fields(stdout.String())[4]
			run := func(query string) result {
				return baton(t.Context(), "run", "-o", "text", "--server", url, "--thread", strings.Fields(query)[1], "fragile", query)
			}
			for point, times := range map[string]string{"before": "x", "inside": "xx", "between": "x", "text": "x"} {
				r := run(point + " " + point)
				if !strings.Contains(r.stdout, "half whole a 3") || r.code != 0 {
					t.Errorf("%s: exit code %d\n%s%s", point, r.code, r.stdout, r.stderr)
				}
				if did, err := os.ReadFile(point + ".first"); err != nil || string(did) != times {
					t.Errorf("%s: it is done %q times, %v", point, did, err)
				}
			}
			var neighbour sync.WaitGroup
			neighbour.Go(func() {
				if r := run("healthy late"); !strings.Contains(r.stdout, "half whole a 3") || r.code != 0 {
					t.Errorf("the neighbour: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
				}
			})
			for _, err := os.Stat("late.began"); err != nil; _, err = os.Stat("late.began") {
				<-time.After(5 * time.Millisecond)
			}
			if r := run("always dead"); r.code == 0 || !strings.Contains(r.stdout+r.stderr, "given up after") {
				t.Errorf("a program that always dies: exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			put(t, "late", "")
			neighbour.Wait()
			if began, err := os.ReadFile("late.began"); err != nil || string(began) != "x" {
				t.Errorf("the neighbour began %q times, %v", began, err)
			}

			put(t, file, strings.ReplaceAll(source, "whole", "new"))
			must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
			stderr.until(t, "reloaded")
			if r := run("none after"); !strings.Contains(r.stdout, "half new a 3") {
				t.Errorf("after SIGHUP: %s%s", r.stdout, r.stderr)
			}
			cancel()
			if got := <-code; got != 0 {
				t.Errorf("exit code %d\n%s", got, stderr.String())
			}
			if log := stderr.String(); !strings.Contains(log, "signal: killed") {
				t.Errorf("the log does not have the exit status:\n%s", log)
			}
		})
	}
}
