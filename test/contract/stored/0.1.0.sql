-- Written at 1795634259101.
CREATE TABLE perdure_schema (module TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE perdure_outbox (
     id TEXT PRIMARY KEY,
     destination_key TEXT NOT NULL,
     seq INTEGER NOT NULL,
     due_at INTEGER NOT NULL,
     is_ordered INTEGER NOT NULL,
     attempts INTEGER NOT NULL DEFAULT 1,
     started INTEGER NOT NULL DEFAULT 1,
     interruptions INTEGER NOT NULL DEFAULT 0,
     earlier_attempts INTEGER NOT NULL DEFAULT 0,
     created_at INTEGER NOT NULL,
     queued_at INTEGER NOT NULL,
     unsure_since INTEGER,
     trace_parent TEXT,
     last_error TEXT,
     destination TEXT NOT NULL,
     payload TEXT
   ) WITHOUT ROWID;
CREATE TABLE perdure_outbox_parts (
     id TEXT NOT NULL,
     part INTEGER NOT NULL,
     text TEXT NOT NULL,
     PRIMARY KEY (id, part)
   ) WITHOUT ROWID;
CREATE TABLE perdure_dead_letters (
     id TEXT PRIMARY KEY,
     destination_key TEXT NOT NULL,
     seq INTEGER NOT NULL,
     is_ordered INTEGER NOT NULL,
     attempts INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     died_at INTEGER NOT NULL,
     is_notified INTEGER NOT NULL DEFAULT 0,
     is_uncertain INTEGER NOT NULL,
     trace_parent TEXT,
     last_error TEXT NOT NULL,
     destination TEXT NOT NULL,
     payload TEXT
   ) WITHOUT ROWID;
CREATE TABLE perdure_delivered (
     id TEXT PRIMARY KEY,
     destination_key TEXT NOT NULL,
     attempts INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     delivered_at INTEGER NOT NULL,
     is_whole INTEGER NOT NULL,
     discard_reason TEXT,
     destination TEXT NOT NULL,
     payload TEXT
   ) WITHOUT ROWID;
CREATE TABLE perdure_endpoints (
     key TEXT PRIMARY KEY,
     url TEXT NOT NULL,
     failing_since INTEGER NOT NULL,
     held_until INTEGER,
     disabled_at INTEGER,
     reason TEXT NOT NULL
   ) WITHOUT ROWID;
CREATE TABLE perdure_submissions (
     seq INTEGER PRIMARY KEY,
     submission_id TEXT NOT NULL,
     idempotency_key TEXT,
     status TEXT NOT NULL DEFAULT 'pending',
     attempts INTEGER NOT NULL DEFAULT 0,
     thread TEXT NOT NULL DEFAULT 'main',
     created_at INTEGER NOT NULL,
     started_at INTEGER,
     settled_at INTEGER,
     due_at INTEGER,
     rank INTEGER NOT NULL DEFAULT 0,
     not_before INTEGER,
     expires_at INTEGER,
     key_expires_at INTEGER,
     budget INTEGER,
     resets INTEGER NOT NULL DEFAULT 0,
     rollback_state TEXT,
     is_refused INTEGER NOT NULL DEFAULT 0,
     is_generated INTEGER NOT NULL DEFAULT 0,
     is_retry INTEGER NOT NULL DEFAULT 0,
     merged_into TEXT,
     retried_by TEXT,
     batch TEXT,
     debounce_key TEXT,
     debounce_until INTEGER,
     run TEXT,
     channel TEXT,
     request_id TEXT,
     message_id TEXT,
     finish_reason TEXT,
     trace_parent TEXT,
     retry TEXT,
     usage TEXT,
     error_name TEXT,
     error TEXT,
     notify TEXT,
     metadata TEXT,
     output TEXT,
     timeline TEXT,
     answer TEXT,
     messages TEXT NOT NULL
   );
CREATE TABLE perdure_batches (
     batch TEXT PRIMARY KEY,
     workflow TEXT NOT NULL,
     instance TEXT NOT NULL,
     event_type TEXT,
     proof TEXT,
     fails_fast INTEGER NOT NULL DEFAULT 0
   ) WITHOUT ROWID;
CREATE TABLE perdure_usage (day INTEGER PRIMARY KEY, tokens INTEGER NOT NULL, unmeasured INTEGER NOT NULL DEFAULT 0);
CREATE TABLE perdure_attempts (
     seq INTEGER NOT NULL REFERENCES perdure_submissions (seq) ON DELETE CASCADE,
     attempt INTEGER NOT NULL,
     started_at INTEGER NOT NULL,
     ended_at INTEGER NOT NULL,
     error_name TEXT NOT NULL,
     follow TEXT NOT NULL,
     usage TEXT,
     error TEXT NOT NULL,
     timeline TEXT,
     given TEXT,
     PRIMARY KEY (seq, attempt)
   ) WITHOUT ROWID;
CREATE TABLE perdure_tool_calls (
     seq INTEGER NOT NULL REFERENCES perdure_submissions (seq) ON DELETE CASCADE,
     ordinal INTEGER NOT NULL,
     attempt INTEGER NOT NULL,
     started_at INTEGER NOT NULL,
     ended_at INTEGER,
     tool_call_id TEXT NOT NULL,
     tool TEXT NOT NULL,
     input_digest TEXT NOT NULL,
     outcome TEXT,
     input TEXT NOT NULL,
     value TEXT, call_key TEXT,
     PRIMARY KEY (seq, ordinal)
   ) WITHOUT ROWID;
CREATE TABLE perdure_answer_parts (
     seq INTEGER NOT NULL,
     part INTEGER NOT NULL,
     text TEXT NOT NULL,
     PRIMARY KEY (seq, part)
   ) WITHOUT ROWID;
CREATE TABLE perdure_tool_steps (
     seq INTEGER NOT NULL REFERENCES perdure_submissions (seq) ON DELETE CASCADE,
     ordinal INTEGER NOT NULL,
     step TEXT NOT NULL,
     value TEXT,
     PRIMARY KEY (seq, ordinal, step)
   ) WITHOUT ROWID;
CREATE TABLE perdure_waits (
     seq INTEGER PRIMARY KEY,
     wait_id TEXT NOT NULL UNIQUE,
     idempotency_key TEXT,
     kind TEXT NOT NULL,
     status TEXT NOT NULL DEFAULT 'open',
     run TEXT NOT NULL,
     workflow TEXT NOT NULL,
     instance TEXT NOT NULL,
     step TEXT NOT NULL,
     parent TEXT,
     proof TEXT NOT NULL,
     wake_at INTEGER NOT NULL,
     expires_at INTEGER NOT NULL,
     created_at INTEGER NOT NULL,
     settled_at INTEGER,
     done_at INTEGER,
     topic TEXT,
     answered_by TEXT,
     state TEXT,
     request TEXT NOT NULL,
     result TEXT
   );
CREATE TABLE perdure_tasks (
     task_id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL,
     anchor INTEGER NOT NULL, next_at INTEGER, open_from INTEGER,
     paused_at INTEGER, paused_by TEXT, paused_note TEXT,
     fired INTEGER NOT NULL, runs INTEGER NOT NULL, failures INTEGER NOT NULL, missed INTEGER NOT NULL,
     pruned_completed INTEGER NOT NULL, pruned_failed INTEGER NOT NULL, pruned_skipped INTEGER NOT NULL,
     omitted_at INTEGER
   ) WITHOUT ROWID;
CREATE TABLE perdure_schedule_owner (owner TEXT NOT NULL);
CREATE TABLE perdure_runs (
     task_id TEXT NOT NULL, slot INTEGER NOT NULL, trigger_key TEXT NOT NULL,
     cause TEXT NOT NULL, status TEXT NOT NULL,
     fired_at INTEGER NOT NULL, lag_ms INTEGER NOT NULL,
     attempts INTEGER NOT NULL, not_before INTEGER NOT NULL,
     ended_at INTEGER, submission_id TEXT,
     error_name TEXT, error_message TEXT, reason TEXT,
     PRIMARY KEY (task_id, slot, trigger_key)
   ) WITHOUT ROWID;
CREATE TABLE perdure_workflows (
     seq INTEGER PRIMARY KEY AUTOINCREMENT,
     workflow_id TEXT NOT NULL UNIQUE,
     workflow_name TEXT NOT NULL,
     status TEXT NOT NULL,
     error_name TEXT,
     error TEXT,
     created_at INTEGER NOT NULL,
     updated_at INTEGER NOT NULL,
     completed_at INTEGER,
     metadata TEXT
   );
CREATE TABLE perdure_inbound (
     seq INTEGER PRIMARY KEY,
     source TEXT NOT NULL,
     id TEXT NOT NULL,
     type TEXT NOT NULL,
     verdict TEXT NOT NULL,
     bytes INTEGER NOT NULL,
     hash TEXT NOT NULL,
     received_at INTEGER NOT NULL,
     stored_at INTEGER NOT NULL,
     duplicates INTEGER NOT NULL DEFAULT 0,
     replays INTEGER NOT NULL DEFAULT 0,
     has_conflict INTEGER NOT NULL DEFAULT 0,
     body_bytes INTEGER NOT NULL,
     kept_bytes INTEGER NOT NULL,
     emptied INTEGER NOT NULL,
     replay_of TEXT,
     error TEXT,
     calls TEXT NOT NULL,
     body TEXT,
     UNIQUE (source, id)
   );
CREATE TABLE perdure_actions (
     seq INTEGER PRIMARY KEY,
     at INTEGER NOT NULL,
     outcome TEXT NOT NULL DEFAULT 'started',
     count INTEGER NOT NULL DEFAULT 0,
     actor TEXT NOT NULL,
     reason TEXT NOT NULL,
     error TEXT,
     action TEXT NOT NULL
   );
INSERT INTO perdure_schema VALUES ('inbound', 1);
INSERT INTO perdure_schema VALUES ('operator', 1);
INSERT INTO perdure_schema VALUES ('outbox', 1);
INSERT INTO perdure_schema VALUES ('scheduler', 1);
INSERT INTO perdure_schema VALUES ('submissions', 2);
INSERT INTO perdure_schema VALUES ('waits', 1);
INSERT INTO perdure_schema VALUES ('workflows', 1);
INSERT INTO perdure_outbox VALUES ('submission:completed/a5e87f15-7104-4d39-b13d-0dff86da2d6f', 'webhook https://receiver.example.com/hook', 1795634257977000, 1795634259488, 0, 3, 0, 0, 0, 1795634257977, 1795634257977, null, '00-7e8ece67427fd0969d4f48dfb208b0ae-53547d7edea4cfd2-01', 'receiver.example.com answered 503', '{"kind":"webhook","url":"https://receiver.example.com/hook","secrets":["HOOK_SECRET"]}', '{"type":"submission.completed","timestamp":"2026-11-25T19:17:37.976Z","data":{"submissionId":"completed","status":"completed","attempts":1,"usage":{"inputTokens":10,"outputTokens":5,"totalTokens":15},"messageId":"completed:reply","finishReason":"stop","output":"done","thread":"done"}}');
INSERT INTO perdure_dead_letters VALUES ('submission:failed/daf287f7-6a5a-4fba-85a1-c4986a526034', 'webhook https://gone.example.com/hook', 1795634258055000, 0, 1, 1795634258055, 1795634258062, 1, 0, '00-e08cdcb0457f734884ddcd5a756c5d41-27fc1a92f5deaaca-01', 'gone.example.com answered 410, it wants no more events', '{"kind":"webhook","url":"https://gone.example.com/hook","secrets":["HOOK_SECRET"]}', '{"type":"submission.error","timestamp":"2026-11-25T19:17:38.044Z","data":{"submissionId":"failed","status":"error","attempts":1,"error":"broken","errorName":"Error","thread":"failed"}}');
INSERT INTO perdure_endpoints VALUES ('webhook https://gone.example.com/hook', 'https://gone.example.com/hook', 1795634258062, null, 1795634258062, 'gone.example.com answered 410, it wants no more events');
INSERT INTO perdure_endpoints VALUES ('webhook https://receiver.example.com/hook', 'https://receiver.example.com/hook', 1795634257995, null, null, 'receiver.example.com answered 503');
INSERT INTO perdure_submissions VALUES (1, '1-a58e707d-7b8b-4626-b5b7-2d59f40b004b', 'github:d1', 'completed', 1, 'main', 1795634257790, 1795634257800, 1795634257962, null, 0, null, null, null, null, 0, null, 0, 1, 0, null, null, null, null, null, null, null, null, '1-a58e707d-7b8b-4626-b5b7-2d59f40b004b:reply', 'stop', null, null, '{"inputTokens":10,"outputTokens":5,"totalTokens":15}', null, null, null, null, '"You said: inbound"', '{"calls":[{"startedAt":1795634257823,"endedAt":1795634257949,"model":"scripted","provider":"perdure.testing","inputTokens":10,"outputTokens":5}]}', null, '[{"id":"m-inbound","role":"user","parts":[{"type":"text","text":"inbound"}]}]');
INSERT INTO perdure_submissions VALUES (2, 'completed', null, 'completed', 1, 'done', 1795634257915, 1795634257917, 1795634257976, null, 0, null, null, null, null, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, 'completed:reply', 'stop', null, null, '{"inputTokens":10,"outputTokens":5,"totalTokens":15}', null, null, '[{"kind":"webhook","url":"https://receiver.example.com/hook","secrets":["HOOK_SECRET"]}]', null, '"done"', '{"calls":[{"startedAt":1795634257923,"endedAt":1795634257967,"model":"scripted","provider":"perdure.testing","inputTokens":10,"outputTokens":5}]}', null, '[{"id":"m-completed","role":"user","parts":[{"type":"text","text":"{\"text\":\"done\"}"}]}]');
INSERT INTO perdure_submissions VALUES (3, 'failed', null, 'error', 1, 'failed', 1795634257933, 1795634257934, 1795634258044, null, 0, null, null, null, null, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, 'Error', 'broken', '[{"kind":"webhook","url":"https://gone.example.com/hook","secrets":["HOOK_SECRET"]}]', null, null, '{"calls":[{"startedAt":1795634257945,"endedAt":1795634258044,"error":"broken"}]}', null, '[{"id":"m-failed","role":"user","parts":[{"type":"text","text":"{\"fail\":\"broken\"}"}]}]');
INSERT INTO perdure_submissions VALUES (4, 'cancelled', null, 'aborted', 0, 'main', 1795634258077, null, 1795634258081, null, 0, 1795637858077, null, null, null, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, 'SubmissionCancelledError', 'not needed', null, null, null, null, null, '[{"id":"m-cancelled","role":"user","parts":[{"type":"text","text":"{}"}]}]');
INSERT INTO perdure_submissions VALUES (5, 'pending', null, 'pending', 0, 'later', 1795634258084, null, null, null, 0, 1795634318083, null, null, null, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '[{"id":"m-pending","role":"user","parts":[{"type":"text","text":"{\"text\":\"later\"}"}]}]');
INSERT INTO perdure_submissions VALUES (6, 'running', null, 'running', 1, 'running', 1795634258089, 1795634258089, null, null, 0, null, null, null, null, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '[{"id":"m-running","role":"user","parts":[{"type":"text","text":"{\"tool\":{\"name\":\"charge\",\"input\":{\"account\":\"stored\"}},\"text\":\"paid\",\"delayMs\":1000}"}]}]');
INSERT INTO perdure_tool_calls VALUES (6, 1, 1, 1795634259098, 1795634259101, '21d7cffa-2311-46ba-8a06-8364e69340d1', 'charge', 'two4TtNFPNAVyEmJJxxGJ5', 'result', '{"account":"stored"}', '"Charged stored"', null);
INSERT INTO perdure_waits VALUES (1, 'fa651f1e-b747-40da-9b1a-ce9c9a1e3754', 'perdure-approval:OBJECT_WORKFLOW:stored-approval:decide', 'approval', 'open', '83a00255-47b5-408b-8525-bf82851a7eea', 'OBJECT_WORKFLOW', 'stored-approval', 'decide', null, 'd41ce888-4788-4f39-b80b-a3ca5c731df1', 1795807057831, 1795807057831, 1795634257831, null, null, null, null, null, '{"title":"Pay?","data":null,"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"amount":{"type":"number"}},"required":["amount"]}}', null);
INSERT INTO perdure_tasks VALUES ('ask', '0aI2zUPbelkAKTPcfMcQ_g', 1795634257879, 1795680000000, null, 1795634257893, 'hand', 'for now', 0, 0, 0, 0, 0, 0, 0, null);
INSERT INTO perdure_tasks VALUES ('note', '0Za8SLvEes4O1JYqZNgCA9', 1795634257879, 1796025600000, 1795634257901, null, null, null, 0, 0, 0, 0, 0, 0, 0, null);
INSERT INTO perdure_schedule_owner VALUES ('itf8jEFMQnkJiouw0PAOPr');
INSERT INTO perdure_runs VALUES ('note', 1795634257901, 'recorded', 'trigger', 'completed', 1795634257901, 0, 1, 0, 1795634257905, null, null, null, null);
INSERT INTO perdure_workflows VALUES (1, 'stored-approval', 'OBJECT_WORKFLOW', 'queued', null, null, 1795634257762, 1795634257762, null, null);
INSERT INTO perdure_inbound VALUES (1, 'github', 'd1', 'push', 'accepted', 11, '00000000000000000000000000000000000000000000000000000000011fc069', 1795634257774, 1795634257793, 0, 0, 0, 11, 11, 0, null, null, '[{"kind":"submission","submissionIds":["1-a58e707d-7b8b-4626-b5b7-2d59f40b004b"],"ordinal":0,"verb":"submitMessages","result":{"submissionId":"1-a58e707d-7b8b-4626-b5b7-2d59f40b004b","requestId":"1-a58e707d-7b8b-4626-b5b7-2d59f40b004b","createdAt":1795634257790,"attempts":0,"thread":"main","idempotencyKey":"github:d1","status":"pending","accepted":true}}]', '{"id":"d1"}');
INSERT INTO perdure_actions VALUES (1, 1795634258080, 'done', 1, 'ada', 'not needed', null, '{"do":"cancel","submissionId":"cancelled"}');
CREATE INDEX perdure_dead_letters_by_time ON perdure_dead_letters (died_at, id);
CREATE INDEX perdure_dead_letters_to_notify ON perdure_dead_letters (id) WHERE is_notified = 0;
CREATE INDEX perdure_delivered_by_time ON perdure_delivered (delivered_at, id);
CREATE UNIQUE INDEX perdure_submissions_id ON perdure_submissions (submission_id) WHERE is_generated = 0;
CREATE UNIQUE INDEX perdure_submissions_key ON perdure_submissions (idempotency_key)
     WHERE idempotency_key IS NOT NULL;
CREATE INDEX perdure_submissions_open ON perdure_submissions (thread, rank, seq)
     WHERE settled_at IS NULL AND not_before IS NULL;
CREATE INDEX perdure_submissions_scheduled ON perdure_submissions (not_before)
     WHERE settled_at IS NULL AND not_before IS NOT NULL;
CREATE UNIQUE INDEX perdure_submissions_debounce ON perdure_submissions (debounce_key)
     WHERE debounce_key IS NOT NULL AND settled_at IS NULL;
CREATE INDEX perdure_submissions_merged ON perdure_submissions (merged_into)
     WHERE merged_into IS NOT NULL AND settled_at IS NULL;
CREATE INDEX perdure_submissions_rollback ON perdure_submissions (seq) WHERE rollback_state = 'pending';
CREATE INDEX perdure_submissions_batch ON perdure_submissions (batch)
     WHERE batch IS NOT NULL AND settled_at IS NULL;
CREATE TRIGGER perdure_answer_parts_end AFTER DELETE ON perdure_submissions WHEN OLD.output = '' BEGIN
     DELETE FROM perdure_answer_parts WHERE seq = OLD.seq;
   END;
CREATE UNIQUE INDEX perdure_waits_key ON perdure_waits (idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX perdure_waits_live ON perdure_waits (kind, wake_at) WHERE done_at IS NULL;
CREATE INDEX perdure_waits_inside ON perdure_waits (parent) WHERE done_at IS NULL AND parent IS NOT NULL;
CREATE INDEX perdure_waits_topic ON perdure_waits (topic) WHERE done_at IS NULL AND topic IS NOT NULL;
CREATE INDEX perdure_waits_answered ON perdure_waits (answered_by) WHERE answered_by IS NOT NULL;
