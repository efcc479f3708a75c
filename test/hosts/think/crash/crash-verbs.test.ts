/** Every verb of a DurableThink and every step is in a crash test, or cannot be harmed by a crash. */

import { runInDurableObject } from "cloudflare:test";
import { expect, it } from "vitest";
import { CAPABILITIES } from "../../../../src/hosts/verbs.ts";
import { allVerbs } from "../../../support/crash/think.ts";
import { givenThink } from "../../../support/given.ts";
import type { ThinkAgent } from "../../../support/think-agent.ts";
import { HARMLESS, PLAYED } from "./crash-verbs.ts";

it("L1 O1 W1 S1: every verb is crashed in a test, or cannot be harmed", async () => {
  const accounted = new Set([...Object.values(PLAYED).flat(), ...Object.keys(HARMLESS)]);
  const calls = await runInDurableObject<ThinkAgent, string[]>(givenThink(), (agent) => [
    ...agent[CAPABILITIES].calls.keys(),
  ]);
  const verbs = allVerbs().filter((verb) => verb !== "callKernel");
  expect([...accounted].toSorted()).toEqual([...verbs, ...calls].toSorted());
});
