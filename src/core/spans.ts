/** Spans of the platform's own tracing. Without a runtime that has it, the work runs and nothing else happens. */

import * as workers from "cloudflare:workers";

export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** A span while its work runs. */
export type LiveSpan = {
  set(attributes: SpanAttributes): void;
  /** The work has failed without an error that is thrown. */
  fail(errorType: string): void;
};

/** The used part of `tracing` of `cloudflare:workers`. */
export type NativeTracing = {
  enterSpan<T>(name: string, work: (span: NativeSpan) => T): T;
  /** Newer than the other method. */
  getActiveSpan?(): Pick<NativeSpan, "isTraced"> | undefined;
};

type NativeSpan = {
  readonly isTraced: boolean;
  setAttribute(key: string, value: string | number | boolean): unknown;
  /** Newer than the other methods. */
  setStatus?(status: { code: "error" }): unknown;
};

const UNTRACED: LiveSpan = { set: () => {}, fail: () => {} };

/** An import by name would fail to load where the runtime lacks it. */
const NATIVE = (workers as { readonly tracing?: Partial<NativeTracing> }).tracing;

/** Runs `work` in a span. A failure of tracing itself never fails the work, which runs once. */
export function inSpan<T>(
  name: string,
  attributes: SpanAttributes,
  work: (span: LiveSpan) => Promise<T>,
  tracing: Partial<NativeTracing> | undefined = NATIVE,
): Promise<T> {
  if (typeof tracing?.enterSpan !== "function") return work(UNTRACED);
  // A span inside of it would not be traced either.
  if (tracing.getActiveSpan?.()?.isTraced === false) return work(UNTRACED);
  return tracing.enterSpan(name, async (native) => {
    const span = native.isTraced ? liveSpan(native) : UNTRACED;
    span.set(attributes);
    try {
      return await work(span);
    } catch (error) {
      span.fail(error instanceof Error ? error.name : typeof error);
      throw error;
    }
  });
}

function liveSpan(native: NativeSpan): LiveSpan {
  const set = (attributes: SpanAttributes) => {
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== undefined) native.setAttribute(key, value);
    }
  };
  return {
    set: (attributes) => quietly(() => set(attributes)),
    fail: (errorType) =>
      quietly(() => {
        native.setAttribute("error.type", errorType);
        native.setStatus?.({ code: "error" });
      }),
  };
}

/** Attributes are best effort. */
function quietly(work: () => void): void {
  try {
    work();
  } catch (error) {
    console.warn("[perdure] an attribute of a span could not be set:", error);
  }
}
