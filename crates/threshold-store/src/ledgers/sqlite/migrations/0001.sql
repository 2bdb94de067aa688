-- Subjects are 17 bytes: the kind, then the hash with its low half first. Times and spans are in microseconds. Numbers
-- that may need all 64 bits (counts, allowances, windows) are kept bit by bit: the largest ones show as negative.

CREATE TABLE ledger (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- Tells the secret that the subjects were hashed with; 16 bytes.
    secret BLOB NOT NULL,
    -- The last number in the order of changes.
    last INTEGER NOT NULL
) STRICT;

-- Until when the window of a subject under a limit has its strike.
CREATE TABLE windows (
    subject BLOB NOT NULL,
    limit_id TEXT NOT NULL,
    until INTEGER NOT NULL,
    PRIMARY KEY (subject, limit_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX windows_until ON windows (until);

CREATE TABLE standings (
    subject BLOB PRIMARY KEY,
    version INTEGER NOT NULL,
    strikes INTEGER NOT NULL,
    struck_at INTEGER NOT NULL,
    points INTEGER NOT NULL,
    score_violations INTEGER NOT NULL,
    score_since INTEGER NOT NULL,
    violations INTEGER NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    country BLOB,
    agent INTEGER,
    agent_changes INTEGER NOT NULL,
    gap INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX standings_version ON standings (version);
CREATE INDEX standings_last_seen ON standings (last_seen);

CREATE TABLE sanctions (
    id INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    subject BLOB NOT NULL,
    kind INTEGER NOT NULL,
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    reason TEXT NOT NULL,
    -- The author: an operator, or the ladder with a limit and its strikes.
    operator TEXT,
    limit_id TEXT,
    strikes INTEGER,
    lifted_at INTEGER,
    lifted_by TEXT,
    CHECK ((operator IS NULL) = (limit_id IS NOT NULL)),
    CHECK ((limit_id IS NULL) = (strikes IS NULL)),
    CHECK ((lifted_at IS NULL) = (lifted_by IS NULL))
) STRICT;
CREATE INDEX sanctions_version ON sanctions (version);
CREATE INDEX sanctions_subject ON sanctions (subject, kind);
CREATE INDEX sanctions_end ON sanctions (coalesce(lifted_at, until));

CREATE TABLE violations (
    id INTEGER PRIMARY KEY,
    subject BLOB NOT NULL,
    kind INTEGER NOT NULL,
    at INTEGER NOT NULL,
    limit_id TEXT NOT NULL,
    count INTEGER NOT NULL,
    allowed INTEGER NOT NULL,
    period INTEGER NOT NULL,
    fingerprint TEXT,
    user_agent TEXT,
    country BLOB,
    details TEXT NOT NULL
) STRICT;
CREATE INDEX violations_subject ON violations (subject, limit_id);
CREATE INDEX violations_at ON violations (at);

-- Overrides and tenants that were removed stay for a while, for others to notice.
CREATE TABLE overrides (
    id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    limit_id TEXT NOT NULL,
    subject BLOB,
    rate TEXT NOT NULL,
    burst_allowance INTEGER NOT NULL,
    enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
    priority INTEGER NOT NULL,
    expires INTEGER,
    removed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX overrides_version ON overrides (version);

CREATE TABLE tenants (
    subject BLOB PRIMARY KEY,
    version INTEGER NOT NULL,
    tier TEXT NOT NULL,
    removed_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tenants_version ON tenants (version);

CREATE TABLE failures (
    source BLOB PRIMARY KEY,
    account BLOB NOT NULL,
    version INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    failed_at INTEGER NOT NULL,
    locked_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX failures_version ON failures (version);
CREATE INDEX failures_account ON failures (account);
CREATE INDEX failures_failed_at ON failures (failed_at);

CREATE TABLE devices (
    account BLOB NOT NULL,
    device BLOB NOT NULL,
    issued INTEGER NOT NULL,
    used INTEGER NOT NULL,
    PRIMARY KEY (account, device)
) STRICT, WITHOUT ROWID;
CREATE INDEX devices_used ON devices (used);

CREATE TABLE audit (
    id INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    operator TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    before TEXT NOT NULL,
    after TEXT NOT NULL
) STRICT;
CREATE INDEX audit_at ON audit (at);
