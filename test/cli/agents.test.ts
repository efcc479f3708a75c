/** The command line where a deployment has several agents. */

import { expect, it } from "vitest";
import {
  type Answer,
  failing,
  given,
  json,
  perdure,
  run,
  servers,
  withCommandLine,
} from "./deployment.ts";

withCommandLine();

const refOf = (name: string) => ({ agent: "Shop", name });
const agents = (...names: string[]) => json({ items: names.map(refOf) });
const submission = (id: string, fields: object = {}) => ({
  ...{ submissionId: id, status: "completed", thread: "main", attempts: 1 },
  ...{ createdAt: 1_795_000_000_000, completedAt: 1_795_000_001_000, ...fields },
});
const has = (name: string, id: string) => ({
  [`agents/Shop/${name}/submissions/${id}`]: json(submission(id)),
  [`agents/Shop/${name}/submissions/${id}/trace`]: json({ traceId: "t", spans: [] }),
});
const silent = failing(503, "Unreachable", "The agent did not answer.");
const bare = failing(501, "FeatureNotInstalledError", "Add operations() to the class Shop.");

it("an id is found without --agent, a few agents at a time", async () => {
  const names = Array.from({ length: 40 }, (_, nth) => `a${nth}`);
  const url = await given({ agents: agents(...names), ...has("a33", "s-1") });
  let open = 0;
  let most = 0;
  servers[0]?.prependListener("request", (_, response) => {
    most = Math.max(most, ++open);
    response.on("close", () => open--);
  });
  const { code, out, err } = await run(url, ["show", "s-1"]);
  expect(code, err).toBe(0);
  expect(out).toMatch(/^submissionId +s-1$/m);
  expect(err).toBe("Shop/a33 has it.\n");
  expect(most).toBeLessThanOrEqual(8);
  expect(await run(url, ["show", "s-2"])).toMatchObject({
    code: 5,
    err: 'perdure: None of 40 agents has submissions "s-2".\n',
  });
});

it("an id that several agents have is not guessed: the commands to choose are listed", async () => {
  const url = await given({
    agents: agents("a", "b c", "d"),
    "agents/Shop/a/tasks/daily": json({ taskId: "daily" }),
    "agents/Shop/b%20c/tasks/daily": json({ taskId: "daily" }),
  });
  const { code, out, err } = await run(url, ["pause-task", "daily", "--reason", "too loud"]);
  expect({ code, out }).toEqual({ code: 2, out: "" });
  expect(err.split("\n")).toEqual([
    'perdure: Several agents have tasks "daily". Choose one:',
    "  npx perdure pause-task --agent Shop/a daily --reason 'too loud'",
    "  npx perdure pause-task --agent 'Shop/b c' daily --reason 'too loud'",
    "",
  ]);
});

it("where an agent does not answer, an item is shown, and an action asks for --agent", async () => {
  const url = await given({
    agents: agents("a", "b", "c"),
    ...has("b", "s-1"),
    "agents/Shop/a/submissions/s-1": silent,
    "agents/Shop/c/submissions/s-1": bare,
    "agents/Shop/a/submissions/s-2": silent,
    "agents/Shop/b/actions": json({ outcome: "done", count: 1, failed: [] }),
  });
  expect(await run(url, ["show", "s-1"])).toMatchObject({
    code: 0,
    err: "Shop/b has it. No answer from Shop/a: The agent did not answer.\n",
  });
  const refused = await run(url, ["cancel", "s-1", "--reason", "r"]);
  expect(refused).toMatchObject({ code: 4, out: "" });
  expect(refused.err).toContain("  npx perdure cancel --agent Shop/b s-1 --reason r\n");
  expect((await run(url, ["cancel", "--agent", "Shop/b", "s-1", "--reason", "r"])).code).toBe(0);
  expect(await run(url, ["show", "s-2"])).toMatchObject({
    code: 4,
    err: 'perdure: No agent that answers has submissions "s-2". No answer from Shop/a: The agent did not answer.\n',
  });
});

it("an agent without operations() says what its class has to install", async () => {
  const url = await given({
    agents: agents("a"),
    "agents/Shop/a/submissions": bare,
    "agents/Shop/a/dead-letters": bare,
  });
  for (const words of [["ls", "submissions"], ["tail"]]) {
    const { code, err } = await run(url, words);
    expect({ code, err }).toEqual({
      code: 4,
      err: "perdure: Add operations() to the class Shop.\n",
    });
  }
});

const LATE = { status: "error", error: "down", completedAt: 1_795_000_002_000 };

/** The output of a command that does not end, once it has all of these texts. */
async function until(url: string, words: readonly string[], ...texts: string[]) {
  const { child, ended } = perdure(url, words);
  let out = "";
  await new Promise<void>((resolve) => {
    child.stdout.on("data", (text: string) => {
      out += text;
      if (texts.every((each) => out.includes(each))) resolve();
    });
    child.on("close", () => resolve());
  });
  child.kill("SIGINT");
  return ended;
}

it("tail follows all agents, also those that come later, and goes on where one does not answer", async () => {
  const list = (...items: object[]) => json({ items });
  let rounds = 0;
  const url = await given({
    agents: (_, response) =>
      agents(...["a", "b", "c", ...(rounds++ > 0 ? ["new"] : [])])("", response),
    "agents/Shop/a/submissions": list(submission("s-1")),
    "agents/Shop/a/dead-letters": list({ id: "d-1", diedAt: 1_795_000_000_500, lastError: "gone" }),
    "agents/Shop/b/submissions": silent,
    "agents/Shop/b/dead-letters": silent,
    "agents/Shop/c/submissions": bare,
    "agents/Shop/c/dead-letters": bare,
    "agents/Shop/new/submissions": list(submission("s-2", LATE)),
    "agents/Shop/new/dead-letters": list(),
  });
  const { code, out, err } = await until(url, ["tail"], "s-2");
  expect(code, err).toBe(0);
  expect(out.trim().split("\n")).toEqual([
    expect.stringMatching(/dead {2}Shop\/a {2}d-1/),
    expect.stringMatching(/completed {2}Shop\/a {2}s-1/),
    expect.stringMatching(/error {2}Shop\/new {2}s-2 .* down$/),
  ]);
  expect(err).toContain("Shop/b: The agent did not answer. Trying again...");
  expect(err.match(/Add operations\(\)/g)).toHaveLength(1);
  const lines = (await until(url, ["tail", "--json"], "s-2")).out.trim().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { agent: "Shop", name: "a", id: "d-1" },
    { agent: "Shop", name: "a", submissionId: "s-1" },
    { agent: "Shop", name: "new", submissionId: "s-2" },
  ]);
});

const FINDING = {
  ...{ agent: "Shop", name: "a", code: "dead-letters", severity: "error", title: "2 dead letters" },
  ...{ evidence: { count: 2, ids: [] }, cause: "It was down.", fix: { text: "Redrive." } },
  link: { view: "dead-letters" },
};
const reportOf = (...findings: object[]) => ({
  ...{ at: 1_795_000_000_000, verdict: findings.length > 0 ? "findings" : "healthy" },
  ...{ agents: [refOf("a")], findings },
});

it("report --watch prints a report when its findings change, and ends with the code of the last one", async () => {
  let calls = 0;
  const answers: readonly Answer[] = [
    json(reportOf()),
    json(reportOf()),
    silent,
    json(reportOf(FINDING)),
  ];
  const url = await given({
    report: (_, response) => answers[Math.min(calls++, 3)]?.("", response),
  });
  const { code, out, err } = await until(url, ["report", "--watch", "1"], "2 dead letters");
  expect(code).toBe(1);
  expect(out.match(/healthy: 1 agent\./g)).toHaveLength(1);
  expect(out).toMatch(/^2026-11-18T11:06:40Z {2}each 1 s$/m);
  expect(err).toContain("Trying again");
  const asJson = await until(url, ["report", "--watch", "1", "--json"], "2 dead letters");
  expect(
    asJson.out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line)),
  ).toMatchObject([{ verdict: "findings" }]);
  for (const seconds of ["0", "1.5", "soon", "90000"]) {
    const refused = await run(url, ["report", "--watch", seconds]);
    expect(refused).toMatchObject({ code: 2, out: "" });
    expect(refused.err).toContain(`Invalid --watch "${seconds}"`);
  }
});

it.each([
  ["fails at its start", failing(400, "InvalidOptionError", 'Invalid keeper "LIMIT_KEEPER".')],
  ["has an internal error", failing(500, "InternalError", "The request failed.")],
  ["does not answer", silent],
])(
  "report --agent has an agent that %s as a finding, as the report of all has",
  async (_, answer) => {
    const url = await given({ agents: agents("a"), "agents/Shop/a/report": answer });
    const { code, out, err } = await run(url, ["report", "--agent", "Shop/a", "--json"]);
    expect(code, err).toBe(1);
    expect(JSON.parse(out)).toMatchObject({
      ...{ verdict: "findings", agents: [{ agent: "Shop", name: "a" }] },
      findings: [{ code: "agent-unreachable", severity: "error", agent: "Shop", name: "a" }],
    });
  },
);

it("report --agent ends with the code of what is wrong with the call or the deployment", async () => {
  const report = (answer: Answer) => ({ agents: agents("a"), "agents/Shop/a/report": answer });
  for (const [answer, expected] of [
    [failing(401, "NoToken", "Send a token."), 3],
    [failing(404, "NotFound", "The agent was not found."), 5],
  ] as const) {
    const { code } = await run(await given(report(answer)), ["report", "--agent", "Shop/a"]);
    expect(code).toBe(expected);
  }
  expect((await run("http://127.0.0.1:9/perdure", ["report", "--agent", "Shop/a"])).code).toBe(4);
});
