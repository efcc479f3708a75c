/**
 * Receivers for what Perdure sends, good and bad: a server on this machine,
 * in Node and not in workerd, because most of what it does is what no
 * well-behaved runtime would do. Each path is a behaviour, see `ROUTES`; a
 * name in it tells the requests of one test from another's. Vitest starts it
 * once (globalSetup); tests reach it through client.ts.
 */

import { once } from "node:events";
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { text as textOf } from "node:stream/consumers";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  interface ProvidedContext {
    receivers: {
      /** The port of the receivers, on 127.0.0.1. */
      readonly port: number;
      /** A port without a listener. */
      readonly refusedPort: number;
    };
  }
}

/** A request as it came. */
export type Received = {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
};

/** How much of a `/huge` answer left before the caller hung up. */
export type Sent = { readonly bytes: number; readonly isOver: boolean };

type Call = {
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly response: ServerResponse;
  /** This one included. */
  readonly received: readonly Received[];
};

/** More than any caller should ever take. */
const HUGE_BYTES = 256 * 1_024 * 1_024;
const CHUNK = Buffer.alloc(64 * 1_024, "x");

const requests = new Map<string, Received[]>();
const hugeAnswers = new Map<string, Sent>();

/** The behaviours. `to` is the name under which a request is recorded, and may be left out at the end of a path. */
const ROUTES: Readonly<Record<string, (call: Call) => unknown>> = {
  "/ok/:to": ({ response }) => response.end("thanks"),
  /** Any status, and `?retry-after=` as the header; `?body=` is the body. */
  "/status/:code/:to": ({ response, params, query }) => {
    const retryAfter = query.get("retry-after");
    response.writeHead(Number(params.code), retryAfter ? { "retry-after": retryAfter } : {});
    response.end(query.get("body") ?? "");
  },
  "/slow/:ms/:to": ({ response, params }) =>
    setTimeout(() => response.end("at last"), Number(params.ms)).unref(),
  /** No answer to the first request, and one after `ms` to the others. */
  "/late/:ms/:to": ({ response, params, received }) => {
    if (received.length > 1) setTimeout(() => response.end("at last"), Number(params.ms)).unref();
  },
  /** `?status=` (503) and `?retry-after=` to the first `times` requests, then 200. */
  "/flaky/:to/:times": ({ response, params, query, received }) => {
    const isUp = received.length > Number(params.times);
    const retryAfter = query.get("retry-after");
    const headers = !isUp && retryAfter ? { "retry-after": retryAfter } : {};
    response.writeHead(isUp ? 200 : Number(query.get("status") ?? 503), headers).end();
  },
  /** To a place of the same name that takes everything. */
  "/redirect/:to": ({ response, params }) =>
    response.writeHead(301, { location: `/ok/${params.to}` }).end(),
  /** The connection breaks before an answer. */
  "/reset/:to": ({ response }) => response.socket?.resetAndDestroy(),
  /** No answer at all, and the connection stays. */
  "/hang/:to": () => {},
  /** What is answered is not HTTP. */
  "/garbage/:to": ({ response }) => response.socket?.end("\u0000\u0001 this is not HTTP\r\n\r\n"),
  /** Half of the body that was promised, then the connection breaks. */
  "/half/:to": (call) => half(call, 200),
  "/half-500/:to": (call) => half(call, 500),
  /** The status and the beginning of a body, then nothing more. */
  "/stall/:code/:to": ({ response, params }) => {
    response.writeHead(Number(params.code), { "content-length": 1_000 }).write("the beginning");
  },
  /** A body of 256 MB. */
  "/huge/:to": (call) => huge(call, 200),
  "/huge-500/:to": (call) => huge(call, 500),
};

function half({ response }: Call, status: number): void {
  response.writeHead(status, { "content-length": 1_000 });
  response.write("half of it", () => response.socket?.destroy());
}

async function huge({ response, params }: Call, status: number): Promise<void> {
  const { socket } = response;
  const before = socket?.bytesWritten ?? 0;
  // What waits in this process was not sent yet, though Node counts it as written.
  const note = (isOver: boolean) => {
    const written = (socket?.bytesWritten ?? 0) - (socket?.writableLength ?? 0);
    hugeAnswers.set(params.to ?? "", { bytes: written - before, isOver });
  };
  const closed = once(response, "close").then(() => note(true));
  response.writeHead(status, { "content-type": "text/plain" });
  for (let left = HUGE_BYTES; left > 0 && !response.destroyed; left -= CHUNK.length) {
    if (!response.write(CHUNK)) await Promise.race([once(response, "drain"), closed]);
    if (!response.destroyed) note(false);
  }
  response.end();
}

/** What the server tells the tests. */
const BOOKS: Readonly<Record<string, (to: string) => unknown>> = {
  "/received": (to) => requests.get(to) ?? [],
  "/sent": (to) => hugeAnswers.get(to) ?? null,
};

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = "", url: path = "/", headers } = request;
  const { pathname, searchParams: query } = new URL(path, "http://receivers");
  const book = BOOKS[pathname];
  if (book !== undefined) {
    response.end(JSON.stringify(book(query.get("to") ?? "")));
    return;
  }
  const body = await textOf(request);
  for (const [pattern, behave] of Object.entries(ROUTES)) {
    const params = paramsOf(pattern, pathname);
    if (params === undefined) continue;
    const to = params.to ?? "";
    const received = [...(requests.get(to) ?? []), { method, path, headers, body }];
    if (to !== "") requests.set(to, received);
    await behave({ params, query, response, received });
    return;
  }
  response.writeHead(404).end(`No receiver behaves like ${pathname}`);
}

/** What stands in the places of a pattern, or undefined when it is the path of another. */
function paramsOf(pattern: string, path: string): Record<string, string> | undefined {
  const places = pattern.split("/");
  const parts = path.split("/");
  const isShort = pattern.endsWith("/:to") && parts.length === places.length - 1;
  if (parts.length !== places.length && !isShort) return undefined;
  const params: Record<string, string> = {};
  for (const [index, part] of parts.entries()) {
    const place = places[index] ?? "";
    if (place.startsWith(":")) params[place.slice(1)] = decodeURIComponent(part);
    else if (place !== part) return undefined;
  }
  return params;
}

/** Called by Vitest before the tests; what it returns, after them. */
export default async function startReceivers({ provide }: TestProject): Promise<() => void> {
  const server = createServer((request, response) => {
    // A caller that hangs up is part of the tests.
    answer(request, response).catch(() => response.destroy());
  });
  const port = await listen(server);
  // Taken and given back: the system hands it out again only after many others.
  const passing = createServer();
  const refusedPort = await listen(passing);
  passing.close();
  provide("receivers", { port, refusedPort });
  return () => {
    server.close();
    server.closeAllConnections();
  };
}

async function listen(server: ReturnType<typeof createServer>): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}
