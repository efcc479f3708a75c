/** The page: navigation, keyboard, and the view that the URL names. */

import { render } from "preact";
import { loadDetails } from "./details.ts";
import { ActionDialog } from "./dialog.ts";
import { closeDetails, move } from "./focus.ts";
import { html } from "./html.ts";
import { List, loadList } from "./list.ts";
import { findingCount, loadReport, Overview } from "./overview.ts";
import { copied } from "./parts.ts";
import { effect, signal } from "./signals.ts";
import {
  agent,
  agents,
  go,
  linkTo,
  loadedAt,
  now,
  part,
  problem,
  refresh,
  session,
  show,
  theme,
  times,
} from "./state.ts";
import { agoText } from "./text/times.ts";
import { VIEWS } from "./views.ts";

/** The views, each with its title, and the letter that opens it after `g`. */
const NAVIGATION: readonly (readonly [view: string, title: string, letter: string])[] = [
  ["", "Overview", "o"],
  ...Object.entries(VIEWS).map(([name, { title, letter }]) => [name, title, letter] as const),
];

const isHelpOpen = signal(false);

function App() {
  const name = part("view");
  const view = VIEWS[name];
  return html`
    <a class="skip" href="#main">Skip to the content</a>
    <header class="top">
      <strong>Perdure</strong>
      <${AgentChoice} />
      <${Live} />
      <${Choice} label="Times" of=${times} values=${["relative", "local", "utc"]} />
      <${Choice} label="Theme" of=${theme} values=${["auto", "light", "dark"]} />
      <button onClick=${() => (isHelpOpen.value = true)} aria-label="Keyboard shortcuts">?</button>
      ${session.value && html`<span class="quiet who">${session.value.id}${session.value.can === "read" ? ", read only" : ""}</span>`}
    </header>
    ${problem.value !== undefined && html`<p class="banner" role="alert">${problem.value.text} ${!problem.value.isPermanent && "Trying again…"} <button onClick=${refresh}>Try now</button></p>`}
    <nav aria-label="Views">${NAVIGATION.map(
      ([key, title]) =>
        html`<a key=${key} aria-current=${key === name ? "page" : null} ...${linkTo({ view: key })}>${title}</a>`,
    )}</nav>
    <main id="main" tabindex="-1">
      ${view ? html`<${List} name=${name} view=${view} />` : html`<${Overview} />`}
    </main>
    <p class="skip" role="status">${copied.value && `Copied ${copied.value}`}</p>
    <${ActionDialog} />
    ${isHelpOpen.value && html`<${Help} />`}`;
}

function Live() {
  const at = loadedAt.value;
  const text = at === 0 ? "loading" : `updated ${agoText(at, Math.max(at, now.value))}`;
  return html`<span class=${`live ${problem.value === undefined ? "" : "stale"}`}>${text}</span>`;
}

type ChoiceProps = { label: string; of: typeof times; values: readonly string[] };

function Choice({ label, of, values }: ChoiceProps) {
  const choose = (event: Event) => of.set((event.currentTarget as HTMLSelectElement).value);
  return html`<label><span>${label}</span> <select value=${of.current.value} onChange=${choose}>
    ${values.map((value) => html`<option key=${value} value=${value}>${value}</option>`)}
  </select></label>`;
}

function AgentChoice() {
  const current = agent.value;
  const shown = current ? `${current.agent}/${current.name}` : "";
  const choose = (event: Event) =>
    go({ agent: (event.currentTarget as HTMLSelectElement).value, id: "" });
  const all = agents.value.map(({ agent: key, name }) => `${key}/${name}`);
  const listed = shown === "" || all.includes(shown) ? all : [shown, ...all];
  return html`<label><span>Agent</span> <select value=${shown} onChange=${choose}>
    ${listed.map((each) => html`<option key=${each} value=${each}>${each}</option>`)}
  </select></label>`;
}

function Help() {
  const show = (dialog: HTMLDialogElement | null) => {
    if (dialog && !dialog.open) dialog.showModal();
  };
  return html`<dialog ref=${show} onClose=${() => (isHelpOpen.value = false)} aria-labelledby="help-title">
    <h2 id="help-title">Keyboard</h2>
    <dl>
      <div><dt><kbd>/</kbd></dt><dd>filter</dd></div>
      <div><dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>next and previous row</dd></div>
      <div><dt><kbd>Enter</kbd></dt><dd>open the row</dd></div>
      <div><dt><kbd>Esc</kbd></dt><dd>close</dd></div>
      ${NAVIGATION.map(([key, title, letter]) => html`<div key=${key}><dt><kbd>g</kbd> <kbd>${letter}</kbd></dt><dd>${title}</dd></div>`)}
    </dl>
    <form method="dialog"><button>Close</button></form>
  </dialog>`;
}

let wasG = false;
addEventListener("keydown", (event) => {
  const target = event.target as HTMLElement;
  if (
    event.metaKey ||
    event.ctrlKey ||
    event.altKey ||
    /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)
  )
    return;
  if (document.querySelector("dialog[open]")) return;
  const { key } = event;
  const opened = wasG ? NAVIGATION.find(([, , letter]) => letter === key) : undefined;
  wasG = key === "g";
  if (opened) go({ view: opened[0], id: "", q: "" });
  else if (key === "/") document.getElementById("filter")?.focus();
  else if (key === "j") move(1);
  else if (key === "k") move(-1);
  else if (key === "Escape" && part("id")) closeDetails();
  else if (key === "?") isHelpOpen.value = true;
  else return;
  event.preventDefault();
});

effect(() => {
  const view = part("view");
  if (!(view in VIEWS)) return show(loadReport);
  const id = part("id");
  void [part("agent"), part("q"), agents.value];
  show(async () => {
    const found = await Promise.all([loadList(view), ...(id ? [loadDetails(view)] : [])]);
    return () => {
      for (const present of found) present();
    };
  });
});
effect(() => {
  const { dataset } = document.documentElement;
  if (theme.current.value === "auto") delete dataset.theme;
  else dataset.theme = theme.current.value;
});
effect(() => {
  const count = findingCount();
  const title = NAVIGATION.find(([key]) => key === part("view"))?.[1] ?? "";
  document.title = `${count > 0 ? `(${count}) ` : ""}${title} · Perdure`;
});

render(html`<${App} />`, document.body);
