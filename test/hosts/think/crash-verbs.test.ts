/** Every verb of a DurableThink and every step is in a crash test, or cannot be harmed by a crash. */

import { expect, it } from "vitest";
import { allVerbs } from "../../support/crash/think.ts";
import { HARMLESS, PLAYED } from "./crash-verbs.ts";

it("L1 O1 W1 S1: every verb is crashed in a test, or cannot be harmed", () => {
  const accounted = new Set([...Object.values(PLAYED).flat(), ...Object.keys(HARMLESS)]);
  expect([...accounted].toSorted()).toEqual(allVerbs().toSorted());
});
