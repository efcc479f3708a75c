/** Every verb of a DurableThink and every step is in the crash matrix, or cannot be harmed by a crash. */

import { expect, it } from "vitest";
import { allVerbs } from "../../support/crash-think.ts";
import { PROMPTS } from "../../workflow/steps/crash-prompts-scenarios.ts";
import { WAITS } from "../../workflow/steps/crash-waits-scenarios.ts";
import { STARTS } from "./crash-starts-scenarios.ts";
import { HARMLESS } from "./crash-verbs.ts";
import { TURNS } from "./turns/crash-turns-scenarios.ts";

it("L1 O1 W1 S1: every verb is tested with crashes, or stores nothing", () => {
  const played = new Set([...PROMPTS, ...WAITS, ...TURNS, ...STARTS].flatMap(({ verbs }) => verbs));
  const accounted = [...played, ...Object.keys(HARMLESS)];
  expect(accounted.toSorted()).toEqual(allVerbs().toSorted());
});
