/** What operators meet: errors as JSON, tokens and addresses, actions that ask first. */

import { expect, it } from "vitest";
import { AGENT, given, json, run, withCommandLine } from "./deployment.ts";

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
