/** Events that the driver has put, and webhooks that it has sent: each arrived, once, and under one id. */

import { type Evidence, type Finding, time } from "./evidence.ts";

export function putFindings({ entries, records }: Evidence): Finding[] {
  return entries.flatMap((entry): Finding[] => {
    if (entry.kind !== "put") return [];
    const { id, agent, to, askedAt, acceptedAt } = entry;
    const what = `an event of ${agent} to ${to}, put at ${time(askedAt)}`;
    if (acceptedAt === undefined) return [{ kind: "stuck", id, what: `${what}: no answer` }];
    const ids = [...(records.puts.get(id) ?? [])];
    if (ids.length === 0) return [{ kind: "lost", id, what: `${what}: never came` }];
    if (ids.length === 1 && ids[0] === id) return [];
    return [{ kind: "duplicate", id, what: `${what}: came under the ids ${ids.join(", ")}` }];
  });
}

export function arrivalFindings({ entries, records }: Evidence): Finding[] {
  return entries.flatMap((entry): Finding[] => {
    if (entry.kind !== "arrival") return [];
    const { id, agent, type, askedAt, acceptedAt, verdicts } = entry;
    const what = `a webhook to ${agent} (${type}), sent at ${time(askedAt)}`;
    if (acceptedAt === undefined) return [{ kind: "stuck", id, what: `${what}: no answer` }];
    const known = type === "step" ? /^(accepted|filtered|duplicate)$/ : /^(accepted|duplicate)$/;
    const firsts = verdicts.filter((verdict) => verdict !== "duplicate");
    if (
      verdicts.some((verdict) => !known.test(verdict)) ||
      (type !== "step" && firsts.length > 1)
    ) {
      return [{ kind: "failed", id, what: `${what}: answered with ${verdicts.join(", ")}` }];
    }
    if (type === "step") return [];
    const started = (type === "note" ? records.arrivals : records.arrived).get(id) ?? new Set();
    if (started.size === 1) return [];
    const ids = `${started.size} times: ${[...started].join(", ")}`;
    return [{ kind: started.size === 0 ? "lost" : "duplicate", id, what: `${what}: ran ${ids}` }];
  });
}
