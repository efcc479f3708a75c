/** Events that another sender than the agent sends to a workflow. */

/** What the workflow would take for the agent's event. */
export type Event = Record<string, unknown>;

/** The event in the form of a delivery without a proof, with wrong ones, and in every malformed shape. */
export function forged(event: Event): unknown[] {
  const delivery = { id: crypto.randomUUID(), attempt: 1, event };
  return [
    delivery,
    ...["", "guess", null, 7, {}, ["proof"]].map((proof) => ({ ...delivery, proof })),
    null,
    undefined,
    "approve",
    "x".repeat(900_000),
    7,
    [],
    [delivery],
    {},
    { ...delivery, event: null },
    { id: "large", attempt: 1, reference: { bytes: 1 } },
    { id: "large", attempt: 1, reference: null, proof: true },
  ];
}

/** The forged event so many times. */
export function floodOf(event: Event, count: number): unknown[] {
  return Array.from({ length: count }, (_, id) => ({ id: String(id), attempt: 1, event }));
}

export async function send(
  workflow: Workflow,
  id: string,
  type: string,
  payloads: readonly unknown[],
): Promise<void> {
  for (const payload of payloads) {
    await (await workflow.get(id)).sendEvent({ type, payload });
  }
}
