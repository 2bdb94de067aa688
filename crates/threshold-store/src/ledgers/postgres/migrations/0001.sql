-- Times are in microseconds. Subjects within keys are 17 bytes: the kind, then the hash.

CREATE TABLE ledger (
    one integer PRIMARY KEY CHECK (one = 1),
    -- The last number in the order of changes. Who writes holds this row's lock first, so that numbers are seen in order.
    last bigint NOT NULL
);
INSERT INTO ledger VALUES (1, 0);

CREATE TABLE ledger_rows (
    class text NOT NULL,
    key bytea NOT NULL,
    -- The place in lists of the class.
    number bigint NOT NULL,
    -- The place in the order of changes, of what decisions are made by.
    version bigint,
    -- Whose it is.
    whom bytea,
    -- Until when it is in force.
    until bigint,
    -- From when on it is kept for its span.
    since bigint,
    -- Not jsonb, which refuses some characters that people may write.
    record json NOT NULL,
    PRIMARY KEY (class, key)
);
CREATE INDEX ledger_rows_number ON ledger_rows (class, number);
CREATE INDEX ledger_rows_version ON ledger_rows (version) WHERE version IS NOT NULL;
CREATE INDEX ledger_rows_whom ON ledger_rows (class, whom, number) WHERE whom IS NOT NULL;
CREATE INDEX ledger_rows_since ON ledger_rows (class, since) WHERE since IS NOT NULL;
