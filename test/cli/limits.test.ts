/** `perdure limits`: what agents share, whichever agent is asked. */

import { expect, it } from "vitest";
import { failing, given, json, run, withCommandLine } from "./deployment.ts";

withCommandLine();

const refs = (...names: readonly [string, string][]) =>
  json({ items: names.map(([agent, name]) => ({ agent, name })) });
const openai = {
  ...{ limit: "openai", key: "", waiting: 2, longestWaitMs: 65_000 },
  requests: { used: 1_000, amount: 1_000 },
};
const HOSTILE = "\u001b[31m__proto__\n👾";
const paused = {
  ...{ limit: "tenant", key: HOSTILE, waiting: 0, longestWaitMs: 0, reason: "a loop" },
  ...{ usd: { used: 1.5, amount: 20 }, pausedAt: 1_795_000_000_000 },
};
const bare = failing(501, "FeatureNotInstalledError", "Add limits() to the class Shop.");

it("prints each key once, by one agent of each class that has limits", async () => {
  const url = await given({
    agents: refs(["Shop", "main"], ["Sales", "a"], ["Sales", "b"], ["Desk", "d"], ["Gone", "g"]),
    "agents/Shop/main/limits": bare,
    "agents/Sales/a/limits": json({ items: [openai, paused] }),
    "agents/Desk/d/limits": json({ items: [openai] }),
    "agents/Gone/g/limits": failing(503, "Unreachable", "The agent did not answer."),
  });
  const { code, out, err } = await run(url, ["limits"]);
  expect({ code, err }).toEqual({ code: 0, err: "Gone/g: The agent did not answer.\n" });
  const [titles, first, second, ...others] = out.trimEnd().split("\n");
  expect(others).toEqual([]);
  expect(titles).toMatch(
    /^STATE +LIMIT +KEY +REQUESTS +TOKENS +DOLLARS .*WAITING +LONGEST +REASON$/,
  );
  expect(first).toMatch(/^full +openai +1,000 of 1,000 +2 +1 min 5 s$/);
  expect(second).toMatch(/^paused +tenant +\\x1b\[31m__proto__\\x0a👾 +1\.5 of 20 +0 +a loop$/);
  const asJson = await run(url, ["limits", "--json", "--agent", "Sales/b"]);
  expect(asJson).toMatchObject({ code: 5 });
  expect(JSON.parse((await run(url, ["limits", "--json"])).out)).toEqual({
    items: [openai, paused],
  });
});

it("says where no class has limits, and where none is in use", async () => {
  const without = await given({ "agents/Shop/main/limits": bare });
  expect(await run(without, ["limits"])).toMatchObject({
    code: 4,
    err: "perdure: Add limits() to the class Shop.\n",
  });
  const idle = await given({ "agents/Shop/main/limits": json({ items: [] }) });
  expect(await run(idle, ["limits"])).toMatchObject({
    ...{ code: 0, out: "", err: "No key of a limit is in use.\n" },
  });
});

it.each(["limits pause", "pause-limit"])(
  "%s pauses a key by an agent whose class declares the limit",
  async (verb) => {
    const url = await given({
      agents: refs(["Shop", "main"], ["Sales", "a"], ["Sales", "b"]),
      "agents/Shop/main/limits": failing(400, "InvalidOptionError", 'Invalid limit "tenant".'),
      "agents/Sales/a/limits": json({ items: [] }),
      "agents/Sales/a/actions": json({ outcome: "done", count: 1, failed: [] }),
    });
    const words = verb.split(" ");
    const done = await run(url, [...words, "tenant", HOSTILE, "--reason", "a loop"]);
    expect(done).toEqual({ code: 0, out: "Done: 1 changed.\n", err: "" });
    expect(await run(url, [...words, "tenant", "--reason", "a loop"])).toMatchObject({ code: 0 });
    expect(await run(url, [...words, "tenant", "acme"])).toMatchObject({
      code: 2,
      err: expect.stringContaining("Missing --reason"),
    });
    expect(await run(url, [...words, "--reason", "x"])).toMatchObject({ code: 2 });
  },
);

it("report prints a finding of a limit once, whichever agents report it", async () => {
  const finding = (name: string, more: object = {}) => ({
    ...{ agent: "Shop", name, code: "limit-full", about: "openai/", severity: "info" },
    ...{
      title: "The limit openai is full.",
      cause: "Agents ask for more.",
      fix: { text: "Wait." },
    },
    ...{ evidence: { count: 2, ids: [] }, link: { view: "limits" }, ...more },
  });
  const own = { about: "tenant/acme", code: "limit-waits-long", link: { view: "submissions" } };
  const names = ["a", "b", "c"];
  const url = await given({
    report: json({
      ...{ at: 0, verdict: "healthy", agents: names.map((name) => ({ agent: "Shop", name })) },
      findings: [
        ...names.map((name) => finding(name)),
        ...names.map((name) => finding(name, { title: "A submission waits.", ...own })),
      ],
    }),
  });
  const { out } = await run(url, ["report"]);
  expect(out.split("\n").filter((text) => text.startsWith("INFO"))).toEqual([
    "INFO  The limit openai is full.  (Shop/a and 2 other agents)",
    ...names.map((name) => `INFO  A submission waits.  (Shop/${name})`),
  ]);
  expect(out).toContain("4 notes:");
  expect(JSON.parse((await run(url, ["report", "--json"])).out).findings).toHaveLength(6);
});
