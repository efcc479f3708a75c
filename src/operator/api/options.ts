/** The options of `operator()`, and the agents that they name. */

import { preview } from "../../core/json.ts";
import { checkNames, invalidOption, isPlainObject } from "../../core/options/options.ts";
import type { Page, PageOptions } from "../protocol.ts";
import { invalidCursor } from "./errors.ts";

/** Who calls. */
export type Identity = {
  /** 1 to 200 characters. Stored with each action. */
  readonly id: string;
  /** `read` sees everything, and changes nothing. */
  readonly can: "read" | "act";
};

export type OperatedAgents<Env> = {
  /** The binding of the agent's class. */
  readonly namespace: (env: Env) => { getByName(name: string): object };
  /**
   * The names of the instances: a list, or a function that returns a page of them, in a fixed order. Only these can be
   * operated, so that a guessed name creates no object. Up to 10,000 names of a function can be operated.
   */
  readonly names:
    | readonly string[]
    | ((
        env: Env,
        page: { limit: number; cursor?: string },
      ) => Page<string> | Promise<Page<string>>);
};

export type OperatorOptions<Env = Cloudflare.Env> = {
  /** The agents, each under the name that operators see. */
  readonly agents: Readonly<Record<string, OperatedAgents<Env>>>;
  /**
   * Who calls, and whether they may act. Without an identity, the answer is 401. A Response is sent as it is, e.g. a redirect
   * to a login. Called for each request, before anything else of it is read. What it throws is logged, and answered with 500.
   */
  authorize(request: Request, env: Env): Authorized | Promise<Authorized>;
  /** The path of the API and the page. @default "/perdure" */
  readonly path?: string;
};

type Authorized = Identity | Response | null | undefined | false;

/** @throws InvalidOptionError */
export function checkOptions<Env>(where: string, options: OperatorOptions<Env>) {
  checkNames(`the options of ${where}`, options ?? null, ["agents", "authorize", "path"]);
  const { agents, authorize, path = "/perdure" } = options;
  if (typeof authorize !== "function") {
    throw invalidOption(
      "authorize",
      authorize,
      "a function that returns { id, can }, or null to refuse",
    );
  }
  const isPath = typeof path === "string" && /^(\/(?!\.\.?(\/|$))[\w.~-]+){1,10}$/.test(path);
  if (!isPath || path.length > 200) {
    throw invalidOption("path", path, 'a path such as "/perdure", without a slash at its end');
  }
  if (!isPlainObject(agents) || Object.keys(agents).length === 0) {
    throw invalidOption("agents", agents, "an object with at least one agent");
  }
  for (const [key, each] of Object.entries(agents)) checkAgent(key, each);
  return { agents, authorize, path };
}

function checkAgent(key: string, given: OperatedAgents<never>): void {
  if (!/^[\w.-]{1,100}$/.test(key)) {
    throw invalidOption("agents", key, "names of 1 to 100 letters, digits, dots, `-` and `_`");
  }
  checkNames(`agents.${key}`, given ?? null, ["namespace", "names"]);
  const { namespace, names } = given;
  if (typeof namespace !== "function") {
    throw invalidOption(
      `agents.${key}.namespace`,
      namespace,
      `a function such as (env) => env.${key}`,
    );
  }
  const isList = Array.isArray(names) && names.every(isName);
  if (!isList && typeof names !== "function") {
    throw invalidOption(
      `agents.${key}.names`,
      names,
      'a list of names other than "." and "..", or a function that returns a page of them',
    );
  }
}

/** Pages without a name, one after the other, that are read. */
export const MAX_PAGES = 100;
/** Names that are read to find one. The app may return fewer on a page than it is asked for, or none. */
const MAX_NAMES = 10_000;
const MAX_SEARCHED_PAGES = 1_000;
/** Of a page of names. */
const MAX_CURSOR = 4_000;
const NAMES_PER_PAGE = 100;

/** A page of the names of an agent's instances. What the app's function returns is checked. */
export async function namesOf<Env>(
  { names }: OperatedAgents<Env>,
  env: Env,
  { limit = 50, cursor }: PageOptions,
): Promise<Page<string>> {
  if (typeof names === "function") {
    const page: unknown = await names(env, { limit, ...(cursor !== undefined && { cursor }) });
    if (isPageOfNames(page, limit)) return page;
    const expected = `a page { items, cursor? } of at most ${limit} names, with a cursor of 1 to ${MAX_CURSOR} characters`;
    // The app's mistake: the caller cannot correct it.
    throw new Error(`names() returned ${preview(page)}: expected ${expected}`);
  }
  if (cursor !== undefined && !/^\d{1,9}$/.test(cursor)) throw invalidCursor();
  const start = Number(cursor ?? 0);
  const items = names.slice(start, start + limit);
  const next = start + limit;
  return { items, ...(next < names.length && { cursor: String(next) }) };
}

function isPageOfNames(page: unknown, limit: number): page is Page<string> {
  if (!isPlainObject(page)) return false;
  const { items, cursor } = page;
  const isCursor =
    cursor === undefined ||
    (typeof cursor === "string" && cursor !== "" && cursor.length <= MAX_CURSOR);
  return isCursor && Array.isArray(items) && items.length <= limit && items.every(isName);
}

/** URLs resolve `.` and `..`, also when they are encoded. */
function isName(name: unknown): boolean {
  return typeof name === "string" && !["", ".", ".."].includes(name) && name.isWellFormed();
}

/** Whether an agent has an instance of this name. */
export async function hasName<Env>(
  agents: OperatedAgents<Env>,
  env: Env,
  name: string,
): Promise<boolean> {
  if (typeof agents.names !== "function") return agents.names.includes(name);
  let cursor: string | undefined;
  let read = 0;
  for (let pages = 0; pages < MAX_SEARCHED_PAGES && read < MAX_NAMES; pages++) {
    const page = await namesOf(agents, env, { limit: NAMES_PER_PAGE, cursor });
    if (page.items.includes(name)) return true;
    if (page.cursor === undefined) return false;
    read += page.items.length;
    cursor = page.cursor;
  }
  return false;
}
