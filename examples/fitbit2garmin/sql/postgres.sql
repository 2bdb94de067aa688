-- The document's tables and views over a ledger in Postgres, in a schema of their own beside the ledger's.
--
--   psql postgres://me@db/limits -f examples/fitbit2garmin/sql/postgres.sql
--   psql postgres://me@db/limits -c 'SELECT * FROM fitbit2garmin.violation_analytics'
--
-- How many requests there were is in the archive and not in the ledger: see duckdb.sql, or `threshold analytics`.

CREATE SCHEMA IF NOT EXISTS fitbit2garmin;

CREATE OR REPLACE VIEW fitbit2garmin.rate_limit_violations AS
SELECT
    (record->>'id')::bigint AS id,
    record->>'subject' AS client_id,
    record->>'limit' AS endpoint,
    record->>'kind' AS violation_type,
    (record->>'at')::bigint / 1000000 AS timestamp,
    (record->>'count')::numeric AS current_count,
    (record->>'allowed')::numeric AS limit_exceeded,
    (record->>'window')::bigint / 1000000 AS window_size,
    record->>'fingerprint' AS client_fingerprint,
    record->>'user_agent' AS user_agent,
    chr((record->'country'->>0)::int) || chr((record->'country'->>1)::int) AS country_code,
    record->>'details' AS details,
    to_timestamp((record->>'at')::bigint / 1000000.0) AT TIME ZONE 'UTC' AS created_at
FROM threshold.ledger_rows
WHERE class = 'violation';

CREATE OR REPLACE VIEW fitbit2garmin.violation_analytics AS
SELECT
    violation_type,
    endpoint,
    created_at::date AS date,
    count(*) AS violation_count,
    count(DISTINCT client_id) AS unique_violators,
    avg(current_count) AS avg_count_at_violation
FROM fitbit2garmin.rate_limit_violations
GROUP BY violation_type, endpoint, created_at::date;

-- The score as it is now: a point comes back each hour, as the policy's `recovery` says.
CREATE OR REPLACE VIEW fitbit2garmin.client_reputation AS
SELECT
    client_id,
    reputation_score,
    violation_count,
    last_violation,
    CASE
        WHEN reputation_score >= 75 THEN 'LOW' WHEN reputation_score >= 50 THEN 'MEDIUM'
        WHEN reputation_score >= 25 THEN 'HIGH' ELSE 'CRITICAL'
    END AS risk_level,
    first_seen,
    last_violation AS updated_at
FROM (
    SELECT
        record->>'subject' AS client_id,
        least(100, (record->>'points')::int + greatest(0,
            floor((extract(epoch FROM clock_timestamp()) - (record->>'score_since')::bigint / 1000000.0) / 3600)::int))
            AS reputation_score,
        (record->>'violations')::numeric AS violation_count,
        to_timestamp((record->>'last_seen')::bigint / 1000000.0) AT TIME ZONE 'UTC' AS last_violation,
        to_timestamp((record->>'first_seen')::bigint / 1000000.0) AT TIME ZONE 'UTC' AS first_seen
    FROM threshold.ledger_rows
    WHERE class = 'standing'
) AS standings;

-- What operators have set in place of the policy's rates; those themselves are told by `threshold check`, and when and by whom
-- one was set by `threshold audit`.
CREATE OR REPLACE VIEW fitbit2garmin.rate_limit_config AS
SELECT
    record->>'id' AS id,
    record->>'subject' AS client_id,
    record->>'limit' AS endpoint,
    substring(record->>'rate' FROM '^[0-9]+')::numeric AS max_requests,
    -- `/day` is one day, `5min` five minutes; shorter than a second is none.
    coalesce(substring(record->>'rate' FROM ' per ([0-9]+)')::bigint, 1)
        * CASE substring(record->>'rate' FROM '(?:/| per [0-9]+)([a-z]+)')
            WHEN 's' THEN 1 WHEN 'min' THEN 60 WHEN 'h' THEN 3600 WHEN 'hour' THEN 3600 WHEN 'd' THEN 86400 WHEN 'day' THEN 86400
            ELSE 0
        END AS window_size,
    record->>'rate' AS rate,
    (record->>'burst_allowance')::numeric AS burst_allowance,
    (record->>'enabled')::boolean AS enabled,
    (record->>'priority')::bigint AS priority,
    to_timestamp((record->>'expires')::bigint / 1000000.0) AT TIME ZONE 'UTC' AS expires_at
FROM threshold.ledger_rows
WHERE class = 'override' AND record->>'removed_at' IS NULL;
