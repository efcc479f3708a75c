/** `npx perdure`: exit codes, what it prints, and deployments that misbehave. */

import { execFileSync, spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import path from "node:path";
import { expect, it } from "vitest";
import {
  AGENT,
  type Answer,
  CLI,
  failing,
  folder,
  given,
  json,
  perdure,
  REF,
  run,
  servers,
  withCommandLine,
} from "./deployment.ts";

withCommandLine();

const NOTHING = { items: [] };
const HEALTHY = { at: 1, verdict: "healthy", agents: [REF], findings: [] };
const HOSTILE = "\x1b]0;owned\x07\x1b[31m\r\nline\u009b2J\u202e";
const FINDING = {
  ...REF,
  code: "dead-letters",
  severity: "error",
  title: `2 dead letters of ${HOSTILE}`,
  evidence: { count: 2, ids: ["a", HOSTILE], lastError: HOSTILE },
  cause: "The receiver was down.",
  fix: { text: "Redrive them.", action: { do: "redrive", deliveryId: HOSTILE } },
  link: { view: "dead-letters" },
};

it.each([
  [0, "healthy", { report: json(HEALTHY) }, ["report"]],
  [
    1,
    "findings",
    { report: json({ ...HEALTHY, verdict: "findings", findings: [FINDING] }) },
    ["report"],
  ],
  [2, "an unknown verb", {}, ["repot"]],
  [2, "an unknown option", {}, ["report", "--jsno"]],
  [2, "an unknown list", {}, ["ls", "submission"]],
  [2, "a limit of none", {}, ["ls", "submissions", "--limit", "0"]],
  [2, "a filter without a name", {}, ["ls", "submissions", "--filter", "error"]],
  [2, "an action without a reason", {}, ["cancel", "s1"]],
  [2, "a token in the command line", {}, ["report", "--token", "x"]],
  [
    2,
    "a filter that the API refuses",
    { [`${AGENT}/submissions`]: failing(400, "InvalidOptionError", "Invalid status.") },
    ["ls", "submissions"],
  ],
  [3, "no visitor", { report: failing(401, "Unauthorized", "Sign in.") }, ["report"]],
  [
    3,
    "a reader who acts",
    { [`${AGENT}/actions`]: failing(403, "Forbidden", "May only read.") },
    ["cancel", "s1", "--reason", "r"],
  ],
  [4, "a deployment that fails", { report: failing(500, "InternalError", "Failed.") }, ["report"]],
  [4, "a deployment that restarts", { report: failing(503, "Unreachable", "Later.") }, ["report"]],
  [
    4,
    "half of an answer",
    {
      report: (_: string, response: ServerResponse) => {
        response.writeHead(200, { "content-length": "99" }).write("{");
        setTimeout(() => response.destroy(), 50);
      },
    },
    ["report"],
  ],
  [
    4,
    "a page of HTML",
    {
      report: (_: string, response: ServerResponse): void =>
        void response.end("<html>Sign in</html>"),
    },
    ["report"],
  ],
  [4, "JSON of another server", { report: json({ verdict: "healthy" }) }, ["report"]],
  [4, "an invalid list", { [`${AGENT}/submissions`]: json([]) }, ["ls", "submissions"]],
  [
    4,
    "an invalid answer of an action",
    { [`${AGENT}/actions`]: json("done") },
    ["cancel", "s1", "--reason", "r"],
  ],
  [
    4,
    "more than 32 MiB",
    {
      report: (_: string, response: ServerResponse): void => {
        response.end(`"${"x".repeat(33_554_432)}"`);
      },
    },
    ["report"],
  ],
  [
    4,
    "a redirect",
    {
      report: (_: string, response: ServerResponse): void =>
        void response.writeHead(302, { location: "/login" }).end(),
    },
    ["report"],
  ],
  [
    5,
    "an unknown submission",
    { [`${AGENT}/submissions/s1`]: failing(404, "NotFound", "No such submission.") },
    ["show", "s1"],
  ],
  [
    5,
    "an unknown agent",
    { [`${AGENT}/submissions`]: failing(404, "NotFound", "No such agent.") },
    ["ls", "submissions", "--agent", "Shop/main"],
  ],
] as const)("ends with %d: %s", async (code, _, answers, words) => {
  const url = await given(answers as Record<string, Answer>);
  const ended = await run(url, words);
  expect(ended.code, ended.err).toBe(code);
  // One sentence in place of a stack, and a result only where there is one.
  if (code > 1) {
    expect(ended.out).toBe("");
    expect(ended.err).not.toMatch(/^\s+at /m);
    expect(ended.err.trim()).not.toBe("");
  }
  expect(ended.out + ended.err).not.toContain("t0ken");
});

it.each([
  [0, HEALTHY],
  [1, { ...HEALTHY, verdict: "findings", findings: [FINDING] }],
])("a process ends with %d, and prints the result on stdout", async (code, report) => {
  const url = await given({ report: json(report) });
  const ended = await perdure(url, ["report", "--json"]).ended;
  expect(ended).toMatchObject({ code, err: "" });
  expect(JSON.parse(ended.out)).toEqual(report);
});

it("a process ends with 2, and prints what was wrong on stderr", async () => {
  const ended = await perdure("shop.example", ["report"]).ended;
  expect(ended).toMatchObject({ code: 2, out: "" });
  expect(ended.err).toMatch(/^perdure: Invalid PERDURE_URL "shop.example"/);
});

it("ends with 4 where nothing listens", async () => {
  const ended = await run("http://127.0.0.1:19999/perdure", ["report"]);
  expect(ended.code).toBe(4);
  expect(ended.err).toMatch(
    /^perdure: No answer from http:\/\/127.0.0.1:19999\/perdure: .*ECONNREFUSED/,
  );
});

it("sends the token of the environment, and one that says nothing to a local runtime", async () => {
  const sent: unknown[] = [];
  const url = await given({ report: json(HEALTHY) });
  servers[0]?.prependListener("request", ({ headers }) => sent.push(headers.authorization));
  await run(url, ["report"]);
  await run(url, ["report"], { PERDURE_TOKEN: "" });
  expect(sent).toEqual(["Bearer t0ken", "Bearer local"]);
});

it("never shows a token or a password", async () => {
  const url = await given({ report: failing(401, "Unauthorized", "Bearer t0ken is unknown.") });
  const echoed = await run(url, ["report", "--json"]);
  expect(JSON.parse(echoed.out).error.code).toBe(3);
  expect(echoed.out + echoed.err).not.toContain("t0ken");
  const broken = await run(url, ["report"], { PERDURE_TOKEN: "first\nsecret-line" });
  expect(broken).toMatchObject({ code: 2, out: "" });
  expect(broken.err).not.toContain("secret-line");
  const withPassword = url.replace("http://", "http://ops:hunter2@");
  for (const words of [["report"], ["doctor"]]) {
    const { code, out, err } = await run(withPassword, words);
    expect(code).toBe(2);
    expect(out + err).not.toContain("hunter2");
  }
  // A file with a token ends with a line break.
  const sent: unknown[] = [];
  servers.at(-1)?.prependListener("request", ({ headers }) => sent.push(headers.authorization));
  await run(url, ["report"], { PERDURE_TOKEN: "t0ken\n" });
  expect(sent).toEqual(["Bearer t0ken"]);
});

it("shows times as texts, also inside of a value, and other numbers as they are", async () => {
  const item = {
    approvalId: "a1",
    status: "approved",
    createdAt: 1_790_000_000_000,
    decision: { by: "ann", at: 1_790_000_060_000, amount: 1_790_000_000_000 },
  };
  const url = await given({ [`${AGENT}/approvals/a1`]: json(item) });
  const { out } = await run(url, ["show", "approvals", "a1"]);
  expect(out).toContain("2026-09-21T14:13:20Z");
  expect(out).toContain("by: ann, at: 2026-09-21T14:14:20Z, amount: 1790000000000");
  expect(JSON.parse((await run(url, ["show", "approvals", "a1", "--json"])).out)).toEqual(item);
});

it("ends where a deployment sends the same cursor again", async () => {
  const same = json({ items: [rowOf(1)], cursor: "again" });
  const act = json({ outcome: "done", count: 1, failed: [], cursor: "again" });
  const url = await given({
    [`${AGENT}/submissions`]: same,
    [`${AGENT}/actions`]: act,
    report: json({ ...HEALTHY, cursor: "again" }),
  });
  for (const words of [
    ["ls", "submissions", "--limit", "1000"],
    ["cancel", "--all", "--yes", "--reason", "r"],
    ["report"],
  ]) {
    const { code, err } = await run(url, words);
    expect(code).toBe(4);
    expect(err).toContain("answered with the cursor that it was sent");
  }
});

it("refuses a PERDURE_URL that is no address", async () => {
  const ended = await run("shop.example", ["report"]);
  expect(ended).toMatchObject({ code: 2, out: "" });
  expect(ended.err).toMatch(/Invalid PERDURE_URL "shop.example": expected the address/);
});

it("a report begins with the worst of all pages, and --fail-on says which findings fail it", async () => {
  const page = (severity: string, cursor?: string) => ({
    at: 1,
    verdict: "findings",
    agents: [REF],
    findings: [{ ...FINDING, severity }],
    ...(cursor && { cursor }),
  });
  const pages = await given({
    report: (url, response) =>
      json(url.includes("cursor") ? page("warning") : page("info", "2"))(url, response),
  });
  const all = await run(pages, ["report", "--json"]);
  expect(all.code).toBe(1);
  const severities = JSON.parse(all.out).findings.map((one: { severity: string }) => one.severity);
  expect(severities).toEqual(["warning", "info"]);
  expect((await run(pages, ["report", "--fail-on", "error"])).code).toBe(0);
  expect((await run(pages, ["report", "--fail-on", "warning"])).code).toBe(1);
  const wrong = await run(pages, ["report", "--fail-on", "info"]);
  expect(wrong).toMatchObject({
    code: 2,
    err: expect.stringContaining("expected error or warning"),
  });
});

// Every control character but the line breaks that it prints itself.
const CONTROL = /[^\P{Cc}\n]|[\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;

it("runs in Node 20, which has no Map.groupBy()", async () => {
  const url = await given({
    report: json({ ...HEALTHY, verdict: "findings", findings: [FINDING] }),
  });
  const old = "--import=data:text/javascript,delete%20Map.groupBy";
  const { code, out, err } = await perdure(url, ["report"], { NODE_OPTIONS: old }).ended;
  expect({ code, err }).toEqual({ code: 1, err: "" });
  expect(out).toContain("2 dead letters");
});

it("prints data of the deployment so that it cannot control a terminal, also as JSON", async () => {
  const found = { ...HEALTHY, verdict: "findings", findings: [FINDING] };
  const url = await given({
    report: json(found),
    [`${AGENT}/submissions`]: failing(400, "E", HOSTILE),
  });
  const text = await run(url, ["report"]);
  expect(text.out).not.toMatch(CONTROL);
  expect(text.out).toContain("\\x1b[31m");
  const asJson = await run(url, ["report", "--json"]);
  expect(asJson.out).not.toMatch(CONTROL);
  expect(JSON.parse(asJson.out)).toEqual(found);
  const refused = await run(url, ["ls", "submissions"]);
  expect(refused.err).not.toMatch(CONTROL);
});

const rowOf = (nth: number) => ({
  submissionId: `submission-${nth}`,
  status: "completed",
  thread: "main",
  createdAt: 1_795_000_000_000 + nth,
  attempts: 1,
});
/** 10,000 submissions, in pages as they are asked for. */
const many: Answer = (search, response) => {
  const from = Number(new URLSearchParams(search).get("cursor") ?? 0);
  const limit = Number(new URLSearchParams(search).get("limit"));
  const items = Array.from({ length: Math.min(limit, 10_000 - from) }, (_, nth) =>
    rowOf(from + nth),
  );
  const next = from + items.length;
  json({ items, ...(next < 10_000 && { cursor: String(next) }) })("", response);
};

it("lists 10,000 rows, and says on stderr how far it is", async () => {
  const url = await given({ [`${AGENT}/submissions`]: many });
  const words = ["ls", "submissions", "--limit", "20000"];
  const text = await run(url, words);
  expect(text.out.trim().split("\n")).toHaveLength(10_001);
  expect(
    text.err.split("\n").filter((line) => /^\d+ rows\.\.\.$/.test(line)).length,
  ).toBeGreaterThan(5);
  const asJson = await run(url, [...words, "--json"]);
  expect(JSON.parse(asJson.out).items).toHaveLength(10_000);
});

it("ends with 0 when its reader has enough", async () => {
  const url = await given({ [`${AGENT}/submissions`]: many });
  const { child, ended } = perdure(url, ["ls", "submissions", "--limit", "20000"]);
  child.stdout.once("data", () => child.stdout.destroy());
  const { code, err } = await ended;
  expect(code).toBe(0);
  expect(err).not.toContain("EPIPE");
});

it("does not act on a redirect, and keeps its token", async () => {
  let asked = 0;
  const other = await given({
    report: (search, response) => {
      asked++;
      json(HEALTHY)(search, response);
    },
  });
  const url = await given({
    report: (_, response) =>
      void response.writeHead(307, { location: `${other}/api/report` }).end(),
  });
  expect((await run(url, ["report"])).code).toBe(4);
  expect(asked).toBe(0);
});

it("tail goes on when the deployment comes back", async () => {
  let calls = 0;
  const url = await given({
    [`${AGENT}/dead-letters`]: json(NOTHING),
    [`${AGENT}/submissions`]: (_, response) => {
      calls++;
      if (calls === 2) return void response.destroy();
      json({ items: [rowOf(calls)] })("", response);
    },
  });
  const { child, ended } = perdure(url, ["tail", "--json"]);
  let lines = "";
  await new Promise<void>((resolve) => {
    child.stdout.on("data", (text: string) => {
      lines += text;
      if (lines.includes("submission-3")) resolve();
    });
  });
  child.kill("SIGINT");
  const { code, err } = await ended;
  expect(code).toBe(0);
  expect(err).toMatch(/No answer from .* Trying again/);
});

it("a dry run shows and counts what all pages select, and an action without a terminal needs --yes", async () => {
  const requests: { dryRun?: boolean; cursor?: string }[] = [];
  const rows = [{ id: "s1", error: "Error: it\u001b[2J is down" }];
  const url = await given({});
  servers[0]?.removeAllListeners("request");
  servers[0]?.on("request", (request, response) => {
    let body = "";
    request.on("data", (text) => (body += text));
    request.on("end", () => {
      if (request.method === "GET") return json({ items: [REF] })("", response);
      const { dryRun, cursor } = JSON.parse(body);
      requests.push({ dryRun, cursor });
      const next = cursor === undefined ? { cursor: "2" } : {};
      return json({ outcome: "done", count: 3, failed: [], rows, ...next })("", response);
    });
  });
  const words = ["retry", "--filter", "status=error", "--reason", "r"];
  expect(await run(url, [...words, "--dry-run"])).toMatchObject({
    code: 0,
    out: "6 would change.\n",
    err: `${"  s1: Error: it\\x1b[2J is down\n".repeat(2)}  and 4 more\n`,
  });
  const warned = await run(url, [...words, "--dry-run", "--expect", "5"]);
  expect(warned.err).toContain("Warning: 6 would change, and --expect says 5.");
  expect((await run(url, [...words, "--dry-run", "--expect", "6"])).err).not.toContain("Warning");
  const refused = await run(url, words);
  expect(refused).toMatchObject({ code: 2, out: "" });
  expect(refused.err).toContain("retry: 6 would change. Pass --yes");
  expect(requests.every(({ dryRun }) => dryRun)).toBe(true);
  const done = await run(url, [...words, "--yes", "--json"]);
  expect(JSON.parse(done.out)).toMatchObject({ outcome: "done", count: 6, failed: [] });
});

/** On a terminal of this width, by script(1), which Debian always has. */
function onTerminal(url: string, words: string, columns: number, env: NodeJS.ProcessEnv = {}) {
  const command = `stty cols ${columns}; ${process.execPath} ${CLI} ${words}`;
  return execFileSync("script", ["-qec", command, "/dev/null"], {
    encoding: "utf8",
    env: { PATH: process.env.PATH, PERDURE_URL: url, TERM: "xterm", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

it("fits a terminal of 40 columns, with colours unless NO_COLOR is set", async () => {
  // The server of this process cannot answer while execFileSync waits.
  const source = `require("node:http").createServer((q, s) => s.setHeader("content-type", "application/json").end(
    JSON.stringify(q.url.includes("submissions") ? { items: [${JSON.stringify(rowOf(1))}] } : { items: [${JSON.stringify(REF)}] })
  )).listen(0, "127.0.0.1", function () { console.log(this.address().port) })`;
  const server = spawn(process.execPath, ["-e", source], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const port = await new Promise((resolve) =>
      server.stdout.once("data", (text) => resolve(Number(text))),
    );
    const url = `http://127.0.0.1:${port}/perdure`;
    const coloured = onTerminal(url, "ls submissions", 40);
    expect(coloured).toContain("\x1b[32m");
    const bare = onTerminal(url, "ls submissions", 40, { NO_COLOR: "1" });
    expect(bare).not.toContain("\x1b[");
    for (const line of bare.split(/\r?\n/)) expect(line.length).toBeLessThanOrEqual(40);
    expect(bare).toContain("…");
  } finally {
    server.kill("SIGKILL");
  }
});

it("completes in bash, and runs nothing of what is typed", async () => {
  const { code, out } = await run("http://127.0.0.1:1", ["completion", "bash"]);
  expect(code).toBe(0);
  const file = path.join(folder, "completion.bash");
  writeFileSync(file, out);
  const typed = (...words: string[]) =>
    execFileSync(
      "bash",
      [
        "-uc",
        `perdure() { ${process.execPath} ${CLI} "$@"; }; source ${file}; source ${file}
         COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _perdure; printf '%s\\n' "\${COMPREPLY[@]}"`,
        "bash",
        "perdure",
        ...words,
      ],
      { encoding: "utf8", cwd: folder },
    ).trim();
  expect(typed("rep").split("\n")).toContain("report");
  expect(typed("ls", "dead")).toBe("dead-letters");
  typed("show", "$(touch ran)", "");
  typed("show", "`touch ran`", "x");
  expect(existsSync(path.join(folder, "ran"))).toBe(false);
});

it("explains a schedule without a deployment", async () => {
  const words = [
    "explain",
    "every day at 02:30",
    "--timezone",
    "Europe/London",
    "--after",
    "2026-03-28T12:00:00Z",
  ];
  const { code, out } = await run("http://127.0.0.1:1", words);
  expect(code).toBe(0);
  expect(out).toContain("2026-03-29");
  const refused = await run("http://127.0.0.1:1", ["explain", "every blue moon"]);
  expect(refused).toMatchObject({ code: 2, out: "" });
});
