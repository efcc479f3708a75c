/** What is refused at the waits. */

/** A request, a result or a decision that cannot be taken. Nothing was stored. */
export class InvalidWaitError extends Error {
  override readonly name = "InvalidWaitError";
  constructor(
    /** What of it, e.g. `request`. */
    readonly field: string,
    message: string,
  ) {
    super(message);
  }
}

const REMEDIES: Readonly<Record<string, string>> = {
  codemode:
    "Make its class by withCodemode() of perdure/codemode: `class Desk extends withCodemode(DurableThink) {}`.",
};

/** The error of a step whose kind the agent's class does not have. */
export function missingKind(kind: string): InvalidWaitError {
  const remedy = REMEDIES[kind] ?? "Deploy the agent in the version of its workflows.";
  return new InvalidWaitError("kind", `The agent takes no step of the kind "${kind}". ${remedy}`);
}

/** What cannot be asked of an approval, or decided about it. Nothing was stored, and the approval is as it was. */
export class InvalidApprovalError extends Error {
  override readonly name = "InvalidApprovalError";
  constructor(
    /** The argument or option that is wrong, e.g. `payload`. */
    readonly field: string,
    message: string,
  ) {
    super(message);
  }
}
