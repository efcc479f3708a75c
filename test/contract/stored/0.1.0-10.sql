-- Written at 1795921407387.
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
     is_unrecorded INTEGER NOT NULL DEFAULT 0,
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
INSERT INTO perdure_outbox VALUES ('alert:61da6f5c-2e36-4d5f-a10b-801d41995836', 'webhook https://alerts.example.com/hook', 1795921405132001, 1795921410176, 0, 4, 0, 0, 0, 1795921405132, 1795921405132, null, null, '#answered/503 alerts.example.com answered 503', '{"kind":"webhook","url":"https://alerts.example.com/hook","secrets":["HOOK_SECRET"],"policy":{"mayRepeat":true}}', '{"type":"perdure.alert","state":"open","finding":{"code":"endpoint-disabled","about":"https://gone.example.com/hook","severity":"error","title":"The endpoint gone.example.com is disabled since 03:03 UTC, and 1 delivery is a dead letter.","evidence":{"count":1,"since":1795921402997,"ids":["submission:failed/19434520-0990-42c4-a602-b2e7f6e1c435"],"lastError":"gone.example.com answered 410, it wants no more events"},"cause":"It answered 410: it wants no more events.","fix":{"text":"If it is to receive events again, enable it: all its dead letters since it began to fail are sent then.","action":{"do":"enable-endpoint","url":"https://gone.example.com/hook"}},"link":{"view":"endpoints","id":"https://gone.example.com/hook"}},"agent":"StoredObject","name":"stored-c2cd3b06-ea2d-4846-a1b0-a3b7638e9362","at":1795921405131}');
INSERT INTO perdure_outbox VALUES ('alert:99496c6b-6eaa-4477-8d40-45a6db174c09', 'webhook https://alerts.example.com/hook', 1795921407285000, 1795921407512, 0, 2, 0, 0, 0, 1795921407285, 1795921407285, null, null, '#answered/503 alerts.example.com answered 503', '{"kind":"webhook","url":"https://alerts.example.com/hook","secrets":["HOOK_SECRET"],"policy":{"mayRepeat":true}}', '{"type":"perdure.alert","state":"open","finding":{"code":"destination-fails","about":"webhook https://alerts.example.com/hook","severity":"error","title":"2 deliveries to alerts.example.com fail since 03:03 UTC with 503.","cause":"The receiver is down or fails; the evidence has its answer.","fix":{"text":"First repair the receiver, then send again now. They are also retried, by default for three days.","action":{"do":"enable-endpoint","url":"https://alerts.example.com/hook"}},"link":{"view":"deliveries","id":"alert:61da6f5c-2e36-4d5f-a10b-801d41995836"},"evidence":{"count":2,"since":1795921405139,"ids":["alert:61da6f5c-2e36-4d5f-a10b-801d41995836","alert:ff71458d-1ac5-44bb-a211-9824396aeebb"],"lastError":"alerts.example.com answered 503"}},"agent":"StoredObject","name":"stored-c2cd3b06-ea2d-4846-a1b0-a3b7638e9362","at":1795921407284}');
INSERT INTO perdure_outbox VALUES ('alert:ff71458d-1ac5-44bb-a211-9824396aeebb', 'webhook https://alerts.example.com/hook', 1795921405132000, 1795921407616, 0, 4, 0, 0, 0, 1795921405132, 1795921405132, null, null, '#answered/503 alerts.example.com answered 503', '{"kind":"webhook","url":"https://alerts.example.com/hook","secrets":["HOOK_SECRET"],"policy":{"mayRepeat":true}}', '{"type":"perdure.alert","state":"open","finding":{"code":"destination-fails","about":"webhook https://receiver.example.com/hook","severity":"error","title":"1 delivery to receiver.example.com fails since 03:03 UTC with 503.","cause":"The receiver is down or fails; the evidence has its answer.","fix":{"text":"First repair the receiver, then send again now. They are also retried, by default for three days.","action":{"do":"enable-endpoint","url":"https://receiver.example.com/hook"}},"link":{"view":"deliveries","id":"submission:completed/0deadf09-dd53-40b6-b8ba-5786171ec1aa"},"evidence":{"count":1,"since":1795921402987,"ids":["submission:completed/0deadf09-dd53-40b6-b8ba-5786171ec1aa"],"lastError":"receiver.example.com answered 503"}},"agent":"StoredObject","name":"stored-c2cd3b06-ea2d-4846-a1b0-a3b7638e9362","at":1795921405131}');
INSERT INTO perdure_outbox VALUES ('submission:completed/0deadf09-dd53-40b6-b8ba-5786171ec1aa', 'webhook https://receiver.example.com/hook', 1795921402985000, 1795921420288, 0, 6, 0, 0, 0, 1795921402985, 1795921402985, null, '00-7e8ece67427fd0969d4f48dfb208b0ae-bfb2eb890d6ea5f5-01', '#answered/503 receiver.example.com answered 503', '{"kind":"webhook","url":"https://receiver.example.com/hook","secrets":["HOOK_SECRET"]}', '{"type":"submission.completed","timestamp":"2026-11-29T03:03:22.982Z","data":{"submissionId":"completed","status":"completed","attempts":1,"usage":{"inputTokens":10,"outputTokens":5,"totalTokens":15},"messageId":"completed:reply","finishReason":"stop","output":"done","thread":"done","idempotencyKey":"key of done"}}');
INSERT INTO perdure_dead_letters VALUES ('submission:failed/19434520-0990-42c4-a602-b2e7f6e1c435', 'webhook https://gone.example.com/hook', 1795921402995000, 0, 1, 1795921402995, 1795921402997, 1, 0, '00-e08cdcb0457f734884ddcd5a756c5d41-16cb7f23a1292188-01', '#answered/410 gone.example.com answered 410, it wants no more events', '{"kind":"webhook","url":"https://gone.example.com/hook","secrets":["HOOK_SECRET"]}', '{"type":"submission.error","timestamp":"2026-11-29T03:03:22.994Z","data":{"submissionId":"failed","status":"error","attempts":1,"error":"no","errorName":"Error","thread":"failed"}}');
INSERT INTO perdure_endpoints VALUES ('webhook https://alerts.example.com/hook', 'https://alerts.example.com/hook', 1795921405139, null, null, '#answered/503 alerts.example.com answered 503');
INSERT INTO perdure_endpoints VALUES ('webhook https://gone.example.com/hook', 'https://gone.example.com/hook', 1795921402997, null, 1795921402997, '#answered/410 gone.example.com answered 410, it wants no more events');
INSERT INTO perdure_endpoints VALUES ('webhook https://receiver.example.com/hook', 'https://receiver.example.com/hook', 1795921402987, null, null, '#answered/503 receiver.example.com answered 503');
INSERT INTO perdure_submissions VALUES (1, '1-f2b23a05-0857-40ea-8131-6b15273f0a5e', 'think-workflow:OBJECT_WORKFLOW:stored-prompt:ask', 'running', 1, 'main', 1795921402860, 1795921402864, null, null, 0, null, null, null, 0, 0, null, 0, 1, 0, 0, null, null, null, null, null, 'c56e5999-562d-4858-a018-e9d015bc0ad7', null, null, null, null, null, null, null, null, null, null, null, '[{"kind":"workflow","workflow":"OBJECT_WORKFLOW","instance":"stored-prompt","eventType":"perdure-prompt-1-f2b23a05-0857-40ea-8131-6b15273f0a5e","proof":"ae014549-e145-4d3b-9230-06a071286bef"}]', '{"workflow":{"name":"OBJECT_WORKFLOW","id":"stored-prompt","stepName":"ask"}}', null, null, '{}', '[{"role":"user","parts":[{"type":"text","text":"{\"text\":\"prompted\",\"delayMs\":6000}"}],"id":"98144c83-94fe-44f4-bfdb-a82e81db3b46"}]');
INSERT INTO perdure_submissions VALUES (2, '2-553dc189-858f-4599-ab0c-50921913d669', 'github:d1', 'pending', 0, 'main', 1795921402928, null, null, null, 0, null, null, null, 0, 0, null, 0, 1, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '[{"id":"m-1","role":"user","parts":[{"type":"text","text":"inbound"}]}]');
INSERT INTO perdure_submissions VALUES (3, 'completed', 'key of done', 'completed', 1, 'done', 1795921402932, 1795921402933, 1795921402982, null, 0, null, null, null, 0, 0, null, 0, 0, 0, 0, null, null, null, null, null, null, null, null, 'completed:reply', 'stop', null, null, null, null, '{"inputTokens":10,"outputTokens":5,"totalTokens":15}', null, null, '[{"kind":"webhook","url":"https://receiver.example.com/hook","secrets":["HOOK_SECRET"]}]', null, '"done"', '{"calls":[{"startedAt":1795921402936,"endedAt":1795921402975,"model":"scripted","provider":"perdure.testing","inputTokens":10,"outputTokens":5}]}', null, '[{"id":"m-completed","role":"user","parts":[{"type":"text","text":"{\"text\":\"done\"}"}]}]');
INSERT INTO perdure_submissions VALUES (4, 'failed', null, 'error', 1, 'failed', 1795921402939, 1795921402940, 1795921402994, null, 0, null, null, null, 0, 0, null, 0, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, 'Error', 'no', '[{"kind":"webhook","url":"https://gone.example.com/hook","secrets":["HOOK_SECRET"]}]', null, null, '{"calls":[{"startedAt":1795921402943,"endedAt":1795921402994,"model":"scripted","provider":"perdure.testing","error":"no","errorName":"Error"}]}', null, '[{"id":"m-failed","role":"user","parts":[{"type":"text","text":"{\"fail\":\"no\"}"}]}]');
INSERT INTO perdure_submissions VALUES (5, 'cancelled', null, 'aborted', 0, 'main', 1795921402964, null, 1795921402968, null, 0, 1795925002963, null, null, 0, 0, null, 0, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, 'SubmissionCancelledError', 'not needed', null, null, null, null, null, '[{"id":"m-cancelled","role":"user","parts":[{"type":"text","text":"{}"}]}]');
INSERT INTO perdure_submissions VALUES (6, 'pending', 'key of pending', 'pending', 0, 'later', 1795921405151, null, null, null, 0, 1795921415149, null, null, 0, 0, null, 0, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '[{"id":"m-pending","role":"user","parts":[{"type":"text","text":"{\"text\":\"later\"}"}]}]');
INSERT INTO perdure_submissions VALUES (7, 'running', null, 'running', 1, 'running', 1795921405159, 1795921405160, null, null, 0, null, null, null, 0, 0, null, 0, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '{"inputTokens":10,"outputTokens":5,"totalTokens":15}', null, null, null, null, null, null, null, '[{"id":"m-running","role":"user","parts":[{"type":"text","text":"{\"tool\":{\"name\":\"charge\",\"input\":{\"account\":\"stored\"}},\"text\":\"paid\",\"delayMs\":2000}"}]}]');
INSERT INTO perdure_submissions VALUES (8, 'queued', null, 'pending', 0, 'running', 1795921405169, null, null, null, 0, null, null, null, 0, 0, null, 0, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '[{"id":"m-queued","role":"user","parts":[{"type":"text","text":"{\"text\":\"queued\"}"}]}]');
INSERT INTO perdure_submissions VALUES (9, 'calling', null, 'running', 1, 'calling', 1795921407296, 1795921407297, null, null, 0, null, null, null, 0, 0, null, 0, 0, 0, 0, null, null, null, null, null, null, null, null, null, null, null, null, null, null, '{"inputTokens":10,"outputTokens":5,"totalTokens":15}', null, null, null, null, null, null, null, '[{"id":"m-calling","role":"user","parts":[{"type":"text","text":"{\"tool\":{\"name\":\"ship\",\"input\":{\"account\":\"stored\"}},\"text\":\"shipped\"}"}]}]');
INSERT INTO perdure_tool_calls VALUES (7, 1, 1, 1795921407265, 1795921407269, 'abfd781f-b521-453f-9238-9a62e1375a4a', null, 'charge', 'two4TtNFPNAVyEmJJxxGJ5', 'result', '{"account":"stored"}', '"Charged stored"');
INSERT INTO perdure_tool_calls VALUES (9, 1, 1, 1795921407317, null, 'bad7d172-0a6e-4996-93fb-d617e2256a45', '1616fe4d-5551-45eb-b697-e6417599fadc', 'ship', 'two4TtNFPNAVyEmJJxxGJ5', null, '{"account":"stored"}', null);
INSERT INTO perdure_tool_steps VALUES (9, 1, 'reserve', null);
INSERT INTO perdure_waits VALUES (1, 'cf4f7197-34bd-44d4-af11-1747c183d5c8', 'perdure-approval:OBJECT_WORKFLOW:stored-approval:decide', 'approval', 'open', '782051c7-2ed6-4e18-bbde-db70b397b6a7', 'OBJECT_WORKFLOW', 'stored-approval', 'decide', null, '7e7288bc-fc86-4918-bd79-a027c8e65df5', 1796094202775, 1796094202775, 1795921402775, null, null, null, null, null, '{"title":"Pay?","data":null,"schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"amount":{"type":"number"}},"required":["amount"]}}', null);
INSERT INTO perdure_waits VALUES (2, 'f3bc42b0-7943-4efd-98fb-62b1312e27df', 'perdure-webhook:OBJECT_VERSIONED:stored-webhook:paid', 'webhook', 'open', '45791b6d-3cfc-482b-8804-33324a81edd9', 'OBJECT_VERSIONED', 'stored-webhook', 'paid', null, '456e4c76-a94c-44f2-9a35-bcde5c34bcf9', 1796267002922, 1796267002922, 1795921402922, null, null, 'ssgZQ0MP3xwdwPn6gBx72kSXukXOxtWTmGv0jWaiXwYC1', null, null, '{"from":"stripe","lookbackMs":300000}', null);
INSERT INTO perdure_deployments VALUES (1, '1', 1795921402675);
INSERT INTO perdure_workflow_versions VALUES ('OBJECT_VERSIONED', 'stored-webhook', '1', 1795921402904);
INSERT INTO perdure_alerts VALUES ('["destination-fails","webhook https://alerts.example.com/hook"]', 1795921405139, 1795921407284, null, '{"code":"destination-fails","about":"webhook https://alerts.example.com/hook","severity":"error","title":"2 deliveries to alerts.example.com fail since 03:03 UTC with 503.","cause":"The receiver is down or fails; the evidence has its answer.","fix":{"text":"First repair the receiver, then send again now. They are also retried, by default for three days.","action":{"do":"enable-endpoint","url":"https://alerts.example.com/hook"}},"link":{"view":"deliveries","id":"alert:61da6f5c-2e36-4d5f-a10b-801d41995836"},"evidence":{"count":2,"since":1795921405139,"ids":["alert:61da6f5c-2e36-4d5f-a10b-801d41995836","alert:ff71458d-1ac5-44bb-a211-9824396aeebb"],"lastError":"alerts.example.com answered 503"}}');
INSERT INTO perdure_alerts VALUES ('["destination-fails","webhook https://receiver.example.com/hook"]', 1795921402987, 1795921405131, null, '{"code":"destination-fails","about":"webhook https://receiver.example.com/hook","severity":"error","title":"1 delivery to receiver.example.com fails since 03:03 UTC with 503.","cause":"The receiver is down or fails; the evidence has its answer.","fix":{"text":"First repair the receiver, then send again now. They are also retried, by default for three days.","action":{"do":"enable-endpoint","url":"https://receiver.example.com/hook"}},"link":{"view":"deliveries","id":"submission:completed/0deadf09-dd53-40b6-b8ba-5786171ec1aa"},"evidence":{"count":1,"since":1795921402987,"ids":["submission:completed/0deadf09-dd53-40b6-b8ba-5786171ec1aa"],"lastError":"receiver.example.com answered 503"}}');
INSERT INTO perdure_alerts VALUES ('["endpoint-disabled","https://gone.example.com/hook"]', 1795921402997, 1795921405131, null, '{"code":"endpoint-disabled","about":"https://gone.example.com/hook","severity":"error","title":"The endpoint gone.example.com is disabled since 03:03 UTC, and 1 delivery is a dead letter.","evidence":{"count":1,"since":1795921402997,"ids":["submission:failed/19434520-0990-42c4-a602-b2e7f6e1c435"],"lastError":"gone.example.com answered 410, it wants no more events"},"cause":"It answered 410: it wants no more events.","fix":{"text":"If it is to receive events again, enable it: all its dead letters since it began to fail are sent then.","action":{"do":"enable-endpoint","url":"https://gone.example.com/hook"}},"link":{"view":"endpoints","id":"https://gone.example.com/hook"}}');
INSERT INTO perdure_tasks VALUES ('ask', '["every day at 09:00","Europe/Paris","-Infinity","Infinity",[]]', 1795921402896, 1795939200000, null, 1795921402901, 'hand', 'for now', 0, 0, 0, 0, 0, 0, null);
INSERT INTO perdure_tasks VALUES ('minutely', '["every 1 minute",null,"-Infinity","Infinity",[]]', 1795921402896, 1795921462896, null, null, null, null, 0, 0, 0, 0, 0, 0, null);
INSERT INTO perdure_tasks VALUES ('note', '["every week on monday at 09:00","Europe/Paris","-Infinity","Infinity",[]]', 1795921402896, 1796025600000, 1795921402910, null, null, null, 0, 0, 0, 0, 0, 0, null);
INSERT INTO perdure_tasks VALUES ('slow', '["every week on monday at 09:00","Europe/Paris","-Infinity","Infinity",[]]', 1795921402896, 1796025600000, 1795921402919, null, null, null, 0, 0, 0, 0, 0, 0, null);
INSERT INTO perdure_schedule_owner VALUES ('bbyrOCG9PyMaLrth86_7uP');
INSERT INTO perdure_runs VALUES ('note', 1795921402910, 'recorded', 'trigger', 'completed', 1795921402910, 0, 1, 0, 1795921402913, null, null, null, null);
INSERT INTO perdure_runs VALUES ('slow', 1795921402919, 'begun', 'trigger', 'running', 1795921402919, 0, 1, 0, null, null, null, null, null);
INSERT INTO perdure_workflows VALUES (1, 'stored-approval', 'OBJECT_WORKFLOW', 'queued', null, null, 1795921402755, 1795921402755, null, null);
INSERT INTO perdure_workflows VALUES (2, 'stored-webhook', 'OBJECT_VERSIONED', 'queued', null, null, 1795921402807, 1795921402807, null, null);
INSERT INTO perdure_workflows VALUES (3, 'stored-prompt', 'OBJECT_WORKFLOW', 'queued', null, null, 1795921402852, 1795921402852, null, null);
INSERT INTO perdure_inbound VALUES (1, 'github', 'd1', 'push', 'accepted', 11, '00000000000000000000000000000000000000000000000000000000011fc069', 1795921402921, 1795921402929, 0, 0, 0, 11, 11, 0, null, null, '[{"kind":"submission","submissionIds":["2-553dc189-858f-4599-ab0c-50921913d669"],"ordinal":0,"verb":"submitMessages","result":{"submissionId":"2-553dc189-858f-4599-ab0c-50921913d669","requestId":"2-553dc189-858f-4599-ab0c-50921913d669","createdAt":1795921402928,"attempts":0,"thread":"main","idempotencyKey":"github:d1","status":"pending","accepted":true}}]', '{"id":"d1"}');
INSERT INTO perdure_actions VALUES (1, 1795921402966, 'done', 1, 'ada', 'not needed', null, '{"do":"cancel","submissionId":"cancelled"}');
INSERT INTO perdure_received VALUES ('received', 1795921403003);
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
