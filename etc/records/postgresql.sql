-- The table of Signet's call records in PostgreSQL: docs/RECORDS.md says what is in it.
-- The account needs INSERT.
CREATE TABLE IF NOT EXISTS signet_calls (
    id text NOT NULL PRIMARY KEY,
    version integer NOT NULL,
    node text,
    call_id text,
    started timestamptz NOT NULL,
    rang timestamptz,
    answered timestamptz,
    ended timestamptz,
    seen timestamptz NOT NULL,
    ring_after_ms bigint,
    answer_after_ms bigint,
    talk_ms bigint,
    caller_user text,
    caller_class text,
    caller_from text,
    caller_address text,
    caller_transport text,
    request_uri text,
    called_to text,
    callee_target text,
    callee_trunk text,
    callee_address text,
    callee_transport text,
    status integer,
    ended_by text,
    why text,
    reason text,
    bye_status integer,
    session_expires_s integer,
    tries text,
    tries_total integer,
    payer_user text
);
-- For a table that was made before it was needed.
ALTER TABLE signet_calls ADD COLUMN IF NOT EXISTS payer_user text;
CREATE INDEX IF NOT EXISTS signet_calls_started ON signet_calls (started);
