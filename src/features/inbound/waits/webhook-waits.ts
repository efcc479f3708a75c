/**
 * The kind `webhook`, for `step.webhook()`: an arrival, or a request to a URL of its own, ends the wait. Arrivals are
 * matched in the transaction that accepts them.
 */

import { byteLength, type Json } from "../../../core/json.ts";
import { type OnProblem, reportProblem } from "../../../core/problems.ts";
import { digest } from "../../../core/text.ts";
import { InvalidWaitError, MOST_BYTES } from "../../../workflow/waits/errors.ts";
import type { Closing, Ending, StoredKind, Wait } from "../../../workflow/waits/protocol.ts";
import type { Waits } from "../../../workflow/waits/waits.ts";
import { GRACE_MS } from "../../../workflow/waits/waits.ts";
import type { WebhookRequest, WebhookResult } from "../../../workflow/webhook.ts";
import type { Inbound } from "../inbound.ts";
import type { Links } from "../links.ts";
import type { UrlOutcome, UrlRequest, WaitedArrival } from "../protocol.ts";
import type { WaitMatch } from "../types.ts";
import {
  isFor,
  PREFIX_LENGTH,
  prefixOf,
  problemsOf,
  SHAPES,
  type Shape,
  shapeOf,
  topicOfArrival,
  topicOfRequest,
} from "./matching.ts";
import { countOfTopic, hasAnswered, oneOfEachTopic, openWithTopics } from "./topics.ts";

/** Shapes of open waits: each costs every arrival a look at an index. */
const MOST_SHAPES = 100;
/** Open waits that ask for the same: one arrival ends all of them, in one transaction. */
const MOST_ALIKE = 1_000;
/** Bytes that one arrival may add to the waits that it ends. */
const MOST_COPIED_BYTES = 64_000_000;
/** Begins the topics of waits for URLs. */
const URLS = "u";
/** Problems of a body that its sender is told. */
const MOST_PROBLEMS = 10;
/** Arrivals that are looked at when a wait is opened. */
const MOST_LOOKBACK = 1_000;

/** The part of the agent that the kind uses. */
type Uses = {
  readonly waits: Waits;
  /** The arrivals of before. Called in the transaction that opens a wait. */
  readonly arrivals: Pick<Inbound, "recent" | "recordWait">;
  /** For URLs of steps. @throws FeatureNotInstalledError */
  readonly links: () => Pick<Links, "check" | "urlOf">;
  readonly onProblem?: OnProblem | undefined;
};

export class WebhookWaits implements StoredKind {
  /** Of the open waits, and of some that were closed; undefined before the first use. */
  #shapes: Map<string, Shape> | undefined;
  /** New waits whose lookback has left out arrivals, until their transaction has committed. */
  readonly #cutLookbacks = new Set<string>();

  constructor(private readonly uses: Uses) {}

  // A person or a service may repeat nothing that it has sent: its first arrival answers a restarted workflow, too.
  answersLaterRuns({ status }: Wait): boolean {
    return status === "completed";
  }

  readonly asksAnew = true;
  readonly endsWithRun = true;

  async check(request: Json): Promise<void> {
    if ((request as WebhookRequest).url) await this.uses.links().check();
  }

  /** The topic of a URL stays the same when its step refuses a body. */
  topicOf(request: Json, refused: Wait | undefined): string {
    const asked = request as WebhookRequest;
    if (asked.url) return refused?.topic ?? URLS + crypto.randomUUID();
    const shape = shapeOf(asked);
    const prefix = prefixOf(shape);
    const isNew = (shapes: Map<string, Shape>) => !shapes.has(prefix) && shapes.size >= MOST_SHAPES;
    if (isNew(this.#known())) this.#shapes = undefined;
    const shapes = this.#known();
    if (isNew(shapes)) {
      throw new InvalidWaitError(
        "match",
        `Invalid match: the agent's open steps wait for ${MOST_SHAPES} different combinations of from, type and paths in match, ` +
          "and this is another one. Use the same paths in more steps, and put what differs into the values.",
      );
    }
    const topic = topicOfRequest(asked);
    if (countOfTopic(this.uses.waits.store, topic, MOST_ALIKE) >= MOST_ALIKE) {
      throw new InvalidWaitError(
        "match",
        `Invalid match: ${MOST_ALIKE} open steps of the agent's workflows wait for the same arrival. ` +
          "Add to match what tells them apart, or end them by an event of your own.",
      );
    }
    shapes.set(prefix, shape);
    return topic;
  }

  /** The oldest arrival that came before the wait, and that no wait of the same workflow instance has had. */
  endAtOpen(wait: Wait, refused: Wait | undefined): Ending | undefined {
    const { lookbackMs = 0, from, url } = wait.request as WebhookRequest;
    if (url) return undefined;
    const sinceOf = ({ state, createdAt, request }: Wait) =>
      (state as { since?: number } | undefined)?.since ??
      createdAt - ((request as WebhookRequest).lookbackMs ?? 0);
    const since = sinceOf(refused ?? wait);
    // Finds arrivals that came while the step refused an earlier one.
    if (refused) this.uses.waits.note(wait.waitId, { since });
    const log = this.uses.arrivals;
    if (lookbackMs === 0 && !refused) return undefined;
    const recent = log.recent({ since, source: from, limit: MOST_LOOKBACK });
    if (recent.hasMore) this.#cutLookbacks.add(wait.waitId);
    const arrival = this.#firstAnswer(wait, recent.arrivals);
    if (!arrival) return undefined;
    log.recordWait(arrival.source, arrival.id, matchOf(wait));
    return endingOf(wait, arrival);
  }

  /** After the commit: says that the lookback of a new wait has left out arrivals. */
  announce({ waitId, workflow, request, status }: Wait): void {
    // A wait that was taken back may have a shape of its own.
    const asked = request as WebhookRequest;
    if (status === "open" && !asked.url) {
      const shape = shapeOf(asked);
      this.#known().set(prefixOf(shape), shape);
    }
    if (!this.#cutLookbacks.delete(waitId)) return;
    const { name, id: instance, stepName: step } = workflow;
    const { from, lookbackMs = 0 } = asked;
    const whose = from === undefined ? "" : ` of ${from}`;
    const message =
      `Step ${step} of workflow ${name} ${instance} looked at the newest ${MOST_LOOKBACK} arrivals${whose}, and more came ` +
      "within its lookback. Name the source in from, use a shorter lookback, or start the step before its arrivals come. " +
      "Replay an arrival that the step has missed.";
    const source = from !== undefined && { source: from };
    const ids = { waitId, workflow: name, instance, step, ...source, lookbackMs };
    reportProblem(
      this.uses.onProblem,
      { type: "wait:lookback", level: "warn", message, ids: { ...ids, limit: MOST_LOOKBACK } },
      (work) => work(),
    );
  }

  #firstAnswer(wait: Wait, arrivals: Iterable<WaitedArrival>): WaitedArrival | undefined {
    for (const arrival of arrivals) if (this.#isAnswer(wait, arrival)) return arrival;
    return undefined;
  }

  /**
   * Ends the open waits that an arrival is for, in the transaction that accepts the arrival. Their events are sent after it.
   * Call it once the object has started.
   */
  match(arrival: WaitedArrival): readonly WaitMatch[] {
    if (arrival.body === undefined) return [];
    const topics = [...this.#known().values()].flatMap(
      (shape) => topicOfArrival(shape, arrival) ?? [],
    );
    if (topics.length === 0) return [];
    const most = MOST_SHAPES * MOST_ALIKE;
    const found: Wait[] = [];
    for (const wait of openWithTopics(this.uses.waits.store, topics, most)) {
      if (this.#isAnswer(wait, arrival)) found.push(wait);
    }
    const size = byteLength(JSON.stringify(arrival.body));
    const room = Math.max(1, Math.floor(MOST_COPIED_BYTES / (size + 1)));
    const rest = found.length - room;
    if (rest > 0) {
      console.error(
        `[perdure] arrival ${arrival.id} of ${arrival.source} (${size} bytes) leaves ${rest} of ${found.length} waits open: one may add ${MOST_COPIED_BYTES} bytes`,
      );
    }
    return found.slice(0, room).flatMap((wait) => {
      const closed = this.uses.waits.settleWithin(wait.waitId, endingOf(wait, arrival));
      return closed ? [matchOf(closed)] : [];
    });
  }

  /** For a step with a URL: the URL is part of its receipt. */
  async receiptOf({ request, topic = "", expiresAt }: Wait): Promise<object> {
    if (!(request as WebhookRequest).url) return {};
    return {
      url: await this.uses.links().urlOf({ what: "webhook", id: topic }, expiresAt - GRACE_MS),
    };
  }

  /** A request to a URL of a step: the first one ends the wait. */
  async receive({ topic, hash, body, receivedAt }: UrlRequest): Promise<UrlOutcome> {
    const waits = this.uses.waits;
    await waits.ready();
    const arrival = { source: "url", id: hash, type: "", body, receivedAt };
    const [wait] = [...openWithTopics(this.uses.waits.store, [topic], 1)];
    if (wait) {
      const problems = problemsOf(wait.request as WebhookRequest, body);
      if (problems.length > 0) {
        return { outcome: "refused", problems: problems.slice(0, MOST_PROBLEMS) };
      }
      const ending = urlEnding(topic, arrival);
      const { status, result } = ending.closing;
      if (status === "failed") {
        return { outcome: "refused", problems: [(result as { error: string }).error] };
      }
      await waits.cancelIfGone(wait);
      if (waits.settleWithin(wait.waitId, ending)) return { outcome: "accepted" };
    }
    const isKnown = hasAnswered(this.uses.waits.store, urlEnding(topic, arrival).answeredBy);
    return { outcome: isKnown ? "duplicate" : "gone" };
  }

  /** Whether a wait is for an arrival that has ended none of its instance before. */
  #isAnswer(wait: Wait, arrival: WaitedArrival): boolean {
    const request = wait.request as WebhookRequest;
    return (
      isFor(request, arrival) &&
      problemsOf(request, arrival.body ?? null).length === 0 &&
      !hasAnswered(this.uses.waits.store, answerKey(wait, arrival))
    );
  }

  #known(): Map<string, Shape> {
    if (this.#shapes) return this.#shapes;
    const waits = oneOfEachTopic(this.uses.waits.store, SHAPES, PREFIX_LENGTH);
    const shapes = waits.map(({ request }) => shapeOf(request as WebhookRequest));
    this.#shapes = new Map(shapes.map((shape) => [prefixOf(shape), shape]));
    return this.#shapes;
  }
}

/** Finds the wait of an instance that an arrival has ended. */
function answerKey({ workflow }: Wait, { source, id }: WaitedArrival): string {
  return digest(JSON.stringify([workflow.name, workflow.id, source, id]));
}

function endingOf(wait: Wait, arrival: WaitedArrival): Ending {
  return { closing: closingOf(arrival), answeredBy: answerKey(wait, arrival) };
}

/** By the URL, because the sender knows no other id. */
function urlEnding(topic: string, arrival: WaitedArrival): Ending {
  return { closing: closingOf(arrival), answeredBy: digest(JSON.stringify([topic, arrival.id])) };
}

function closingOf({ source, id, type, body = null, receivedAt }: WaitedArrival): Closing {
  const result: WebhookResult = { source, id, type, body, receivedAt };
  const bytes = byteLength(JSON.stringify(result));
  if (bytes <= MOST_BYTES) return { status: "completed", result };
  const error = `The body of arrival ${id} of ${source} has ${bytes} bytes, and a step takes ${MOST_BYTES}`;
  return { status: "failed", result: { error } };
}

function matchOf({ waitId, workflow: { name, id } }: Wait): WaitMatch {
  return { waitId, workflow: { name, id } };
}
