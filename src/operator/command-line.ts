/** An action as a command of `npx perdure`, to show it and to copy it. */

import type { Action, AgentRef } from "./protocol.ts";

/**
 * The command that does an action. Its words are quoted for a shell.
 *
 * @param expects how many items a finding has counted: the command warns where its filter selects another number
 */
export function commandOf({ agent, name }: AgentRef, action: Action, expects?: number): string {
  const expected = "filter" in action && expects !== undefined ? ["--expect", `${expects}`] : [];
  const words = wordsOf(action, [...expected, "--agent", `${agent}/${name}`]);
  return `npx perdure ${words.map(quoted).join(" ")}`;
}

/** The words after `perdure`. @internal */
export function wordsOf(action: Action, flags: readonly string[] = []): string[] {
  const { do: verb, ...fields } = action;
  const values: string[] = [];
  const options: string[] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (name === "filter") options.push(...filterWords(value as object));
    else if (name === "payload") options.push("--payload", JSON.stringify(value));
    else if (name === "from" || name === "to") {
      options.push(`--${name}`, new Date(value as number).toISOString());
    } else if (name === "step") {
      if (value === "failed" || value === "start") {
        options.push(`--from-${value}`);
        continue;
      }
      const { name: step, count } = value as { name: string; count?: number };
      // An option's value may begin with a dash only in one word with its name.
      options.push(`--from=${step}`, ...(count === undefined ? [] : ["--count", String(count)]));
    } else values.push(String(value));
  }
  const isPlain = values.every((value) => !value.startsWith("-"));
  if (isPlain) return [verb, ...values, ...options, ...flags];
  return [verb, ...options, ...flags, "--", ...values];
}

/** Parts of filters that are times: numbers in an action, ISO 8601 in a command. */
export const TIMES: ReadonlySet<string> = new Set([
  "createdAfter",
  "createdBefore",
  "since",
  "until",
]);

/** `--filter name=value` for each. A value that is no text is JSON, and so is a text that looks like JSON. */
function filterWords(filter: object): string[] {
  const entries = Object.entries(filter).filter(([, value]) => value !== undefined);
  if (entries.length === 0) return ["--all"];
  return entries.flatMap(([name, value]) => {
    if (TIMES.has(name) && typeof value === "number") {
      return ["--filter", `${name}=${new Date(value).toISOString()}`];
    }
    const isText = typeof value === "string" && !/^(true|false|-?\d|[[{"])|,/.test(value);
    return ["--filter", `${name}=${isText ? value : JSON.stringify(value)}`];
  });
}

/** For POSIX shells: in single quotes, where a word has a character that a shell reads. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
