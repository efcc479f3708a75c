/** HTTP helpers: JSON responses, errors as `{ error }` without a stack, a body limit, bearer tokens. */

/** An error whose message is sent to the caller. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export function json(body: unknown, status = 200): Response {
  return Response.json(body, { status });
}

export function requireMethod(request: Request, method: "GET" | "POST"): void {
  if (request.method !== method)
    throw new HttpError(405, `Use ${method} here, not ${request.method}.`);
}

/** Reads the raw bytes of the body, and stops at the limit whatever the Content-Length. */
export async function readBody(request: Request, maxBytes: number): Promise<string> {
  const tooLarge = new HttpError(
    413,
    `The body is larger than the ${maxBytes} bytes that are accepted here.`,
  );
  if (Number(request.headers.get("Content-Length") ?? 0) > maxBytes) throw tooLarge;
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of request.body ?? []) {
    size += chunk.byteLength;
    if (size > maxBytes) throw tooLarge;
    chunks.push(chunk);
  }
  // A byte order mark is part of the signed bytes.
  const decoder = new TextDecoder("utf-8", { fatal: false, ignoreBOM: true });
  return chunks.map((chunk) => decoder.decode(chunk, { stream: true })).join("") + decoder.decode();
}

export function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    throw new HttpError(
      400,
      "The body is not JSON. Set the webhook's content type to application/json.",
    );
  }
}

/** Refuses every request without a configured token. Compares hashes, so that the comparison takes constant time. */
export async function requireToken(request: Request, expected: string | undefined): Promise<void> {
  if (!expected) throw new HttpError(403, "This route is closed: the worker has no ADMIN_TOKEN.");
  const given = request.headers.get("Authorization")?.replace(/^Bearer /, "") ?? "";
  const [a, b] = await Promise.all([sha256(given), sha256(expected)]);
  if (!crypto.subtle.timingSafeEqual(a, b)) {
    throw new HttpError(401, "Send the worker's ADMIN_TOKEN as `Authorization: Bearer <token>`.");
  }
}

function sha256(value: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(value));
}
