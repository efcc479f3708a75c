/** What model providers refuse outright, so that asking in another way may do better. */

export type ToolRefusal =
  /** It offers tools, and no choice among them. */
  | "toolChoice"
  /** It does without tools. */
  | "tools";

const TOOL_CHOICE = /tool[\s_-]?choice/i;
const TOOLS = /\btools?\b|\bfunction[\s_-]?call(s|ing)?\b|\btool[\s_-]?(use|calls?|calling)\b/i;
/** Statuses of the 4xx that say nothing about the request: it was late, in conflict, too early, one of too many. */
const NOT_ABOUT_IT = new Set([401, 403, 408, 409, 425, 429]);

/**
 * Whether a provider refused a request for its tools, or for the choice of
 * one. Told by a 4xx whose words speak of them, or by the AI SDK's own word
 * that the provider has no such thing; looks through wrappers.
 */
export function toolRefusalOf(error: unknown): ToolRefusal | undefined {
  for (let at = error, depth = 0; at && depth < 8; depth++) {
    const {
      name,
      statusCode,
      message = "",
      responseBody = "",
      lastError,
      cause,
    } = at as Partial<Refused>;
    if (name === "AI_UnsupportedFunctionalityError") return spokenOf(message);
    if (statusCode !== undefined) {
      const isRefused = statusCode >= 400 && statusCode < 500 && !NOT_ABOUT_IT.has(statusCode);
      return isRefused ? spokenOf(`${message}\n${responseBody}`) : undefined;
    }
    at = lastError ?? cause;
  }
  return undefined;
}

function spokenOf(said: string): ToolRefusal | undefined {
  return TOOL_CHOICE.test(said) ? "toolChoice" : TOOLS.test(said) ? "tools" : undefined;
}

/** What errors of model providers carry, as the AI SDK names it. */
type Refused = {
  name: string;
  statusCode: number;
  message: string;
  responseBody: string;
  lastError: unknown;
  cause: unknown;
};
