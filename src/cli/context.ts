/** What all commands share: the client, the agent that is meant, output, and how a command ends. */

import { createInterface } from "node:readline/promises";
import { CommanderError } from "commander";
import { OperatorClient, OperatorError } from "../operator/client.ts";
import { jsonText, plain } from "./print/text.ts";

/** docs/cli.md lists them. */
export const EXIT = {
  ok: 0,
  found: 1,
  usage: 2,
  unauthorised: 3,
  unreachable: 4,
  notFound: 5,
} as const;

/** Ends the command with this code and one line on stderr. */
export class CliError extends Error {
  override readonly name = "CliError";
  constructor(
    readonly code: (typeof EXIT)[keyof typeof EXIT],
    message: string,
  ) {
    super(message);
  }
}

/** For a command line, or an environment, that is wrong. */
export const usageError = (message: string) => new CliError(EXIT.usage, message);

const DEFAULT_URL = "http://localhost:8787/perdure";
const LOCAL = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

let isHttpAllowed = false;
/** By `--allow-http`. */
export function allowHttp(allowed: boolean): void {
  isHttpAllowed = allowed;
}

/** Without the line break that a file or a secret store adds. */
const tokenOf = () => process.env.PERDURE_TOKEN?.trim() || undefined;

/** Where the operator API is, and the token for it: from the environment only, so that no history of a shell has it. */
function settings(from?: string): { readonly url: string; readonly token?: string } {
  const url = from ?? process.env.PERDURE_URL ?? DEFAULT_URL;
  const named = from === undefined ? "PERDURE_URL" : "--from";
  const token = tokenOf();
  if (/^https?:\/\/[^/]*@/i.test(url)) {
    const remedy = "Set PERDURE_TOKEN to a token that authorize() accepts.";
    throw usageError(`${named} has a user name or a password in it. ${remedy}`);
  }
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    const problem = "a space, a line break or another character that no header can have";
    throw usageError(`PERDURE_TOKEN has ${problem}.`);
  }
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw usageError(
      `Invalid ${named} ${JSON.stringify(url)}: expected the address of the operator API, e.g. https://example.com/perdure.`,
    );
  }
  const { protocol, hostname } = new URL(url);
  const isLocal = LOCAL.test(hostname);
  if (token && protocol === "http:" && !isLocal && !isHttpAllowed) {
    throw usageError(
      `PERDURE_TOKEN is not sent to ${plain(hostname)} over http:, where others can read it. Use https: in ${named}, or pass --allow-http.`,
    );
  }
  // An authorize() that lets a local runtime's callers in needs no token, but actions need one, so that no page can send them.
  return { url, ...(token ? { token } : isLocal && { token: "local" }) };
}

/** @param from the address, instead of that in the environment */
export const clientOf = (from?: string) => new OperatorClient(settings(from));

export type Common = { readonly agent?: string; readonly json?: boolean };

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** JSON on stdout, and nothing else. */
export function printJson(value: unknown): void {
  print(jsonText(value, process.stdout.isTTY ? 2 : 0));
}

/** A note that is not the result: on stderr. */
export function note(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Asks on a terminal. Undefined where there is no terminal. */
export async function question(text: string): Promise<string | undefined> {
  if (!process.stdin.isTTY || !process.stderr.isTTY) return undefined;
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await terminal.question(text)).trim();
  } finally {
    terminal.close();
  }
}

/** Whether a deployment that restarts may answer later. Another token, or a feature, does not come by itself. */
export function isPassing(error: unknown): error is OperatorError {
  if (!(error instanceof OperatorError) || error.status === NOT_INSTALLED) return false;
  return error.status === 0 || error.status >= 500;
}

/** @param of what did not answer */
export function noteRetry({ message }: OperatorError, of = ""): void {
  note(`${of}${plain(message).replace(/\.$/, "")}. Trying again...`);
}

/** The agent's class does not install operations(). */
export const NOT_INSTALLED = 501;

/** Ctrl+C ends a command that would not end, with this code. */
export function onInterrupt(codeNow: () => number): void {
  process.on("SIGINT", () => {
    process.stdout.write("\n");
    process.exit(codeNow());
  });
}

/** The code and the line that an error ends the command with. A server may send the token back: it is not shown. */
export function endOf(error: unknown): { readonly code: number; readonly text: string } {
  const { code, text } = shownEndOf(error);
  const token = tokenOf();
  return { code, text: token === undefined ? text : text.replaceAll(token, "(PERDURE_TOKEN)") };
}

function shownEndOf(error: unknown): { readonly code: number; readonly text: string } {
  if (error instanceof CliError) return { code: error.code, text: error.message };
  if (error instanceof CommanderError) {
    const text = error.message.replace(/^error: /, "");
    return { code: error.exitCode === 0 ? EXIT.ok : EXIT.usage, text };
  }
  if (!(error instanceof OperatorError)) {
    return { code: EXIT.found, text: error instanceof Error ? error.message : String(error) };
  }
  const { status, message } = error;
  if (status === 401 || status === 403) {
    const remedy = tokenOf() ? "PERDURE_TOKEN is not accepted" : "PERDURE_TOKEN is not set";
    const isTokenMissing = status === 401 || error.code === "NoToken";
    return { code: EXIT.unauthorised, text: isTokenMissing ? `${message} ${remedy}.` : message };
  }
  if (status === 0 || status >= 500) return { code: EXIT.unreachable, text: message };
  if (status === 404) return { code: EXIT.notFound, text: message };
  return { code: status === 400 ? EXIT.usage : EXIT.found, text: message };
}
