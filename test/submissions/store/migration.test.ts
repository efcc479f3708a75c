/** Storage that an earlier version of the ledger wrote. */

import { describe, expect, it } from "vitest";
import { digest } from "../../../src/core/text.ts";
import { MIGRATIONS } from "../../../src/submissions/store/schema.ts";
import { givenLedger } from "../../support/given.ts";
import { within } from "../../support/ledger.ts";

const SCHEMA =
  "CREATE TABLE perdure_schema (module TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID";

describe("storage without steps of tools", () => {
  it("L6: a tool call that was interrupted before an update is not run again, also by a durable tool", async () => {
    const stub = givenLedger();
    await within(stub, (_object, { storage: { sql } }) => {
      sql.exec(SCHEMA);
      sql.exec(MIGRATIONS[0]);
      sql.exec("INSERT INTO perdure_schema VALUES ('submissions', 1)");
      sql.exec(`INSERT INTO perdure_submissions (seq, submission_id, status, attempts, created_at, settled_at, messages)
                VALUES (1, 's', 'error', 1, 1, ${Date.now()}, '[]')`);
      sql.exec(`INSERT INTO perdure_tool_calls (seq, ordinal, attempt, started_at, tool_call_id, tool, input_digest, input)
                VALUES (1, 1, 1, 1, 'call', 'act', '${digest("{}")}', '{}')`);
    });
    expect(await stub.inspect("s")).toMatchObject({ status: "error" });
    await within(stub, async (object, { storage: { sql } }) => {
      const query = "SELECT version FROM perdure_schema WHERE module = 'submissions'";
      expect(sql.exec(query).one()).toEqual({ version: MIGRATIONS.length });
      sql.exec("UPDATE perdure_submissions SET status = 'running', settled_at = NULL");
      const calls = object.submissions.turns.toolCalls({ seq: 1, attempt: 1 }, () => []);
      const call = { toolCallId: "again", toolName: "act", input: {}, isDurable: true };
      expect(await calls.start(call)).toMatchObject({
        action: "fail",
        error: { message: expect.stringContaining("Its effect is unknown") },
      });
      expect(object.rowsIn("perdure_tool_steps")).toBe(0);
    });
  });
});
