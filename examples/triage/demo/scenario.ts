/**
 * The demo: posts the feed, follows the workflows to their end, prints and checks the results, and posts everything a second
 * time. Resolves with the problems.
 */

import type { Runtime } from "../../runtime.ts";
import type { AgentReport } from "../src/triage.ts";
import { agentsOf, type Delivery, postFeed } from "./feed.ts";
import type { Operator } from "./operator.ts";
import { differences, type Progress, problemsIn, type Totals, table, totalsOf } from "./report.ts";
import { KILL_AT, Watcher } from "./watcher.ts";

export interface Scenario {
  runtime: Runtime;
  feed: Delivery[];
  adminToken: string;
  crash: boolean;
  offline: boolean;
  progress: Progress;
  signal: AbortSignal;
}

/** Resolves with the problems. An empty list is success. */
export async function run(scenario: Scenario): Promise<string[]> {
  const { runtime, feed, progress, signal } = scenario;
  progress.note(
    "Starting the local Cloudflare runtime (wrangler dev), state in a temporary folder.",
  );
  await runtime.start(signal);

  const agents = agentsOf(feed).length;
  progress.note(
    `Posting ${feed.length} signed GitHub deliveries to ${runtime.url}/webhooks/github, for ${agents} issues and pull requests.`,
  );
  const watcher = new Watcher(scenario);
  const posting = postFeed(
    feed,
    () => runtime.url,
    signal,
    () => watcher.posted++,
  );
  // One may fail while the other still runs. Its failure is the result.
  const [reports, posted] = await Promise.all([watcher.untilSettled(), posting]);
  progress.note(
    `All ${feed.length} workflows are through.${posted.retries > 0 ? ` ${posted.retries} postings met a dead runtime and were sent again.` : ""}`,
  );

  console.log(`\n${table(inFeedOrder(reports, feed), process.stdout.columns ?? 160)}\n`);
  const problems = problemsIn(reports, {
    feed,
    kills: watcher.kills,
    exactCalls: scenario.offline,
  });
  if (scenario.crash && watcher.hits < KILL_AT.length) {
    problems.push(`${watcher.hits} kills hit a running turn; ${KILL_AT.length} were to.`);
  }
  return [...problems, ...(await postAgain(scenario, watcher.operator, totalsOf(reports)))];
}

async function postAgain(
  { runtime, feed, progress, signal }: Scenario,
  operator: Operator,
  before: Totals,
): Promise<string[]> {
  progress.note("Posting every delivery a second time.");
  const { receipts } = await postFeed(feed, () => runtime.url, signal);
  // The response is sent after the workflow is started, so a workflow of a redelivery is counted by now.
  const after = totalsOf(await operator.reports(agentsOf(feed), true));
  const accepted = receipts.filter((receipt) => receipt.accepted);
  const problems = [
    ...accepted.map(({ delivery }) => `${delivery}: the redelivery was accepted as a new one.`),
    ...differences(before, after),
  ];
  const recognised = receipts.length - accepted.length;
  if (problems.length === 0) {
    progress.note(
      `${recognised} of ${receipts.length} were recognised. Nothing ran twice: ${countersOf(after)}, before and after.`,
    );
  }
  return problems;
}

function inFeedOrder(reports: AgentReport[], feed: Delivery[]): AgentReport["deliveries"] {
  const position = new Map(feed.map((delivery, index) => [delivery.id, index]));
  const rows = reports.flatMap((report) => report.deliveries);
  return rows.sort((a, b) => (position.get(a.delivery) ?? 0) - (position.get(b.delivery) ?? 0));
}

function countersOf(totals: Totals): string {
  return `${totals.workflows} workflows, ${totals.modelCalls} model calls, ${totals.labelWrites} label writes`;
}
