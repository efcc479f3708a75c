/** What can be a destination. Looks at the value alone. */

/** https://developers.cloudflare.com/workflows/reference/limits/ */
const EVENT_TYPE = /^[a-zA-Z0-9_-]{1,100}$/;
const MAX_NAME = 256;

/** What is wrong with a destination, to be read after its name; undefined for a right one. */
export function problemOfDestination(destination: unknown): string | undefined {
  if (typeof destination !== "object" || destination === null) {
    return "is no destination; expected a list of { kind, workflow, instance, eventType }.";
  }
  const { kind, workflow, instance, eventType } = destination as Record<string, unknown>;
  if (kind !== "workflow") {
    return `has the kind ${JSON.stringify(kind)}; there is "workflow".`;
  }
  for (const [name, text] of Object.entries({ workflow, instance })) {
    if (typeof text === "string" && text !== "" && text.length <= MAX_NAME) continue;
    return `has ${shown(text)} as ${name}; expected a text of 1 to ${MAX_NAME} characters.`;
  }
  if (typeof eventType === "string" && EVENT_TYPE.test(eventType)) return undefined;
  return `has ${shown(eventType)} as eventType; expected 1 to 100 of a-z, A-Z, 0-9, _ and -.`;
}

function shown(value: unknown): string {
  return String(JSON.stringify(value)).slice(0, 100);
}
