// assistant-ui's chat in Chromium, with Baton at BATON_URL behind it.
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { until } from "../until.mjs";
import { base, open, runs, script, told } from "./browse.mjs";

const chat = async (options) => {
  const c = await open("assistant", options);
  await c.page.waitForSelector(".new textarea");
  c.say = async (text) => {
    await c.page.fill(".new textarea", text);
    await c.page.click(".new >> text=send");
  };
  c.rests = () => until("at rest", async () => (await c.page.locator("#running").count()) === 0);
  c.says = async (...want) => c.shows(".assistant p", want);
  return c;
};

describe("assistant-ui", { concurrency: 4 }, () => {
  test("texts, reasoning and server tools, and on with the talk", async () => {
    const c = await chat();
    await c.say(script({ reason: "let me think" }, { say: "hello there" }, { tool: "calculator", args: { expression: "6*7" } }));
    await c.says("hello there");
    await c.shows("blockquote", ["let me think"]);
    await c.shows(".call", ['calculator {"expression":"6*7"} → 42']);
    await c.rests();
    await c.say(script({ tool: "calculator", args: { expression: "1+1" } }));
    await c.shows(".call", ['calculator {"expression":"6*7"} → 42', 'calculator {"expression":"1+1"} → 2']);
    await c.rests();
    await c.say("and on");
    await c.says("hello there", "and on");
    await c.rests();
    await c.shows("#errors li", []);
    await c.shoot("assistant-texts");
    await c.close();
  });

  test("frontend tools, one that throws, and one that asks a person", async () => {
    const c = await chat();
    await c.say(script({ tool: "pick", args: { of: [1, 2] } }, { say: "thanks" }));
    await c.says("thanks");
    await c.shows(".call", ['pick {"of":[1,2]} → picked 2']);
    await c.rests();
    await c.say(script({ tool: "break", args: {} }, { say: "never mind" }));
    await c.says("thanks", "never mind");
    await c.shows(".call[data-error=true]", ["break {} → Error: it broke"]);
    await c.rests();
    await c.say(script({ say: "look" }, { tool: "choose", args: {} }, { say: "good" }));
    await c.page.click("text=choose left");
    await c.says("thanks", "never mind", "look", "good");
    await c.rests();
    await c.say("and on");
    await c.says("thanks", "never mind", "look", "good", "and on");
    await c.shows("#errors li", []);
    await c.shoot("assistant-tools");
    await c.close();
  });

  test("a message in place of a choice", async () => {
    const c = await chat();
    await c.say(script({ say: "look" }, { tool: "choose", args: {} }, { say: "good" }));
    await c.page.waitForSelector("text=choose left");
    await c.rests();
    await c.say("something else");
    await c.says("look", "good", "something else");
    await c.shows(".user p", [script({ say: "look" }, { tool: "choose", args: {} }, { say: "good" }), "something else"]);
    await c.rests();
    await c.say("and on");
    await c.says("look", "good", "something else", "and on");
    await c.shows("#errors li", []);
    await c.close();
  });

  test("questions are answered on the page, or left", async () => {
    const c = await chat();
    await c.say(script({ say: "so" }, { ask: { message: "Deploy?" } }, { say: "deployed" }));
    await c.shows(".question span", ["Deploy?"]);
    await c.shoot("assistant-question");
    await c.page.click("text=yes");
    await c.says("so", 'answer: {"approved":true}', "deployed");
    await c.shows(".question", []);
    await c.rests();
    await c.say(script({ ask: { message: "Really?" } }, { say: "went on" }));
    await c.shows(".question span", ["Really?"]);
    await c.page.click("text=something else");
    await c.says("so", 'answer: {"approved":true}', "deployed", "answer: cancelled", "went on", "never mind");
    await c.rests();
    await c.say("and on");
    await c.says("so", 'answer: {"approved":true}', "deployed", "answer: cancelled", "went on", "never mind", "and on");
    await c.shows("#errors li", []);
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
    await c.rests();
    assert.deepEqual((await told(c.thread)).state, { keep: 1, page: 1, more: 2 });
    await c.close();
  });

  test("edit and another answer", async () => {
    const c = await chat({ agent: "echo" });
    const said = [];
    for (const text of ["one", "two", "three"]) {
      await c.say(text);
      said.push(text);
      await c.says(...said);
      await c.rests();
    }
    await c.page.locator(".user", { hasText: "two" }).getByText("edit").click();
    await c.page.fill(".edit textarea", "2");
    await c.page.click(".edit >> text=save");
    await c.says("one", "2");
    await c.rests();
    const contents = async () => (await told(c.thread)).messages.map(({ content }) => content);
    assert.deepEqual(await contents(), ["one", "one", "2", "2"]);
    const before = (await told(c.thread)).messages.at(-1).id;
    await c.page.locator(".assistant").last().getByText("again").click();
    await until("answered again", async () => (await told(c.thread)).messages.at(-1).id !== before);
    await c.rests();
    assert.deepEqual(await contents(), ["one", "one", "2", "2"]);
    await c.say("on");
    await c.says("one", "2", "on");
    await c.shows("#errors li", []);
    await c.shoot("assistant-edited");
    await c.close();
  });

  test("stop, and on with the talk", async () => {
    const c = await chat();
    await c.say(script({ say: "so far" }, { tool: "sleep", args: { ms: 60000 } }));
    await c.says("so far");
    await c.page.click(".new >> text=stop");
    await c.rests();
    await c.say("next");
    await c.says("so far", "next");
    assert.equal((await runs(c.thread)).at(-1).status, "CANCELLED");
    await c.close();
  });

  test("errors", async () => {
    const c = await chat();
    await c.say(script({ say: "so far" }, { fail: "boom" }));
    await c.shows("#errors li", ["boom"]);
    await c.rests();
    await c.say("next");
    await c.says("so far", "next");
    await c.shoot("assistant-error");
    await c.close();
  });

  test("reload in the middle, and two tabs", async () => {
    const c = await chat();
    await c.say(script({ say: "first" }, { tokens: 100, delayMs: 20 }, { say: "last" }));
    await until("writing", async () => (await c.texts(".assistant p")).length > 1);
    const other = await c.tab();
    await other.page.waitForSelector(".new textarea");
    await until("the end", async () => (await c.texts(".assistant p")).at(-1) === "last");
    const all = await c.texts(".assistant p");
    await other.shows(".assistant p", all);
    await c.page.reload();
    await c.shows(".assistant p", all);
    await c.rests();
    await c.say("and on");
    await c.shows(".assistant p", [...all, "and on"]);
    await c.shows("#errors li", []);
    await other.close();
    await c.close();
  });

  test("threads are listed, opened, renamed and deleted", async () => {
    const c = await chat({ agent: "echo" });
    await c.say("one");
    await c.says("one");
    await c.rests();
    const other = await chat({ agent: "echo" });
    const item = other.page.locator(`.thread[data-id="${c.thread}"]`);
    await item.getByText("rename").click();
    await until("renamed", async () => (await item.innerText()).startsWith("named"));
    await item.getByText("named", { exact: true }).click();
    await other.says("one");
    await other.say("two");
    await other.says("one", "two");
    await other.rests();
    assert.deepEqual((await told(c.thread)).messages.length, 4);
    await other.shoot("assistant-threads");
    await item.getByText("delete").click();
    await until("deleted", async () => (await item.count()) === 0);
    assert.equal((await fetch(`${base}/api/v1/agent/runs/${c.thread}/events`)).status, 404);
    await other.close();
    await c.close();
  });
});
