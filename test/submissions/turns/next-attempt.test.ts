/** What the next attempt asks, and whether there is one: the decisions, without a ledger. */

import { UnsupportedFunctionalityError } from "ai";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonIn } from "../../../src/hosts/sdk/answer-json.ts";
import { textOf } from "../../../src/hosts/sdk/conversation.ts";
import type { AnswerSpec } from "../../../src/submissions/submit-options.ts";
import {
  attemptPlanOf,
  type FailedTurn,
  type FailureKind,
  type NextAction,
  nextAttempt,
  type PriorAttempt,
  toolRefusalOf,
} from "../../../src/submissions/turns/next-attempt.ts";

const BACKOFF = { baseMs: 1_000, capMs: 60_000 };

const specs: fc.Arbitrary<AnswerSpec> = fc.record(
  {
    schema: fc.constant({ type: "object" }),
    strategy: fc.constantFrom("auto", "tool", "json"),
    repair: fc.integer({ min: 0, max: 4 }),
    models: fc.uniqueArray(fc.constantFrom("a", "b", "c"), { minLength: 1 }),
  },
  { requiredKeys: [] },
);
const whys: fc.Arbitrary<FailureKind> = fc.oneof(
  fc.record({
    answer: fc.constantFrom("invalid", "missing", "unreadable"),
    given: fc.option(fc.string(), { nil: undefined }),
    isCutOff: fc.boolean(),
  }),
  fc.record({ refusal: fc.constantFrom("toolChoice", "tools", undefined) }),
  fc.constant("other" as const),
);
const failures = fc.record({
  why: whys,
  isTransient: fc.boolean(),
  acts: fc.boolean(),
});

type Played = {
  spec: AnswerSpec;
  maxAttempts: number;
  mayRepeatEffects: boolean;
  isRemembered: boolean;
};

/** Lets attempt after attempt fail, as long as there is one; effects are only of attempts that are offered tools. */
function play(
  { spec, maxAttempts, mayRepeatEffects, isRemembered }: Played,
  fails: readonly { why: FailureKind; isTransient: boolean; acts: boolean }[],
) {
  const priors: PriorAttempt[] = [];
  const attempts: { model: string | undefined; how: string; isBare: boolean; acts: boolean }[] = [];
  let hasEffects = false;
  for (const { why, isTransient, acts } of fails) {
    const plan = attemptPlanOf(spec, priors);
    const isBare = plan?.followUp !== undefined;
    attempts.push({ model: plan?.model, how: plan?.how ?? "", isBare, acts: acts && !isBare });
    hasEffects ||= acts && !isBare;
    const turn: FailedTurn = {
      ...{ spec, priors, why, hasEffects, mayRepeatEffects, isRemembered, maxAttempts },
      transient: isTransient ? { retryAfterMs: undefined } : undefined,
      attempts: attempts.length,
    };
    const next = nextAttempt(turn, BACKOFF, 0.5);
    if (!next) return { attempts, priors, isOver: true };
    if (next.follow !== "again") expect(next.delayMs).toBe(0);
    const given = typeof why === "object" && "answer" in why ? why.given : undefined;
    priors.push({ follow: next.follow, error: "wrong", given });
  }
  return { attempts, priors, isOver: false };
}

const games = fc.record({
  spec: specs,
  maxAttempts: fc.integer({ min: 1, max: 4 }),
  mayRepeatEffects: fc.boolean(),
  isRemembered: fc.boolean(),
});

describe("W4: whatever fails", () => {
  it("W4: the attempts end: rounds of models within maxAttempts, repairs as often as allowed, one switch", () => {
    fc.assert(
      fc.property(games, fc.array(failures, { minLength: 60, maxLength: 60 }), (game, fails) => {
        const { priors, isOver } = play(game, fails);
        const count = (...follows: NextAction[]) =>
          priors.filter(({ follow }) => follows.includes(follow)).length;
        const { repair = 0, models = [""] } = game.spec;
        expect(isOver).toBe(true);
        expect(count("repair")).toBeLessThanOrEqual(repair);
        expect(count("json", "finish")).toBeLessThanOrEqual(1);
        expect(count("again")).toBeLessThan(game.maxAttempts);
        expect(count("model")).toBeLessThanOrEqual(game.maxAttempts * (models.length - 1));
      }),
    );
  });

  it("L6: no attempt with tools follows effects unless it is allowed", () => {
    fc.assert(
      fc.property(games, fc.array(failures, { maxLength: 30 }), (game, fails) => {
        const { attempts } = play({ ...game, mayRepeatEffects: false }, fails);
        const first = attempts.findIndex(({ acts }) => acts);
        const later = first < 0 ? [] : attempts.slice(first + 1);
        expect(later.filter(({ isBare }) => !isBare)).toEqual([]);
      }),
    );
  });

  it("W4: models are asked in turn, and a repair asks the one that has answered", () => {
    fc.assert(
      fc.property(games, fc.array(failures, { maxLength: 30 }), (game, fails) => {
        const { attempts, priors } = play(game, fails);
        const { models = [] } = game.spec;
        for (const [index, { follow }] of priors.entries()) {
          const [one, next] = attempts.slice(index, index + 2);
          if (!one || !next || models.length === 0) continue;
          const isAnother = follow === "again" || follow === "model";
          const at = models.indexOf(one.model ?? "") + (isAnother ? 1 : 0);
          expect(next.model).toBe(models[at % models.length]);
        }
      }),
    );
  });

  it("W4: what is asked depends on the attempts alone, and stays a text once it is one", () => {
    fc.assert(
      fc.property(games, fc.array(failures, { maxLength: 30 }), (game, fails) => {
        const { attempts, priors } = play(game, fails);
        const switchedAt = priors.findIndex(
          ({ follow }) => follow === "json" || follow === "finish",
        );
        for (const [index, { how }] of attempts.entries()) {
          const { schema, strategy = "auto" } = game.spec;
          const isText = strategy === "json" || (switchedAt >= 0 && index > switchedAt);
          expect(how).toBe(!schema ? "text" : isText ? "json" : "tool");
        }
      }),
    );
  });
});

describe("the text of a reply", () => {
  const text = (said: string) => ({ type: "text", text: said }) as const;
  const call = { type: "tool-charge", toolCallId: "c", state: "output-available" } as never;

  it("the text of a reply is what follows the last tool call", () => {
    expect(textOf({ parts: [text("a"), call, text("b"), { type: "step-start" }, text("c")] })).toBe(
      "bc",
    );
    expect(textOf({ parts: [text("a"), call] })).toBe("");
    expect(textOf({ parts: [text("a"), text("b")] }, 1)).toBe("b");
    expect(textOf(undefined)).toBe("");
  });
});

describe("JSON in a text", () => {
  const objects = fc.dictionary(fc.string(), fc.jsonValue());
  /** Words without a bracket, a fence or a quotation mark. */
  const words = fc
    .string()
    .map((said) => said.replaceAll(/[[\]{}"`]/g, "").replaceAll(/\d|true|false|null/g, "x"));

  it("JSON is found alone and fenced, and never between words", () => {
    fc.assert(
      fc.property(objects, words, words, (value, before, after) => {
        const json = JSON.stringify(value);
        expect(jsonIn(json)?.value).toEqual(JSON.parse(json));
        expect(jsonIn(`${before}x${json}x${after}`)).toBeUndefined();
        const fenced = `${before}\n\n\`\`\`\`json\n${JSON.stringify(value, null, 2)}\n\`\`\`\`\n${after}`;
        expect(jsonIn(fenced)?.value).toEqual(JSON.parse(json));
      }),
    );
  });

  it("JSON is not found in any first part of an object, fenced or in a thought", () => {
    fc.assert(
      fc.property(
        objects,
        fc.nat(),
        fc.constantFrom("think", "thinking", "reasoning"),
        (value, cut, tag) => {
          const json = JSON.stringify({ value, inner: { title: "root" } });
          const part = json.slice(0, cut % json.length);
          expect(jsonIn(part)).toBeUndefined();
          expect(jsonIn(`Here:\n\`\`\`json\n${part}`)).toBeUndefined();
          expect(jsonIn(`\`\`\`\n{}\n\`\`\`\nBetter:\n\`\`\`\n${part}`)).toBeUndefined();
          expect(jsonIn(`<${tag}>${json}, but`)).toBeUndefined();
          expect(jsonIn(`<${tag}>\n\`\`\`json\n${json}\n\`\`\`\nbut`)).toBeUndefined();
          expect(jsonIn(`<${tag}>${json}</${tag}>${part}`)).toBeUndefined();
        },
      ),
    );
  });

  it("JSON is found with braces, quotation marks and fences in its strings", () => {
    const value = { code: '```js\n{ "a": [1] }\n``` \\" }' };
    expect(jsonIn(` ${JSON.stringify(value)}\n`)?.value).toEqual(value);
    expect(jsonIn(`\`\`\`json\n${JSON.stringify(value)}\n\`\`\``)?.value).toEqual(value);
  });

  it("JSON is found after closed thoughts", () => {
    for (const tag of ["think", "thinking", "reasoning", "Think"]) {
      const thought = `<${tag}>Maybe {"a":1}, or [2]?</${tag}>`;
      expect(jsonIn(`${thought}\n{"a":2}`)?.value).toEqual({ a: 2 });
      expect(jsonIn(`${thought}\n${thought}{"a":2}`)?.value).toEqual({ a: 2 });
      expect(jsonIn(`${thought}\nIt is:\n\`\`\`\n{"a":2}\n\`\`\``)?.value).toEqual({ a: 2 });
      expect(jsonIn(`Maybe {"a":1}?</${tag}>{"a":2}`)?.value).toEqual({ a: 2 });
      expect(jsonIn(thought)).toBeUndefined();
    }
    expect(jsonIn('<think><think>{"a":1}</think>{"a":2}')).toBeUndefined();
    expect(jsonIn('{"a":"<think>1</think>"}')?.value).toEqual({ a: "<think>1</think>" });
    expect(jsonIn('<think>x</think>{"a":"<think>"}')?.value).toEqual({ a: "<think>" });
  });

  it("JSON is taken only if there is exactly one", () => {
    const block = '```\n{"a":1}\n```';
    expect(jsonIn('{"a":1} or {"a":2}')).toBeUndefined();
    expect(jsonIn(`${block}\nor\n${block}`)).toBeUndefined();
    expect(jsonIn("a {b} c")).toBeUndefined();
    expect(jsonIn("")).toBeUndefined();
    expect(jsonIn('It is {"a":1}')).toBeUndefined();
    expect(jsonIn(`Here:\n${block}`)?.value).toEqual({ a: 1 });
  });

  it("JSON is found in linear time", () => {
    const timeOf = (times: number) => {
      const startedAt = Date.now();
      for (const text of [
        "[",
        "{",
        '{"',
        "`",
        "```\n",
        '"{',
        "[1,",
        "<think>",
        "</think>",
        "<think></think>",
      ])
        jsonIn(text.repeat(times));
      return Date.now() - startedAt;
    };
    // Ten times as much takes ten times as long; in quadratic time it would be a hundred times.
    expect(timeOf(500_000)).toBeLessThan(40 * Math.max(timeOf(50_000), 20));
  });
});

describe("what a provider refuses", () => {
  const unsupported = (functionality: string) =>
    new UnsupportedFunctionalityError({ functionality });
  const api = (statusCode: number, message: string, responseBody = "") =>
    Object.assign(new Error(message), { statusCode, responseBody });

  it.each([
    ["toolChoice", api(400, "tool_choice 'required' is not supported")],
    ["toolChoice", api(422, "Bad Request", '{"error":"Unsupported value: toolChoice"}')],
    ["toolChoice", Object.assign(new Error("retried"), { lastError: api(400, "tool choice") })],
    ["tools", Object.assign(api(200, "wrapped"), { cause: api(400, "no tools here") })],
    ["tools", api(404, "No endpoints found that support tool use")],
    ["tools", api(400, "this model does not support function calling")],
    [undefined, api(400, "context length exceeded")],
    [undefined, api(429, "too many requests with tools")],
    [undefined, api(401, "no access to tools")],
    [undefined, api(500, "tools are broken")],
    ["toolChoice", unsupported("tool choice type: required")],
    ["tools", unsupported("function calling")],
    [undefined, unsupported("file parts")],
    [undefined, new Error("tool_choice")],
    [undefined, undefined],
  ])("%s: %s", (refusal, error) => {
    expect(toolRefusalOf(error)).toBe(refusal);
  });
});
