/** Every verb of a DurableThink and every step is in the crash matrix, or cannot be harmed by a crash. */

import { expect, it } from "vitest";
import { PROMPTS } from "../../matrix/think-prompts.ts";
import { STARTS } from "../../matrix/think-starts.ts";
import { TURNS } from "../../matrix/think-turns.ts";
import { HARMLESS } from "../../matrix/think-verbs.ts";
import { WAITS } from "../../matrix/think-waits.ts";
import { allVerbs } from "../../support/think-matrix.ts";

it("L1 O1 W1 S1: every verb is tested with crashes, or stores nothing", () => {
  const played = new Set([...PROMPTS, ...WAITS, ...TURNS, ...STARTS].flatMap(({ verbs }) => verbs));
  const accounted = [...played, ...Object.keys(HARMLESS)];
  expect(accounted.toSorted()).toEqual(allVerbs().toSorted());
});
