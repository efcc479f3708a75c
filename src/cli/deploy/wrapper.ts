/** The Worker that `check` runs beside the new code: its module, and the configuration that makes it the main one. */

import { existsSync } from "node:fs";
import path from "node:path";
import { isPlainObject } from "../../core/options/options.ts";
import { type ClassBinding, objectsIn, type Settings, storageOf } from "../project/config.ts";

/** The header of each request, so that no other process on this machine calls it. */
export const KEY_HEADER = "x-perdure-check";

type Wrapped = {
  /** As the wrapper imports it, e.g. `../../../src/worker.ts`. */
  readonly main: string;
  readonly workflows: readonly ClassBinding[];
  readonly key: string;
};

/** Answers `/replay` with what `replayWorkflow()` finds in a history, and `/lacks` with what a new object of a class lacks. */
export function wrapperOf({ main, workflows, key }: Wrapped): string {
  const classes = Object.fromEntries(
    workflows.map(({ binding, className }) => [binding, className]),
  );
  return `import { replayWorkflow } from "perdure/testing";
import * as app from ${JSON.stringify(main)};
export * from ${JSON.stringify(main)};

const classes = new Map(Object.entries(${JSON.stringify(classes)}));

async function replay(history) {
  const Class = app[classes.get(history.workflow)];
  if (!Class) throw new Error(\`No class for the Workflow binding \${history.workflow}.\`);
  return await replayWorkflow(Class, history);
}

async function lacks({ binding, needs }, env) {
  const object = env[binding].getByName("perdure-check");
  return [...(await object.callKernel("deployments.lacks", needs))];
}

export default {
  async fetch(request, env) {
    if (request.headers.get("${KEY_HEADER}") !== ${JSON.stringify(key)})
      return new Response("", { status: 403 });
    const { pathname } = new URL(request.url);
    if (pathname === "/health") return new Response("ready");
    try {
      const asked = await request.json();
      return Response.json({ found: pathname === "/replay" ? await replay(asked) : await lacks(asked, env) });
    } catch (error) {
      return Response.json({ error: error instanceof Error ? \`\${error.name}: \${error.message}\` : String(error) });
    }
  },
};
`;
}

/** Settings that a check does not need, or that reach beyond this machine. The project is built already. */
const LEFT_OUT = new Set([
  ...["build", "$schema", "env", "dev", "no_bundle", "site", "containers", "secrets", "logpush"],
  ...["route", "routes", "workers_dev", "preview_urls", "triggers", "observability", "placement"],
  ...["tail_consumers", "streaming_tail_consumers", "send_metrics", "upload_source_maps"],
]);
/** Wrangler starts no Hyperdrive without a database. A check connects to none. */
const NOWHERE = "postgres://user:password@127.0.0.1:9/none";
/** Modules by their names in the code, with files. */
const BLOBS = ["text_blobs", "data_blobs", "wasm_modules"];

/**
 * The configuration of the project for a file in another folder, with the wrapper as its main module. Bindings of classes that the
 * project does not export are left out: nothing would start with them.
 *
 * @param isThere whether the main module exports a class
 */
export function configOf(
  settings: Settings,
  folder: string,
  main: string,
  isThere: (className: string) => boolean,
): Settings {
  const kept = Object.fromEntries(Object.entries(settings).filter(([name]) => !LEFT_OUT.has(name)));
  const absolute = (value: unknown) =>
    typeof value === "string" ? path.resolve(folder, value) : value;
  const {
    tsconfig,
    base_dir,
    alias,
    assets,
    queues,
    hyperdrive,
    durable_objects: objects,
  } = settings;
  const mainFolder = path.dirname(path.resolve(folder, String(settings.main)));
  const blobs = BLOBS.filter((name) => isPlainObject(settings[name])).map((name) => [
    name,
    mapped(settings[name] as object, absolute),
  ]);
  const bindings =
    isPlainObject(objects) && Array.isArray(objects.bindings) ? objects.bindings : [];
  const workflows = Array.isArray(settings.workflows) ? settings.workflows : [];
  const exported = (list: readonly unknown[]) =>
    list.filter(
      (each) =>
        !isPlainObject(each) || each.script_name !== undefined || isThere(String(each.class_name)),
    );
  return {
    ...kept,
    ...Object.fromEntries(blobs),
    ...storageFor(settings, isThere),
    main,
    durable_objects: { bindings: exported(bindings) },
    workflows: exported(workflows),
    ...(tsconfig !== undefined && { tsconfig: absolute(tsconfig) }),
    ...(settings.find_additional_modules === true && {
      base_dir: absolute(base_dir ?? mainFolder),
    }),
    ...(isPlainObject(alias) && {
      alias: mapped(alias, (value) => (String(value).startsWith(".") ? absolute(value) : value)),
    }),
    ...(isPlainObject(queues) && { queues: { producers: queues.producers ?? [] } }),
    ...(Array.isArray(hyperdrive) && {
      hyperdrive: hyperdrive.map((each: unknown) => ({
        localConnectionString: NOWHERE,
        ...Object(each),
      })),
    }),
    assets: assetsOf(assets, folder),
  };
}

/** Creates the classes that are there. Wrangler starts nothing where a migration has created one that is gone. */
function storageFor(settings: Settings, isThere: (className: string) => boolean): Settings {
  if (isPlainObject(settings.exports)) {
    const exported = Object.entries(settings.exports).filter(([name]) => isThere(name));
    return { exports: Object.fromEntries(exported) };
  }
  const { sqlite, other } = storageOf(settings);
  const bound = objectsIn(settings).map(({ className }) => className);
  const created = [...new Set([...sqlite, ...bound])].filter((name) => !other.has(name));
  const migration = {
    tag: "check",
    new_sqlite_classes: created.filter(isThere),
    new_classes: [...other].filter(isThere),
  };
  return { migrations: [migration] };
}

/** Files never answer before the wrapper. Those that are not built yet are left out. */
function assetsOf(assets: unknown, folder: string): object | undefined {
  if (!isPlainObject(assets) || typeof assets.directory !== "string") return undefined;
  const directory = path.resolve(folder, assets.directory);
  return existsSync(directory) ? { ...assets, directory, run_worker_first: true } : undefined;
}

const mapped = (object: object, change: (value: unknown) => unknown) =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]));
