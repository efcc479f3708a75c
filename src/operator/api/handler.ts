/** `operator()`: the operator API as a fetch handler for the app's Worker. */

import { bytesUpTo } from "../../core/bytes-up-to.ts";
import { TimeoutError, withTimeout } from "../../core/clock.ts";
import { isPlainObject } from "../../core/options/options.ts";
import type { Query } from "../../engine/operated/list.ts";
import { callAgent, type Remote, remoteOf } from "../../workflow/agent/capabilities.ts";
import { listOf, OPENS, of, READS, SUBLISTS } from "../lists.ts";
import type { Operations } from "../operations.ts";
import type { AgentRef, OperateRequest, OperateResult, PageOptions, Report } from "../protocol.ts";
import {
  badRequest,
  HttpError,
  httpErrorOf,
  invalidCursor,
  notFound,
  unreachable,
} from "./errors.ts";
import { checkMayAct, checkOrigin, identityOf, sessionOf } from "./guard.ts";
import {
  checkOptions,
  hasName,
  type Identity,
  MAX_PAGES,
  namesOf,
  type OperatedAgents,
  type OperatorOptions,
} from "./options.ts";
import { checkNoParameters, queryOf } from "./query.ts";
import { type Listed, reportOf } from "./report.ts";

/** Answers the requests below its path. Null: the path is another one. */
export type OperatorHandler<Env = Cloudflare.Env> = (
  request: Request,
  env: Env,
) => Promise<Response | null>;

/** Answers a request that is not one of the API, e.g. with a page. */
export type AnswerPage = (request: Request, path: string) => Response | Promise<Response>;

/** How long an agent may take. */
const TIME_LIMIT_MS = 10_000;
/** An action includes an approval's payload. */
const MAX_BODY = 65_536;
const MAX_DEPTH = 100;
const MAX_REPORTED = 50;
/** Of names(), for one list. */
const MAX_CALLS = 1_000;
/** No agent is asked for its report after it: an answer takes at most 25 seconds, and a client waits for 30. */
const REPORT_MS = 15_000;
const STREAM = "application/x-ndjson";
const HEADERS = { "cache-control": "no-store", "x-content-type-options": "nosniff" };

/**
 * Serves the operator API of the agents that it names, below `/perdure/api`. `dashboard()` of `perdure/dashboard` serves it as
 * well, with a page.
 *
 * @throws InvalidOptionError
 * @example
 * const operators = operator<Env>({
 *   agents: { Support: { namespace: (env) => env.Support, names: ["main"] } },
 *   authorize: (request, env) =>
 *     request.headers.get("authorization") === `Bearer ${env.ADMIN_TOKEN}` ? { id: "ops", can: "act" } : null,
 * });
 * export default {
 *   fetch: async (request, env) =>
 *     (await operators(request, env)) ?? new Response("Not found", { status: 404 }),
 * };
 */
export function operator<Env = Cloudflare.Env>(
  options: OperatorOptions<Env>,
): OperatorHandler<Env> {
  return handlerOf("operator()", options, undefined);
}

/** @param page answers the paths outside of the API */
export function handlerOf<Env>(
  where: string,
  options: OperatorOptions<Env>,
  page: AnswerPage | undefined,
): OperatorHandler<Env> {
  const checked = checkOptions(where, options);
  const { path } = checked;
  return async (request, env) => {
    const { pathname } = new URL(request.url);
    const isApi = pathname.startsWith(`${path}/api/`);
    // Other paths below that of the API may be the app's, e.g. `operatorMcp()`.
    const isPage = page !== undefined && (pathname === path || pathname === `${path}/`);
    if (!isApi && !isPage) return null;
    try {
      const identity = await identityOf(request, env, checked);
      if (identity instanceof Response) return identity;
      if (!isApi && page) return await page(request, path);
      if (request.method === "POST") checkOrigin(request);
      return await answerAs(identity, request, env, checked);
    } catch (error) {
      const failed = httpErrorOf(error);
      return !isApi && page ? errorPage(failed) : errorAnswer(failed);
    }
  };
}

function errorAnswer({ status, name, message, headers }: HttpError): Response {
  return Response.json(
    { error: { name, message } },
    { status, headers: { ...HEADERS, ...headers } },
  );
}

const SETUP = `
To let operators in, return { id, can: "act" } or { id, can: "read" } from authorize(request, env), an option of
dashboard(). It can check a cookie of your login, the header of Cloudflare Access, or return a Response that asks for
a login. docs/dashboard.md of the package has examples.
`;

/** A visitor of the page reads why. */
function errorPage({ status, message, headers }: HttpError): Response {
  const type = { "content-type": "text/plain; charset=utf-8" };
  return new Response(`${status}: ${message}\n${status === 401 ? SETUP : ""}`, {
    status,
    headers: { ...HEADERS, ...headers, ...type },
  });
}

/** A stub, and the capabilities behind it. A result comes as a promise. */
type Stub = Remote<{ readonly operations: Operations }> & {
  readonly listSubmissions: (options: unknown) => Promise<unknown>;
  readonly inspectSubmission: (id: string) => Promise<unknown>;
  readonly callKernel: (name: string, ...args: unknown[]) => Promise<unknown>;
};

type Checked<Env> = ReturnType<typeof checkOptions<Env>>;

/** Answers a request of the API by this caller. @throws HttpError */
export async function answerAs<Env>(
  identity: Identity,
  request: Request,
  env: Env,
  options: Checked<Env>,
): Promise<Response> {
  const { pathname, searchParams } = new URL(request.url);
  const segments = segmentsOf(pathname.slice(`${options.path}/api/`.length));
  const isAction = segments.length === 4 && segments[0] === "agents" && segments[3] === "actions";
  const allowed = isAction ? ["GET", "POST"] : ["GET"];
  if (!allowed.includes(request.method)) {
    const allow = allowed.join(", ");
    throw new HttpError(
      405,
      "MethodNotAllowed",
      `${request.method} is not allowed here; expected ${allow}.`,
      { allow },
    );
  }
  const [root, agent, name, ...rest] = segments;
  if (root === "session" && segments.length === 1) {
    checkNoParameters(searchParams);
    const { session, cookie } = sessionOf(request, identity);
    return Response.json(session, { headers: { ...HEADERS, "set-cookie": cookie } });
  }
  if (root === "report" && segments.length === 1) {
    const page = queryOf(searchParams);
    const listed = await listedFor(options, env, page);
    const isStream = request.headers.get("accept")?.includes(STREAM);
    const report = (send?: Send) => reportAll(options, env, page, listed, send);
    return isStream ? streamed(report) : answer(await report());
  }
  if (root === "agents" && agent === undefined) {
    const { nameless, ...page } = await agentsOf(options, env, queryOf(searchParams));
    const unlisted = nameless.map(({ agent: key, error }) => {
      const failed = httpErrorOf(error); // which is logged
      if (page.items.length === 0) throw failed;
      return key;
    });
    return answer({ ...page, ...(unlisted.length > 0 && { unlisted }) });
  }
  if (root !== "agents" || agent === undefined || name === undefined || rest.length === 0) {
    throw notFound(`The path ${pathname}`);
  }
  if (request.method === "GET") {
    const stub = await stubOf(options, env, { agent, name });
    return answer(await within(read(stub, rest, searchParams)));
  }
  checkMayAct(identity);
  checkNoParameters(searchParams);
  const stub = await stubOf(options, env, { agent, name });
  const body = await bodyOf(request);
  return answer(await acted(stub.operations.operate({ ...body, by: identity.id })));
}

/** An action that takes longer continues. */
async function acted(work: Promise<OperateResult>): Promise<OperateResult> {
  try {
    return await within(work);
  } catch (error) {
    if (!(error instanceof TimeoutError)) throw error;
    throw new HttpError(
      503,
      "Unreachable",
      "The agent did not answer in time. The action may still be done: read the audit log before you repeat it.",
    );
  }
}

const answer = (value: unknown) => Response.json(value, { headers: HEADERS });
const within = <T>(work: Promise<T>) => withTimeout(work, TIME_LIMIT_MS);

/** @throws HttpError 400 for an invalid percent-encoding */
function segmentsOf(path: string): string[] {
  try {
    return path.split("/").map(decodeURIComponent);
  } catch {
    throw badRequest("The path has an invalid percent-encoding.");
  }
}

/** What is below one agent: its report, a list, an item, or a list of an item. */
async function read(
  stub: Stub,
  path: readonly string[],
  search: URLSearchParams,
): Promise<unknown> {
  const [collection = "", id, part, ...more] = path;
  if (collection === "report" && id === undefined) {
    checkNoParameters(search);
    return stub.operations.healthReport();
  }
  const list = listOf(collection);
  if (!list) throw notFound(`The list ${JSON.stringify(collection)}`);
  if (id === undefined) {
    return of<Reader<[Query]>>(READS, collection)?.(stub, queryOf(search, list.filters));
  }
  if (id === "" || more.length > 0) throw notFound(`The path ${path.join("/")}`);
  if (collection === "submissions" && part === "trace") {
    checkNoParameters(search);
    return found(await stub.operations.traceSubmission(id), id);
  }
  const readPart = of<Reader<[string, Query]>>(SUBLISTS, `${collection}/${part}`);
  if (readPart) return readPart(stub, id, queryOf(search));
  const open = of<Reader<[string, string]>>(OPENS, collection);
  const isItem = collection === "inbound" ? part !== undefined : part === undefined;
  if (!isItem || !open) throw notFound(`The path ${path.join("/")}`);
  checkNoParameters(search);
  return found(await open(stub, id, part ?? ""), id);
}

type Reader<Args extends unknown[]> = (stub: Stub, ...args: Args) => Promise<unknown>;

function found<Item>(item: Item | null | undefined, id: string): Item {
  if (item === null || item === undefined) throw notFound(JSON.stringify(id));
  return item;
}

/** @throws HttpError 404 for an agent or a name that the app does not name: no object is created for it */
async function stubOf<Env>(
  { agents }: Checked<Env>,
  env: Env,
  { agent, name }: AgentRef,
): Promise<Stub> {
  const each = Object.hasOwn(agents, agent) ? agents[agent] : undefined;
  if (!each || !(await within(hasName(each, env, name))))
    throw notFound(`The agent ${JSON.stringify(`${agent}/${name}`)}`);
  return stubIn(each, env, { agent, name });
}

/** @throws HttpError 503 where the Worker has no such binding */
function stubIn<Env>(
  { namespace }: OperatedAgents<Env>,
  env: Env,
  { agent, name }: AgentRef,
): Stub {
  const found: ReturnType<typeof namespace> | undefined = namespace(env);
  if (typeof found?.getByName === "function") {
    const stub = found.getByName(name);
    return {
      ...remoteOf<{ operations: Operations }>(stub),
      listSubmissions: (options) => callAgent(stub, "listSubmissions", options),
      inspectSubmission: (id) => callAgent(stub, "inspectSubmission", id),
      callKernel: (...args) => callAgent(stub, "callKernel", ...args),
    };
  }
  throw unreachable(
    `This Worker has no Durable Object binding for the agent ${JSON.stringify(agent)}. Add it to its configuration, and deploy it.`,
  );
}

/** Agents in the order of the option. A cursor has the position of its agent, and the cursor of that agent's names. */
async function agentsOf<Env>(
  { agents }: Checked<Env>,
  env: Env,
  { limit = 50, cursor }: PageOptions,
): Promise<Listed> {
  const keys = Object.keys(agents);
  const [, position = "0", inner] = /^(\d{1,4}):(.*)$/s.exec(cursor ?? "0:") ?? [];
  if (inner === undefined) throw invalidCursor();
  const items: AgentRef[] = [];
  const nameless: { agent: string; error: unknown }[] = [];
  let at = Number(position);
  let next = inner === "" ? undefined : inner;
  let empty = 0;
  for (let calls = 0; at < keys.length && items.length < limit && calls < MAX_CALLS; calls++) {
    const agent = keys[at] as string;
    const each = agents[agent];
    if (!each) break;
    try {
      const page = await within(namesOf(each, env, { limit: limit - items.length, cursor: next }));
      items.push(...page.items.map((name) => ({ agent, name })));
      empty = page.items.length === 0 ? empty + 1 : 0;
      if (empty === MAX_PAGES) throw new Error(`names() returned ${empty} pages without a name`);
      next = page.cursor;
    } catch (error) {
      if (error instanceof HttpError) throw error;
      nameless.push({ agent, error });
      next = undefined;
    }
    if (next === undefined) {
      at++;
      empty = 0;
    }
  }
  return { items, nameless, ...(at < keys.length && { cursor: `${at}:${next ?? ""}` }) };
}

function listedFor<Env>(options: Checked<Env>, env: Env, { limit = 50, cursor }: PageOptions) {
  return agentsOf(options, env, { limit: Math.min(limit, MAX_REPORTED), cursor });
}

type Send = (report: Report) => void;

async function reportAll<Env>(
  options: Checked<Env>,
  env: Env,
  { cursor }: PageOptions,
  page: Listed,
  send?: Send,
): Promise<Report> {
  const ask = async (ref: AgentRef) =>
    stubIn(options.agents[ref.agent] as OperatedAgents<Env>, env, ref).operations.healthReport();
  const times = { timeoutMs: TIME_LIMIT_MS, budgetMs: REPORT_MS };
  const report = await reportOf(page, ask, times, Date.now(), send);
  // Where agents are slow, the next report covers those that were not asked.
  const count = report.agents.length - page.nameless.length;
  const asked =
    count < page.items.length ? await agentsOf(options, env, { limit: count, cursor }) : page;
  return { ...report, ...(asked.cursor !== undefined && { cursor: asked.cursor }) };
}

/** Lines of JSON: the report of each agent as it answers, and that of all of them at the end. */
function streamed(work: (send: Send) => Promise<Report>): Response {
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async start(controller) {
      // Throws after the reader has left, so that no further agent is asked.
      const write = (text: string) => controller.enqueue(encoder.encode(text));
      try {
        write(JSON.stringify(await work((report) => write(`${JSON.stringify(report)}\n`))));
        controller.close();
      } catch (error) {
        controller.error(error);
      }
    },
  });
  return new Response(body, { headers: { ...HEADERS, "content-type": STREAM } });
}

/** The body of a request. @throws HttpError 413 above the limit, 408 where it does not arrive in time */
export async function bytesOf(request: Request, maxBytes: number): Promise<Uint8Array> {
  const bytes = await within(bytesUpTo(request.body, maxBytes)).catch(() => {
    const message = "The body did not arrive, or not within 10 seconds.";
    throw new HttpError(408, "RequestTimeout", message);
  });
  if (bytes) return bytes;
  throw new HttpError(413, "ContentTooLarge", `Expected at most ${maxBytes} bytes.`);
}

/** @throws HttpError 408, 413, 415 or 400 */
async function bodyOf(request: Request): Promise<Omit<OperateRequest, "by">> {
  if (!/^application\/json\s*(;|$)/i.test(request.headers.get("content-type") ?? "")) {
    throw new HttpError(
      415,
      "UnsupportedMediaType",
      "Send the header Content-Type: application/json.",
    );
  }
  const bytes = await bytesOf(request, MAX_BODY);
  let body: unknown;
  try {
    body = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes));
  } catch {
    throw badRequest("The body is not JSON.");
  }
  if (!isPlainObject(body)) throw badRequest("The body is no object with action and reason.");
  if (isDeep(body)) throw badRequest(`The body is nested more than ${MAX_DEPTH} levels deep.`);
  if ("by" in body) throw badRequest('Unknown field "by": it is who authorize() says you are.');
  return body as Omit<OperateRequest, "by">;
}

/** A call of an agent fails for values that are nested some thousand levels deep. */
function isDeep(body: unknown): boolean {
  let values = [body];
  for (let depth = 0; depth <= MAX_DEPTH && values.length > 0; depth++) {
    values = values.flatMap((each) =>
      typeof each === "object" && each !== null ? Object.values(each) : [],
    );
  }
  return values.length > 0;
}
