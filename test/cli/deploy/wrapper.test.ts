/** The configuration with which a check runs the new code. */

import { afterEach, expect, it } from "vitest";
import { configOf } from "../../../src/cli/deploy/wrapper.ts";
import { project, removeProjects } from "../fixtures.ts";

afterEach(removeProjects);

const isThere = (name: string) => name !== "Gone";
const of = (settings: object, folder = "/app") =>
  configOf({ main: "src/worker.ts", ...settings }, folder, "/tmp/check.js", isThere);

it("leads paths from another folder, and leaves names of packages alone", () => {
  expect(
    of({
      ...{ tsconfig: "tsconfig.worker.json", find_additional_modules: true },
      alias: { one: "./src/one.ts", two: "another-package", three: "/abs/three.ts" },
      text_blobs: { PAGE: "page.html" },
    }),
  ).toMatchObject({
    ...{ main: "/tmp/check.js", tsconfig: "/app/tsconfig.worker.json", base_dir: "/app/src" },
    alias: { one: "/app/src/one.ts", two: "another-package", three: "/abs/three.ts" },
    text_blobs: { PAGE: "/app/page.html" },
  });
});

it("leaves out what reaches beyond this machine, and what would run by itself", () => {
  const settings = {
    ...{ routes: ["example.com/*"], triggers: { crons: ["* * * * *"] }, env: { x: {} } },
    ...{ containers: [{}], tail_consumers: [{}], secrets: { required: ["A"] }, no_bundle: true },
    queues: { producers: [{ binding: "Q", queue: "q" }], consumers: [{ queue: "q" }] },
    vars: { A: "1" },
    build: { command: "make", watch_dir: "lib" },
  };
  const { queues, vars, ...others } = of(settings);
  expect({ queues, vars }).toEqual({
    ...{ queues: { producers: settings.queues.producers }, vars: { A: "1" } },
  });
  for (const name of Object.keys(settings)) expect(others).not.toHaveProperty(name);
});

it("binds and creates the classes that are there, and answers before files", () => {
  const folder = project({ "public/index.html": "" });
  const other = { name: "OTHER", class_name: "Gone", script_name: "other" };
  const config = of(
    {
      durable_objects: {
        bindings: [
          { name: "A", class_name: "A" },
          { name: "Gone", class_name: "Gone" },
          { name: "New", class_name: "New" },
          other,
        ],
      },
      workflows: [{ name: "w", binding: "W", class_name: "Gone" }],
      migrations: [
        { tag: "v1", new_sqlite_classes: ["Old", "Gone"], new_classes: ["Kv"] },
        { tag: "v2", renamed_classes: [{ from: "Old", to: "A" }] },
      ],
      assets: { directory: "public", not_found_handling: "single-page-application" },
    },
    folder,
  );
  expect(config).toMatchObject({
    durable_objects: {
      bindings: [{ name: "A", class_name: "A" }, { name: "New", class_name: "New" }, other],
    },
    workflows: [],
    migrations: [{ tag: "check", new_sqlite_classes: ["A", "New"], new_classes: ["Kv"] }],
    assets: { directory: `${folder}/public`, run_worker_first: true },
  });
  expect(of({ assets: { directory: "nowhere" } }, folder).assets).toBeUndefined();
  const declared = { Gone: { type: "durable-object" }, A: { type: "durable-object" } };
  expect(of({ exports: declared })).toMatchObject({ exports: { A: declared.A } });
});
