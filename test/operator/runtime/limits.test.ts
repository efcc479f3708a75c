/** Limits by the command line and the API, in a runtime of its own that is killed. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { run, withCommandLine } from "../../cli/deployment.ts";
import { MAIN, Operated, TOKENS } from "../../support/operated.ts";

const app = new Operated();

withCommandLine();
beforeAll(async () => {
  await app.start(AbortSignal.timeout(90_000));
});
afterAll(() => app.destroy());

const perdure = (...words: string[]) => run(app.operatorUrl, words, { PERDURE_TOKEN: TOKENS.act });
const keysOf = async () => {
  const { items } = await app.client().list(MAIN, "limits", { limit: 100 });
  return items.map(({ key, reason }) => [key, reason]);
};

const KEYS = [
  "👾".repeat(256),
  "x".repeat(512),
  "a\u0001\u001b[31m\n\u202e",
  "__proto__",
  "constructor",
  `<img src=x onerror="alert(1)">'"&`,
  "--reason",
  "a/b?c=d#e",
];

it("keys of any text are paused, listed and resumed, and a pause survives a kill of the runtime", async () => {
  for (const key of KEYS) {
    const paused = await perdure("limits", "pause", "supplier", "--reason", "a loop", "--", key);
    expect(paused, key).toEqual({ code: 0, out: "Done: 1 changed.\n", err: "" });
  }
  const expected = KEYS.map((key) => [key, "a loop"]).sort();
  expect((await keysOf()).sort()).toEqual(expected);
  await app.kill();
  await app.start(AbortSignal.timeout(60_000));
  expect((await keysOf()).sort()).toEqual(expected);
  const { code, out, err } = await perdure("limits");
  expect({ code, err }).toMatchObject({ code: 0, err: expect.stringMatching(/^Missing\/main: /) });
  expect(out.trimEnd().split("\n")).toHaveLength(KEYS.length + 1);
  for (const character of "\u0001\u001b\u202e") expect(out).not.toContain(character);
  const { findings } = await app.client().agentReport(MAIN);
  expect(findings.filter(({ code }) => code === "limit-paused")).toHaveLength(KEYS.length);
  for (const key of KEYS) {
    const resumed = await perdure("limits", "resume", "supplier", "--reason", "over", "--", key);
    expect(resumed, key).toMatchObject({ code: 0, err: "" });
  }
  // A key that was used is kept for a time.
  expect((await keysOf()).every(([, reason]) => reason === undefined)).toBe(true);
  const actions = await app.client().list(MAIN, "actions", { limit: 100 });
  expect(actions.items).toHaveLength(2 * KEYS.length);
}, 180_000);

it("what cannot be paused is refused with the reason", async () => {
  const refused = await perdure("limits", "pause", "none", "acme", "--reason", "a loop");
  expect(refused).toMatchObject({ code: 2, err: expect.stringContaining("Invalid limit") });
  for (const key of ["x".repeat(513), ""]) {
    const failed = await perdure("limits", "pause", "supplier", key, "--reason", "a loop");
    expect(failed).toMatchObject({ code: 1, err: expect.stringContaining("Invalid key") });
  }
  const reader = await run(app.operatorUrl, ["limits", "pause", "supplier", "a", "--reason", "x"], {
    PERDURE_TOKEN: TOKENS.read,
  });
  expect(reader).toMatchObject({ code: 3, out: "" });
  expect((await keysOf()).flat()).not.toContain("x");
});
