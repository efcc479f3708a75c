/**
 * Starts a Workflow instance, by `create()` of its binding: once for each id, however often it is tried. An attempt
 * that an earlier one may have come before looks for the instance first. Failures that no retry can help:
 *
 * | failure | why |
 * |---|---|
 * | the id has an instance already | ids are unique; `ifExists: "return"` accepts it |
 * | the id or the params are refused | the next attempt has the same |
 */

import { preview } from "../../core/json.ts";
import { UndeliverableError, WorkflowExistsError } from "../errors.ts";
import type {
  Adapter,
  CreateInstance,
  Delivery,
  StartWorkflow,
  WorkflowStartDestination,
  WorkflowStartEvent,
} from "../types.ts";
import { Bindings, problemOfTexts, says } from "./bindings.ts";

/** The platform names it in the message, as in `(instance.already_exists) Workflow instance ...`. */
const EXISTS = /\binstance\.already_exists\b/;
const NO_INSTANCE = /\binstance\.not_found\b/;
/** Of the id or of the params, which are the same in the next attempt. */
const REFUSED = /\binstance\.invalid_id\b|\binvalid id\b|too[ _]large|limited to \d+ ?MiB/i;
/** https://developers.cloudflare.com/workflows/reference/limits/ */
const INSTANCE_ID = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,99}$/;
/** So that the delivery id, which has both names in it, stays within its limit. */
const MAX_BINDING = 100;

/** Without tracking: in a plain Durable Object nobody keeps a list of instances. */
const untracked: StartWorkflow = async ({ instance, params, retention }, create) => {
  await create({ id: instance, params, ...(retention && { retention }) });
};

export type WorkflowStartAdapterOptions = {
  /** The object's bindings. */
  readonly env: object;
  /** Which instance of the object this is. */
  readonly life: string;
  /** How an instance is started; a host that tracks its instances passes its own. */
  readonly run: StartWorkflow | undefined;
};

/** Makes the adapter for starts of Workflow instances. */
export function workflowStartAdapter({
  env,
  life,
  run = untracked,
}: WorkflowStartAdapterOptions): Adapter<WorkflowStartDestination> {
  const workflows = new Bindings<Workflow>(env, {
    what: "Workflow",
    section: "workflows",
    methods: ["create", "get"],
  });
  const keyOf = ({ workflow, instance }: WorkflowStartDestination) =>
    `start ${JSON.stringify([workflow, instance])}`;
  // The attempts whose time was over, and which go on: the next attempt must not create a second instance beside them.
  const underWay = new Map<string, Promise<void>>();
  const attempt = async (to: WorkflowStartDestination, { id, attempt, event }: Delivery) => {
    const binding = workflows.get(to.workflow);
    const { life: putIn, ...content } = event as WorkflowStartEvent;
    // Whatever number an attempt has: an earlier instance of the object may have made one, and died with it.
    const isFirst = attempt === 1 && putIn === life;
    const start = { ...to, ...content, deliveryId: id, isFirst };
    try {
      await run(start, creatorOf(binding, to, isFirst));
    } catch (error) {
      throw error instanceof WorkflowExistsError ? refused(to, error) : error;
    }
  };
  return {
    // The event does not leave the object as a delivery: create() gets the params, of which put() knows the size.
    maxBytes: Number.POSITIVE_INFINITY,
    timeoutMs: 30_000,
    keyOf,
    problemOf({ workflow, instance, ifExists }) {
      const problem = problemOfTexts({ workflow, instance });
      if (problem) return problem;
      if (workflow.length > MAX_BINDING) {
        return `has a workflow of ${workflow.length} characters; expected at most ${MAX_BINDING}.`;
      }
      if (!INSTANCE_ID.test(instance)) {
        return `has ${preview(instance)} as id; expected 1 to 100 of a-z, A-Z, 0-9, _ and -, and no - at the beginning.`;
      }
      if (ifExists !== undefined && ifExists !== "throw" && ifExists !== "return") {
        return `has ${preview(ifExists)} as ifExists; expected "throw" or "return", or leave it out.`;
      }
      return workflows.problemOf("workflow", workflow);
    },
    async deliver(to, delivery) {
      const key = keyOf(to);
      const earlier = underWay.get(key);
      // The answer may be what was lost: then the instance is there, and is found.
      if (earlier && !(await exists(workflows.get(to.workflow), to.instance))) return earlier;
      const begun = attempt(to, delivery as Delivery);
      underWay.set(key, begun);
      const forget = () => underWay.get(key) === begun && underWay.delete(key);
      begun.then(forget, forget);
      await begun;
    },
  };
}

/** `create()` of a binding, which finds what an earlier attempt has created. */
function creatorOf(
  binding: Workflow,
  to: WorkflowStartDestination,
  isFirst: boolean,
): CreateInstance {
  const { instance: id, ifExists } = to;
  const found = async () => ({ instance: await binding.get(id), isNew: false });
  return async (options) => {
    if (!isFirst && (await exists(binding, id))) return found();
    try {
      const instance = await binding.create(options);
      // The local engine answers create() before it has stored the instance, and status() afterwards.
      await instance.status();
      return { instance, isNew: true };
    } catch (error) {
      if (!says(error, EXISTS)) throw says(error, REFUSED) ? refused(to, error as Error) : error;
      if (isFirst && ifExists !== "return") throw new WorkflowExistsError(to, { cause: error });
      return found();
    }
  };
}

async function exists(binding: Workflow, id: string): Promise<boolean> {
  try {
    await (await binding.get(id)).status();
    return true;
  } catch (error) {
    if (says(error, NO_INSTANCE)) return false;
    throw error;
  }
}

function refused(
  { workflow, instance }: WorkflowStartDestination,
  cause: Error,
): UndeliverableError {
  const what = `Instance ${preview(instance)} of Workflow ${workflow} was not started`;
  return new UndeliverableError(`${what}: ${cause.message}`, { cause });
}
