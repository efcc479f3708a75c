/** The spans of a submission's deliveries. */

import { deliveryKey } from "../../core/trace-context.ts";
import type { KeyedSpan, NewSpan, SpanSource } from "../../engine/operated/spans.ts";
import { hostOf } from "../destinations/webhook.ts";
import { listDeliveries } from "../store/listing.ts";
import type { DeliveryInfo } from "../types.ts";

const MAX_DELIVERIES = 100;

/** Deliveries that wait, dead letters, and the delivered ones that the outbox keeps. */
function deliverySpans(sql: SqlStorage, submissionId: string): KeyedSpan[] {
  const states = ["waiting", "dead", "delivered", "discarded"] as const;
  const filter = { states, key: undefined, kind: undefined, submissionId };
  const { items } = listDeliveries(sql, filter, MAX_DELIVERIES, undefined);
  return [...items].reverse().map(deliverySpan);
}

function deliverySpan(delivery: DeliveryInfo): KeyedSpan {
  const { id, submissionId, destination, createdAt, attempt } = delivery;
  const { endedAt, status, error } = outcomeOf(delivery);
  const span: NewSpan = {
    name: "perdure.deliver",
    kind: "delivery",
    startedAt: createdAt,
    endedAt,
    status,
    error,
    attributes: {
      "perdure.submission.id": submissionId,
      "perdure.delivery.id": id,
      "perdure.delivery.state": delivery.state,
      "perdure.delivery.attempt": attempt,
      "perdure.destination.kind": destination.kind,
      "server.address": "url" in destination ? hostOf(String(destination.url)) : undefined,
    },
  };
  return [deliveryKey(id), span];
}

function outcomeOf(delivery: DeliveryInfo): Pick<NewSpan, "endedAt" | "status" | "error"> {
  switch (delivery.state) {
    case "delivered":
      return { endedAt: delivery.deliveredAt, status: "ok" };
    case "discarded":
      return { endedAt: delivery.discardedAt, status: "unset", error: delivery.reason };
    case "dead":
      return { endedAt: delivery.diedAt, status: "error", error: delivery.lastError };
    case "waiting":
      return { error: delivery.lastError };
  }
}

export const SPANS = {
  outbox: { below: deliverySpans },
} satisfies Readonly<Record<string, SpanSource>>;
