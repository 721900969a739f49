import type { Worker } from "./setup";

export interface Example {
  name: string;
  text: string;
}

const script = (...ops: object[]) => JSON.stringify({ do: ops });

const examples: Record<string, Example[]> = {
  echo: [{ name: "Say hello", text: "Hello! Here is a list:\n\n- one\n- two\n\nand `some code`." }],
  demo: [{ name: "An article", text: "The history of tea" }],
  scripted: [
    {
      name: "Think, call a tool, answer",
      text: script({ reason: "The sum is needed first." }, { tool: "calculator", args: { expression: "6 * 7" } }, { say: "It is **42**.", delayMs: 40 }),
    },
    { name: "State that moves", text: script({ state: { step: 1, plan: ["read", "write"] } }, { say: "Reading …", delayMs: 300 }, { state: { step: 2 } }, { say: "Done." }) },
    {
      name: "Ask a question",
      text: script(
        { say: "Before I go on:" },
        {
          ask: {
            message: "Where shall it be deployed?",
            schema: {
              type: "object", required: ["place"],
              properties: { place: { type: "string", title: "Place", enum: ["staging", "production"] }, note: { type: "string", title: "Note" } },
            },
          },
        },
        { say: "Thank you." },
      ),
    },
    { name: "Answer slowly", text: script({ tokens: 240, delayMs: 60 }) },
    { name: "Fail", text: script({ say: "I try." }, { fail: "The disk is full", code: "disk_full" }) },
  ],
};

/** examplesFor returns example messages for the test agents. */
export const examplesFor = (worker: Worker): Example[] => examples[worker.name] ?? [];
