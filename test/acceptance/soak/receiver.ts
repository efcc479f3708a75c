/**
 * The receiver of the soak, which is never killed. It verifies each webhook by Standard Webhooks and records it. It refuses
 * some, before or after it records them, so that they are retried.
 */

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import type { Random } from "./random.ts";
import {
  noRecords,
  noteDelivery,
  noteEffect,
  noteMethod,
  noteOutcome,
  type Records,
} from "./records.ts";
import { HOOK_SECRET } from "./words.ts";

/** The shares of webhooks that are answered 503: before and after they are recorded. */
const REFUSED = 0.05;
const FORGOTTEN = 0.05;

/** Requests of tools, methods, models and workflows, by path. */
const NOTES: Readonly<Record<string, (records: Records, body: never) => void>> = {
  "/effects": (records, { key }: { key: string }) => noteEffect(records, key),
  "/steps": (records, step: Records["steps"][number]) => records.steps.push(step),
  "/readings": (records, reading: Records["readings"][number]) => records.readings.push(reading),
  "/methods": noteMethod,
  "/outcomes": noteOutcome,
};

export class Receiver {
  readonly #random: Random;
  readonly records: Records = noRecords();
  /** Answers of 503. */
  refusals = 0;
  readonly #server: Server;

  constructor(random: Random) {
    this.#random = random;

    this.#server = createServer((request, response) => {
      this.#take(request, response).catch((error) => {
        // The caller was killed during the request, and will repeat it.
        if (!response.destroyed) response.writeHead(500).end(String(error));
      });
    });
  }

  /** Returns its URL. */
  async start(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request);
    if (request.url === "/hooks") this.#hook(request, body, response);
    else {
      const note = NOTES[request.url ?? ""];
      if (note === undefined) throw new Error(`No handler for ${request.url}`);
      note(this.records, JSON.parse(body) as never);
      response.end("{}");
    }
  }

  #hook({ headers }: IncomingMessage, body: string, response: ServerResponse): void {
    try {
      new Webhook(HOOK_SECRET).verify(body, headers as Record<string, string>);
    } catch (error) {
      this.records.forged.push(`${headers["webhook-id"]}: ${error}`);
      response.writeHead(401).end();
      return;
    }
    const luck = this.#random();
    if (luck >= REFUSED) noteDelivery(this.records, headers["webhook-id"] as string, body);
    const isRefused = luck < REFUSED + FORGOTTEN;
    if (isRefused) this.refusals++;
    response.writeHead(isRefused ? 503 : 200).end();
  }
}
