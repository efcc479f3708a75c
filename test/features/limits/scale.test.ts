/** Agents of one root share its leases, and ask by themselves where it has too many keys. */

import { expect, it } from "vitest";
import { limit } from "../../../src/features/limits/index.ts";
import { givenGate, submission, worked } from "./support.ts";

it("a sub-agent asks by itself where more than 10,000 keys came after that of the root", async () => {
  const keyed = limit("one", {
    key: ({ metadata }) => metadata.tenant as string,
    requests: "1000 per minute",
  });
  const of = (tenant: string) => ({ metadata: { tenant } });
  const root = givenGate({ limits: [keyed] });
  const asksOfChild = async () => {
    for (let seq = 1; seq <= 5; seq++) await worked(root, seq, of("first"));
    const before = root.keepers.asks.length;
    await worked(givenGate({ limits: [keyed] }, root.keepers, { root: root.root }), 1, of("first"));
    return root.keepers.asks.length - before;
  };
  expect(await asksOfChild()).toBe(0);
  const { gate } = givenGate({ limits: [keyed] }, root.keepers);
  root.keepers.latencyMs = 60_000;
  for (let n = 0; n < 10_000; n++) void gate.admit(submission(n, of(`t${n}`)));
  root.keepers.latencyMs = 0;
  expect(await asksOfChild()).toBe(1);
});
