/** Reads the output of a submission by the schema that it was asked for by. Runs beside the agent, and needs nothing of it. */

import { invalidOption } from "../core/options/options.ts";
import {
  type AnySchema,
  isStandard,
  type OutputOf,
  SchemaMismatchError,
  validated,
} from "../core/schema/schema.ts";
import { SubmissionOutputError } from "./errors.ts";

/**
 * The output of a submission that has completed, as the schema takes it: with its defaults, transforms and refinements.
 *
 * Use it wherever a submission or the event of its end arrives: in the agent, behind RPC, in a webhook.
 *
 * @param schema the schema that the output was asked for by
 * @param submission what `inspectSubmission()` or `waitForSubmission()` returned, or the `data` of a SubmissionEvent
 * @throws SubmissionOutputError if there is no output, because the submission is unknown, open or failed, or if it does
 *   not match the schema; InvalidOptionError for a value that is no schema
 * @example
 * const found = await agent.waitForSubmission(submissionId);
 * const triage = await readOutput(Triage, found);
 */
export async function readOutput<Schema extends AnySchema>(
  schema: Schema,
  submission: EndedSubmission | null,
): Promise<OutputOf<Schema>> {
  if (!isStandard(schema)) {
    throw invalidOption("schema", schema, "the schema that the output was asked for by");
  }
  if (!submission) {
    throw new SubmissionOutputError(
      "There is no output: the submission is unknown, or was deleted by retention.",
    );
  }
  const { submissionId, status, output, error } = submission;
  if (status !== "completed") {
    const isOpen = status === "pending" || status === "running";
    const why = isOpen ? "Wait for its end." : (error ?? "");
    const message = `Submission ${submissionId} has no output: its status is "${status}". ${why}`;
    throw new SubmissionOutputError(message.trim(), submissionId, status);
  }
  try {
    return await validated(schema, output);
  } catch (cause) {
    if (!(cause instanceof SchemaMismatchError)) throw cause;
    const message = `The output of submission ${submissionId} does not match the schema: ${cause.message}`;
    throw new SubmissionOutputError(message, submissionId, status, cause);
  }
}

/** The argument of {@link readOutput}: a submission, or the event of its end. */
type EndedSubmission = {
  readonly submissionId: string;
  readonly status: string;
  readonly output?: unknown;
  readonly error?: string;
};
