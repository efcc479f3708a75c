/**
 * Cases that have to agree and do not yet. A case of this list fails as soon as both sides agree, so that the list can only
 * become shorter.
 */
export const pendingFixes: readonly string[] = [];
