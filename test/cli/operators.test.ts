/** What operators meet: errors as JSON, tokens and addresses, actions that ask first. */

import { expect, it } from "vitest";
import { AGENT, failing, given, json, run, withCommandLine } from "./deployment.ts";

withCommandLine();

it.each([
  ["an unknown verb", ["repot"]],
  ["an unknown option", ["report", "--jsno"]],
  ["a missing argument", ["show"]],
  ["an unknown list", ["ls", "submission"]],
])("with --json, wrong usage is an error as JSON: %s", async (_, words) => {
  const { code, out, err } = await run(await given({}), [...words, "--json"]);
  expect(code).toBe(2);
  const { error } = JSON.parse(out);
  expect(error.code).toBe(2);
  expect(err).toContain(error.message);
  expect(error.message).not.toMatch(/^error:/);
});

it("with --json, help is no error", async () => {
  const { code, out } = await run(await given({}), ["report", "--json", "--help"]);
  expect(code).toBe(0);
  expect(out).toContain("Usage: perdure report");
  expect(out).not.toContain('"error"');
});

it("sends no token over http: to a host that is not local, unless --allow-http is passed", async () => {
  const far = "http://shop.invalid/perdure";
  for (const words of [["report"], ["cancel", "--reason", "r", "--", "--allow-http"]]) {
    const refused = await run(far, words);
    expect(refused).toMatchObject({ code: 2, out: "" });
    expect(refused.err).toBe(
      "perdure: PERDURE_TOKEN is not sent to shop.invalid over http:, where others can read it. Use https: in PERDURE_URL, or pass --allow-http.\n",
    );
  }
  // These ask the host, which does not exist.
  expect((await run(far, ["report", "--allow-http"])).code).toBe(4);
  expect((await run(far, ["--allow-http", "report"])).code).toBe(4);
  expect((await run(far, ["report"], { PERDURE_TOKEN: "" })).code).toBe(4);
  expect((await run("https://shop.invalid/perdure", ["report"])).code).toBe(4);
  // All of them are this machine.
  for (const host of ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"]) {
    expect((await run(`http://${host}:19999/perdure`, ["report"])).code, host).toBe(4);
  }
});

it("an action that cannot be undone asks first, and --yes answers it", async () => {
  const url = await given({
    [`${AGENT}/actions`]: json({ outcome: "done", count: 1, failed: [] }),
  });
  for (const [words, what] of [
    [["restart-workflow", "w1"], "restart-workflow w1: its steps run again. Pass --yes"],
    [["restart-workflow", "w1", "--from", "pay"], "restart-workflow w1"],
    [["restart-workflow", "--filter", "id=w1,w2", "--from-start"], "Pass --yes"],
    [["terminate-workflow", "w1"], "terminate-workflow w1: it cannot continue."],
    [["clear-thread", "main"], "clear-thread main: its messages are deleted."],
  ] as const) {
    const given = [...words, "--reason", "r"];
    const refused = await run(url, given);
    expect(refused).toMatchObject({ code: 2, out: "" });
    expect(refused.err).toContain(what);
    expect(refused.err).toContain("Pass --yes");
    expect(await run(url, [...given, "--yes"])).toMatchObject({
      code: 0,
      out: "Done: 1 changed.\n",
    });
  }
  // This one can be resumed.
  expect((await run(url, ["pause-workflow", "w1", "--reason", "r"])).code).toBe(0);
});

const AGAIN = {
  ...{ from: "send", count: 2, isComplete: true },
  steps: [
    { name: "send", kind: "do" },
    { name: "decide", kind: "approval" },
  ],
};

it("a restart shows what runs again before it asks, and --dry-run does no more", async () => {
  const url = await given({
    [`${AGENT}/actions`]: json({ outcome: "done", count: 1, failed: [], runsAgain: AGAIN }),
  });
  const words = ["restart-workflow", "w1", "--from-failed", "--reason", "r"];
  const asked = await run(url, words);
  expect(asked.code).toBe(2);
  expect(asked.err).toContain("From send, runs again: send (do), decide (approval).");
  expect(asked.err).toContain("Pass --yes");
  const dry = await run(url, ["restart-workflow", "w1", "--dry-run"]);
  expect(dry).toMatchObject({ code: 0, out: "" });
  expect(dry.err).toContain("runs again: send (do)");
  const shown = await run(url, ["restart-workflow", "w1", "--dry-run", "--json"]);
  expect(JSON.parse(shown.out)).toMatchObject({ runsAgain: AGAIN });
  const both = await run(url, [...words, "--from", "send"]);
  expect(both).toMatchObject({ code: 2 });
  expect(both.err).toContain("Pass either --from or --from-failed, or --from-start.");
});

it("a bulk action counts and changes in all agents, and leaves out one that does not answer", async () => {
  const rows = [{ id: "w1", error: "Error: down", runsAgain: AGAIN }];
  const done = json({ outcome: "done", count: 2, failed: [], rows });
  const names = ["a", "b", "silent", "bare"].map((name) => ({ agent: "Shop", name }));
  const url = await given({
    agents: json({ items: names }),
    "agents/Shop/a/actions": done,
    "agents/Shop/b/actions": done,
    "agents/Shop/silent/actions": failing(503, "Unreachable", "The agent did not answer."),
    "agents/Shop/bare/actions": failing(501, "FeatureNotInstalledError", "Add operations()."),
  });
  const words = ["restart-workflow", "--filter", "status=errored", "--all-agents"];
  const dry = await run(url, [...words, "--dry-run"]);
  expect(dry).toMatchObject({ code: 4, out: "4 would change.\n" });
  expect(dry.err).toContain("Shop/a: 2");
  expect(dry.err).toContain("w1: Error: down");
  expect(dry.err).toContain("From send, runs again: send (do)");
  expect(dry.err).toContain("Shop/silent is left out: The agent did not answer.");
  const changed = await run(url, [...words, "--reason", "r", "--yes"]);
  expect(changed).toMatchObject({ code: 4, out: "Done: 4 changed.\n" });
  const two = await run(url, [...words, "--agent", "Shop/a", "--dry-run"]);
  expect(two.err).toContain("Pass either --agent or --all-agents.");
});
