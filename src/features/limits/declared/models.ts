/** Which models a pattern names. A model is `<provider>/<modelId>`: `openai/gpt-5-mini`. */

/** The most characters of a pattern. */
export const MAX_PATTERN = 200;

/**
 * Whether a pattern names a model, by its whole name or by its id alone.
 *
 * @param pattern `*` stands for any characters, also for a slash
 */
export function namesModel(pattern: string, model: string): boolean {
  return matchesGlob(pattern, model) || matchesGlob(pattern, idOf(model));
}

/** What follows the provider: it may have slashes of its own, e.g. `workers-ai/@cf/meta/llama-3`. */
function idOf(model: string): string {
  return model.slice(model.indexOf("/") + 1);
}

/** In linear time for each part, so that no pattern is slow. */
function matchesGlob(pattern: string, text: string): boolean {
  const [first = "", ...parts] = pattern.split("*");
  const last = parts.pop();
  if (last === undefined) return pattern === text;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of parts) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}

/** The patterns, so that the first one that matches is the most specific: names before patterns, then by their characters. */
export function bySpecificity(patterns: readonly string[]): string[] {
  const weightOf = (pattern: string) => {
    const characters = pattern.replaceAll("*", "").length;
    return pattern.includes("*") ? characters : MAX_PATTERN + characters;
  };
  return [...patterns].sort((one, other) => weightOf(other) - weightOf(one));
}

/**
 * Whether a provider counts input from its cache for its limits of tokens: OpenAI and Azure do, also behind a gateway. Anthropic,
 * Bedrock and Groq do not. https://platform.claude.com/docs/en/api/rate-limits#cache-aware-itpm
 *
 * @param model `<provider>/<modelId>`
 */
export function countsCachedInput(model = ""): boolean {
  return /(^|\/)(openai|azure)\b/.test(model);
}
