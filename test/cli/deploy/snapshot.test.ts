/** `perdure snapshot` and `perdure drain`: walks over the lists of all agents of a deployment. */

import { readFileSync, statSync } from "node:fs";
import path from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { takeSnapshot } from "../../../src/cli/deploy/snapshot.ts";
import { OperatorClient } from "../../../src/operator/client.ts";
import {
  type Answer,
  failing,
  given,
  json,
  perdure,
  run,
  servers,
  withCommandLine,
} from "../deployment.ts";
import { project, removeProjects } from "../fixtures.ts";
import { historyOf, itemOf } from "./snapshots.ts";

withCommandLine();
afterEach(removeProjects);

const AT = 1_795_000_000_000;
const bare = failing(501, "FeatureNotInstalledError", "Add deployments() to the class Shop.");
const silent = failing(503, "Unreachable", "The agent did not answer.");
const refs = (...names: string[]) =>
  json({ items: names.map((name) => ({ agent: "Shop", name })) });
const versionOf = (version: string | null, isCurrent: boolean, open: object = {}, since = AT) => {
  return { version, since: version === null ? null : since, isCurrent, open };
};

/** An agent with this open work and the histories of its workflows. */
function working(name: string, work: readonly ReturnType<typeof itemOf>[]): Record<string, Answer> {
  const at = `agents/Shop/${name}`;
  const workflows = work.filter(({ kind }) => kind === "workflow");
  return {
    [`${at}/work`]: json({ items: work }),
    [`${at}/versions`]: json({ items: [versionOf("8", true), versionOf("7", false)] }),
    ...Object.fromEntries(
      workflows.map((item) => [
        `${at}/work/workflow%2F${item.id}`,
        json({ ...item, history: historyOf("TICKETS", item.id) }),
      ]),
    ),
  };
}

it("walks all pages of all agents, and reads the history of each workflow, 8 at a time", async () => {
  const many = Array.from({ length: 30 }, (_, nth) => itemOf("workflow", `w-${nth}`));
  const url = await given({
    agents: refs("a", "b"),
    ...working("a", many),
    ...working("b", []),
    "agents/Shop/b/work": (search, response) => {
      const isFirst = !search.includes("cursor=next");
      const item = itemOf("submission", isFirst ? "s-1" : "s-2");
      json({ items: [item], ...(isFirst && { cursor: "next" }) })(search, response);
    },
  });
  let open = 0;
  let most = 0;
  servers[0]?.prependListener("request", (_, response) => {
    most = Math.max(most, ++open);
    response.on("close", () => open--);
  });
  const { code, out, err } = await run("http://127.0.0.1:9/perdure", ["snapshot", "--from", url]);
  expect(code, err).toBe(0);
  expect(err).toBe("32 items of open work of 2 agents.\n");
  expect(JSON.parse(out)).toEqual({
    ...{ perdure: 1, at: expect.any(Number), notInstalled: [], notRead: [] },
    agents: [
      {
        ...{ agent: "Shop", name: "a", version: "8", work: many },
        histories: expect.arrayContaining(many.map(({ id }) => historyOf("TICKETS", id))),
      },
      {
        ...{ agent: "Shop", name: "b", version: "8", histories: [] },
        work: [itemOf("submission", "s-1"), itemOf("submission", "s-2")],
      },
    ],
  });
  expect(most).toBeLessThanOrEqual(8);
});

it("names agents without deployments() and those that do not answer, and writes a file for its owner only", async () => {
  const url = await given({
    agents: refs("a", "b", "c"),
    ...working("a", [itemOf("workflow", "w-1"), itemOf("workflow", "w-2")]),
    "agents/Shop/a/work/workflow%2Fw-2": failing(500, "InternalError", "No history."),
    "agents/Shop/b/work": bare,
    "agents/Shop/c/work": silent,
  });
  const out = path.join(project({}), "open.json");
  const { code, err } = await run(url, ["snapshot", "--out", out]);
  expect(code).toBe(4);
  expect(err.split("\n")).toEqual([
    "2 items of open work of 1 agent.",
    "Agents without deployments(), which tell no open work:",
    "  Shop/b: Add deployments() to the class Shop.",
    "Not read:",
    "  Shop/a w-2: No history.",
    "  Shop/c: The agent did not answer.",
    "",
  ]);
  expect(statSync(out).mode & 0o777).toBe(0o600);
  expect(JSON.parse(readFileSync(out, "utf8"))).toMatchObject({
    notInstalled: [{ name: "b" }],
    notRead: [{ name: "a", id: "w-2" }, { name: "c" }],
  });
});

it("snapshot and drain name agents whose names() failed, of which nothing is known", async () => {
  const items = [{ agent: "Shop", name: "a" }];
  const url = await given({
    agents: json({ items, unlisted: ["Desk"] }),
    ...working("a", []),
  });
  const why = "Desk/*: its names() failed, see the log of the Worker";
  const snapshot = await run(url, ["snapshot", "--out", path.join(project({}), "open.json")]);
  expect(snapshot).toMatchObject({ code: 4, err: expect.stringContaining(why) });
  const drained = await run(url, ["drain"]);
  expect(drained.err).toContain(why);
  expect(drained.out).not.toContain("safe to delete");
});

it("says where it is cut: by items, by bytes, by agents", async () => {
  const url = await given({
    agents: refs("a", "b"),
    ...working("a", [itemOf("workflow", "w-1"), itemOf("submission", "s-1")]),
    ...working("b", [itemOf("submission", "s-2")]),
  });
  const client = new OperatorClient({ url, token: "t0ken" });
  const room = { items: 3, bytes: 10_000, agents: 2 };
  const whole = await takeSnapshot(client, room);
  expect(whole.isCut).toBeUndefined();
  const few = await takeSnapshot(client, { ...room, items: 2 });
  expect(few.isCut).toBe("there are more than 2 items of open work");
  expect(few.agents.flatMap(({ work }) => work)).toHaveLength(2);
  const small = await takeSnapshot(client, { ...room, bytes: 300 });
  expect(small.isCut).toBe("it would have more than 300 bytes");
  const one = await takeSnapshot(client, { ...room, agents: 1 });
  expect(one.isCut).toBe("there are more than 1 agents");
});

it("says how far it has come, and names what it has no time for", async () => {
  const notes = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const work = Array.from({ length: 40 }, (_, nth) => itemOf("workflow", `w-${nth}`));
  const answers = working("a", work);
  const slow = Object.entries(answers).map(([path, answer]): [string, Answer] => [
    path,
    path.includes("/workflow%2F")
      ? (search, response) => void setTimeout(() => answer(search, response), 100)
      : answer,
  ]);
  const url = await given({ agents: refs("a"), ...Object.fromEntries(slow) });
  const client = new OperatorClient({ url, token: "t0ken" });
  try {
    const { agents, notRead } = await takeSnapshot(client, { ms: 250, progressMs: 0 });
    const read = agents.flatMap(({ histories }) => histories);
    expect(read.length).toBeGreaterThanOrEqual(8);
    expect(read.length + notRead.length).toBe(40);
    expect(notRead.at(-1)?.why).toMatch(/^reading the rest took 0\.00\d+ minutes$/);
    expect(notes.mock.calls.flat()).toContain("8 of 40 histories of workflows read...\n");
  } finally {
    notes.mockRestore();
  }
});

it.each([
  ["no file", undefined, "ENOENT"],
  ["no JSON", "{", '"perdure": 1'],
  ["another format", '{"perdure":2}', '"perdure": 1'],
  ["no agents", '{"perdure":1}', "expected agents"],
  [
    "an item without needs",
    '{"perdure":1,"agents":[{"agent":"a","name":"n","work":[{"kind":"x","id":"1"}],"histories":[]}],"notInstalled":[],"notRead":[]}',
    "expected agents",
  ],
])("check refuses %s as its snapshot", async (_, text, problem) => {
  const main = { "wrangler.jsonc": '{ "main": "main.js" }', "main.js": "export default {};" };
  const folder = project({ ...main, ...(text !== undefined && { "open.json": text }) });
  const { code, out, err } = await perdure("", ["check", "--snapshot", "open.json"], {}, folder)
    .ended;
  expect({ code, out }).toEqual({ code: 2, out: "" });
  expect(err).toContain(`Invalid --snapshot "open.json"`);
  expect(err).toContain(problem);
});

it("check ends with 4 where an agent did not answer, and says which, unless it finds an error", async () => {
  const config = {
    main: "main.js",
    durable_objects: { bindings: [{ name: "Shop", class_name: "Shop" }] },
  };
  const migrations = [{ tag: "v1", new_sqlite_classes: ["Shop"] }];
  const answers = {
    agents: refs("a", "b"),
    ...working("a", []),
    "agents/Shop/b/work": silent,
  };
  const main = { "main.js": "export class Shop {}" };
  const right = project({ ...main, "wrangler.jsonc": JSON.stringify({ ...config, migrations }) });
  const unsure = await perdure(await given(answers), ["check"], {}, right).ended;
  expect(unsure).toMatchObject({ code: 4 });
  expect(unsure.out).toContain("Not checked:\n  Shop/b: The agent did not answer.\n");
  const wrong = project({ ...main, "wrangler.jsonc": JSON.stringify(config) });
  const busy = { ...answers, ...working("a", [itemOf("submission", "s-1")]) };
  expect(await perdure(await given(busy), ["check"], {}, wrong).ended).toMatchObject({ code: 1 });
});

it("drain counts the open work of each version over all agents, and says which is safe to delete", async () => {
  const answers = {
    agents: refs("a", "b", "c"),
    "agents/Shop/a/versions": json({
      items: [
        versionOf("8", true, { workflow: 1 }, AT + 1_000),
        versionOf("7", false, { workflow: 2, approval: 0 }),
        versionOf("6", false, {}, AT - 1_000),
      ],
    }),
    "agents/Shop/b/versions": json({
      items: [
        versionOf("8", true, {}, AT + 500),
        versionOf("7", false, { workflow: 3, submission: 1 }),
      ],
    }),
    "agents/Shop/c/versions": bare,
  };
  const url = await given(answers);
  const { code, out, err } = await run(url, ["drain"]);
  expect(code, err).toBe(0);
  const [titles, ...rows] = out.trimEnd().split("\n");
  expect(titles).toMatch(/^OF +VERSION +SINCE +RUNS IN +OPEN +STATE$/);
  expect(rows).toEqual([
    expect.stringMatching(/^Shop +8 +2026-11-18T11:06:40Z +2 agents +1 workflow +current$/),
    expect.stringMatching(
      /^Shop +7 +2026-11-18T11:06:40Z +5 workflows, 1 submission +still needed$/,
    ),
    expect.stringMatching(/^Shop +6 +2026-11-18T11:06:39Z +safe to delete$/),
  ]);
  expect(err).toBe("1 agent without deployments(): their work is not counted.\n");
  const cut = { ...versionOf("6", false), isCut: true };
  for (const answer of [silent, json({ items: [cut] })]) {
    const one = { ...answers, "agents/Shop/c/versions": answer };
    const unsure = await run(await given(one), ["drain", "--json"]);
    expect(JSON.parse(unsure.out).versions).toMatchObject([
      { version: "8", current: 2, isSafeToDelete: false },
      { version: "7", open: { workflow: 5, submission: 1 }, isSafeToDelete: false },
      { version: "6", open: {}, isSafeToDelete: false },
    ]);
  }
});

it("drain does not add versions of different classes that have the same name", async () => {
  const ofWorkflow = (workflow: string, count: number) => {
    return { ...versionOf("1", false, { workflow: count }), workflow };
  };
  const url = await given({
    agents: json({
      items: ["Shop/a", "Desk/a", "Desk/b"].map((at) => {
        const [agent, name] = at.split("/");
        return { agent, name };
      }),
    }),
    "agents/Shop/a/versions": json({
      items: [versionOf("2", true), versionOf("1", false), ofWorkflow("TICKETS", 2)],
    }),
    "agents/Desk/a/versions": json({
      items: [
        versionOf("1", true, { submission: 4 }),
        ofWorkflow("TICKETS", 1),
        ofWorkflow("REFUNDS", 5),
      ],
    }),
    "agents/Desk/b/versions": json({ items: [versionOf("1", true, { submission: 1 })] }),
  });
  const { out } = await run(url, ["drain", "--json"]);
  const found = JSON.parse(out).versions.map(
    ({ of, version, current, open, isSafeToDelete }: Record<string, unknown>) =>
      `${of} ${version} ${current} ${JSON.stringify(open)} ${isSafeToDelete}`,
  );
  expect(found.sort()).toEqual([
    'Desk 1 2 {"submission":5} false',
    'REFUNDS 1 0 {"workflow":5} false',
    "Shop 1 0 {} true",
    "Shop 2 1 {} false",
    'TICKETS 1 0 {"workflow":3} false',
  ]);
});

it("drain --watch ends when nothing of older versions is open", async () => {
  const url = await given({
    agents: refs("a"),
    "agents/Shop/a/versions": json({ items: [versionOf("8", true), versionOf("7", false)] }),
  });
  const { code, out } = await perdure(url, ["drain", "--watch", "--json"]).ended;
  expect(code).toBe(0);
  expect(JSON.parse(out).versions).toMatchObject([{}, { version: "7", isSafeToDelete: true }]);
  const busy = await given({
    agents: refs("a"),
    "agents/Shop/a/versions": json({
      items: [versionOf("8", true), versionOf("7", false, { batch: 1 })],
    }),
  });
  const { child, ended } = perdure(busy, ["drain", "--watch"]);
  await new Promise((resolve) => child.stdout.once("data", resolve));
  child.kill("SIGINT");
  expect((await ended).code).toBe(0);
});
