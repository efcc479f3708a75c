/** A typed client of the operator API, for the dashboard, the command line and your own tools. Runs in browsers, Workers and Node. */

import { bytesUpTo } from "../core/bytes-up-to.ts";
import { parsedJson } from "../core/json.ts";
import type {
  AgentPage,
  AgentRef,
  AgentReport,
  Collections,
  Details,
  Filters,
  OperateRequest,
  OperateResult,
  Page,
  PageOptions,
  Parts,
  Report,
  Session,
  Trace,
} from "./protocol.ts";

export type OperatorClientOptions = {
  /** Of the API, e.g. `https://example.com/perdure`. */
  readonly url: string;
  /** Sent as `Authorization: Bearer`. Left out for a page of the same origin, which sends its session's token. */
  readonly token?: string;
  readonly fetch?: typeof fetch;
  /** How long a request may take, in milliseconds. @default 30_000 */
  readonly timeoutMs?: number;
};

/** An answer other than 2xx, or none: then `status` is 0. */
export class OperatorError extends Error {
  override readonly name = "OperatorError";
  /** Of HTTP; 0 if there was no answer of the API. */
  readonly status: number;
  /** The name of the error that the agent has thrown, e.g. `InvalidApprovalError`. */
  readonly code: string | undefined;

  constructor(status: number, message: string, code?: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
    this.code = code;
  }
}

type Query = Readonly<Record<string, unknown>>;

export class OperatorClient {
  readonly #options: OperatorClientOptions;
  #session: Session | undefined;

  constructor(options: OperatorClientOptions) {
    this.#options = options;
  }

  /** Who the caller is. A page calls it before its first action. @throws OperatorError */
  async session(): Promise<Session> {
    const session = await this.#get<Session>("session");
    this.#session = session;
    return session;
  }

  agents(page: PageOptions = {}): Promise<AgentPage> {
    return this.#page("agents", page);
  }

  /**
   * Of up to 50 agents; the next ones with the `cursor` of the result.
   *
   * @param each is called with the report of each agent as it answers
   * @throws OperatorError
   */
  async report(
    page: Pick<PageOptions, "cursor"> = {},
    each?: (report: Report) => void,
  ): Promise<Report> {
    const lists = ["agents", "findings"];
    const report = await this.#send<Report>(`report${searchOf(page)}`, {}, lists, each);
    return this.#next(report, page.cursor);
  }

  async agentReport(ref: AgentRef): Promise<AgentReport> {
    return this.#get(`${pathOf(ref)}/report`, {}, ["findings"]);
  }

  async list<Name extends keyof Collections>(
    ref: AgentRef,
    collection: Name,
    options: Filters[Name] & PageOptions = {} as Filters[Name],
  ): Promise<Page<Collections[Name]>> {
    return this.#page(`${pathOf(ref)}/${collection}`, options);
  }

  /** One item, or null for an unknown id. */
  async inspect<Name extends keyof Details>(
    ref: AgentRef,
    collection: Name,
    id: string,
  ): Promise<Details[Name] | null> {
    return this.#find(`${pathOf(ref)}/${collection}/${itemPathOf(collection, id)}`);
  }

  /** A list below one item, e.g. the runs of a task. */
  async parts<Name extends keyof Parts>(
    ref: AgentRef,
    part: Name,
    id: string,
    options: PageOptions = {},
  ): Promise<Page<Parts[Name]>> {
    const [collection, rest] = part.split("/");
    return this.#page(`${pathOf(ref)}/${collection}/${segmentOf(id)}/${rest}`, options);
  }

  /** Everything of a submission as spans, or null for an unknown id. */
  async trace(ref: AgentRef, submissionId: string): Promise<Trace | null> {
    return this.#find(`${pathOf(ref)}/submissions/${segmentOf(submissionId)}/trace`);
  }

  /** One call: for a filter, call it again with the `cursor` of the result until there is none. @throws OperatorError */
  async act(ref: AgentRef, request: Omit<OperateRequest, "by">): Promise<OperateResult> {
    try {
      return await this.#act(ref, request);
    } catch (error) {
      const isTokenOld = error instanceof OperatorError && error.code === "NoToken";
      if (!this.#session || !isTokenOld) throw error;
      // Another tab has begun a session. Nothing was done.
      await this.session();
      return this.#act(ref, request);
    }
  }

  async #act(ref: AgentRef, request: Omit<OperateRequest, "by">): Promise<OperateResult> {
    const init = {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(this.#session && { "x-perdure-token": this.#session.token }),
      },
      body: JSON.stringify(request),
    };
    const result = await this.#send<OperateResult>(`${pathOf(ref)}/actions`, init, ["failed"]);
    return this.#next(result, request.cursor);
  }

  #get<Answer>(path: string, query: Query = {}, lists: readonly string[] = []): Promise<Answer> {
    return this.#send(`${path}${searchOf(query)}`, {}, lists);
  }

  async #page<Answer extends { readonly cursor?: string }>(
    path: string,
    query: Query,
  ): Promise<Answer> {
    const page = await this.#get<Answer>(path, query, ["items"]);
    return this.#next(page, query.cursor);
  }

  /** Who follows the same cursor again never ends. */
  #next<Answer extends { readonly cursor?: string }>(answer: Answer, cursor: unknown): Answer {
    if (cursor === undefined || answer.cursor !== cursor) return answer;
    throw new OperatorError(0, `${this.#options.url} answered with the cursor that it was sent.`);
  }

  async #find<Answer>(path: string): Promise<Answer | null> {
    try {
      return await this.#get<Answer>(path);
    } catch (error) {
      if (error instanceof OperatorError && error.code === "NotFound") return null;
      throw error;
    }
  }

  /**
   * @param lists fields of the answer that are lists: another server answers with other JSON
   * @param each is called with each line before the last one
   */
  async #send<Answer>(
    path: string,
    init: RequestInit,
    lists: readonly string[],
    each?: (line: Answer) => void,
  ): Promise<Answer> {
    const { url, token, timeoutMs = 30_000 } = this.#options;
    const request = this.#options.fetch ?? fetch;
    const headers = new Headers(init.headers);
    headers.set("accept", each ? "application/x-ndjson" : "application/json");
    if (token !== undefined) headers.set("authorization", `Bearer ${token}`);
    let response: Response;
    let body: unknown;
    try {
      response = await request(`${url.replace(/\/+$/, "")}/api/${path}`, {
        ...init,
        headers,
        redirect: "manual",
        signal: AbortSignal.timeout(timeoutMs),
      });
      body = parsedJson(await textOf(each ? lastLineOf(response, each) : response.body));
    } catch (cause) {
      // In Node the reason is the cause's cause, e.g. ECONNREFUSED.
      const error = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
      const why = error instanceof Error ? error.message || error.name : String(error);
      throw new OperatorError(0, `No answer from ${url}: ${why}`, undefined, { cause });
    }
    const { ok, status } = response;
    if (body === undefined) {
      // A browser hides a redirect: its status is 0.
      const answered = status === 0 ? "with a redirect" : `${status} without JSON`;
      const remedy = "Check the address of the API, and whether you are signed in.";
      const isRefused = status >= 400 && status < 500;
      throw new OperatorError(isRefused ? status : 0, `${url} answered ${answered}. ${remedy}`);
    }
    const fields = Object(body) as Readonly<Record<string, unknown>>;
    if (ok && !lists.every((name) => Array.isArray(fields[name]))) {
      throw new OperatorError(0, `${url} is not the operator API: it answered with other JSON.`);
    }
    if (ok) return body as Answer;
    const { error } = (body ?? {}) as { error?: { name?: string; message?: string } };
    const message = error?.message ?? `${url} answered ${status}`;
    throw new OperatorError(status, message, error?.name);
  }
}

/** Of an answer. The API answers with less than the 32 MiB that an agent can send to its Worker. */
const MAX_BYTES = 33_554_432;

async function textOf(body: ReadableStream<Uint8Array> | null): Promise<string> {
  const bytes = await bytesUpTo(body, MAX_BYTES);
  if (bytes) return new TextDecoder().decode(bytes);
  throw new Error(`it sent more than ${MAX_BYTES} bytes`);
}

/** Reads the lines of a stream up to the last one. */
function lastLineOf<Line>({ body }: Response, each: (line: Line) => void) {
  let rest = "";
  const lines = new TransformStream<string, string>({
    transform(text) {
      const found = (rest + text).split("\n");
      rest = found.pop() ?? "";
      for (const line of found) each(JSON.parse(line));
      if (rest.length > MAX_BYTES)
        throw new Error(`it sent a line of more than ${MAX_BYTES} characters`);
    },
    flush: (controller) => controller.enqueue(rest),
  });
  const texts = body?.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>);
  return texts?.pipeThrough(lines).pipeThrough(new TextEncoderStream()) ?? null;
}

/** The parameters of a list's filter and page, as {@link Filters} describes them. @internal */
export function searchOf(query: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    if (name === "metadata") {
      for (const [key, part] of Object.entries(value as object)) {
        search.set(`metadata.${key}`, JSON.stringify(part));
      }
    } else if (value instanceof Date) search.set(name, value.toISOString());
    else if (Array.isArray(value)) search.set(name, value.join(","));
    else search.set(name, typeof value === "object" ? JSON.stringify(value) : String(value));
  }
  const text = search.toString();
  return text && `?${text}`;
}

function pathOf({ agent, name }: AgentRef): string {
  return `agents/${segmentOf(agent)}/${segmentOf(name)}`;
}

/** @throws OperatorError for what no URL can have as a segment: URLs resolve `.` and `..`, also when they are encoded */
function segmentOf(id: string): string {
  if (id !== "." && id !== ".." && id.isWellFormed()) return encodeURIComponent(id);
  throw new OperatorError(400, `Invalid id ${JSON.stringify(id)}: it cannot be part of a URL.`);
}

/** The id of an arrival has two parts. */
function itemPathOf(collection: string, id: string): string {
  const slash = collection === "inbound" ? id.indexOf("/") : -1;
  if (slash < 0) return segmentOf(id);
  return `${segmentOf(id.slice(0, slash))}/${segmentOf(id.slice(slash + 1))}`;
}
