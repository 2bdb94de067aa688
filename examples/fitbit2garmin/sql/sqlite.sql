-- The document's tables and views over a ledger in SQLite. They are temporary: the ledger stays as it is.
--
--   sqlite3 -readonly fitbit2garmin-data/ledger.sqlite
--   sqlite> .read examples/fitbit2garmin/sql/sqlite.sql
--   sqlite> SELECT * FROM violation_analytics;
--
-- How many requests there were is in the archive and not in the ledger: see duckdb.sql, or `threshold analytics`.

CREATE TEMP VIEW subjects AS
SELECT
    subject,
    CASE substr(hex(subject), 1, 2)
        WHEN '00' THEN 'address' WHEN '01' THEN 'user' WHEN '02' THEN 'named-user' WHEN '03' THEN 'tenant'
        WHEN '04' THEN 'account' WHEN '05' THEN 'source' ELSE 'device'
    END || ':' || lower(hex(substr(subject, 10, 8)) || hex(substr(subject, 2, 8))) AS client_id
FROM (
    SELECT subject FROM violations
    UNION SELECT subject FROM standings
    UNION SELECT subject FROM overrides WHERE subject IS NOT NULL
);

CREATE TEMP VIEW rate_limit_violations AS
SELECT
    v.id,
    s.client_id,
    v.limit_id AS endpoint,
    CASE v.kind WHEN 0 THEN 'RATE_EXCEEDED' WHEN 1 THEN 'SUSPICIOUS_PATTERN' ELSE 'BURST_ATTACK' END AS violation_type,
    v.at / 1000000 AS timestamp,
    v.count AS current_count,
    v.allowed AS limit_exceeded,
    v.period / 1000000 AS window_size,
    v.fingerprint AS client_fingerprint,
    v.user_agent,
    CAST(v.country AS TEXT) AS country_code,
    v.details,
    datetime(v.at / 1000000, 'unixepoch') AS created_at
FROM violations v JOIN subjects s USING (subject);

CREATE TEMP VIEW violation_analytics AS
SELECT
    violation_type,
    endpoint,
    date(created_at) AS date,
    count(*) AS violation_count,
    count(DISTINCT client_id) AS unique_violators,
    avg(current_count) AS avg_count_at_violation
FROM rate_limit_violations
GROUP BY violation_type, endpoint, date(created_at);

-- The score as it is now: a point comes back each hour, as the policy's `recovery` says.
CREATE TEMP VIEW client_reputation AS
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
    updated_at
FROM (
    SELECT
        s.client_id,
        min(100, t.points + max(0, CAST(strftime('%s', 'now') AS INTEGER) - t.score_since / 1000000) / 3600)
            AS reputation_score,
        t.violations AS violation_count,
        datetime(t.last_seen / 1000000, 'unixepoch') AS last_violation,
        datetime(t.first_seen / 1000000, 'unixepoch') AS first_seen,
        datetime(t.last_seen / 1000000, 'unixepoch') AS updated_at
    FROM standings t JOIN subjects s USING (subject)
);

-- What operators have set in place of the policy's rates; those themselves are told by `threshold check`, and when and by whom
-- one was set by `threshold audit`.
CREATE TEMP VIEW rate_limit_config AS
SELECT
    id,
    client_id,
    endpoint,
    max_requests,
    -- `/day` is one day, `5min` five minutes; shorter than a second is none.
    max(1, CAST(period AS INTEGER)) * CASE ltrim(period, '0123456789')
        WHEN 's' THEN 1 WHEN 'min' THEN 60 WHEN 'h' THEN 3600 WHEN 'hour' THEN 3600 WHEN 'd' THEN 86400 WHEN 'day' THEN 86400
        ELSE 0
    END AS window_size,
    rate,
    burst_allowance,
    enabled,
    priority,
    expires_at
FROM (
    SELECT
        o.id,
        s.client_id,
        o.limit_id AS endpoint,
        CAST(o.rate AS INTEGER) AS max_requests,
        CASE instr(o.rate, ' per ')
            WHEN 0 THEN substr(o.rate || ' ', instr(o.rate, '/') + 1, instr(o.rate || ' ', ' ') - instr(o.rate, '/') - 1)
            ELSE substr(o.rate, instr(o.rate, ' per ') + 5, instr(substr(o.rate || ' ', instr(o.rate, ' per ') + 5), ' ') - 1)
        END AS period,
        o.rate,
        o.burst_allowance,
        o.enabled,
        o.priority,
        datetime(o.expires / 1000000, 'unixepoch') AS expires_at
    FROM overrides o LEFT JOIN subjects s USING (subject)
    WHERE o.removed_at IS NULL
);
