/** Serves signed links: pages that decide approvals, and the URLs of `step.webhook()`. */

import type { CallsKernel } from "../../../core/calls.ts";
import { type Clock, systemClock, withTimeout } from "../../../core/clock.ts";
import { failureOf } from "../../../core/failures.ts";
import { isTooDeep, type Json, MAX_DEPTH } from "../../../core/json.ts";
import { type Link, readLink } from "../../../core/links.ts";
import { checkNames, InvalidOptionError } from "../../../core/options/options.ts";
import { secretIn } from "../../../core/secrets.ts";
import type { Approval } from "../../../workflow/waits/kinds/approval-types.ts";
import type { InboundCalls, LinkAnswer, LinkCall } from "../protocol.ts";
import { endReading, parseJson, type Reading, RefusedRequest, readBody } from "./body.ts";
import { fieldsOf } from "./form.ts";
import { type Page, PRIVATE, pageResponse } from "./link-page.ts";
import { checkOption, OPTIONS, type SelfAnswering, secretNames } from "./preset.ts";
import { logRefusal } from "./refusal-log.ts";
import { type Bytes, sha256Hex } from "./verify.ts";

export type LinksOptions = {
  /** The name of the secret in env that the agent's `links` has; several while you rotate it. */
  readonly secret: string | readonly string[];
  /** The path of the agent's `links.url`. @default "/hooks/links" */
  readonly path?: string;
  readonly clock?: Pick<Clock, "now">;
};

/** Of a request to the URL of a step. */
const MAX_BYTES = 1_048_576;
/** How long a body may take, and the agent. */
const TIME_LIMIT_MS = 25_000;
/** When a request that failed may be sent again, in seconds. */
const RETRY_AFTER = 30;
const METHODS = "GET, HEAD, POST";

/**
 * Serves the links that agents sign: `approvals.link()`, and `step.webhook()` with `url: true`.
 *
 * @throws InvalidOptionError
 * @example
 * const hooks = webhooks(github({ ... }), links({ secret: "LINK_SECRET" }));
 */
export function links(options: LinksOptions): SelfAnswering {
  const where = "options of links()";
  checkNames(where, options ?? null, ["secret", "path", "clock"]);
  const { secret, path = "/hooks/links", clock = systemClock } = options;
  if (secret === undefined)
    throw new InvalidOptionError("secret", `Missing option "secret" in ${where}.`);
  checkOption("secret", secret, secretNames);
  checkOption("path", path, OPTIONS.path);
  checkOption("clock", clock, OPTIONS.clock);
  const secrets = [secret].flat();
  return {
    name: "links",
    path,
    bindings: secrets,
    respond: async (request, env) => {
      const answer = await answerTo(request, env, { secrets, clock }).catch(answerOfError);
      if (answer.status === 403 || answer.status >= 500) {
        const reason = answer.reason ?? answer.page.heading;
        logRefusal({ source: "links", status: answer.status, reason, id: undefined }, clock.now());
      }
      return responseOf(answer, request);
    },
  };
}

/** The answer of a link. */
type Answer = {
  readonly status: number;
  readonly page: Page;
  /** For clients that ask for JSON. The page's text by default. */
  readonly json?: object;
  readonly headers?: Readonly<Record<string, string>>;
  /** For the log only. */
  readonly reason?: unknown;
};

function responseOf({ status, page, json, headers = {} }: Answer, request: Request): Response {
  const accept = request.headers.get("accept") ?? "";
  // Browsers name HTML. A service that posts to the URL of a step does not.
  const isJson =
    request.method === "POST" ? !/\btext\/html\b/i.test(accept) : /\bjson\b/i.test(accept);
  const error = [page.heading.replace(/[^.?!]$/, "$&."), ...page.lines].join(" ");
  const response = isJson
    ? Response.json(json ?? { error }, { status, headers: { ...headers, ...PRIVATE } })
    : pageResponse(page, status, headers);
  return request.method === "HEAD" ? new Response(null, response) : response;
}

function plain(status: number, heading: string, ...lines: string[]): Answer {
  return { status, page: { heading, lines } };
}

function answerOfError(error: unknown): Answer {
  if (error instanceof RefusedRequest) {
    const { status, message, reason } = error;
    return { ...plain(status, message), headers: headersFor(status), reason };
  }
  const { name, message } = failureOf(error);
  if (name === "InvalidApprovalError") {
    const text = "The approval asks for something else than this link says.";
    return plain(409, "This link cannot decide", text);
  }
  const answer =
    name === "FeatureNotInstalledError"
      ? plain(503, "This link is not served now", "Ask the sender of the link for another way.")
      : plain(
          503,
          "The agent could not be reached",
          "Try again in a moment. Only the first decision counts.",
        );
  return { ...answer, headers: headersFor(503), reason: `${name}: ${message}` };
}

function headersFor(status: number): Record<string, string> {
  if (status === 405) return { allow: METHODS };
  return status === 503 ? { "retry-after": String(RETRY_AFTER) } : {};
}

type Served = { readonly secrets: readonly string[]; readonly clock: Pick<Clock, "now"> };

async function answerTo(request: Request, env: object, served: Served): Promise<Answer> {
  const link = await linkOf(request, env, served);
  if (link === "expired") return plain(410, "This link has expired", "Ask for a new one.");
  const agent = agentOf(env, link);
  const call = async (what: LinkCall) =>
    withTimeout(agent.callKernel("followLink", link.path ?? [], what), TIME_LIMIT_MS);
  if (link.what === "approval") return approvalAnswer(request, link, call);
  return urlAnswer(request, link.id, served.clock, call);
}

/** @throws RefusedRequest for a link that is not ours */
async function linkOf(
  { url, method }: Request,
  env: object,
  { secrets, clock }: Served,
): Promise<Link | "expired"> {
  if (!METHODS.split(", ").includes(method)) {
    throw new RefusedRequest(405, `Invalid method: expected ${METHODS}.`);
  }
  const token = new URL(url).searchParams.get("token");
  if (!token) throw new RefusedRequest(404, "This link is not complete. Copy all of it.");
  const found = await Promise.all(secrets.map((name) => secretIn(env, name)));
  const known = found.filter((value) => value !== undefined);
  const link = readLink(token, known, clock.now());
  if (link !== "invalid") return link;
  // The missing one may be the one that has signed it.
  const missing = secrets.filter((_, index) => found[index] === undefined);
  if (missing.length > 0) {
    const reason = `Invalid secret env.${missing.join(", env.")}: expected a string that is not empty.`;
    throw new RefusedRequest(503, "A secret is missing or invalid.", reason);
  }
  throw new RefusedRequest(403, "This link is not valid. Copy all of it, or ask for a new one.");
}

function agentOf(env: object, { binding, name, jurisdiction }: Link): CallsKernel<InboundCalls> {
  const namespace = (env as Record<string, DurableObjectNamespace | undefined>)[binding];
  if (typeof namespace?.getByName === "function") {
    const there = jurisdiction
      ? namespace.jurisdiction(jurisdiction as DurableObjectJurisdiction)
      : namespace;
    return there.getByName(name) as unknown as CallsKernel<InboundCalls>;
  }
  const reason = `The link's agent has the binding ${binding}, which this Worker does not have. Set links.agentBinding of the agent.`;
  throw new RefusedRequest(503, "The agent could not be found.", reason);
}

type Call = (what: LinkCall) => Promise<LinkAnswer>;
type ApprovalLink = Extract<Link, { what: "approval" }>;

async function approvalAnswer(request: Request, link: ApprovalLink, call: Call): Promise<Answer> {
  const { id: approvalId, decision, by, payload } = link;
  if (request.method !== "POST") {
    const { approval } = (await call({ do: "inspect", approvalId })) as {
      approval: Approval | null;
    };
    if (!approval) return unknown();
    return approval.status === "pending" ? question(link, approval) : ended(link, approval, 200);
  }
  const rest = payload === undefined ? {} : { payload };
  const { decided } = (await call({ do: decision, approvalId, by, ...rest })) as Extract<
    LinkAnswer,
    { decided: unknown }
  >;
  if (decided.outcome === "not_found") return unknown();
  if (decided.outcome === "already_decided") return ended(link, decided.approval, 409);
  const isGrant = decision === "grant";
  return {
    status: 200,
    page: {
      heading: isGrant ? "Approved" : "Rejected",
      lines: [titleOf(decided.approval), "You can close this page."],
    },
    json: { outcome: "decided", ...summaryOf(decided.approval) },
  };
}

function unknown(): Answer {
  return plain(404, "This approval does not exist any more");
}

/** Asks, and changes nothing: scanners of mails open links, too. */
function question(link: ApprovalLink, approval: Approval): Answer {
  const { decision, expires, payload } = link;
  const { data, expiresAt } = approval;
  const verb = decision === "grant" ? "Approve" : "Reject";
  const until = new Date(Math.min(expires, expiresAt))
    .toISOString()
    .replace(/:\d\d\.\d+Z$/, " UTC")
    .replace("T", " ");
  const details = [
    ...(data === null ? [] : [{ label: "Details", value: data }]),
    ...(payload === undefined ? [] : [{ label: "Approved with", value: payload }]),
  ];
  return {
    status: 200,
    page: {
      heading: `${verb}: ${titleOf(approval)}`,
      lines: [`Nothing is decided before you press the button. It works until ${until}.`],
      details,
      button: { label: verb, isDangerous: decision === "reject" },
    },
    json: { decision, ...summaryOf(approval), data, expiresAt },
  };
}

/** @param other the status where another decision than the link's counts */
function ended({ decision }: ApprovalLink, approval: Approval, other: 200 | 409): Answer {
  const { status, by, decidedAt } = approval;
  const json = { outcome: "already_decided", ...summaryOf(approval) };
  if (status === "approved" || status === "rejected") {
    const isSame = (status === "approved") === (decision === "grant");
    const who = by === undefined ? "" : ` by ${by}`;
    const when =
      decidedAt === undefined ? "" : ` on ${new Date(decidedAt).toISOString().slice(0, 10)}`;
    const page = {
      heading: `Already ${status}${who}`,
      lines: [`${titleOf(approval)}, ${status}${when}.`],
    };
    return { status: isSame ? 200 : other, page, json };
  }
  const heading = ENDED[status] ?? ENDED.cancelled;
  return { status: 410, page: { heading, lines: [titleOf(approval)] }, json };
}

const ENDED: Readonly<Record<string, string>> & { readonly cancelled: string } = {
  expired: "The time to decide is over",
  cancelled: "No decision is needed any more",
  refused: "The workflow has refused this decision, and asks again",
};

const titleOf = ({ title }: Approval): string => title ?? "A request without a title";

function summaryOf({ approvalId, status, title, by, decidedAt }: Approval): object {
  return { approvalId, status, title, by, decidedAt };
}

async function urlAnswer(
  request: Request,
  topic: string,
  clock: Pick<Clock, "now">,
  call: Call,
): Promise<Answer> {
  if (request.method !== "POST") {
    const text = "A workflow waits for one POST to this URL.";
    return { ...plain(405, "This URL takes a POST", text), headers: { allow: "POST" } };
  }
  const raw = await bodyOf(request);
  const body = parsed(raw, request.headers.get("content-type"));
  const what = { topic, body, hash: await sha256Hex(raw), receivedAt: clock.now() };
  const { received } = (await call({ do: "receive", ...what })) as Extract<
    LinkAnswer,
    { received: unknown }
  >;
  if (received.outcome === "gone") {
    const page = { heading: "This URL has been used, or is closed", lines: [] };
    return { status: 410, page, json: { error: page.heading } };
  }
  if (received.outcome === "refused") {
    const [...problems] = received.problems;
    const page = { heading: "The body does not match", lines: problems };
    return { status: 400, page, json: { error: page.heading, problems } };
  }
  const json = { verdict: received.outcome };
  return { status: 200, page: { heading: "Received", lines: [] }, json };
}

async function bodyOf(request: Request): Promise<Bytes> {
  const reading: Reading = {};
  const timer = setTimeout(() => endReading(reading), TIME_LIMIT_MS);
  try {
    return await readBody(reading, request, MAX_BYTES);
  } finally {
    clearTimeout(timer);
  }
}

/** JSON, the fields of a form, or the text itself. @throws RefusedRequest */
function parsed(raw: Bytes, contentType: string | null): Json {
  const type = contentType?.split(";", 1)[0]?.trim().toLowerCase() ?? "";
  const isJson = /^(application|text)\/([\w.-]+\+)?json$/.test(type);
  const isForm = type === "application/x-www-form-urlencoded";
  if (!isJson && !isForm && type !== "" && !type.startsWith("text/")) {
    const expected = "expected application/json, application/x-www-form-urlencoded or text/plain";
    throw new RefusedRequest(415, `Invalid content type: ${expected}.`);
  }
  let body: Json;
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(raw);
    body = isJson ? parseJson(text) : isForm ? fieldsOf(text) : text;
  } catch {
    throw new RefusedRequest(
      400,
      "Invalid body: expected well-formed JSON, form data or text in UTF-8.",
    );
  }
  if (!isTooDeep(body)) return body;
  throw new RefusedRequest(400, `Invalid body: nested more than ${MAX_DEPTH} levels deep.`);
}
