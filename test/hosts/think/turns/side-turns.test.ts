import { runInDurableObject } from "cloudflare:test";
import type {
  ToolCallDecision,
  ToolCallResultContext,
  TurnConfig,
  TurnContext,
} from "@cloudflare/think";
import { describe, expect, it } from "vitest";
import type { TurnLedger } from "../../../../src/hosts/sdk/attempt.ts";
import { SdkTurns } from "../../../../src/hosts/sdk/sdk-turns.ts";
import { type SideTurnHooks, thinkSource } from "../../../../src/hosts/think/side-turns.ts";
import { givenThink, message } from "../../../support/given.ts";
import { charges, type ThinkAgent } from "../../../support/think-agent.ts";

const ledger: TurnLedger = {
  limiter: {},
  nextStep: () => [],
  detachJoined: () => undefined,
  budgets: { reserveTokens: () => {}, finished: () => {} },
  recordUsage: () => undefined,
  toolCalls: () => ({
    note: async () => undefined,
    recordedIds: async () => new Set<string>(),
    start: async () => ({ action: "run", end: () => undefined }),
  }),
  heartbeat: () => undefined,
  answer: () => true,
};

const NO_HOOKS: SideTurnHooks = {
  beforeTurn: () => undefined,
  beforeStep: () => undefined,
  beforeToolCall: () => undefined,
  afterToolCall: () => undefined,
  onStepEnd: () => undefined,
};

/** Runs a turn in a thread of a fresh agent. */
function sideTurn(script: Parameters<typeof message>[0], hooks: Partial<SideTurnHooks>) {
  const stub = givenThink() as unknown as DurableObjectStub<ThinkAgent>;
  return runInDurableObject(stub, async (agent) => {
    const source = thinkSource(agent as never, { ...NO_HOOKS, ...hooks });
    const turns = new SdkTurns({ source, sessions: agent.sessions, ledger: () => ledger });
    const end = await turns.run({
      submissionId: "sub",
      thread: "support",
      messages: [message(script)],
      channel: undefined,
      plan: undefined,
      signal: new AbortController().signal,
      begin: () => ({ seq: 1, attempt: 1 }),
      announced: async () => {},
      isAgain: false,
      isGivenUp: false,
    });
    const reply = (await turns.threads.messages("support")).at(-1);
    return { end, reply, own: await agent.texts() };
  });
}

describe("a side turn of a Think agent", () => {
  it("L4: a side turn has the agent's model, prompt and tools, and writes nothing into its conversation", async () => {
    const seen: TurnContext[] = [];
    const { end, reply, own } = await sideTurn("hello", {
      beforeTurn: (ctx) => void seen.push(ctx),
    });
    expect(end).toMatchObject({ outcome: "completed", messageId: "sub:reply" });
    expect(reply?.parts).toContainEqual(expect.objectContaining({ text: "You said: hello" }));
    expect(own).toEqual([]);
    const [ctx] = seen;
    expect(Object.keys(ctx?.tools ?? {})).toEqual(
      expect.arrayContaining(["read", "write", "charge"]),
    );
    expect(ctx?.system).toContain("careful, capable assistant");
    expect(ctx).toMatchObject({ continuation: false, trigger: "submission" });
    expect(ctx?.requestId).toBe("sub");
    expect(ctx?.messages).toHaveLength(1);
  });

  it("L4: a side turn applies the results of the app's hooks", async () => {
    const account = crypto.randomUUID();
    const decisions: (ToolCallDecision | undefined)[] = [
      { action: "block", reason: "Not today" },
      { action: "substitute", output: "As if" },
      { action: "allow", input: { account: `${account}-changed` } },
    ];
    const results: ToolCallResultContext[] = [];
    const steps: number[] = [];
    const tools = decisions.map(() => ({ name: "charge", input: { account } }));
    const config: TurnConfig = { activeTools: ["charge"], maxSteps: 3, temperature: undefined };
    const { end, reply } = await sideTurn(
      { tools, text: "too late" },
      {
        beforeTurn: () => config,
        beforeStep: ({ stepNumber }) => void steps.push(stepNumber),
        beforeToolCall: () => decisions.shift(),
        afterToolCall: (result) => void results.push(result),
      },
    );
    expect(end).toMatchObject({ outcome: "error", failure: { name: "MaxStepsReachedError" } });
    expect(steps).toEqual([0, 1, 2]);
    expect(charges.get(account)).toBeUndefined();
    expect(charges.get(`${account}-changed`)).toBe(1);
    expect(results.map(({ output }) => output)).toEqual([
      "Not today",
      "As if",
      { charged: `${account}-changed` },
    ]);
    expect(results[0]).toMatchObject({ toolName: "charge", success: true, input: { account } });
    expect(reply?.parts.some(({ type }) => type === "text")).toBe(false);
  });
});
