/** Which agents a command is about: that of `--agent`, the only one, all of them, or the one that has an item. */

import { eachOf } from "../core/each.ts";
import { type OperatorClient, OperatorError } from "../operator/client.ts";
import { quoted } from "../operator/command-line.ts";
import { allAgents } from "../operator/pages.ts";
import type { AgentRef, Details } from "../operator/protocol.ts";
import { CliError, type Common, EXIT, NOT_INSTALLED, note, usageError } from "./context.ts";
import { plain } from "./print/text.ts";

/** Agents that are asked for an item, or followed by `tail`. */
const MAX_AGENTS = 1_000;
/** Agents that are asked at the same time. */
export const AT_ONCE = 8;
/** Agents that a message names. */
const MAX_NAMED = 20;

export const nameOf = ({ agent, name }: AgentRef) => plain(`${agent}/${name}`);

/** The agent of `--agent Class/name`, or the only one there is. @throws CliError */
export async function agentOf(client: OperatorClient, { agent }: Common): Promise<AgentRef> {
  if (agent !== undefined) return refOf(agent);
  const { items, cursor } = await client.agents({ limit: 10 });
  const [only] = items;
  if (only && items.length === 1 && cursor === undefined) return only;
  if (!only) throw noAgents();
  const some = items.map(nameOf).join(", ");
  throw usageError(
    `There are several agents: ${some}${cursor === undefined ? "" : ", ..."}. Pass one with --agent.`,
  );
}

/** The agent of `--agent`, or all of them. @throws CliError */
export async function agentsOf(client: OperatorClient, { agent }: Common): Promise<AgentRef[]> {
  if (agent !== undefined) return [refOf(agent)];
  const all = await allAgents(client, MAX_AGENTS);
  if (all.length === 0) throw noAgents();
  if (all.length <= MAX_AGENTS) return all;
  throw usageError(
    `There are more than ${MAX_AGENTS} agents. Pass one with --agent, as \`perdure agents\` prints it.`,
  );
}

/** Where an item is looked for. An id of `inbound` is `source/id`. */
export type Place = { readonly collection: keyof Details | "threads"; readonly id: string };

/**
 * The agent of `--agent`, the only one, or the one that has this item. All are asked, because several may have it.
 *
 * @param isAction refuses while an agent does not answer, because that one may have it too
 * @throws CliError
 */
export async function agentWith(
  client: OperatorClient,
  options: Common,
  place: Place,
  isAction = false,
): Promise<AgentRef> {
  const refs = await agentsOf(client, options);
  const [only] = refs;
  if (only && refs.length === 1) return only;
  const having = new Set<AgentRef>();
  const silent: string[] = [];
  await eachOf(refs, AT_ONCE, async (ref) => {
    try {
      if (await has(client, ref, place)) having.add(ref);
    } catch (error) {
      const status = error instanceof OperatorError ? error.status : 0;
      // An agent that has gone, and one that nothing can be asked of, or done to.
      if (status === 404 || status === NOT_INSTALLED) return;
      if (status < 500) throw error;
      silent.push(`${nameOf(ref)}: ${(error as OperatorError).message}`);
    }
  });
  const found = refs.filter((ref) => having.has(ref));
  const [one] = found;
  const what = `${place.collection} ${JSON.stringify(place.id)}`;
  const unasked = silent.length === 0 ? "" : ` No answer from ${silentText(silent)}`;
  if (found.length > 1) {
    throw usageError(`Several agents have ${what}. Choose one:\n${commands(found)}`);
  }
  if (!one && silent.length === 0) {
    throw new CliError(EXIT.notFound, `None of ${refs.length} agents has ${what}.`);
  }
  if (!one) throw new CliError(EXIT.unreachable, `No agent that answers has ${what}.${unasked}`);
  if (isAction && silent.length > 0) {
    const remedy = `If you mean ${nameOf(one)}:\n${commands([one])}`;
    throw new CliError(EXIT.unreachable, `Other agents may have ${what}.${unasked}\n${remedy}`);
  }
  note(`${nameOf(one)} has it.${unasked}`);
  return one;
}

async function has(client: OperatorClient, ref: AgentRef, { collection, id }: Place) {
  if (collection !== "threads") return (await client.inspect(ref, collection, id)) !== null;
  return (await client.parts(ref, "threads/messages", id, { limit: 1 })).items.length > 0;
}

type Answered<Answer> = { readonly ref: AgentRef; readonly answer: Answer };

/**
 * Asks one agent of each class, or that of `--agent`, for what all agents of the class share. A class that refuses, or does not
 * install what is asked for, is left out.
 *
 * @param most after so many answers no further class is asked
 * @throws CliError, or the refusal where no class answers
 */
export async function oneOfEachClass<Answer>(
  client: OperatorClient,
  options: Common,
  ask: (ref: AgentRef) => Promise<Answer>,
  most = Number.POSITIVE_INFINITY,
): Promise<[Answered<Answer>, ...Answered<Answer>[]]> {
  const refs = new Map<string, AgentRef>();
  for (const ref of await agentsOf(client, options))
    if (!refs.has(ref.agent)) refs.set(ref.agent, ref);
  const found: Answered<Answer>[] = [];
  let refusal: unknown;
  for (const ref of refs.values()) {
    if (found.length >= most) break;
    try {
      found.push({ ref, answer: await ask(ref) });
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      const { status, message } = error;
      const isRefused = status === 400 || status === NOT_INSTALLED;
      if (!isRefused && status > 0 && status < 500) throw error;
      if (!isRefused) note(`${nameOf(ref)}: ${plain(message)}`);
      if (isRefused || refusal === undefined) refusal = error;
    }
  }
  const [first, ...others] = found;
  if (!first) throw refusal;
  return [first, ...others];
}

function refOf(text: string): AgentRef {
  const slash = text.indexOf("/");
  if (slash > 0) return { agent: text.slice(0, slash), name: text.slice(slash + 1) };
  throw usageError(
    `Invalid --agent ${JSON.stringify(text)}: expected Class/name, as \`perdure agents\` prints it.`,
  );
}

const noAgents = () => new CliError(EXIT.notFound, "The deployment names no agents.");

function silentText(silent: readonly string[]): string {
  const more = silent.length > MAX_NAMED ? ` and ${silent.length - MAX_NAMED} more` : "";
  return `${silent.slice(0, MAX_NAMED).join("; ")}${more}`;
}

/** This command, for each of these agents. */
function commands(refs: readonly AgentRef[]): string {
  const words: readonly string[] = process.argv.slice(2);
  const verb = words.findIndex((word) => !word.startsWith("-")) + 1;
  const lines = refs.slice(0, MAX_NAMED).map(({ agent, name }) => {
    const all = words.toSpliced(verb, 0, "--agent", `${agent}/${name}`);
    return `  npx perdure ${all.map(quoted).join(" ")}`;
  });
  if (refs.length > MAX_NAMED) lines.push(`  and ${refs.length - MAX_NAMED} more`);
  return lines.join("\n");
}
