/** The first page: what is wrong, with its remedy, and the counts of each agent. */

import { commandOf } from "../../operator/command-line.ts";
import type { AgentRef, Finding, Report } from "../../operator/protocol.ts";
import { Sparkline } from "./charts/sparkline.ts";
import { ask } from "./dialog.ts";
import { html } from "./html.ts";
import { Status, Time } from "./parts.ts";
import { canAct, client, linkTo, report } from "./state.ts";
import { VIEWS } from "./views.ts";

export async function loadReport(): Promise<() => void> {
  const found = await client.report();
  return () => {
    report.value = found;
  };
}

export function Overview() {
  const found = report.value;
  if (!found) return html`<p class="quiet">Loading…</p>`;
  const { verdict, findings, agents, cursor } = found;
  return html`<div class="overview">
    <section aria-label="Findings">
      <h1>${verdict === "healthy" ? "Healthy" : `${findings.length} finding${findings.length === 1 ? "" : "s"}`}</h1>
      ${verdict === "healthy" && html`<p class="empty">Work starts, succeeds, is delivered, and runs on time.</p>`}
      ${findings.map((finding, at) => html`<${FindingCard} key=${`${finding.agent}/${finding.name}/${finding.code}/${at}`} finding=${finding} />`)}
    </section>
    <section aria-label="Agents">
      <h2>Agents</h2>
      ${agents.map((each) => html`<${AgentCard} key=${`${each.agent}/${each.name}`} of=${each} />`)}
      ${cursor !== undefined && html`<p class="quiet">These are the first ${agents.length} agents. Choose another one above.</p>`}
    </section>
  </div>`;
}

function FindingCard({ finding }: { finding: Finding & AgentRef }) {
  const { agent, name, severity, title, cause, fix, evidence, link } = finding;
  const { action } = fix;
  const key = `${agent}/${name}`;
  const target = VIEWS[link.view];
  const { since, lastError = "" } = evidence;
  const fixed = action && canAct.value;
  return html`<article class=${`finding ${severity}`}>
    <p class="meta"><span class="severity">${severity}</span> ${key}${since === undefined ? null : html`, since <${Time} at=${since} />`}</p>
    <h3>${title}</h3>
    <p>${cause} ${fix.text}</p>
    ${title.includes(lastError) ? null : html`<p class="text problem">${lastError}</p>`}
    <div class="bulk">
      ${fixed && html`<button class="primary" onClick=${() => ask({ agent, name }, { label: "Fix it", action, expects: evidence.count })}>Fix it…</button>`}
      ${target && html`<a class="button" ...${linkTo({ view: link.view, q: link.filter ?? "", id: link.id ?? "", agent: key })}>Show ${target.title.toLowerCase()}</a>`}
      ${action && html`<details><summary>Command line</summary><code>${commandOf({ agent, name }, action, evidence.count)} --reason "..."</code></details>`}
    </div>
  </article>`;
}

function AgentCard({ of }: { of: Report["agents"][number] }) {
  const agent = `${of.agent}/${of.name}`;
  const title = html`<h3><a ...${linkTo({ view: "submissions", agent })}>${agent}</a></h3>`;
  if ("unreachable" in of) {
    return html`<article class="card">${title}<p><${Status} of="unreachable" /></p><p class="text quiet">${of.unreachable}</p></article>`;
  }
  const { counts, hourly, verdicts } = of.report;
  const numbers: readonly (readonly [string, number, string, string])[] = [
    ["running", counts.submissions.running, "submissions", "status:running"],
    ["pending", counts.submissions.pending, "submissions", "status:pending"],
    ["failed", counts.submissions.error, "submissions", "status:error"],
    ["to deliver", counts.outbox.waiting, "deliveries", "state:waiting"],
    ["dead letters", counts.outbox.deadLetters, "dead-letters", ""],
    ["approvals", counts.approvals, "approvals", "status:pending"],
  ];
  const wrong = Object.entries(verdicts).filter(([, isGood]) => isGood === false);
  return html`<article class="card">
    ${title}
    <p>${wrong.length === 0 ? html`<${Status} of="healthy" />` : wrong.map(([question]) => html`<span class="status bad" key=${question}>▲ ${QUESTIONS[question]}</span> `)}</p>
    <${Sparkline} completed=${hourly.completed} failed=${hourly.failed} />
    <ul class="counts">${numbers.map(([label, count, view, q]) => html`<li key=${label} class=${count === 0 ? "zero" : ""}><a ...${linkTo({ view, q, agent })}><b>${count}</b> ${label}</a></li>`)}</ul>
  </article>`;
}

const QUESTIONS: Readonly<Record<string, string>> = {
  starts: "work does not start",
  succeeds: "work fails",
  delivers: "deliveries fail",
  onTime: "work is late",
};
