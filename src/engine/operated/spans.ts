/** What modules add to a trace, and the collection of its spans, up to a limit. */

import { spanIdOf } from "../../core/trace-context.ts";

export type TraceSpan = {
  /** 16 hex digits, derived from the ids: the same for each build. */
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind:
    | "workflow"
    | "step"
    | "submission"
    | "wait"
    | "attempt"
    | "model"
    | "tool"
    | "delivery";
  readonly startedAt: number;
  /** Left out while it runs. */
  readonly endedAt?: number;
  readonly status: "ok" | "error" | "unset";
  readonly error?: string;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly links?: readonly { readonly traceId: string; readonly spanId: string }[];
};

export type Trace = { readonly traceId: string; readonly spans: readonly TraceSpan[] };

const MAX_SPANS = 1_000;

type Value = string | number | boolean;

export type NewSpan = Pick<TraceSpan, "name" | "kind" | "startedAt"> & {
  readonly parentSpanId?: string | undefined;
  /** Unset while it runs. */
  readonly endedAt?: number | undefined;
  readonly status?: TraceSpan["status"] | undefined;
  readonly error?: string | undefined;
  readonly attributes?: Readonly<Record<string, Value | undefined>>;
  readonly links?: TraceSpan["links"];
};

/** A span by the key of its row: the same in each build. */
export type KeyedSpan = readonly [key: string, span: NewSpan];

/** What a module adds to traces. Reads only. */
export type SpanSource = {
  /** The spans right below a submission. */
  readonly below?: (sql: SqlStorage, submissionId: string) => readonly KeyedSpan[];
  /** The steps of an instance of a workflow that wait for the module. */
  readonly steps?: (
    sql: SqlStorage,
    of: { readonly workflow: string; readonly instance: string },
    most: number,
  ) => readonly KeyedSpan[];
};

export class Spans {
  readonly #spans: TraceSpan[] = [];
  /** How many spans are left out. */
  #omitted = 0;

  constructor(
    readonly traceId: string,
    private readonly max = MAX_SPANS,
  ) {}

  get room(): number {
    return this.max - this.#spans.length;
  }

  idOf(key: string): string {
    return spanIdOf(this.traceId, key);
  }

  /** @param key names its row: the same in each build. Returns its id, or undefined when there is no room. */
  add(key: string, span: NewSpan): string | undefined {
    if (this.room <= 0) {
      this.#omitted++;
      return undefined;
    }
    const { name, kind, startedAt, endedAt, status = "unset", error, parentSpanId } = span;
    const { attributes = {}, links } = span;
    const spanId = this.idOf(key);
    this.#spans.push({
      spanId,
      ...(parentSpanId !== undefined && { parentSpanId }),
      name,
      kind,
      startedAt,
      ...(endedAt !== undefined && { endedAt: Math.max(startedAt, endedAt) }),
      status,
      ...(error !== undefined && { error }),
      attributes: defined(attributes),
      ...(links && links.length > 0 && { links }),
    });
    return spanId;
  }

  /** These rows have no span. */
  leaveOut(count: number): void {
    this.#omitted += count;
  }

  /**
   * By their starts; a parent comes before its children that start at the same time.
   *
   * @param spanId of the span that says how many are left out
   */
  trace(spanId: string): Trace {
    const spans = this.#spans.toSorted((one, other) => one.startedAt - other.startedAt);
    const omitted = { "perdure.trace.omitted_spans": this.#omitted };
    return {
      traceId: this.traceId,
      spans: spans.map((span) =>
        span.spanId === spanId && this.#omitted > 0
          ? { ...span, attributes: { ...span.attributes, ...omitted } }
          : span,
      ),
    };
  }
}

function defined(attributes: Readonly<Record<string, Value | undefined>>): Record<string, Value> {
  const entries = Object.entries(attributes).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Record<string, Value>;
}
