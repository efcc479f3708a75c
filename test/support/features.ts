/** For agents of tests that use more than one feature. */

import { agentTools } from "perdure/agent-tools";
import { inbound, signedLinks } from "perdure/inbound";
import { operations } from "perdure/operator";
import { replies } from "perdure/replies";
import { type SchedulesOptions, schedules } from "perdure/scheduler";
import { followers } from "perdure/streams";

export const LINKS = { url: "https://app.example/hooks/links", secret: "HOOK_SECRET" };

const UNDECLARED = [operations(), followers(), replies(), inbound(), signedLinks(LINKS)];

/** All features of Perdure, with their defaults, for the class of an agent. */
export const ALL = [...UNDECLARED, schedules(), agentTools()];

/** Those that a plain object can have. It declares its tasks as an option. */
export const allWith = (tasks: NonNullable<SchedulesOptions["tasks"]>) => [
  ...UNDECLARED,
  schedules({ tasks }),
];
