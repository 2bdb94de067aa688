-- Buckets whose rate has changed since they were charged, mirrored from the transition: what is owed stays owed, in
-- tokens times the period. Those are wide numbers, and rare.

-- How many tokens come back in a period by the rate of a mark, and whether that is exactly known.
CREATE OR REPLACE FUNCTION drain_of(mark bigint, OUT drain bigint, OUT exact boolean) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    exact := mark >> 33 = 0;
    drain := greatest((mark & 8589934591) << (mark >> 33)::int, 1);
END $$;

-- What a bucket with another mark owes at `now`, which is not after its instant.
CREATE OR REPLACE FUNCTION owed_by(at bigint, rest bigint, mark bigint, period bigint, now bigint)
RETURNS numeric LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    d record := drain_of(mark);
BEGIN
    RETURN (at - now)::numeric * d.drain
        + CASE WHEN d.exact THEN rest::numeric * gcd(period, d.drain) WHEN rest > 0 THEN d.drain ELSE 0 END;
END $$;

-- Judges such a bucket by the numbers of a step, and gives what an admission leaves behind.
CREATE OR REPLACE FUNCTION judge_changed(
    steps bigint[], i bigint, now bigint, INOUT at bigint, INOUT rest bigint, INOUT mark bigint, OUT admitted boolean
) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    per CONSTANT bigint := steps[i + 8];
    period CONSTANT bigint := steps[i + 11];
    owed CONSTANT numeric := owed_by(at, rest, mark, period, now);
    carried numeric;
BEGIN
    -- A price of 2^52 is that of a cost above the capacity.
    admitted := steps[i + 4] < 4503599627370496 AND owed <= steps[i + 10]::numeric * period;
    IF admitted THEN
        carried := div(owed + steps[i + 12] - 1, steps[i + 12]);
        at := now + div(carried, per) + steps[i + 4];
        rest := mod(carried, per) + steps[i + 5];
        IF rest >= per THEN
            at := at + 1;
            rest := rest - per;
        END IF;
        mark := steps[i + 9];
    END IF;
END $$;
