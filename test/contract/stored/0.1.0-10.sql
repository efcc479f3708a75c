-- Written at 1795934458837.
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
     budget INTEGER,
     resets INTEGER NOT NULL DEFAULT 0,
     waits INTEGER NOT NULL DEFAULT 0,
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
     waiting_for TEXT,
     limits TEXT,
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
     call_key TEXT,
     tool TEXT NOT NULL,
     input_digest TEXT NOT NULL,
     outcome TEXT,
     input TEXT NOT NULL,
     value TEXT,
     PRIMARY KEY (seq, ordinal)
   ) WITHOUT ROWID;
CREATE TABLE perdure_tool_steps (
     seq INTEGER NOT NULL REFERENCES perdure_submissions (seq) ON DELETE CASCADE,
     ordinal INTEGER NOT NULL,
     step TEXT NOT NULL,
     value TEXT,
     PRIMARY KEY (seq, ordinal, step)
   ) WITHOUT ROWID;
CREATE TABLE perdure_answer_parts (
     seq INTEGER NOT NULL,
     part INTEGER NOT NULL,
     text TEXT NOT NULL,
     PRIMARY KEY (seq, part)
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
CREATE TABLE perdure_deployments (seq INTEGER PRIMARY KEY, version TEXT NOT NULL, since INTEGER NOT NULL);
CREATE TABLE perdure_workflow_versions (
     workflow TEXT NOT NULL,
     instance TEXT NOT NULL,
     version TEXT,
     began_at INTEGER NOT NULL,
     PRIMARY KEY (workflow, instance)
   ) WITHOUT ROWID;
CREATE TABLE perdure_alerts (
     key TEXT PRIMARY KEY,
     first_at INTEGER NOT NULL,
     announced_at INTEGER,
     over_at INTEGER,
     finding TEXT NOT NULL
   ) WITHOUT ROWID;
CREATE TABLE perdure_tasks (
     task_id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL,
     anchor INTEGER NOT NULL, next_at INTEGER, open_from INTEGER,
     paused_at INTEGER, paused_by TEXT, paused_note TEXT,
     fired INTEGER NOT NULL, failures INTEGER NOT NULL, missed INTEGER NOT NULL,
     pruned_completed INTEGER NOT NULL, pruned_failed INTEGER NOT NULL, pruned_skipped INTEGER NOT NULL,
     omitted_at INTEGER
   ) WITHOUT ROWID;
CREATE TABLE perdure_schedule_owner (owner TEXT NOT NULL);
CREATE TABLE perdure_runs (
     task_id TEXT NOT NULL, occurrence INTEGER NOT NULL, trigger_key TEXT NOT NULL,
     cause TEXT NOT NULL, status TEXT NOT NULL,
     fired_at INTEGER NOT NULL, lag_ms INTEGER NOT NULL,
     attempts INTEGER NOT NULL, not_before INTEGER NOT NULL,
     ended_at INTEGER, submission_id TEXT,
     error_name TEXT, error_message TEXT, reason TEXT,
     PRIMARY KEY (task_id, occurrence, trigger_key)
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
CREATE TABLE perdure_refusals (
     hour INTEGER NOT NULL,
     source TEXT NOT NULL,
     reason TEXT NOT NULL,
     count INTEGER NOT NULL,
     first_at INTEGER NOT NULL,
     PRIMARY KEY (hour, source, reason)
   ) WITHOUT ROWID;
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
CREATE TABLE perdure_received (id TEXT PRIMARY KEY, received_at INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO perdure_schema VALUES ('alerts', 1);
INSERT INTO perdure_schema VALUES ('deployments', 1);
INSERT INTO perdure_schema VALUES ('inbound', 1);
INSERT INTO perdure_schema VALUES ('operator', 1);
INSERT INTO perdure_schema VALUES ('outbox', 1);
INSERT INTO perdure_schema VALUES ('received', 1);
INSERT INTO perdure_schema VALUES ('scheduler', 1);
INSERT INTO perdure_schema VALUES ('submissions', 1);
INSERT INTO perdure_schema VALUES ('waits', 1);
INSERT INTO perdure_schema VALUES ('workflows', 1);
INSERT INTO perdure_outbox VALUES ('alert:2b04344d-a0db-409e-91ef-0e2d3e0d59a3', 'webhook https://alerts.example.com/hook', 1795934458757000, 1795934459072, 0, 2, 0, 0, 0, 1795934458757, 1795934458757, null, null, '#answered/503 alerts.example.com answered 503', '{"kind":"webhook","url":"https://alerts.example.com/hook","secrets":["HOOK_SECRET"],"policy":{"mayRepeat":true}}', '{"type":"perdure.alert","state":"open","finding":{"code":"destination-fails","about":"webhook https://alerts.example.com/hook","severity":"error","title":"2 deliveries to alerts.example.com fail since 06:40 UTC with 503.","cause":"The receiver is down or fails; the evidence has its answer.","fix":{"text":"First repair the receiver, then send again now. They are also retried, by default for three days.","action":{"do":"enable-endpoint","url":"https://alerts.example.com/hook"}},"link":{"view":"deliveries","id":"alert:a5eddaaf-6678-4b41-adc4-ec629667d499"},"evidence":{"count":2,"since":1795934456752,"ids":["alert:a5eddaaf-6678-4b41-adc4-ec629667d499","alert:cc96c80c-114d-4833-ae5c-aa911bdf220d"],"lastError":"alerts.example.com answered 503"}},"agent":"StoredObject","name":"stored-8f683bbb-7e0c-4a4e-a4d3-5a47c31aaccb","at":1795934458756}');
INSERT INTO perdure_outbox VALUES ('alert:a5eddaaf-6678-4b41-adc4-ec629667d499', 'webhook https://alerts.example.com/hook', 1795934456750000, 1795934460544, 0, 4, 0, 0, 0, 1795934456750, 1795934456750, null, null, '#answered/503 alerts.example.com answered 503', '{"kind":"webhook","url":"https://alerts.example.com/hook","secrets":["HOOK_SECRET"],"policy":{"mayRepeat":true}}', '{"type":"perdure.alert","state":"open","finding":{"code":"destination-fails","about":"webhook https://receiver.example.com/hook","severity":"error","title":"1 delivery to receiver.example.com fails since 06:40 UTC with 503.","cause":"The receiver is down or fails; the evidence has its answer.","fix":{"text":"First repair the receiver, then send again now. They are also retried, by default for three days.","action":{"do":"enable-endpoint","url":"https://receiver.example.com/hook"}},"link":{"view":"deliveries","id":"submission:completed/72728410-79ba-4fed-9cef-dafe092dfdd8"},"evidence":{"count":1,"since":1795934454732,"ids":["submission:completed/72728410-79ba-4fed-9cef-dafe092dfdd8"],"lastError":"receiver.example.com answered 503"}},"agent":"StoredObject","name":"stored-8f683bbb-7e0c-4a4e-a4d3-5a47c31aaccb","at":1795934456749}');
INSERT INTO perdure_outbox VALUES ('alert:cc96c80c-114d-4833-ae5c-aa911bdf220d', 'webhook https://alerts.example.com/hook', 1795934456751000, 1795934459072, 0, 3, 0, 0, 0, 1795934456751, 1795934456751, null, null, '#answered/503 alerts.example.com answered 503', '{"kind":"webhook","url":"https://alerts.example.com/hook","secrets":["HOOK_SECRET"],"policy":{"mayRepeat":true}}', '{"type":"perdure.alert","state":"open","finding":{"code":"endpoint-disabled","about":"https://gone.example.com/hook","severity":"error","title":"The endpoint gone.example.com is disabled since 06:40 UTC, and 1 delivery is a dead letter.","evidence":{"count":1,"since":1795934454741,"ids":["submission:failed/71dc5d6f-d344-4b37-9409-3a16c215933e"],"lastError":"gone.example.com answered 410, it wants no more events"},"cause":"It answered 410: it wants no more events.","fix":{"text":"If it is to receive events again, enable it: all its dead letters since it began to fail are sent then.","action":{"do":"enable-endpoint","url":"https://gone.example.com/hook"}},"link":{"view":"endpoints","id":"https://gone.example.com/hook"}},"agent":"StoredObject","name":"stored-8f683bbb-7e0c-4a4e-a4d3-5a47c31aaccb","at":1795934456749}');
INSERT INTO perdure_outbox VALUES ('submission:completed/72728410-79ba-4fed-9cef-dafe092dfdd8', 'webhook https://receiver.example.com/hook', 1795934454730000, 1795934463488, 0, 5, 0, 0, 0, 1795934454730, 1795934454730, null, '00-7e8ece67427fd0969d4f48dfb208b0ae-12cc6a242102b620-01', '#answered/503 receiver.example.com answered 503', '{"kind":"webhook","url":"https://receiver.example.com/hook","secrets":["HOOK_SECRET"]}', '{"type":"submission.completed","timestamp":"2026-11-29T06:40:54.729Z","data":{"submissionId":"completed","status":"completed","attempts":1,"usage":{"inputTokens":10,"outputTokens":5,"totalTokens":15},"messageId":"completed:reply","finishReason":"stop","output":"done","thread":"done","idempotencyKey":"key of done"}}');
INSERT INTO perdure_dead_letters VALUES ('submission:failed/71dc5d6f-d344-4b37-9409-3a16c215933e', 'webhook https://gone.example.com/hook', 1795934454740000, 0, 1, 1795934454740, 1795934454741, 1, 0, '00-e08cdcb0457f734884ddcd5a756c5d41-3819c04259e1a936-01', '#answered/410 gone.example.com answered 410, it wants no more events', '{"kind":"webhook","url":"https://gone.example.com/hook","secrets":["HOOK_SECRET"]}', '{"type":"submission.error","timestamp":"2026-11-29T06:40:54.740Z","data":{"submissionId":"failed","status":"error","attempts":1,"error":"no","errorName":"Error","thread":"failed"}}');
INSERT INTO perdure_endpoints VALUES ('webhook https://alerts.example.com/hook', 'https://alerts.example.com/hook', 1795934456752, null, null, '#answered/503 alerts.example.com answered 503');
INSERT INTO perdure_endpoints VALUES ('webhook https://gone.example.com/hook', 'https://gone.example.com/hook', 1795934454741, null, 1795934454741, '#answered/410 gone.example.com answered 410, it wants no more events');
INSERT INTO perdure_endpoints VALUES ('webhook https://receiver.example.com/hook', 'https://receiver.example.com/hook', 1795934454732, null, null, '#answered/503 receiver.example.com answered 503');
INSERT INTO perdure_submissions VALUES (1, '1-387c2c41-0b9f-41b2-95c3-ead085142232', 'think-workflow:OBJECT_WORKFLOW:stored-prompt:ask', 'running', 1, 'main', 1795934454635, 1795934454638, null, null, 0, null, null, null, 0, 0, null, 0, 1, 0, null, null, null, null, null, 'e7b65208-22f1-4184-841c-d6e3db162b25', null, null, null, null, null, null, null, null, null, null, null, '[{"kind":"workflow","workflow":"OBJECT_WORKFLOW","instance":"stored-prompt","eventType":"perdure-prompt-1-387c2c41-0b9f-41b2-95c3-ead085142232","proof":"194db6e2-87b1-4e84-b878-0eb8e16ca70c"}]', '{"workflow":{"name":"OBJECT_WORKFLOW","id":"stored-prompt","stepName":"ask"}}', null, null, '{}', '[{"role":"user","parts":[{"type":"text","text":"{\"text\":\"prompted\",\"delayMs\":6000}"}],"id":"3fcdb123-6712-49f8-8212-88af3208ee69"}]');
INSERT INTO perdure_submissions VALUES (2, '2-372f80bd-6bc3-4dd5-b595-c5bb420af5e4', 'github:d1', 'pending', 0, 'main', 1795934454697, null, null, null, 0, null, null, null, 0, 0, null, 0, 1, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '[{"id":"m-1","role":"user","parts":[{"type":"text","text":"inbound"}]}]');
INSERT INTO perdure_submissions VALUES (3, 'completed', 'key of done', 'completed', 1, 'done', 1795934454700, 1795934454700, 1795934454729, null, 0, null, null, null, 0, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, 'completed:reply', 'stop', null, null, null, null, '{"inputTokens":10,"outputTokens":5,"totalTokens":15}', null, null, '[{"kind":"webhook","url":"https://receiver.example.com/hook","secrets":["HOOK_SECRET"]}]', null, '"done"', '{"calls":[{"startedAt":1795934454703,"endedAt":1795934454722,"model":"scripted","provider":"perdure.testing","inputTokens":10,"outputTokens":5}]}', null, '[{"id":"m-completed","role":"user","parts":[{"type":"text","text":"{\"text\":\"done\"}"}]}]');
INSERT INTO perdure_submissions VALUES (4, 'failed', null, 'error', 1, 'failed', 1795934454706, 1795934454707, 1795934454740, null, 0, null, null, null, 0, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, 'Error', 'no', '[{"kind":"webhook","url":"https://gone.example.com/hook","secrets":["HOOK_SECRET"]}]', null, null, '{"calls":[{"startedAt":1795934454709,"endedAt":1795934454740,"model":"scripted","provider":"perdure.testing","error":"no","errorName":"Error"}]}', null, '[{"id":"m-failed","role":"user","parts":[{"type":"text","text":"{\"fail\":\"no\"}"}]}]');
INSERT INTO perdure_submissions VALUES (5, 'cancelled', null, 'aborted', 0, 'main', 1795934454711, null, 1795934454714, null, 0, 1795938054710, null, null, 0, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, 'SubmissionCancelledError', 'not needed', null, null, null, null, null, '[{"id":"m-cancelled","role":"user","parts":[{"type":"text","text":"{}"}]}]');
INSERT INTO perdure_submissions VALUES (6, 'pending', 'key of pending', 'pending', 0, 'later', 1795934456757, null, null, null, 0, 1795934466755, null, null, 0, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '[{"id":"m-pending","role":"user","parts":[{"type":"text","text":"{\"text\":\"later\"}"}]}]');
INSERT INTO perdure_submissions VALUES (7, 'running', null, 'running', 1, 'running', 1795934456759, 1795934456760, null, null, 0, null, null, null, 0, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '{"inputTokens":10,"outputTokens":5,"totalTokens":15}', null, null, null, null, null, null, null, '[{"id":"m-running","role":"user","parts":[{"type":"text","text":"{\"tool\":{\"name\":\"charge\",\"input\":{\"account\":\"stored\"}},\"text\":\"paid\",\"delayMs\":2000}"}]}]');
INSERT INTO perdure_submissions VALUES (8, 'queued', null, 'pending', 0, 'running', 1795934456767, null, null, null, 0, null, null, null, 0, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '[{"id":"m-queued","role":"user","parts":[{"type":"text","text":"{\"text\":\"queued\"}"}]}]');
INSERT INTO perdure_submissions VALUES (9, 'calling', null, 'running', 1, 'calling', 1795934458787, 1795934458787, null, null, 0, null, null, null, 0, 0, null, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '{"inputTokens":10,"outputTokens":5,"totalTokens":15}', null, null, null, null, null, null, null, '[{"id":"m-calling","role":"user","parts":[{"type":"text","text":"{\"tool\":{\"name\":\"ship\",\"input\":{\"account\":\"stored\"}},\"text\":\"shipped\"}"}]}]');
INSERT INTO perdure_tool_calls VALUES (7, 1, 1, 1795934458772, 1795934458773, 'dc298bea-8504-46a4-b5c1-94b2537688e2', null, 'charge', 'two4TtNFPNAVyEmJJxxGJ5', 'result', '{"account":"stored"}', '"Charged stored"');
INSERT INTO perdure_tool_calls VALUES (9, 1, 1, 1795934458794, null, 'bb9c7f7b-245b-46dc-bb45-e9135806dd90', 'bdf49689-441c-40bb-b2e1-119191068f64', 'ship', 'two4TtNFPNAVyEmJJxxGJ5', null, '{"account":"stored"}', null);
INSERT INTO perdure_tool_steps VALUES (9, 1, 'reserve', null);
INSERT INTO perdure_waits VALUES (1, '2230cbb9-308c-4d52-a07f-9fd414dccf43', 'perdure-approval:OBJECT_WORKFLOW:stored-approval:decide', 'approval', 'open', '1c180c81-cfe6-49ff-8ef1-a6f7ab357da2', 'OBJECT_WORKFLOW', 'stored-approval', 'decide', null, '92553eb0-60f1-466c-b793-e65a21499620', 1796107254606, 1796107254606, 1795934454606, null, null, null, null, null, '{"title":"Pay?","data":null,"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"amount":{"type":"number"}},"required":["amount"]}}', null);
INSERT INTO perdure_waits VALUES (2, '4b7e9744-e940-457e-907e-fc2c1cf4ef86', 'perdure-webhook:OBJECT_VERSIONED:stored-webhook:paid', 'webhook', 'open', '7451da28-a3f9-4734-bb6a-33b5e1eecf35', 'OBJECT_VERSIONED', 'stored-webhook', 'paid', null, 'dfa6f755-721d-4474-924d-8652607008d4', 1796280054690, 1796280054690, 1795934454690, null, null, 'ssgZQ0MP3xwdwPn6gBx72kSXukXOxtWTmGv0jWaiXwYC1', null, null, '{"from":"stripe","lookbackMs":300000}', null);
INSERT INTO perdure_deployments VALUES (1, '1', 1795934454573);
INSERT INTO perdure_workflow_versions VALUES ('OBJECT_VERSIONED', 'stored-webhook', '1', 1795934454675);
INSERT INTO perdure_alerts VALUES ('["destination-fails","webhook https://alerts.example.com/hook"]', 1795934456752, 1795934458756, null, '{"code":"destination-fails","about":"webhook https://alerts.example.com/hook","severity":"error","title":"2 deliveries to alerts.example.com fail since 06:40 UTC with 503.","cause":"The receiver is down or fails; the evidence has its answer.","fix":{"text":"First repair the receiver, then send again now. They are also retried, by default for three days.","action":{"do":"enable-endpoint","url":"https://alerts.example.com/hook"}},"link":{"view":"deliveries","id":"alert:a5eddaaf-6678-4b41-adc4-ec629667d499"},"evidence":{"count":2,"since":1795934456752,"ids":["alert:a5eddaaf-6678-4b41-adc4-ec629667d499","alert:cc96c80c-114d-4833-ae5c-aa911bdf220d"],"lastError":"alerts.example.com answered 503"}}');
INSERT INTO perdure_alerts VALUES ('["destination-fails","webhook https://receiver.example.com/hook"]', 1795934454732, 1795934456749, null, '{"code":"destination-fails","about":"webhook https://receiver.example.com/hook","severity":"error","title":"1 delivery to receiver.example.com fails since 06:40 UTC with 503.","cause":"The receiver is down or fails; the evidence has its answer.","fix":{"text":"First repair the receiver, then send again now. They are also retried, by default for three days.","action":{"do":"enable-endpoint","url":"https://receiver.example.com/hook"}},"link":{"view":"deliveries","id":"submission:completed/72728410-79ba-4fed-9cef-dafe092dfdd8"},"evidence":{"count":1,"since":1795934454732,"ids":["submission:completed/72728410-79ba-4fed-9cef-dafe092dfdd8"],"lastError":"receiver.example.com answered 503"}}');
INSERT INTO perdure_alerts VALUES ('["endpoint-disabled","https://gone.example.com/hook"]', 1795934454741, 1795934456749, null, '{"code":"endpoint-disabled","about":"https://gone.example.com/hook","severity":"error","title":"The endpoint gone.example.com is disabled since 06:40 UTC, and 1 delivery is a dead letter.","evidence":{"count":1,"since":1795934454741,"ids":["submission:failed/71dc5d6f-d344-4b37-9409-3a16c215933e"],"lastError":"gone.example.com answered 410, it wants no more events"},"cause":"It answered 410: it wants no more events.","fix":{"text":"If it is to receive events again, enable it: all its dead letters since it began to fail are sent then.","action":{"do":"enable-endpoint","url":"https://gone.example.com/hook"}},"link":{"view":"endpoints","id":"https://gone.example.com/hook"}}');
INSERT INTO perdure_tasks VALUES ('ask', '["every day at 09:00","Europe/Paris","-Infinity","Infinity",[]]', 1795934454669, 1795939200000, null, 1795934454673, 'hand', 'for now', 0, 0, 0, 0, 0, 0, null);
INSERT INTO perdure_tasks VALUES ('minutely', '["every 1 minute",null,"-Infinity","Infinity",[]]', 1795934454669, 1795934514669, null, null, null, null, 0, 0, 0, 0, 0, 0, null);
INSERT INTO perdure_tasks VALUES ('note', '["every week on monday at 09:00","Europe/Paris","-Infinity","Infinity",[]]', 1795934454669, 1796025600000, 1795934454680, null, null, null, 0, 0, 0, 0, 0, 0, null);
INSERT INTO perdure_tasks VALUES ('slow', '["every week on monday at 09:00","Europe/Paris","-Infinity","Infinity",[]]', 1795934454669, 1796025600000, 1795934454688, null, null, null, 0, 0, 0, 0, 0, 0, null);
INSERT INTO perdure_schedule_owner VALUES ('hW7KofcaKUDKxUceErCi1s');
INSERT INTO perdure_runs VALUES ('note', 1795934454680, 'recorded', 'trigger', 'completed', 1795934454680, 0, 1, 0, 1795934454683, null, null, null, null);
INSERT INTO perdure_runs VALUES ('slow', 1795934454688, 'begun', 'trigger', 'running', 1795934454688, 0, 1, 0, null, null, null, null, null);
INSERT INTO perdure_workflows VALUES (1, 'stored-approval', 'OBJECT_WORKFLOW', 'queued', null, null, 1795934454597, 1795934454597, null, null);
INSERT INTO perdure_workflows VALUES (2, 'stored-webhook', 'OBJECT_VERSIONED', 'queued', null, null, 1795934454618, 1795934454618, null, null);
INSERT INTO perdure_workflows VALUES (3, 'stored-prompt', 'OBJECT_WORKFLOW', 'queued', null, null, 1795934454628, 1795934454628, null, null);
INSERT INTO perdure_inbound VALUES (1, 'github', 'd1', 'push', 'accepted', 11, '00000000000000000000000000000000000000000000000000000000011fc069', 1795934454689, 1795934454697, 0, 0, 0, 11, 11, 0, null, null, '[{"kind":"submission","submissionIds":["2-372f80bd-6bc3-4dd5-b595-c5bb420af5e4"],"ordinal":0,"verb":"submitMessages","result":{"submissionId":"2-372f80bd-6bc3-4dd5-b595-c5bb420af5e4","requestId":"2-372f80bd-6bc3-4dd5-b595-c5bb420af5e4","createdAt":1795934454697,"attempts":0,"thread":"main","idempotencyKey":"github:d1","status":"pending","accepted":true}}]', '{"id":"d1"}');
INSERT INTO perdure_actions VALUES (1, 1795934454713, 'done', 1, 'ada', 'not needed', null, '{"do":"cancel","submissionId":"cancelled"}');
INSERT INTO perdure_received VALUES ('received', 1795934454747);
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
CREATE INDEX perdure_received_by_age ON perdure_received (received_at);
