/** Who may do what: the app's `authorize`, and the token that keeps other sites from acting in a visitor's name. */

import { TimeoutError, withTimeout } from "../../core/clock.ts";
import { failureOf } from "../../core/failures.ts";
import { isPlainObject } from "../../core/options/options.ts";
import { ACTIONS } from "../catalog.ts";
import type { Session } from "../protocol.ts";
import { HttpError } from "./errors.ts";
import type { Identity, OperatorOptions } from "./options.ts";

/** Of `authorize`, which may ask another server. */
const TIME_LIMIT_MS = 10_000;
const MAX_ID = 200;
const TOKEN = /^[0-9a-f]{64}$/;

/**
 * @returns a Response of the app's, to be sent as it is
 * @throws HttpError 401 without an identity, 500 where `authorize` throws or returns something else
 */
export async function identityOf<Env>(
  request: Request,
  env: Env,
  { authorize }: Pick<OperatorOptions<Env>, "authorize">,
): Promise<Identity | Response> {
  let found: unknown;
  try {
    found = await withTimeout(Promise.resolve(authorize(request, env)), TIME_LIMIT_MS);
  } catch (error) {
    if (error instanceof TimeoutError) throw misconfigured("authorize() took over 10 seconds");
    const { name, message } = failureOf(error);
    throw misconfigured(`authorize() threw ${name}: ${message}`);
  }
  const isTaken = request.bodyUsed || request.body?.locked === true;
  if (isTaken) throw misconfigured("authorize() has read the body: use request.clone()");
  if (found === null || found === undefined || found === false) {
    const remedy = "Sign in, or send a token that the app's authorize() accepts.";
    throw new HttpError(401, "Unauthorized", `No operator. ${remedy}`, {
      "www-authenticate": "Bearer",
    });
  }
  if (found instanceof Response) return found;
  const { id, can } = isPlainObject(found) ? found : {};
  if (typeof id !== "string" || id.length === 0 || id.length > MAX_ID || !id.isWellFormed()) {
    throw misconfigured(`authorize() returned no id of 1 to ${MAX_ID} characters`);
  }
  if (can !== "read" && can !== "act") {
    throw misconfigured('authorize() returned no can: "read" or can: "act"');
  }
  return { id, can };
}

function misconfigured(reason: string): HttpError {
  console.error(JSON.stringify({ perdure: "operator:authorize", reason }));
  return new HttpError(
    500,
    "InternalError",
    "The caller could not be checked. The Worker's log has the reason.",
  );
}

/**
 * The caller's session. Its token is in a cookie that scripts cannot read, and in the answer, which other sites cannot read:
 * a request that sends both comes from a page of this origin.
 * https://cheatsheetseries.owasp.org/cheatsheets/Cross-Site_Request_Forgery_Prevention_Cheat_Sheet.html
 */
export function sessionOf(
  request: Request,
  { id, can }: Identity,
): { session: Session; cookie: string } {
  const known = cookieOf(request);
  const token = known ?? crypto.getRandomValues(new Uint8Array(32)).toHex();
  const secure = isSecure(request) ? "; Secure" : "";
  const cookie = `${cookieName(request)}=${token}; Path=/; HttpOnly; SameSite=Strict${secure}`;
  return { session: { id, can, token, actions: ACTIONS }, cookie };
}

/** @throws HttpError 403 for a read-only caller */
export function checkMayAct({ can, id }: Identity): void {
  if (can === "act") return;
  throw new HttpError(
    403,
    "ReadOnly",
    `${id} may read, and not act. authorize() has to return can: "act".`,
  );
}

/** @throws HttpError 403 for a request that a page of another site may have sent */
export function checkOrigin(request: Request): void {
  const origin = request.headers.get("origin");
  if (origin !== null && origin !== new URL(request.url).origin) {
    throw new HttpError(
      403,
      "ForeignOrigin",
      "Actions are accepted from pages of this origin only.",
    );
  }
  // Browsers do not add it by themselves, and other sites may not: there is no CORS.
  if (/^bearer \S/i.test(request.headers.get("authorization") ?? "")) return;
  const token = cookieOf(request);
  const sent = request.headers.get("x-perdure-token");
  if (origin !== null && token !== undefined && sent !== null && isEqual(token, sent)) return;
  throw new HttpError(
    403,
    "NoToken",
    "Send `Authorization: Bearer`, or the token of GET /session in the header x-perdure-token from a page of this origin.",
  );
}

const isSecure = (request: Request) => new URL(request.url).protocol === "https:";
/** Browsers accept the prefix over https only. https://developer.mozilla.org/docs/Web/HTTP/Reference/Headers/Set-Cookie */
const cookieName = (request: Request) => (isSecure(request) ? "__Host-perdure" : "perdure");

function cookieOf(request: Request): string | undefined {
  const name = cookieName(request);
  for (const part of (request.headers.get("cookie") ?? "").split(";")) {
    const [key, value = ""] = part.trim().split("=", 2);
    if (key === name && TOKEN.test(value)) return value;
  }
  return undefined;
}

/** In a time that does not depend on the contents. */
function isEqual(a: string, b: string): boolean {
  const [x, y] = [new TextEncoder().encode(a), new TextEncoder().encode(b)];
  return x.length === y.length && crypto.subtle.timingSafeEqual(x, y);
}
