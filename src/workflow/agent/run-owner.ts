/**
 * Options that the prompts of a run inherit. They are in the metadata of the run: what the agent tracks of it outlives
 * restarts, and has no other columns.
 */

import { invalidSubmission } from "../../submissions/errors.ts";
import type { Submissions } from "../../submissions/submissions.ts";
import type { OwnerOptions } from "../../submissions/submit-options.ts";

/** Options that the prompts inherit beside the run's metadata. */
export const INHERITED = ["priority", "concurrency", "rate"] as const;
const OWN_KEY = "perdure";

/** The metadata of a run, with the other options. @throws InvalidSubmissionError, FeatureNotInstalledError */
export function runMetadata(
  submissions: Pick<Submissions, "checkOwner">,
  { metadata, ...options }: OwnerOptions,
): { readonly metadata?: Record<string, unknown> } {
  const entries = INHERITED.map((name) => [name, options[name]] as const);
  const inherited = Object.fromEntries(entries.filter(([, value]) => value !== undefined));
  submissions.checkOwner({ ...(metadata && { metadata }), ...inherited });
  if (metadata && OWN_KEY in metadata)
    throw invalidSubmission(
      "metadata",
      `Invalid key ${JSON.stringify(OWN_KEY)} in metadata: it has the options of the run. Use another key.`,
    );
  if (Object.keys(inherited).length === 0) return {};
  return { metadata: { ...metadata, [OWN_KEY]: inherited } };
}

/** Reads {@link runMetadata}. */
export function ownerIn(stored: Record<string, unknown> | null | undefined): OwnerOptions {
  const { [OWN_KEY]: inherited, ...metadata } = stored ?? {};
  return { ...(inherited as OwnerOptions | undefined), metadata };
}
