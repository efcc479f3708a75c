-- Written at 1795710869405.
CREATE TABLE perdure_schema (module TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE perdure_limit_keys (key TEXT PRIMARY KEY, state TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO perdure_schema VALUES ('limits', 1);
INSERT INTO perdure_limit_keys VALUES ('lent', '{"rules":{"requests":{"amount":10,"window":{"ms":3600000}},"slots":1},"charges":{"requests":{"used":[],"lent":[[1795710930000,1]]}},"held":[["1a42a174-1b0f-44b2-a596-198f1208544b",1795710899401,1,1795710869401]],"shares":{"now":0,"times":{"":1}}}');
INSERT INTO perdure_limit_keys VALUES ('paused', '{"rules":{"requests":{"amount":10,"window":{"ms":3600000}},"slots":1},"charges":{},"paused":{"at":1795710869404,"reason":"unpaid"}}');
