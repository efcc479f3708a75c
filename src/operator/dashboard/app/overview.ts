/** The first page: each agent with what is wrong with it, worst first; opened, its findings with their remedies. */

import { commandOf } from "../../command-line.ts";
import type { AgentRef, AgentReport, Finding, Report, Severity } from "../../protocol.ts";
import { panel } from "./details.ts";
import { ask } from "./dialog.ts";
import { html } from "./html.ts";
import { Rows } from "./list.ts";
import { Status, short, Time } from "./parts.ts";
import { signal } from "./signals.ts";
import { agents, canAct, client, go, linkTo, MAX_AGENTS, part } from "./state.ts";
import { VIEWS } from "./views.ts";

type Counted = Pick<AgentReport, "counts" | "hourly" | "countedFrom">;

type Row = AgentRef & {
  readonly id: string;
  readonly severity: Severity | "healthy";
  readonly findings: readonly Finding[];
  /** Undefined for one that does not answer. */
  readonly report?: Counted | undefined;
};

const RANK = ["error", "warning", "info", "healthy"] as const;

/** By the agent's id. */
const found = signal<ReadonlyMap<string, Row>>(new Map());
/** Whether there are further agents; undefined until all were asked. */
const isCut = signal<boolean | undefined>(undefined);

/** How many findings there are. */
export const findingCount = () =>
  sum([...found.value.values()].map(({ findings }) => findings.length));

/** Asks all agents, and shows each as it answers. */
export async function loadReport(isLatest: () => boolean): Promise<() => void> {
  const seen = new Set<string>();
  const add = ({ agents, findings }: Report) => {
    if (!isLatest()) return;
    const next = new Map(found.peek());
    for (const each of agents) {
      const row = rowOf(each, findings);
      seen.add(row.id);
      if (JSON.stringify(next.get(row.id)) !== JSON.stringify(row)) next.set(row.id, row);
    }
    found.value = next;
  };
  let cursor: string | undefined;
  do {
    const page = await client.report({ cursor }, add);
    add(page);
    cursor = page.cursor;
  } while (cursor !== undefined && isLatest() && seen.size < MAX_AGENTS);
  return () => {
    isCut.value = cursor !== undefined;
    found.value = new Map([...found.peek()].filter(([id]) => seen.has(id)));
  };
}

function rowOf(each: Report["agents"][number], all: Report["findings"]): Row {
  const { agent, name } = each;
  const findings = all.filter((finding) => finding.agent === agent && finding.name === name);
  const report = "report" in each ? each.report : undefined;
  return {
    ...{ id: `${agent}/${name}`, agent, name, findings },
    severity: findings[0]?.severity ?? "healthy",
    report: report && {
      counts: report.counts,
      hourly: report.hourly,
      countedFrom: report.countedFrom,
    },
  };
}

type Count = (counts: AgentReport["counts"]) => number;

/** Title, number, and the list that it counts. */
const NUMBERS: readonly (readonly [string, Count, string, string])[] = [
  ["Running", ({ submissions }) => submissions.running, "submissions", "status:running"],
  ["Pending", ({ submissions }) => submissions.pending, "submissions", "status:pending"],
  ["Failed", ({ submissions }) => submissions.error, "submissions", "status:error"],
  ["To deliver", ({ outbox }) => outbox.waiting, "deliveries", "state:waiting"],
  ["Dead letters", ({ outbox }) => outbox.deadLetters, "dead-letters", ""],
  ["Approvals", ({ approvals }) => approvals, "approvals", "status:pending"],
];

/** At least so many failures, where older ones are not counted. */
const numberOf = (title: string, of: Count, { counts, countedFrom }: Counted) =>
  of(counts) + (title === "Failed" && countedFrom ? "+" : "");

const VIEW = {
  title: "Agents",
  link: "Agent",
  id: ({ id }: Row) => id,
  columns: {
    State: ({ severity }: Row) => html`<${Status} of=${severity} />`,
    Agent: ({ id }: Row) => short(id, 40),
    Finding: ({ findings: [first] }: Row) => short(first?.title ?? "", 90),
    Findings: ({ findings }: Row) => findings.length,
    ...Object.fromEntries(
      NUMBERS.map(([title, of]) => [
        title,
        ({ report }: Row) => report && numberOf(title, of, report),
      ]),
    ),
  },
};

export function Overview() {
  const all = [...found.value.values()].sort(
    (a, b) =>
      RANK.indexOf(a.severity) - RANK.indexOf(b.severity) || b.findings.length - a.findings.length,
  );
  const words = part("q").toLowerCase().split(/\s+/);
  const matches = ({ id, severity, findings }: Row) => {
    const texts = findings.map(({ code, title }) => `${code} ${title}`);
    const text = `severity:${severity} ${id} ${texts.join(" ")}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const rows = all.filter(matches);
  const opened = found.value.get(part("id"));
  const isLoaded = isCut.value !== undefined;
  const isHealthy = all.every(({ severity }) => severity === "info" || severity === "healthy");
  const search = (q: string) => go({ q }, true);
  const total = Math.max(all.length, agents.value.length);
  const title = !isHealthy
    ? `${findingCount()} finding${findingCount() === 1 ? "" : "s"}`
    : isLoaded
      ? "Healthy"
      : "Overview";
  return html`<div class=${opened ? "split" : ""}>
    <section aria-label="Agents">
      <h1>${title}</h1>
      <div class="tools">
        <form class="filter" role="search" onSubmit=${(event: Event) => event.preventDefault()}>
          <label for="filter">Search</label>
          <input id="filter" type="search" value=${part("q")} placeholder="agent, finding or code" onInput=${(event: Event) => search((event.currentTarget as HTMLInputElement).value)} />
        </form>
        <p class="bulk">${RANK.map((each) => {
          const word = `severity:${each}`;
          const others = words.filter((other) => !other.startsWith("severity:"));
          const isOn = words.includes(word);
          const size = all.filter(({ severity }) => severity === each).length;
          return size > 0 || isOn
            ? html`<button key=${each} aria-pressed=${isOn} onClick=${() => search([...others, isOn ? "" : word].join(" ").trim())}>${each} ${size}</button>`
            : null;
        })}</p>
      </div>
      ${!isLoaded && html`<p class="quiet" role="status">${all.length} of ${total} agents have answered…</p>`}
      ${
        rows.length > 0
          ? html`<${Rows} view=${VIEW} rows=${rows} id=${part("id")} />`
          : isLoaded &&
            html`<p class="empty" role="status">${all.length > 0 ? "Nothing matches this filter." : "No agent is named in the options of dashboard()."}</p>`
      }
      ${isCut.value && html`<p class="quiet">The first ${all.length} agents. Open others by ?agent=Class/name.</p>`}
    </section>
    ${opened && panel(opened.id, html`<${Agent} of=${opened} />`)}
  </div>`;
}

const sum = (counts: readonly number[]) => counts.reduce((all, count) => all + count, 0);

function Agent({ of: { id, agent, name, findings, report } }: { of: Row }) {
  return html`
    ${findings.map((finding, at) => html`<${FindingCard} key=${`${finding.code}/${at}`} finding=${{ ...finding, agent, name }} />`)}
    ${findings.length === 0 && html`<p>Healthy</p>`}
    <dl>
      ${report && html`<div><dt>Last 24 hours</dt><dd>${sum(report.hourly.completed)} completed, ${sum(report.hourly.failed)} failed${report.countedFrom && ", at least"}</dd></div>`}
      ${NUMBERS.map(([title, of, view, q]) => html`<div key=${title}><dt>${title}</dt><dd><a ...${linkTo({ view, q, agent: id })}>${report ? numberOf(title, of, report) : "?"}</a></dd></div>`)}</dl>`;
}

function FindingCard({ finding }: { finding: Finding & AgentRef }) {
  const { agent, name, severity, title, cause, fix, evidence, link } = finding;
  const { action } = fix;
  const key = `${agent}/${name}`;
  const target = VIEWS[link.view];
  const { since, lastError = "" } = evidence;
  const fixed = action && canAct.value;
  return html`<article class=${`finding ${severity}`}>
    <p class="meta"><span class="severity">${severity}</span> ${since !== undefined && html`since <${Time} at=${since} />`}</p>
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
