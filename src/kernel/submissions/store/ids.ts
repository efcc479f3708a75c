/**
 * Ids of submissions, and how their rows are found. A generated id begins with the number of its row, so that no index has to
 * hold it. Those that a caller has chosen are in an index of their own, whatever their form.
 */

const GENERATED = /^([0-9a-z]{1,11})-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const RADIX = 36;

/** The id of the submission with this number. */
export function generatedId(seq: number, uuid: string): string {
  return `${seq.toString(RADIX)}-${uuid}`;
}

/** The number in an id of this form, or null. */
export function seqIn(submissionId: string): number | null {
  const [, number] = GENERATED.exec(submissionId) ?? [];
  const seq = number === undefined ? Number.NaN : Number.parseInt(number, RADIX);
  return Number.isSafeInteger(seq) ? seq : null;
}

/** SQL for the number of the row with an id, or NULL: by the number in it, or by the index of those that callers have chosen. */
function seqOf(id: string, seq: string): string {
  return `COALESCE((SELECT seq FROM perdure_submissions WHERE seq = ${seq} AND submission_id = ${id}),
    (SELECT seq FROM perdure_submissions WHERE submission_id = ${id} AND is_generated = 0))`;
}

/** Row lookup for one bound id, see {@link bindId}. */
export const SEQ_OF_ID = seqOf("?", "?");

/** In the order of {@link SEQ_OF_ID}. */
export function bindId(submissionId: string): [number | null, string, string] {
  return [seqIn(submissionId), submissionId, submissionId];
}

/** Row lookup for each `value` of json_each(), a list made by {@link bindIds}. */
export const SEQ_OF_EACH = seqOf("value ->> 0", "value ->> 1");

export function bindIds(submissionIds: readonly string[]): string {
  return JSON.stringify(submissionIds.map((id) => [id, seqIn(id)]));
}
