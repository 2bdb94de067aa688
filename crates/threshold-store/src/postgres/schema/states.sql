-- The states of keys. A key is a keyed hash: nothing here says who is limited.
--
-- at      the last instant at which the state matters; zero for a key of which nothing is known
-- first   bucket: the rest; fixed window: what was admitted; sliding window: the window before;
--         log: what its entries cost together; permits: likewise
-- second  bucket: the mark of its rate; sliding window: the current one; log: the time of its last entry
-- listed  1 for a log, 2 for permits, whose lists are kept beside
--
-- Only the key is indexed, and pages have room, so that a change stays on its page and touches no index.
CREATE TABLE states (
    key uuid PRIMARY KEY,
    at bigint NOT NULL DEFAULT 0,
    first bigint NOT NULL DEFAULT 0,
    second bigint NOT NULL DEFAULT 0,
    listed smallint NOT NULL DEFAULT 0
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- The admissions of logs. Whoever touches those of a key holds the lock of its state.
CREATE TABLE entries (
    key uuid NOT NULL,
    at bigint NOT NULL,
    cost bigint NOT NULL,
    PRIMARY KEY (key, at)
);

-- The permits that are out, likewise.
CREATE TABLE permits (
    key uuid NOT NULL,
    id uuid NOT NULL,
    expires bigint NOT NULL,
    cost bigint NOT NULL,
    PRIMARY KEY (key, id)
);
CREATE INDEX permits_by_expiry ON permits (key, expires);
