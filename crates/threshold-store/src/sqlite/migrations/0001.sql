CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    -- Tells the secret that the keys were hashed with; 16 bytes.
    secret BLOB NOT NULL,
    -- The latest time at which something was charged or dropped, in microseconds. Time goes on from there.
    last INTEGER NOT NULL
) STRICT;

-- One row for each key that has a state. Numbers of 16 bytes have their highest byte first.
CREATE TABLE states (
    -- The 128-bit hash of limit and subject.
    key BLOB PRIMARY KEY,
    -- A cell; or what stands in for one beside a list: when it expires in the place of a cell's instant, and what it is.
    head BLOB NOT NULL,
    -- The admissions of a log or the permits that are out; NULL for a cell.
    list BLOB
) STRICT, WITHOUT ROWID;
