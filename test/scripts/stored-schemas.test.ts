/** Each schema of Perdure's storage has a database that tests open, as test/contract/stored/stored-schemas.test.ts does. */

import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { parseSync, Visitor } from "oxc-parser";
import { expect, it } from "vitest";

const ROOT = path.join(import.meta.dirname, "../..");
const STORED = path.join(ROOT, "test/contract/stored");
const REMEDY =
  "No database in test/contract/stored has these schemas. Let test/contract/stored/work.ts leave rows in the tables, run " +
  "`npm run test:unit -- --project contract test/contract/stored/stored-schemas.test.ts`, and commit the file that it writes";

/** The schema versions in src/, by the module. */
function versionsInSource(): Record<string, number> {
  const files = globSync("src/**/*.ts", { cwd: ROOT, exclude: ["src/**/*.generated.ts"] });
  const found = files.flatMap((file) => {
    const text = readFileSync(path.join(ROOT, file), "utf8");
    const calls = text.matchAll(/\bmigrate\(\s*[\w.#]+,\s*"(\w+)",\s*MIGRATIONS\b/g);
    return Array.from(calls, ([, module = ""]) => [module, migrationsOf(file, text)] as const);
  });
  return Object.fromEntries(found);
}

/** How many migrations the list `MIGRATIONS` has, which a file declares or imports. */
function migrationsOf(file: string, text: string): number {
  const { program } = parseSync(file, text);
  let count: number | undefined;
  let source: string | undefined;
  const visitor = new Visitor({
    VariableDeclarator({ id, init }) {
      if (id.type !== "Identifier" || id.name !== "MIGRATIONS" || !init) return;
      const list = init.type === "TSAsExpression" ? init.expression : init;
      if (list.type === "ArrayExpression") count = list.elements.length;
    },
    ImportDeclaration({ specifiers, source: from }) {
      if (specifiers.some(({ local }) => local.name === "MIGRATIONS")) source = from.value;
    },
  });
  visitor.visit(program);
  if (count !== undefined) return count;
  if (source === undefined) throw new Error(`${file} has no list MIGRATIONS`);
  const imported = path.join(path.dirname(file), source);
  return migrationsOf(imported, readFileSync(path.join(ROOT, imported), "utf8"));
}

/** The newest version of each module in the databases. */
function versionsInDatabases(): Record<string, number> {
  const versions: Record<string, number> = {};
  for (const file of globSync("*.sql", { cwd: STORED })) {
    const text = readFileSync(path.join(STORED, file), "utf8");
    for (const [, module = "", version] of text.matchAll(
      /INTO perdure_schema VALUES \('(\w+)', (\d+)\)/g,
    ))
      versions[module] = Math.max(versions[module] ?? 0, Number(version));
  }
  return versions;
}

it("the newest schema of each module has a stored database", () => {
  const known = versionsInSource();
  expect(Object.keys(known).length).toBeGreaterThan(9);
  expect(versionsInDatabases(), REMEDY).toEqual(known);
});
