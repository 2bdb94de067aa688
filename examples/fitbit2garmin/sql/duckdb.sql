-- The document's `rate_limits` and `rate_limit_analytics` over the archive, for DuckDB or whatever else reads Parquet.
--
--   duckdb -init examples/fitbit2garmin/sql/duckdb.sql
--   D SELECT * FROM rate_limit_analytics;
--
-- Paths start from the current folder. A window that was not over when a file was written goes on in the next one, and each
-- node writes files of its own: so rows are added up first.

CREATE OR REPLACE VIEW usage AS
SELECT
    subject AS client_id,
    limit_id AS endpoint,
    window_start,
    window_micros // 1000000 AS window_size,
    sum(requests)::BIGINT AS request_count,
    sum(refused)::BIGINT AS refused,
    min(first_request) AS created_at,
    max(last_request) AS updated_at
FROM read_parquet('fitbit2garmin-data/archive/analytics/rate-limits/*/*/[0-9]*.parquet')
GROUP BY ALL;

-- The limit `*` is every request, counted once.
CREATE OR REPLACE VIEW rate_limits AS SELECT * FROM usage WHERE endpoint <> '*';

CREATE OR REPLACE VIEW rate_limit_analytics AS
SELECT
    endpoint,
    (window_start AT TIME ZONE 'UTC')::DATE AS date,
    sum(request_count)::BIGINT AS total_requests,
    count(DISTINCT client_id) AS unique_clients,
    avg(request_count) AS avg_requests_per_window,
    max(request_count) AS max_requests_per_window
FROM rate_limits
GROUP BY ALL
ORDER BY date, endpoint;

CREATE OR REPLACE VIEW client_requests AS
SELECT client_id, sum(request_count)::BIGINT AS total_requests, max(updated_at) AS last_request, min(created_at) AS first_seen
FROM usage WHERE endpoint = '*'
GROUP BY client_id;
