// CopilotKit's chats of both versions in Chromium, with Baton at BATON_URL as their runtime.
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { until } from "../until.mjs";
import { open, runs, script, told } from "./browse.mjs";

for (const version of [1, 2]) {
  const list = version === 1 ? ".copilotKitMessagesContainer" : '[data-testid="copilot-message-list"]';
  const button = '[data-testid="copilot-send-button"]';
  const box = '[data-testid="copilot-chat-textarea"]';

  const chat = async (options, chat) => {
    const c = chat ?? (await open(`copilot${version}`, options));
    await c.page.waitForSelector(box);
    // The messages line by line, without the user's scripts and the page's own texts.
    c.lines = async () =>
      (await c.texts(list))
        .join("\n")
        .split("\n")
        .map((line) => line.trim())
        .filter((line) => line !== "" && !line.startsWith("{") && !line.startsWith("Thought for"));
    c.says = async (...want) => {
      let got;
      await until("said", async () => {
        got = await c.lines();
        return JSON.stringify(got) === JSON.stringify(want);
      }).catch(() => assert.fail(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}; ${c.complaints}`));
    };
    // At the end of a connect the client takes a run that has begun meanwhile for ended, and does not offer to stop it.
    c.rests = () => until("at rest", async () => c.connected() && (await c.page.locator("#running").count()) === 0);
    c.say = async (text) => {
      await c.rests();
      await c.page.fill(box, text);
      // Until the chat is ready it ignores Enter and keeps the text. Enter without a text would stop the run.
      await until("sent", async () => {
        if ((await c.page.inputValue(box)) === "") return true;
        await c.page.press(box, "Enter");
        return false;
      });
    };
    return c;
  };

  describe(`CopilotKit, version ${version}`, { concurrency: 3 }, () => {
    test("texts and server tools, and on with the talk", async () => {
      const c = await chat();
      await c.say(script({ say: "hello there" }, { tool: "calculator", args: { expression: "6*7" } }, { say: "it is 42" }));
      await c.says("hello there", "it is 42");
      await c.say(script({ reason: "let me think" }, { tool: "calculator", args: { expression: "1+1" } }));
      await c.say("and on");
      await until("said", async () => (await c.lines()).at(-1) === "and on");
      await c.shoot(`copilot${version}-texts`);
      await c.close();
    });

    test("frontend tools, one that throws, and one that asks a person", async () => {
      const c = await chat();
      await c.say(script({ tool: "pick", args: { of: [1, 2] } }, { say: "thanks" }));
      await c.says("pick → picked 2", "thanks");
      await c.say(script({ tool: "break", args: {} }, { say: "never mind" }));
      await c.says("pick → picked 2", "thanks", "break → Error: it broke");
      await c.say(script({ say: "look" }, { tool: "choose", args: {} }, { say: "good" }));
      await c.page.click("text=choose left");
      const all = ["pick → picked 2", "thanks", "break → Error: it broke", "never mind", "look", "chose the left one", "good"];
      await c.says(...all);
      await c.say("and on");
      await c.says(...all, "and on", "and on");
      await c.shoot(`copilot${version}-tools`);
      await c.close("it broke");
    });

    test("a question is answered on the page", async () => {
      const c = await chat();
      await c.say(script({ say: "so" }, { ask: { message: "Deploy?" } }, { say: "deployed" }));
      await c.shows(".question span", ["Deploy?"]);
      await c.shoot(`copilot${version}-question`);
      await c.page.click("text=yes");
      const answer = version === 1 ? 'answer: "go"' : 'answer: {"approved":true}';
      await c.says("so", answer, "deployed");
      await c.say("and on");
      await c.says("so", answer, "deployed", "and on", "and on");
      assert.equal((await runs(c.thread)).length, 2);
      await c.close();
    });

    test("state both ways, and none of it is lost", async () => {
      const c = await chat();
      await c.say(script({ state: { keep: 1 } }));
      await c.shows("#state", ['{"keep":1}']);
      await c.rests();
      await c.page.click("text=set state");
      await c.say(script({ state: { more: 2 } }));
      await c.shows("#state", ['{"keep":1,"page":1,"more":2}']);
      assert.deepEqual((await told(c.thread)).state, { keep: 1, page: 1, more: 2 });
      await c.close();
    });

    test("another answer, and an edit", async () => {
      const c = await chat({ agent: "echo" });
      const contents = async () => (await told(c.thread)).messages.map(({ content }) => content);
      await c.say("one");
      await c.says("one", "one");
      await c.say("two");
      await c.says("one", "one", "two", "two");
      await c.rests();
      const before = (await told(c.thread)).messages.at(-1).id;
      if (version === 1) {
        await c.page.hover(".copilotKitAssistantMessage >> nth=-1");
        await c.page.locator("[aria-label='Regenerate response']").last().click();
      } else {
        await c.page.click("aside >> text=again");
      }
      await until("answered again", async () => (await told(c.thread)).messages.at(-1).id !== before && (await contents()).length === 4);
      await c.says("one", "one", "two", "two");
      assert.deepEqual(await contents(), ["one", "one", "two", "two"]);
      if (version === 2) {
        await c.rests();
        await c.page.click("aside >> text=edit");
        await c.says("one", "one", "edited", "edited");
        assert.deepEqual(await contents(), ["one", "one", "edited", "edited"]);
      }
      await c.say("on");
      await until("said", async () => (await contents()).length === 6);
      await c.close();
    });

    test("stop, and on with the talk", async () => {
      const c = await chat();
      await c.say(script({ say: "so far" }, { tool: "sleep", args: { ms: 60000 } }));
      await c.says("so far");
      await c.page.click(button);
      await c.rests();
      await until("cancelled", async () => (await runs(c.thread))[0].status === "CANCELLED");
      await c.say("next");
      await c.says("so far", "next", "next");
      await c.close();
    });

    test("errors", async () => {
      const c = await chat();
      await c.say(script({ say: "so far" }, { fail: "boom" }));
      await c.says("so far");
      await c.say("next");
      await c.says("so far", "next", "next");
      await c.close("boom");
    });

    test("reload in the middle, and two tabs", async () => {
      const c = await chat();
      await c.say(script({ say: "first" }, { tokens: 100, delayMs: 20 }, { say: "last" }));
      await until("writing", async () => (await c.lines()).length > 1);
      const other = await chat({}, await c.tab());
      await until("the end", async () => (await c.lines()).at(-1) === "last");
      const all = await c.lines();
      await other.says(...all);
      await c.page.reload();
      await c.says(...all);
      await c.say("and on");
      await c.says(...all, "and on", "and on");
      await other.close();
      await c.close();
    });

    if (version === 1) return; // has no list of threads
    test("threads are listed and opened", async () => {
      const c = await chat();
      await c.say("one");
      await c.says("one", "one");
      const other = await chat();
      const item = other.page.locator(`#threads li[data-id="${c.thread}"]`);
      await item.getByText("unnamed").click();
      await other.says("one", "one");
      await other.say("two");
      await other.says("one", "one", "two", "two");
      assert.equal((await told(c.thread)).messages.length, 4);
      const kit = async (query) => (await (await fetch(process.env.BATON_URL + "/api/copilotkit/threads" + query)).json()).threads;
      const kept = async (query = "") => (await kit(query)).find(({ id }) => id === c.thread);
      await item.getByText("rename").click();
      await item.getByText("named", { exact: true }).waitFor();
      await until("named", async () => (await kept()).name === "named");
      await other.shoot("copilot2-threads");
      await item.getByText("archive").click();
      await until("archived", async () => !(await kept()) && (await kept("?includeArchived=true")).archived);
      assert.equal(await item.count(), 0);
      const last = other.page.locator(`#threads li[data-id="${other.thread}"]`);
      await other.page.reload();
      await other.say("mine");
      await other.says("mine", "mine");
      await other.rests();
      await other.page.reload();
      await last.getByText("delete").click();
      await until("deleted", async () => !(await kit("?includeArchived=true")).some(({ id }) => id === other.thread));
      assert.equal(await last.count(), 0);
      assert.equal(await item.count(), 0);
      await other.shoot("copilot2-threads-left");
      await other.close();
      await c.close();
    });
  });
}
