import { describe, expect, it } from "vitest";
import type { Definition } from "../../src/engine/operated/catalog.ts";
import { FINDINGS } from "../../src/operator/catalog.generated.ts";
import { DEFINITIONS, definitionOf, NO_COUNTS } from "../../src/operator/catalog.ts";
import { LISTS, OPENS, READS, SUBLISTS } from "../../src/operator/lists.ts";
import { PARTS } from "../../src/operator/parts.ts";

type File = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

const files = (all: Readonly<Record<string, unknown>>) =>
  Object.entries(all as Readonly<Record<string, File>>).filter(
    ([path]) => !path.includes("/core/"),
  );

const catalogs = files(import.meta.glob("../../src/**/operated/catalog.ts", { eager: true }));
const lists = files(import.meta.glob("../../src/**/operated/lists.ts", { eager: true }));
const parts = files(import.meta.glob("../../src/**/operated/part.ts", { eager: true }));

describe("what a module has in its folder operated/", () => {
  it.each(catalogs)(
    "is in the catalog of operators: %s",
    (_, { FINDINGS: findings, COUNTS, ACTIONS }) => {
      expect(FINDINGS).toMatchObject(findings ?? {});
      expect(NO_COUNTS).toMatchObject(COUNTS ?? {});
      for (const [name, definition] of Object.entries(ACTIONS ?? {}))
        expect(DEFINITIONS).toContainEqual([name, definition]);
    },
  );

  it.each(lists)("is in the lists of operators: %s", (_, { LISTS: titles, ...verbs }) => {
    expect(Object.keys(LISTS)).toEqual(expect.arrayContaining(Object.keys(titles ?? {})));
    expect(Object.keys(READS)).toEqual(expect.arrayContaining(Object.keys(titles ?? {})));
    expect(Object.keys(OPENS)).toEqual(expect.arrayContaining(Object.keys(verbs.OPENS ?? {})));
    expect(Object.keys(SUBLISTS)).toEqual(
      expect.arrayContaining(Object.keys(verbs.SUBLISTS ?? {})),
    );
  });

  it.each(parts)("is in the report and the actions of operators: %s", (_, { PARTS: own }) => {
    const names = PARTS.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(Object.keys(own ?? {})));
  });
});

describe("each action of operators", () => {
  const verbs = PARTS.flatMap((part) => Object.keys(part.verbs ?? {}));
  const bulks = PARTS.flatMap((part) => Object.keys(part.bulks ?? {}));

  it.each(DEFINITIONS)("has an effect: %s", (name, { filter }: Definition) => {
    expect(verbs).toContain(name);
    if (filter !== undefined) expect(bulks).toContain(filter);
  });

  it("that a list offers is in the catalog", () => {
    for (const name of verbs) expect(definitionOf(name as never)).toBeDefined();
  });
});

it("each list has a letter of its own on the page, and none that of the overview", () => {
  const letters = Object.values(LISTS).map(({ letter }) => letter);
  expect(new Set([...letters, "o"]).size).toBe(letters.length + 1);
});
