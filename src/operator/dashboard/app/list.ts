/** One list for all views: filter with completion, rows, more by cursor, and the opened item beside it. */

import type { ScheduledTaskInfo } from "../../../scheduler/types.ts";
import type { Action, AgentRef, Page } from "../../protocol.ts";
import { Timeline } from "./charts/timeline.ts";
import { Details } from "./details.ts";
import { ask } from "./dialog.ts";
import { html } from "./html.ts";
import { Head } from "./parts.ts";
import { signal } from "./signals.ts";
import { agent, canAct, client, fail, go, loadedAt, now, part, refresh, session } from "./state.ts";
import { complete, completionsOf, filterOf, parseFilter } from "./text/filter.ts";
import { VIEWS, type View } from "./views.ts";

const PAGE = 50;
/** More rows than this are no help: a filter is. */
const MAX_ROWS = 2_000;

type Loaded = {
  readonly key: string;
  readonly items: readonly unknown[];
  /** Whether there are rows of further pages. */
  readonly isExtended?: boolean;
  readonly cursor?: string | undefined;
};
const loaded = signal<Loaded>({ key: "", items: [] });
const isLoadingMore = signal(false);

/** What the list is of: rows of another key are not shown. */
const keyOf = (ref: AgentRef, name: string) =>
  JSON.stringify([ref.agent, ref.name, name, part("q")]);

function queryOf(view: View) {
  const parsed = parseFilter(part("q"), view.filters);
  return { error: parsed.error, filter: filterOf(parsed.terms, view.filters, Date.now()) };
}

/** Loads the first page again. Rows of further pages stay below it, as they were. */
export async function loadList(name: string): Promise<() => void> {
  const view = VIEWS[name];
  const ref = agent.value;
  if (!view || !ref) return () => {};
  const key = keyOf(ref, name);
  const { error, filter } = queryOf(view);
  if (error) return () => {};
  const page = await client.list(ref, view.name, { ...filter, limit: PAGE });
  return () => {
    loaded.value = merged(loaded.peek(), key, page, view);
  };
}

/** A row that has not changed stays the same object, and is not rendered again. */
function merged(before: Loaded, key: string, { items, cursor }: Page<unknown>, view: View): Loaded {
  if (before.key !== key) return { key, items, cursor };
  const idOf = (item: unknown) => view.id(item as never);
  const known = new Map(before.items.map((item) => [idOf(item), item]));
  const first = items.map((item) => {
    const old = known.get(idOf(item));
    return JSON.stringify(old) === JSON.stringify(item) ? old : item;
  });
  const last = items.at(-1);
  const end = last === undefined ? -1 : before.items.findIndex((item) => idOf(item) === idOf(last));
  // New rows push older ones to the next page. Where too many came at once, the list begins anew.
  const isExtended = before.isExtended === true && end >= 0 && before.items.length < MAX_ROWS;
  if (isExtended) {
    const older = before.items.slice(end + 1);
    return { key, items: [...first, ...older], isExtended, cursor: before.cursor };
  }
  const isSame =
    before.cursor === cursor &&
    before.items.length === first.length &&
    first.every((item, at) => item === before.items[at]);
  return isSame ? before : { key, items: first, cursor };
}

async function loadMore(view: View, ref: AgentRef): Promise<void> {
  const { key, cursor } = loaded.value;
  if (cursor === undefined || isLoadingMore.value) return;
  isLoadingMore.value = true;
  try {
    const page = await client.list(ref, view.name, {
      ...queryOf(view).filter,
      limit: PAGE,
      cursor,
    });
    const before = loaded.value;
    if (before.key !== key || before.cursor !== cursor) return;
    const items = [...before.items, ...page.items];
    loaded.value = { key, items, isExtended: true, cursor: page.cursor };
  } catch (error) {
    fail(error);
  } finally {
    isLoadingMore.value = false;
  }
}

export function List({ name, view }: { name: string; view: View }) {
  const ref = agent.value;
  if (!ref)
    return html`<p class="empty">${loadedAt.value > 0 ? "No agent is named in the options of dashboard()." : "Loading…"}</p>`;
  const { key, items, cursor } = loaded.value;
  const isCurrent = key === keyOf(ref, name);
  const rows = isCurrent ? items : [];
  const id = part("id");
  const isMany = rows.length >= MAX_ROWS;
  return html`<div class=${id ? "split" : ""}>
    <section aria-label=${view.title}>
      <h1>${view.title}</h1>
      <div class="tools">
        ${view.filters.length > 0 && html`<${Filter} view=${view} />`}
        ${canAct.value && rows.length > 0 && html`<${Bulk} view=${view} agentRef=${ref} />`}
      </div>
      ${name === "tasks" && rows.length > 0 && html`<${Timeline} tasks=${rows as ScheduledTaskInfo[]} now=${Math.floor(now.value / 60_000) * 60_000} open=${(taskId: string) => go({ id: taskId })} />`}
      ${
        rows.length > 0
          ? html`<${Rows} view=${view} rows=${rows} id=${id} />`
          : html`<p class="empty" role="status">${isCurrent ? (part("q") ? "Nothing matches this filter." : view.empty) : queryOf(view).error ? "" : "Loading…"}</p>`
      }
      ${cursor !== undefined && isCurrent && (isMany ? html`<p class="quiet">Older rows are not shown. Narrow the filter.</p>` : html`<button class="more" onClick=${() => loadMore(view, ref)} disabled=${isLoadingMore.value}>More</button>`)}
    </section>
    ${id && html`<${Details} key=${`${name}/${id}`} name=${name} view=${view} agentRef=${ref} id=${id} item=${rows.find((item) => view.id(item as never) === id)} />`}
  </div>`;
}

/** What a table of rows needs of a view. */
type Table = Pick<View, "title" | "columns" | "link" | "id">;

export function Rows({ view, rows, id }: { view: Table; rows: readonly unknown[]; id: string }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`${view.title}, rows`}>
    <table class="rows">
      <${Head} of=${Object.keys(view.columns)} />
      <tbody>${rows.map((item) => rowOf(item as object, view, id))}</tbody>
    </table>
  </div>`;
}

type Row = { readonly view: Table; readonly isOpen: boolean; readonly element: unknown };
/** Preact skips an element that it has rendered before. */
const elements = new WeakMap<object, Row>();

function rowOf(item: object, view: Table, opened: string): unknown {
  const id = view.id(item as never);
  const isOpen = id === opened;
  const known = elements.get(item);
  if (known?.view === view && known.isOpen === isOpen) return known.element;
  const element = html`<tr key=${id} class=${isOpen ? "open" : ""} onClick=${() => go({ id })}>
    ${Object.entries(view.columns).map(([title, cell], at) => {
      const shown = cell(item as never);
      return title === view.link
        ? html`<td key=${title}><button class="link" aria-expanded=${isOpen}>${shown}</button></td>`
        : html`<td key=${title} data-title=${at > 0 ? title : null}>${shown}</td>`;
    })}
  </tr>`;
  elements.set(item, { view, isOpen, element });
  return element;
}

/** What is typed and not applied yet. */
const typing = signal<
  { readonly title: string; readonly text: string; readonly caret: number } | undefined
>(undefined);

function Filter({ view }: { view: View }) {
  const { title } = view;
  const typed = typing.value?.title === title ? typing.value : undefined;
  const text = typed?.text ?? part("q");
  const { error } = parseFilter(part("q"), view.filters);
  const options = typed ? completionsOf(text, typed.caret, view.filters) : [];
  const apply = (next: string) => {
    typing.value = undefined;
    go({ q: next.trim(), id: "" });
    void refresh();
  };
  const read = (event: Event) => {
    const input = event.currentTarget as HTMLInputElement;
    typing.value = { title, text: input.value, caret: input.selectionStart ?? input.value.length };
  };
  const take = (option: string) => {
    const next = complete(text, typed?.caret ?? text.length, option);
    typing.value = { title, text: next, caret: next.length };
    document.getElementById("filter")?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const [first] = options;
    if (event.key === "Tab" && first !== undefined && !event.shiftKey) {
      event.preventDefault();
      take(first);
    }
    if (event.key === "Escape") {
      typing.value = undefined;
      (event.currentTarget as HTMLElement).blur();
    }
  };
  return html`<form class="filter" role="search" onSubmit=${(event: Event) => {
    event.preventDefault();
    apply(text);
  }}>
    <label for="filter">Filter</label>
    <input id="filter" value=${text} placeholder=${view.filters.map(({ name }) => (name.endsWith(".") ? `${name}key` : name)).join(":…  ")} autocomplete="off" spellcheck="false" onInput=${read} onClick=${read} onKeyDown=${onKeyDown} aria-describedby="filter-help" />
    <button type="submit">Apply</button>
    ${part("q") && html`<button type="button" onClick=${() => apply("")}>Clear</button>`}
    <span id="filter-help" class=${error ? "problem" : "quiet"} role="status">${error ?? ""}</span>
    ${options.length > 0 && html`<div class="options">${options.slice(0, 12).map((option) => html`<button type="button" key=${option} onClick=${() => take(option)}>${option}</button>`)}</div>`}
  </form>`;
}

function Bulk({ view, agentRef }: { view: View; agentRef: AgentRef }) {
  const { error, filter } = queryOf(view);
  if (error) return null;
  const given = [filter.status ?? []].flat() as string[];
  // A filter by other statuses than those that an action changes has no such button.
  const buttons = Object.entries(session.value?.actions ?? {}).filter(
    ([, { filter: of, statuses }]) =>
      of === view.name && given.every((each) => statuses?.includes(each) ?? true),
  );
  return html`<p class="bulk">${buttons.map(([verb, { label, isDestructive }]) => {
    const action = { do: verb, filter } as unknown as Action;
    const button = { label: `${label} all${part("q") ? " that match" : ""}`, action };
    return html`<button key=${verb} class=${isDestructive ? "danger" : ""} onClick=${() => ask(agentRef, button)}>${button.label}</button>`;
  })}</p>`;
}
