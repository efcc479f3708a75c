/** Why alerts of an object are not sent, for its health report. In memory: each start of the object checks its settings again. */

import type { Finding } from "../protocol.ts";

export const alertProblems = new WeakMap<DurableObjectStorage, string>();

export const alertsNotSent = (problem: string): Finding[] => [
  {
    code: "alerts-not-sent",
    about: "alerts.to",
    severity: "error",
    title: "The alerts of this agent are not sent.",
    evidence: { count: 1, ids: [], lastError: problem },
    cause: problem,
    fix: { text: "Correct what the cause names and deploy. The agent works without alerts." },
    link: { view: "overview" },
  },
];
