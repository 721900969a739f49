// Takes the console's pictures for the documentation: node screenshots.mjs <baton> <folder>.
import { join, resolve } from "node:path";
import { serve } from "./program.mjs";

const [baton, folder] = process.argv.slice(2).map((p) => resolve(p));

// The data in the pictures: workflows of scripts.
const scripted = (...list) => ({ agent: "scripted", input: `'${JSON.stringify({ do: list }).replaceAll("\\", "\\\\")}'` });
const workflows = {
  support: {
    description: "Answers customers from the orders and the handbook.",
    nodes: {
      orders: scripted({ tool: "clock", args: {} }, { state: { order: 7731, carrier: "DHL" } }, { say: "Order 7731 left the warehouse on Monday." }),
      handbook: scripted({ reason: "Which page speaks of late parcels?" }, { say: "A parcel is late after five days." }),
      answer: {
        ...scripted(
          { reason: "It left three days ago, so it is not late yet." }, { tool: "calculator", args: { expression: "5 - 3" } },
          { say: "Your order **7731** is on its way:\n\n| what | when |\n|---|---|\n| left the warehouse | Monday |\n| arrives | within two days |\n\nIf it has not come by then, write to us again.", delayMs: 6 },
          { state: { order: 7731, carrier: "DHL", answered: true } },
        ),
        needs: ["orders", "handbook"],
      },
    },
  },
  refund: {
    description: "Pays customers back, large sums with leave.",
    nodes: {
      check: scripted({ say: "The parcel came back on Friday." }),
      pay: {
        ...scripted({ ask: { message: "The refund is over 500\u00a0€. How shall it be paid?", schema: {
          type: "object", required: ["way", "amount"],
          properties: {
            way: { type: "string", title: "Way", enum: ["bank transfer", "voucher"] }, amount: { type: "number", title: "Amount in €", minimum: 0, maximum: 900 },
            note: { type: "string", title: "Note to the customer" },
          },
        } } }),
        needs: ["check"],
      },
    },
  },
  report: { description: "Adds up the week.", nodes: { sum: { tool: "calculator", input: { expression: "'1204 + 998'" }, approval: "required" } } },
  mailbox: { description: "Watches a mailbox.", nodes: { watch: scripted({ say: "Three letters today: an invoice, a question about order 7731 and a note of thanks. ".repeat(20), delayMs: 300 }) } },
  import: { description: "Reads the catalogue.", nodes: { read: scripted({ fail: "The provider refused the request: too many tokens", code: "provider_error" }) } },
};
const program = await serve(baton, { workflows });
process.env.BATON_URL = program.url;

const { browse, did, leave, start, visit } = await import("./console-page.mjs");
const customers = ["Where is my order 7731?", "My parcel has not come yet", "When does the blue one arrive?", "Did you send it to the right address?"];
await Promise.all(customers.map((content) => did({ workflowId: "support", content })));
for (const n of [1, 2, 3]) await did({ agent: "echo", content: `Summarise ticket ${4100 + n}` });
await did({ workflowId: "demo", content: "a bicycle tour along the river" });
await did({ workflowId: "import", content: "The spring catalogue" }, "FAILED");
await did({ workflowId: "refund", content: "Pay back order 7702", threadId: "refund 7702" }, "WAITING");
await did({ workflowId: "report", content: "The week’s sales", threadId: "week 47" }, "WAITING");
await start({ workflowId: "mailbox", content: "Watch the mailbox" });
await did({ workflowId: "support", content: "Where is my order 7731?", threadId: "order-7731" });
const run = await did({ workflowId: "demo", content: "a picnic by the sea" });

const browser = await browse();
const wide = { width: 1280, height: 800, theme: "light" };
const pictures = [
  { name: "overview", path: "/", look: wide, until: ".chart canvas" },
  { name: "run", path: `/runs/${run.id}`, look: wide, until: ".line" },
  { name: "runs-dark", path: "/runs", look: { ...wide, theme: "dark" }, until: ".runs li" },
  { name: "playground", path: "/playground/order-7731", look: wide, until: ".outcome [data-status=COMPLETED]" },
  { name: "waiting", path: "/waiting", look: wide, until: ".question" },
  { name: "run-phone", path: `/runs/${run.id}`, look: { width: 390, height: 800, theme: "dark" }, until: ".line" },
];
for (const { name, path, look, until } of pictures) {
  const page = await visit(browser, path, look);
  await page.locator(until).first().waitFor();
  await page.evaluate(() => new Promise((done) => setTimeout(done, 500))); // until the graph is laid out
  await page.screenshot({ path: join(folder, `${name}.png`) });
  await leave(page);
}
await browser.close();
await program.stop();
