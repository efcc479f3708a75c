import { describe } from "vitest";
import { HOSTS } from "../app/hosts.ts";
import { lostEventsContract } from "./approvals.ts";

// At the same time, because each waits for ten seconds.
describe.concurrent("lost events", () => {
  for (const host of HOSTS) lostEventsContract(host);
});
