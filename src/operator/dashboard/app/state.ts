/** What the page shows, in signals: the URL, the session, what was loaded, and what the visitor prefers. */

import type { Definition } from "../../../engine/operated/catalog.ts";
import type { ActionName } from "../../catalog.ts";
import { OperatorClient, OperatorError } from "../../client.ts";
import { allAgents } from "../../pages.ts";
import type { AgentRef, Session } from "../../protocol.ts";
import { computed, signal, untracked } from "./signals.ts";

/** The dashboard's own path, e.g. `/perdure`. */
const base = document.documentElement.dataset.base ?? "";
export const client = new OperatorClient({ url: location.origin + base });

// --- The URL holds what is shown ----------------------------------------------------------------------------------

const search = signal(new URLSearchParams(location.search));
addEventListener("popstate", () => {
  search.value = new URLSearchParams(location.search);
});

/** A part of the URL: `view`, `agent`, `q` (the filter) or `id` (the opened item). */
export function part(name: string): string {
  return search.value.get(name) ?? "";
}

/** Changes parts of the URL, as a step of the history or in place of the latest. An empty text removes one. */
export function go(parts: Readonly<Record<string, string>>, isSameStep = false): void {
  const next = new URLSearchParams(search.value);
  for (const [name, value] of Object.entries(parts)) {
    if (value === "") next.delete(name);
    else next.set(name, value);
  }
  if (next.toString() === search.value.toString()) return;
  history[isSameStep ? "replaceState" : "pushState"](null, "", urlOf(next));
  search.value = next;
}

const urlOf = (parts: URLSearchParams) => `${base}${parts.size > 0 ? `?${parts}` : ""}`;

/** A link within the page. The browser opens it in another tab where the visitor asks for that. */
export function linkTo(parts: Readonly<Record<string, string>>) {
  const target = { ...(part("agent") && { agent: part("agent") }), ...parts };
  const filled = Object.entries(target).filter(([, value]) => value !== "");
  return {
    href: urlOf(new URLSearchParams(filled)),
    onClick: (event: MouseEvent) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      event.stopPropagation();
      go({ view: "", q: "", id: "", ...parts });
    },
  };
}

export const agents = signal<readonly AgentRef[]>([]);
/** The agent of the URL, or the first one. */
export const agent = computed<AgentRef | undefined>(() => {
  const [key = "", ...name] = part("agent").split("/");
  return key === "" ? agents.value[0] : { agent: key, name: name.join("/") };
});

// --- Preferences are remembered -----------------------------------------------------------------------------------

function remembered(name: string, initial: string) {
  const key = `perdure.${name}`;
  const value = signal(initial);
  try {
    value.value = localStorage.getItem(key) ?? initial;
  } catch {
    // The browser allows no storage: the preference lasts as long as the page.
  }
  const set = (next: string) => {
    value.value = next;
    try {
      localStorage.setItem(key, next);
    } catch {
      // As above.
    }
  };
  return { current: value, set };
}

/** `relative`, `local` or `utc`. */
export const times = remembered("times", "relative");
/** `auto`, `light` or `dark`. */
export const theme = remembered("theme", "auto");

// --- Loading ------------------------------------------------------------------------------------------------------

export const session = signal<Session | undefined>(undefined);
export const now = signal(Date.now());
/** Why the last load failed; undefined while the server answers. Another load may succeed, or would fail as well. */
export const problem = signal<{ readonly text: string; readonly isPermanent: boolean } | undefined>(
  undefined,
);
export const loadedAt = signal(0);
/** What an action is called and asks for. Known before there is a button. */
export function definitionOf(name: ActionName): Definition {
  return (session.value as Session).actions[name];
}

export const canAct = computed(() => session.value?.can === "act");

const POLL_MS = 2_000;
const LONGEST_MS = 30_000;
/** A load takes at most a tenth of the time, so that an open page is no burden for an agent with many rows. */
const REST = 10;

/**
 * Asks for a view's data. What it returns shows them, if no other load was started meanwhile.
 *
 * @param isLatest whether that is so, for one that shows parts as they arrive
 */
type Load = (isLatest: () => boolean) => Promise<() => void>;
let loader: Load = async () => () => {};
let failures = 0;
let isSessionOld = false;
let timer: ReturnType<typeof setTimeout> | undefined;
/** Counts the loads: the answer to one that another has followed is of an older view. */
let latest = 0;

/** Loads a view now and from then on. */
export function show(load: Load): void {
  loader = load;
  void untracked(refresh);
}

/** Loads the current view now, and again every two seconds while the page is visible. */
export async function refresh(): Promise<void> {
  clearTimeout(timer);
  if (document.hidden) return;
  const mine = ++latest;
  const startedAt = Date.now();
  try {
    if (isSessionOld || !session.value) session.value = await client.session();
    isSessionOld = false;
    if (agents.value.length === 0) agents.value = await allAgents(client, MAX_AGENTS - 1);
    if (mine !== latest) return;
    const present = await loader(() => mine === latest);
    if (mine !== latest) return;
    present();
    failures = 0;
    problem.value = undefined;
    loadedAt.value = Date.now();
  } catch (error) {
    if (mine !== latest) return;
    failures++;
    fail(error);
  }
  now.value = Date.now();
  if (problem.value?.isPermanent) return;
  const pause = failures > 0 ? POLL_MS * 2 ** failures : REST * (now.value - startedAt);
  timer = setTimeout(refresh, Math.min(Math.max(POLL_MS, pause), LONGEST_MS));
}

/** Shows an error above the view, until a load succeeds. */
export function fail(error: unknown): void {
  const status = error instanceof OperatorError ? error.status : 0;
  problem.value = {
    text: error instanceof Error ? error.message : String(error),
    // A repetition of the request would be refused again. 408 and 429 say when. 501: the class does not install a feature.
    isPermanent:
      status === 501 || (status >= 400 && status < 500 && status !== 408 && status !== 429),
  };
  // After a login it is another one.
  if (status === 401) session.value = undefined;
}

addEventListener(
  "visibilitychange",
  () => {
    // Another user may have signed in meanwhile.
    isSessionOld = true;
    void refresh();
  },
  true,
);
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1_000);

/** At most this many are listed in the choice of agents, and in the overview. */
export const MAX_AGENTS = 500;
