// An agent that does what its query tells it, a JSON list of steps: for tests. It understands what agent.py does.
import { BatonError, serve, type Json, type Run } from "./baton.js";
import { execFileSync } from "node:child_process";
import { appendFileSync } from "node:fs";

const sleep = (ms: number) => new Promise(resolve => setTimeout(resolve, ms));

async function tell(run: Run, [what, ...rest]: any[], results: string[]): Promise<void> {
  switch (what) {
    case "say":
      for (const word of rest[0].split(" ")) run.text(word + " ");
      return;
    case "units":
      for (const unit of rest[0].split("")) run.text(unit);
      return;
    case "flood":
      for (let i = 0; i < rest[0]; i++) await run.text("x".repeat(1000));
      return;
    case "reason":
      return run.reason(rest[0]);
    case "state":
      return run.state(rest[0]);
    case "progress":
      return run.progress(rest[0], rest[1]);
    case "do": {
      const value = await run.do(rest[0], async () => {
        for (const inner of rest[1]) await tell(run, inner, results);
        return rest[2] as Json;
      });
      results.push(`did ${JSON.stringify(value)}`);
      return;
    }
    case "tool": {
      const out = await run.tool(rest[0], rest[1]);
      results.push(`${out.status} ${out.result_summary}`);
      return;
    }
    case "tools":
      results.push(...(await run.tools(...(rest as [string, object][]))).map(out => out.result_summary));
      return;
    case "agent":
      results.push((await run.agent(rest[0], rest[1])).answer);
      return;
    case "ask":
      results.push(`answer ${JSON.stringify((await run.ask(rest[0])).payload)}`);
      return;
    case "sleep":
      await run.sleep(rest[0]);
      return run.sleepUntil(new Date(Date.now() - 3600_000));
    case "event": {
      const got = await run.waitFor(rest[0], rest[1]);
      results.push(got.expired ? "expired" : `got ${JSON.stringify(got.payload)}`);
      return;
    }
    case "next":
      results.push(`next ${(await run.next()).map(m => m.content).join(",")}`);
      return;
    case "usage":
      return run.usage(rest[0]);
    case "emit":
      return run.emit(rest[0]);
    case "branches": {
      const work = (key: string) => run.branch(key, () => run.do("same", () => key.toUpperCase()));
      results.push(...(await Promise.all(rest.map(work))));
      return;
    }
    case "print":
      return console.log(rest[0]);
    case "env":
      results.push(JSON.stringify(Object.keys(process.env)));
      return;
    case "append":
      return appendFileSync(rest[0], "x");
    case "bad": {
      const cycle: any = [];
      cycle.push(cycle);
      const throws = { toJSON: () => { throw new Error("no JSON"); } };
      const all: any = { number: NaN, cycle, object: [1n], throws, generator: (function* () {})() };
      const bad = all[rest[0]];
      const use: any = {
        do: () => run.do("bad", () => bad), tool: () => run.tool("calculator", { expression: bad }),
        state: () => run.state({ mean: bad }), answer: () => void results.push(bad),
      };
      if (rest.length === 2) return use[rest[1]]();
      try {
        await use[rest[1]]();
      } catch {
        results.push("caught");
      }
      return;
    }
    case "typed": {
      const [date, awaited]: any[] = [await run.do("typed", () => new Date(0) as any), await run.do("awaited", async () => "awaited")];
      results.push(`${typeof date} ${awaited}`);
      return;
    }
    case "loose":
      process.stdout.write("no line feed");
      execFileSync("sh", ["-c", "printf half; cat"], { stdio: "inherit" });
      results.push("read ''");
      return;
    case "fail":
      throw new BatonError(rest[0], rest[1], true);
    case "bug":
      throw new Error(rest[0]);
    case "exit":
      process.exit(rest[0]);
    case "stop":
      process.kill(process.pid, "SIGSTOP");
      return sleep(1_000_000) as Promise<void>; // the other threads stop a moment later
    case "block":
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, rest[0] * 1000);
      return;
    case "hang":
      run.text("hanging ");
      return sleep(1_000_000) as Promise<void>;
    case "wait":
      run.text("waiting ");
      while (!run.signal.aborted) await sleep(5);
      run.text("too late");
  }
}

serve(
  async run => {
    const results: string[] = [];
    for (const step of JSON.parse(run.query)) await tell(run, step, results);
    const last: any = results.at(-1);
    if (results.length > 0 && typeof last !== "string") return last;
    return { answer: results.join(" "), key_points: ["told"] };
  },
  {
    description: "Does what it is told.",
    tools: [
      {
        name: "add",
        description: "Adds numbers.",
        parameters: {
          type: "object",
          properties: { numbers: { type: "array", items: { type: "number" } } },
          required: ["numbers"],
        },
        idempotent: true,
        call: args => String((args.numbers as number[]).reduce((a, b) => a + b, 0)),
      },
      {
        name: "refuse",
        description: "Fails.",
        approval: { by: "operator", message: "args.why", expires: "24h", edit: false },
        call: () => {
          throw new BatonError("there is no such thing", "not_found");
        },
      },
    ],
  },
);
