/**
 * Databases of Perdure as SQL: how they are written, and loaded again. The name of a file is the version that wrote it, and the
 * number of migrations that made its tables.
 */

import { runInDurableObject } from "cloudflare:test";
import { version } from "../../../package.json";

/** By their paths. */
const files = import.meta.glob<string>("./*.sql", {
  query: "?raw",
  import: "default",
  eager: true,
});
/** Those of agents, and those of keepers of limits, by their names. */
export const agents = filesWith(/^\d/);
export const keepers = filesWith(/^keeper/);

function filesWith(name: RegExp): Readonly<Record<string, string>> {
  const all = Object.entries(files).map(([path, file]) => [path.replace("./", ""), file] as const);
  return Object.fromEntries(all.filter(([file]) => name.test(file)));
}

/** How long before it is loaded a database was written, as the rows say: work of the next minute has become due. */
const DOWN_MS = 120_000;
const WRITTEN_AT = /^-- Written at (\d+)\.\n/;
/** A time in milliseconds or microseconds, in a column or in JSON. */
const TIME = /(?<![\w.-])(1[789]\d{11})(\d{3})?(?![\w.-])/g;

export type Versions = Readonly<Record<string, number>>;

/** The versions of the modules whose tables a dump has. */
export function versionsIn(dump: string): Versions {
  const rows = dump.matchAll(/^INSERT INTO perdure_schema VALUES \('(\w+)', (\d+)\)/gm);
  return Object.fromEntries(Array.from(rows, ([, module, version]) => [module, Number(version)]));
}

/** The tables of Perdure with their rows. */
export function dumpOf({ sql }: DurableObjectStorage): string {
  const own = sql.exec<{ type: string; name: string; sql: string }>(
    "SELECT type, name, sql FROM sqlite_master WHERE tbl_name LIKE 'perdure_%' AND sql NOT NULL ORDER BY rowid",
  );
  const all = own.toArray();
  const tables = all.filter(({ type }) => type === "table");
  const rows = tables.flatMap(({ name }) => rowsOf(sql, name));
  const others = all.filter(({ type }) => type !== "table");
  const made = (objects: typeof all) => objects.map((object) => object.sql);
  return [...made(tables), ...rows, ...made(others), ""].join(";\n");
}

/** The rows of a table, as statements that insert them. */
function rowsOf(sql: SqlStorage, table: string): string[] {
  const rows = sql.exec(`SELECT * FROM ${table}`).raw();
  return Array.from(rows, (row) => `INSERT INTO ${table} VALUES (${row.map(literal).join(", ")})`);
}

function literal(value: SqlStorageValue): string {
  if (typeof value === "string") return `'${value.replaceAll("'", "''")}'`;
  if (value instanceof ArrayBuffer) throw new TypeError("A dump has no blobs.");
  return String(value);
}

/** A dump as a file, with its name. */
export function fileOf(dump: string, prefix = "") {
  const migrations = Object.values(versionsIn(dump)).reduce((sum, version) => sum + version, 0);
  const name = `${prefix}${version}-${migrations}.sql`;
  return { name, text: `-- Written at ${Date.now()}.\n${dump}` };
}

/**
 * Writes a dump of a file into a new object, and ends the object, so that the next call starts it with this storage. All times
 * are moved: the file gets old, and its rows must neither be due nor be deleted for that. Returns what is stored.
 */
export async function load(stub: DurableObjectStub<undefined>, file: string): Promise<string> {
  const [header, writtenAt] = WRITTEN_AT.exec(file) ?? [];
  if (!header) throw new Error("The first line of a dump must be `-- Written at <milliseconds>.`");
  const moved = Date.now() - DOWN_MS - Number(writtenAt);
  const dump = file
    .slice(header.length)
    .replace(TIME, (_, time: string, micro = "") => `${Number(time) + moved}${micro}`);
  let stored = "";
  await runInDurableObject(stub, async (_object, ctx) => {
    ctx.storage.sql.exec(dump);
    await ctx.storage.sync();
    stored = dumpOf(ctx.storage);
    ctx.abort("restart");
  }).catch((error: unknown) => {
    if (!String(error).includes("restart")) throw error;
  });
  return stored;
}
