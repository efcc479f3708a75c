/** Scenarios of a crash at every write: each verb, checked by public verbs and by receivers outside of the object. */

import { createExecutionContext, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { createHmac } from "node:crypto";
import { capabilitiesOf, type SubmissionInspection } from "perdure/agent";
import { method } from "perdure/outbox";
import { ask, type CrashScenario, inspectWork, modelCalls, type Script } from "perdure/testing";
import { until } from "../app/given.ts";
import type { Host, Verbs } from "../app/hosts.ts";
import { joinTexts, message } from "../app/messages.ts";
import { charges, deliveries, refusals, taskRuns } from "../app/receivers.ts";
import { SCHEDULED } from "../app/tasks.ts";
import { type ArrivalBody, receiveWebhook, SOURCE } from "../app/webhooks.ts";
import type { Plan } from "../app/workflows.ts";

type Objects = CrashScenario<undefined>;

/** A call with the verbs of the object and the id of the run, which is also the name of the object. */
type Call<Result> = (verbs: Verbs, id: string) => Result | Promise<Result>;

type Scenario = Pick<Objects, "isOver" | "expect"> & {
  /** Begins with the guarantees. */
  readonly name: string;
  /** Declares the tasks of the app for the object. */
  readonly isScheduled?: boolean;
  /** That of a turn by default. */
  readonly sampleStride?: number;
  readonly prepare?: Call<unknown>;
  readonly steps: readonly Call<unknown>[];
  /** Problems in addition to the invariants, which the kit checks. */
  readonly check: Call<readonly string[]>;
};

const TIMEOUT = "4 minutes";
const DAY = 86_400_000;
const TITLE = {
  type: "object",
  properties: { title: { type: "string" } },
  required: ["title"],
} as never;
const NOTIFY = method("receive");

/**
 * Strides of a sample, by the number of writes: at least two points of each scenario are played. No stride is a multiple of
 * the three moments, so that both writes and moments vary.
 */
const STRIDES = { few: 7, some: 13, turn: 31, longTurn: 62 };

/** Think and ai-chat write messages as rows of their own. */
const isLong = (host: Host) => host.entry === "perdure/think" || host.entry === "perdure/chat";

const toVerbs = (stub: unknown) => stub as Verbs;

/** The scenario of the kit. */
function build(
  host: Host,
  { name, isScheduled, sampleStride: _, prepare, steps, check, ...rest }: Scenario,
): Objects {
  return {
    timeout: TIMEOUT,
    ...rest,
    // The name of the object begins with that of the scenario.
    name: isScheduled ? `${SCHEDULED}${name}` : name,
    objects: host.objects as never,
    ...(prepare && { prepare: (stub, { id }) => prepare(toVerbs(stub), id) }),
    steps: steps.map(
      (step) =>
        (stub: unknown, { id }) =>
          step(toVerbs(stub), id),
    ) as Objects["steps"],
    check: (stub, { id }) => check(toVerbs(stub), id),
  };
}

/** A problem in words where two values differ. */
function differs(what: string, found: unknown, expected: unknown): string[] {
  const [is, should] = [JSON.stringify(found), JSON.stringify(expected)];
  return is === should ? [] : [`${what}: ${is}, expected ${should}`];
}

/** L1 L7 O1 O2: the submission has ended so, and its destination has received that end under one id. */
async function endProblems(
  verbs: Verbs,
  id: string,
  expected: Partial<Pick<SubmissionInspection, "output">> & {
    readonly status: readonly SubmissionInspection["status"][];
  },
): Promise<string[]> {
  const found = await verbs.inspectSubmission(id);
  if (!found) return [`L1 ${id} is unknown`];
  const { status, output, error } = found;
  const received = deliveries.get(id);
  const event = received[0]?.event as { data?: { status?: unknown; output?: unknown } } | undefined;
  return [
    ...(expected.status.includes(status) ? [] : [`L1 ${id} is ${status}: ${error}`]),
    ...(status === "completed" && "output" in expected
      ? differs(`L7 the output of ${id}`, output, expected.output)
      : []),
    ...differs(`O2 delivery ids of ${id}`, new Set(received.map((one) => one.id)).size, 1),
    ...differs(
      `O1 the event of ${id}`,
      [event?.data?.status, event?.data?.output],
      [status, output],
    ),
  ];
}

/** L4: the user messages of a thread, each once and in order. */
async function threadProblems(verbs: Verbs, thread: string, ids: readonly string[]) {
  const messages = await verbs.threadMessages(thread);
  const asked = messages.filter(({ role }) => role === "user").map(({ id }) => id);
  return differs(`L4 user messages of ${thread}`, asked, ids);
}

type SubmitOptions = NonNullable<Parameters<Verbs["submitMessages"]>[1]>;

/** Submits under the id of the run, so that a repetition submits nothing new. */
const submit =
  (script: (id: string) => Script, options: SubmitOptions = {}): Call<unknown> =>
  (verbs, id) =>
    verbs.submitMessages([message({ id, ...script(id) }, `asked-${id}`)], {
      submissionId: id,
      idempotencyKey: id,
      notify: NOTIFY,
      ...options,
    });

const SUBMISSIONS = (host: Host): Scenario[] => [
  {
    name: "L1 L4 L6 L7 O1 O2: submitMessages with a tool in a thread",
    steps: [
      submit((id) => ({ tool: { name: "charge", input: { account: id } }, text: `paid ${id}` }), {
        thread: "orders",
      }),
    ],
    check: async (verbs, id) => {
      const times = charges.count(id);
      const replies = (await verbs.threadMessages("orders")).filter(
        ({ role }) => role === "assistant",
      );
      return [
        ...(await endProblems(verbs, id, { status: ["completed"] })),
        ...(await threadProblems(verbs, "orders", [`asked-${id}`])),
        // A call without a recorded result is not repeated: its effect may be missing.
        ...(times <= 1 ? [] : [`L6 charged ${times} times`]),
        ...(replies.some(({ parts }) => joinTexts(parts).includes(`paid ${id}`))
          ? []
          : ["L4 the reply is not in the thread"]),
      ];
    },
  },
  {
    name: "L1 L7 O1 O2: submitMessages with an output",
    steps: [submit((id) => ({ answer: { title: id } }), { output: TITLE })],
    check: async (verbs, id) => [
      ...(await endProblems(verbs, id, { status: ["completed"], output: { title: id } })),
      ...(await threadProblems(verbs, "main", [`asked-${id}`])),
    ],
  },
  {
    name: "L1 L3 L4 O1: submitMany",
    steps: [
      (verbs, id) =>
        verbs.submitMany(
          ["a", "b", "c", "d"].map((part) => ({
            messages: [message({ id, text: `${part} ${id}` }, `${part}-${id}`)],
            options: {
              submissionId: `${part}-${id}`,
              notify: NOTIFY,
              thread: part === "c" ? "side" : part === "d" ? "isolated" : "main",
            },
          })),
        ),
    ],
    check: async (verbs, id) => {
      const ends = ["a", "b", "c", "d"].map((part) =>
        endProblems(verbs, `${part}-${id}`, { status: ["completed"], output: `${part} ${id}` }),
      );
      return [
        ...(await Promise.all(ends)).flat(),
        ...(await threadProblems(verbs, "main", [`a-${id}`, `b-${id}`])),
        ...(await threadProblems(verbs, "side", [`c-${id}`])),
      ];
    },
  },
  {
    name: "L1 L5 O1: cancelSubmission of a running and of a pending one",
    steps: [
      submit(() => ({ delayMs: 60 })),
      (verbs, id) =>
        verbs.submitMessages([message({ id }, `late-${id}`)], {
          submissionId: `late-${id}`,
          notify: NOTIFY,
        }),
      (verbs, id) => verbs.cancelSubmission(`late-${id}`),
      (verbs, id) => verbs.cancelSubmission(id, "not needed"),
    ],
    check: async (verbs, id) => {
      const late = await verbs.inspectSubmission(`late-${id}`);
      const messages = await verbs.threadMessages("main");
      const isSaid = messages.some((one) => one.id === `late-${id}`);
      return [
        ...(await endProblems(verbs, id, { status: ["aborted", "completed"] })),
        ...(await endProblems(verbs, `late-${id}`, { status: ["aborted", "completed"] })),
        ...(late?.attempts === 0 && isSaid ? ["L5 a cancelled one has left its message"] : []),
      ];
    },
  },
  {
    name: "L1 L4 O1: retrySubmission",
    ...(!isLong(host) && { sampleStride: STRIDES.some }),
    prepare: async (verbs, id) => {
      await submit(() => ({ fail: "no", failTimes: 1 }), { retry: { maxAttempts: 1 } })(verbs, id);
      await verbs.waitForSubmission(id);
    },
    steps: [(verbs, id) => verbs.retrySubmission(id)],
    check: async (verbs, id) => {
      const all = await verbs.listSubmissions();
      const [latest] = all;
      return [
        ...differs(
          "L1 the submissions",
          all.map(({ status }) => status),
          ["completed", "error"],
        ),
        ...(latest ? await endProblems(verbs, latest.submissionId, { status: ["completed"] }) : []),
        ...(await endProblems(verbs, id, { status: ["error"] })),
        ...(await threadProblems(verbs, "main", [`asked-${id}`])),
      ];
    },
  },
  {
    name: "L1 L5 O1: clearThread",
    steps: [
      submit(() => ({ delayMs: 60 }), { thread: "side" }),
      (verbs, id) =>
        verbs.submitMessages([message({ id }, `late-${id}`)], {
          submissionId: `late-${id}`,
          thread: "side",
          notify: NOTIFY,
        }),
      (verbs) => verbs.clearThread("side"),
    ],
    check: async (verbs, id) => [
      ...(await endProblems(verbs, id, { status: ["aborted", "skipped", "completed"] })),
      ...(await endProblems(verbs, `late-${id}`, { status: ["skipped", "aborted", "completed"] })),
      ...differs("L5 messages of the thread", (await verbs.threadMessages("side")).length, 0),
    ],
  },
  {
    name: "L8 O1: a provider that is busy too often",
    steps: [
      submit(() => ({ fail: "busy", status: 503 }), {
        retry: { maxAttempts: 2 },
        thread: "side",
      }),
    ],
    check: async (verbs, id) => {
      const [asked] = await verbs.threadMessages("side");
      const calls = modelCalls.get(joinTexts(asked?.parts ?? [])) ?? 0;
      const { attempts } = (await verbs.inspectSubmission(id)) ?? {};
      return [
        ...(await endProblems(verbs, id, { status: ["error"] })),
        // An attempt counts before the model is called. The scripted model answers without a request, so a crash may
        // undo the claims that calls to a provider would have waited for.
        ...(attempts === 2 && calls <= 4 ? [] : [`L8 ${attempts} attempts, ${calls} calls`]),
      ];
    },
  },
  {
    name: "L1 L4 O1: a message that joins a running turn",
    steps: [
      submit((id) => ({
        tools: [
          { name: "lookUp", input: { account: id } },
          { name: "lookUp", input: { account: `${id} again` } },
        ],
        delayMs: 30,
      })),
      async (verbs: Verbs, id: string) => {
        // Before a turn that has not begun, it would go first.
        await until(async () => (await verbs.inspectSubmission(id))?.status !== "pending");
        return verbs.submitMessages([message({ id: `late-${id}` }, `late-${id}`)], {
          submissionId: `late-${id}`,
          whenBusy: "steer",
          notify: NOTIFY,
        });
      },
    ],
    check: async (verbs: Verbs, id: string) => [
      ...(await endProblems(verbs, id, { status: ["completed"] })),
      ...(await endProblems(verbs, `late-${id}`, { status: ["completed"] })),
      ...(await threadProblems(verbs, "main", [`asked-${id}`, `late-${id}`])),
    ],
  },
  {
    name: "L1: deleteSubmission",
    sampleStride: STRIDES.few,
    prepare: async (verbs, id) => {
      await submit(() => ({}))(verbs, id);
      await verbs.waitForSubmission(id);
    },
    steps: [(verbs, id) => verbs.deleteSubmission(id)],
    check: async (verbs, id) => [
      ...differs("L1 the submission", await verbs.inspectSubmission(id), null),
      ...differs("L1 the submissions", await verbs.listSubmissions(), []),
    ],
  },
];

/** Scenarios of a workflow, whose instance has the id of the run. */
const WORKFLOWS = (host: Host): Scenario[] => {
  const start =
    (plan: (id: string) => Plan): Call<unknown> =>
    (verbs, id) =>
      verbs.runWorkflow(host.workflow, plan(id), { id: `wf-${id}`, ifExists: "return" });
  const isOver: Objects["isOver"] = async (stub, { id }) => {
    const instance = await host.workflows.get(`wf-${id}`);
    const { status } = await instance.status();
    // A workflow of the SDK fails if its agent is down when it begins, and an operator restarts it.
    if (status === "errored") await instance.restart();
    return status === "complete" && (await inspectWork(stub as object)).open.length === 0;
  };
  const readOutput = async (id: string) =>
    (await (await host.workflows.get(`wf-${id}`)).status()).output;
  // The wake at the deadline of a wait may lapse.
  const common = { isOver, expect: { alarm: true } };
  return [
    {
      ...common,
      name: "W1 W2: step.prompt",
      steps: [start((id) => ({ step: "answer", prompt: ask({ id, answer: { title: id } }) }))],
      check: async (verbs, id) => [
        ...differs("W1 the output", await readOutput(id), { title: id }),
        ...differs("W1 submissions", (await verbs.listSubmissions()).length, 1),
      ],
    },
    {
      ...common,
      name: "W1 W2: step.promptAll",
      steps: [
        start((id) => ({
          step: "all",
          items: ["a", "b", "c"].map((part) => ask({ id: `${part}-${id}`, text: `${part} ${id}` })),
        })),
      ],
      check: async (verbs, id) => {
        const found = JSON.stringify(await readOutput(id));
        const texts = ["a", "b", "c"].map((part) => `${part} ${id}`);
        const places = texts.map((text) => found.indexOf(text));
        const isOrdered = places.every((at, index) => at > (places[index - 1] ?? -1));
        return [
          ...(isOrdered ? [] : [`W1 the answers: ${found}`]),
          ...differs("W1 submissions", (await verbs.listSubmissions()).length, 3),
        ];
      },
    },
    {
      ...common,
      name: "W2 W3: step.approval",
      sampleStride: STRIDES.some,
      prepare: async (verbs, id) => {
        await start(() => ({ step: "approval" }))(verbs, id);
        while ((await capabilitiesOf(verbs).approvals.list()).items.length === 0)
          await new Promise((resolve) => setTimeout(resolve, 20));
      },
      steps: [
        async (verbs) => {
          const { approvals } = capabilitiesOf(verbs);
          const [open] = (await approvals.list()).items;
          // Without one, the decision was stored before the crash.
          if (open) await approvals.grant(open.approvalId, { payload: { amount: 5 }, by: "ada" });
        },
        // The first decision counts.
        async (verbs) => {
          const { approvals } = capabilitiesOf(verbs);
          const [decided] = (await approvals.list({ status: ["approved", "rejected"] })).items;
          await approvals.reject(decided?.approvalId ?? "", { by: "eve" });
        },
      ],
      check: async (verbs, id) => {
        const decided = await capabilitiesOf(verbs).approvals.list({ status: "approved" });
        const output = (await readOutput(id)) as { approved?: boolean; payload?: unknown };
        return [
          ...differs("W3 the output", output?.approved, true),
          ...differs(
            "W3 decisions",
            decided.items.map(({ by, payload }) => [by, payload]),
            [["ada", { amount: 5 }]],
          ),
        ];
      },
    },
  ];
};

type Putting = { put(destination: unknown, event: unknown, options: { id: string }): string };

/** Puts an event under the id of the run, in the code of the object. */
async function put(host: Host, verbs: Verbs, id: string, maxAttempts: number): Promise<void> {
  // Starts the object.
  await verbs.submissionStats();
  await runInDurableObject(host.objects.getByName(id), (object) => {
    const { outbox, durable } = object as unknown as {
      outbox?: Putting;
      durable?: { outbox: Putting };
    };
    const to = method("receive", { policy: { maxAttempts } });
    (outbox ?? durable?.outbox)?.put(to, { data: { key: id } }, { id });
  });
}

const OUTBOX = (host: Host): Scenario[] => [
  {
    name: "O1 O2: outbox.put",
    sampleStride: STRIDES.some,
    prepare: (verbs) => verbs.submissionStats(),
    steps: [(verbs, id) => put(host, verbs, id, 5)],
    check: (_, id) =>
      differs("O2 ids", [...new Set(deliveries.get(id).map((one) => one.id))], [id]),
  },
  {
    name: "O3: outbox.redrive",
    sampleStride: STRIDES.some,
    prepare: async (verbs, id) => {
      refusals.set(id, 1);
      await put(host, verbs, id, 1);
      while ((await capabilitiesOf(verbs).outbox.countDeadLetters()) === 0)
        await new Promise((resolve) => setTimeout(resolve, 20));
    },
    steps: [(verbs, id) => capabilitiesOf(verbs).outbox.redrive(id)],
    check: async (verbs, id) => [
      ...differs("O2 ids", [...new Set(deliveries.get(id).map((one) => one.id))], [id]),
      ...differs("O3 dead letters", await capabilitiesOf(verbs).outbox.countDeadLetters(), 0),
    ],
  },
];

/** Occurrences of `note` that a backfill runs: those of three days. */
const BACKFILLED = { from: "2026-03-01T00:00:00Z", to: "2026-03-04T00:00:00Z" };

const SCHEDULES: readonly Scenario[] = [
  {
    name: "S1: trigger of a handler and of a prompt",
    prepare: (verbs) => capabilitiesOf(verbs).schedules.list(),
    steps: [
      (verbs, id) => capabilitiesOf(verbs).schedules.trigger("note", { key: id }),
      (verbs, id) => capabilitiesOf(verbs).schedules.trigger("ask", { key: id }),
    ],
    check: async (verbs, id) => {
      const { schedules } = capabilitiesOf(verbs);
      const [noted, asked] = [await schedules.runs("note"), await schedules.runs("ask")];
      const statuses = [...noted.items, ...asked.items].map(({ status }) => status);
      const keys = new Set(taskRuns.get(`${id} note`));
      const submissions = await verbs.listSubmissions();
      return [
        ...differs("S1 the runs", statuses, ["completed", "completed"]),
        ...differs("S1 keys of the effect", [...keys], [noted.items[0]?.idempotencyKey]),
        ...differs(
          "S1 submissions",
          submissions.map(({ status, submissionId }) => [status, submissionId]),
          [["completed", asked.items[0]?.submissionId]],
        ),
      ];
    },
  },
  {
    name: "S1 S4: backfill",
    sampleStride: STRIDES.some,
    prepare: (verbs) => capabilitiesOf(verbs).schedules.list(),
    steps: [(verbs) => capabilitiesOf(verbs).schedules.backfill("note", BACKFILLED)],
    check: async (verbs, id) => {
      const { items } = await capabilitiesOf(verbs).schedules.runs("note");
      const keys = items.map(({ idempotencyKey }) => idempotencyKey).toSorted();
      return [
        ...differs(
          "S1 the runs",
          items.map(({ status, cause }) => [status, cause]),
          Array.from({ length: 3 }, () => ["completed", "backfill"]),
        ),
        ...differs("S1 keys of effects", [...new Set(taskRuns.get(`${id} note`))].toSorted(), keys),
      ];
    },
  },
  {
    name: "S1: pause and resume",
    sampleStride: STRIDES.few,
    prepare: (verbs) => capabilitiesOf(verbs).schedules.list(),
    steps: [
      (verbs) => capabilitiesOf(verbs).schedules.pause("note", "holidays"),
      (verbs) => capabilitiesOf(verbs).schedules.pause("ask", "holidays"),
      (verbs) => capabilitiesOf(verbs).schedules.resume("ask"),
    ],
    check: async (verbs) => {
      const { schedules } = capabilitiesOf(verbs);
      const [noted, asked] = [await schedules.inspect("note"), await schedules.inspect("ask")];
      return [
        ...differs("S1 note", [noted?.state, noted?.paused?.note], ["paused", "holidays"]),
        ...differs("S1 ask", [asked?.state, asked?.next === null], ["active", false]),
      ];
    },
  },
  {
    name: "S1: skipNext",
    sampleStride: STRIDES.few,
    prepare: async (verbs, id) => {
      const task = await capabilitiesOf(verbs).schedules.inspect("note");
      nextOccurrences.set(id, task?.next ?? 0);
    },
    steps: [
      async (verbs, id) => {
        const { schedules } = capabilitiesOf(verbs);
        // Otherwise it was skipped before the crash.
        if ((await schedules.inspect("note"))?.next === nextOccurrences.get(id))
          await schedules.skipNext("note");
      },
    ],
    check: async (verbs, id) => {
      const { schedules } = capabilitiesOf(verbs);
      const first = nextOccurrences.get(id) ?? 0;
      const { items } = await schedules.runs("note");
      const { next = null } = (await schedules.inspect("note")) ?? {};
      return [
        ...differs(
          "S1 the runs",
          items.map(({ status, scheduledFor }) => [status, scheduledFor]),
          [["skipped", first]],
        ),
        ...(next !== null && next > first + DAY / 2 ? [] : [`S1 the next occurrence is ${next}`]),
      ];
    },
  },
];

/** The next occurrence of `note` at the start of a run, by its object. */
const nextOccurrences = new Map<string, number>();

/** Sends a signed request to the receiver of the Worker, as a sender that repeats what fails. */
async function sendArrival(host: Host, id: string): Promise<void> {
  const body = JSON.stringify({
    host: host.title,
    agent: id,
    calls: ["submit"],
    key: id,
  } satisfies ArrivalBody);
  const time = String(Math.floor(Date.now() / 1_000));
  const { HOOK_SECRET } = env as unknown as { HOOK_SECRET: string };
  const signature = createHmac("sha256", HOOK_SECRET).update(`${time}.${body}`).digest("hex");
  const headers = {
    "content-type": "application/json",
    "x-signature": signature,
    "x-time": time,
    "x-id": id,
    "x-type": "paid",
  };
  const request = new Request(`https://app.example/hooks/${SOURCE}`, {
    method: "POST",
    body,
    headers,
  });
  const response = await receiveWebhook(request, env, createExecutionContext());
  if (!response?.ok) throw new Error(`The receiver has answered ${response?.status}`);
}

const INBOUND = (host: Host): Scenario[] => [
  {
    name: "I1 L1: an inbound event that submits a message",
    ...(!isLong(host) && { sampleStride: STRIDES.some }),
    prepare: (verbs) => verbs.submissionStats(),
    steps: [(_, id) => sendArrival(host, id)],
    check: async (verbs, id) => {
      const { items } = await capabilitiesOf(verbs).inbound.list();
      const submissions = await verbs.listSubmissions();
      return [
        ...differs(
          "I1 the log",
          items.map((one) => [one.id, one.verdict, one.calls.length]),
          [[id, "accepted", 1]],
        ),
        ...differs(
          "L1 the submissions",
          submissions.map(({ status, output }) => [status, output]),
          [["completed", `You said: ${id}`]],
        ),
        ...(await threadProblems(verbs, "main", [`message-${id}`])),
      ];
    },
  },
];

/** All scenarios of a host, by the names of their tests. */
export function makeScenarios(
  host: Host,
): { name: string; scenario: Objects; sampleStride: number }[] {
  const turn = isLong(host) ? STRIDES.longTurn : STRIDES.turn;
  const scheduled = SCHEDULES.map((scenario) => ({ ...scenario, isScheduled: true }));
  return [
    ...SUBMISSIONS(host),
    ...WORKFLOWS(host),
    ...OUTBOX(host),
    ...INBOUND(host),
    ...scheduled,
  ].map((scenario) => ({
    name: scenario.name,
    scenario: build(host, scenario),
    sampleStride: scenario.sampleStride ?? turn,
  }));
}
