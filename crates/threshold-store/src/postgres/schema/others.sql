-- Everything besides deciding.

-- The states of keys as they are, and all of their lists: `apply` without locks and without steps. Stable, so that all
-- of it is read at one point in time.
CREATE OR REPLACE FUNCTION look(
    moment bigint, keys uuid[], lists bigint[], ids uuid[],
    OUT now bigint, OUT was_at bigint[], OUT was_first bigint[], OUT was_second bigint[], OUT more bigint[]
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_variable
DECLARE
    k integer;
    r record;
    latest bigint;
BEGIN
    now := coalesce(moment, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    now := least(now, 3940649673949183);
    SELECT array_agg(coalesce(t.at, 0)), array_agg(coalesce(t.first, 0)), array_agg(coalesce(t.second, 0))
        INTO was_at, was_first, was_second
        FROM (
            SELECT st.at, st.first, st.second
            FROM unnest(keys) AS u (key) LEFT JOIN states st ON st.key = u.key ORDER BY u.key
        ) t;
    FOR l IN 1..coalesce(array_length(lists, 1), 0) / 3 LOOP
        k := lists[3 * l - 2];
        IF lists[3 * l - 1] = 1 THEN
            FOR r IN SELECT e.at, e.cost FROM entries e
                WHERE e.key = keys[k] AND e.at > greatest(now, was_second[k]) - lists[3 * l] ORDER BY e.at
            LOOP
                more := more || ARRAY[k, r.at, r.cost, 0];
            END LOOP;
        ELSE
            SELECT coalesce(max(p.expires), 0) INTO latest FROM permits p WHERE p.key = keys[k];
            FOR r IN SELECT p.expires, p.cost, coalesce(array_position(ids, p.id), 0) AS place FROM permits p
                WHERE p.key = keys[k] AND p.expires > greatest(now, latest - lists[3 * l]) ORDER BY p.expires
            LOOP
                more := more || ARRAY[k, r.expires, r.cost, r.place];
            END LOOP;
        END IF;
    END LOOP;
END $$;

-- Drops from lists what had expired when their latest entry was made, as a look does in the transition. Lists that
-- somebody else uses are passed over: it never waits.
CREATE OR REPLACE FUNCTION tidy(keys uuid[], lists bigint[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    of uuid;
    last bigint;
    gone bigint;
BEGIN
    FOR l IN 1..coalesce(array_length(lists, 1), 0) / 3 LOOP
        of := keys[lists[3 * l - 2]];
        IF lists[3 * l - 1] = 1 THEN
            SELECT st.second INTO last FROM states st WHERE st.key = of
                AND EXISTS (SELECT FROM entries e WHERE e.key = of AND e.at <= st.second - lists[3 * l])
                FOR UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT found;
            WITH dropped AS (
                DELETE FROM entries e WHERE e.key = of AND e.at <= last - lists[3 * l] RETURNING e.cost
            ) SELECT coalesce(sum(d.cost), 0) INTO gone FROM dropped d;
        ELSE
            SELECT max(p.expires) INTO last FROM permits p WHERE p.key = of;
            PERFORM FROM states st WHERE st.key = of
                AND EXISTS (SELECT FROM permits p WHERE p.key = of AND p.expires <= last - lists[3 * l])
                FOR UPDATE SKIP LOCKED;
            CONTINUE WHEN NOT found;
            SELECT max(p.expires) INTO last FROM permits p WHERE p.key = of;
            WITH dropped AS (
                DELETE FROM permits p WHERE p.key = of AND p.expires <= last - lists[3 * l] RETURNING p.cost
            ) SELECT coalesce(sum(d.cost), 0) INTO gone FROM dropped d;
        END IF;
        UPDATE states st SET first = st.first - gone WHERE st.key = of;
    END LOOP;
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- Takes charges back as far as they are still felt. Twelve numbers for each, as for `apply`, but the third is when it
-- was charged and the tenth of a bucket is the cost. Keys without a state are passed over.
CREATE OR REPLACE FUNCTION refund(moment bigint, keys uuid[], steps bigint[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    now bigint;
    r states;
    charged_at bigint;
    i integer := 0;
BEGIN
    PERFORM FROM states st WHERE st.key = ANY (keys) ORDER BY st.key FOR UPDATE;
    now := coalesce(moment, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    now := least(now, 3940649673949183);
    WHILE i < array_length(steps, 1) LOOP
        SELECT * INTO r FROM states st WHERE st.key = keys[steps[i + 1]];
        IF found THEN
            charged_at := steps[i + 3];
            IF steps[i + 2] = 1 THEN
                r := refund_bucket(r, steps, i, now, greatest(now - charged_at, 0));
            ELSIF steps[i + 2] = 2 THEN
                IF now < r.at AND charged_at >= r.at - steps[i + 6] THEN
                    r.first := r.first - steps[i + 4];
                    IF r.first <= 0 THEN
                        r.at := 0;
                        r.first := 0;
                    END IF;
                END IF;
            ELSIF steps[i + 2] = 3 THEN
                r := refund_sliding(r, steps[i + 4], steps[i + 6], charged_at, now);
            ELSIF steps[i + 2] = 4 THEN
                r := refund_log(r, steps[i + 4], charged_at);
            END IF;
            UPDATE states st SET at = r.at, first = r.first, second = r.second WHERE st.key = r.key;
        END IF;
        i := i + 12;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION refund_bucket(r states, steps bigint[], i integer, now bigint, gone bigint)
RETURNS states LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    per CONSTANT bigint := steps[i + 8];
    period CONSTANT bigint := steps[i + 11];
    d record;
    back numeric;
    remains numeric;
BEGIN
    IF r.second <> steps[i + 9] THEN
        IF r.at < now THEN
            RETURN r;
        END IF;
        -- It may have come back at either rate: as much is taken for gone as the faster one brings.
        d := drain_of(r.second);
        back := steps[i + 10]::numeric * period - gone::numeric * greatest(d.drain, per * steps[i + 12]);
        remains := greatest(owed_by(r.at, r.first, r.second, period, now) - greatest(back, 0), 0);
        remains := div(remains + d.drain - 1, d.drain);
        r.at := least(now + remains, r.at);
        r.first := 0;
        IF remains = 0 THEN
            r.at := 0;
            r.second := 0;
        END IF;
        RETURN r;
    END IF;
    IF steps[i + 4] < gone THEN
        RETURN r;
    END IF;
    IF r.at < now THEN
        r.at := now;
        r.first := 0;
    END IF;
    r.at := r.at - (steps[i + 4] - gone);
    r.first := r.first - steps[i + 5];
    IF r.first < 0 THEN
        r.at := r.at - 1;
        r.first := r.first + per;
    END IF;
    IF r.at < now OR (r.at = now AND r.first = 0) THEN
        r.at := 0;
        r.first := 0;
        r.second := 0;
    END IF;
    RETURN r;
END $$;

CREATE OR REPLACE FUNCTION refund_sliding(r states, cost bigint, period bigint, charged_at bigint, now bigint)
RETURNS states LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    start bigint := r.at - 2 * period;
BEGIN
    IF now >= r.at OR (r.second = 0 AND now >= start + period) THEN
        r.first := 0;
        r.second := 0;
    ELSIF now >= start + period THEN
        start := start + period;
        r.first := r.second;
        r.second := 0;
    END IF;
    IF charged_at >= start THEN
        r.second := greatest(r.second - cost, 0);
    ELSIF charged_at >= start - period THEN
        r.first := greatest(r.first - cost, 0);
    END IF;
    r.at := CASE WHEN r.first = 0 AND r.second = 0 THEN 0 ELSE start + 2 * period END;
    RETURN r;
END $$;

CREATE OR REPLACE FUNCTION refund_log(r states, cost bigint, charged_at bigint) RETURNS states LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    was bigint;
BEGIN
    SELECT e.cost INTO was FROM entries e WHERE e.key = r.key AND e.at = charged_at;
    IF was > cost THEN
        UPDATE entries e SET cost = was - cost WHERE e.key = r.key AND e.at = charged_at;
        r.first := r.first - cost;
    ELSIF was IS NOT NULL THEN
        DELETE FROM entries e WHERE e.key = r.key AND e.at = charged_at;
        r.first := r.first - was;
        SELECT coalesce(max(e.at), 0) INTO r.second FROM entries e WHERE e.key = r.key;
    END IF;
    RETURN r;
END $$;

-- Forgets all that is known of the keys.
CREATE OR REPLACE FUNCTION forget(keys uuid[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    PERFORM FROM states st WHERE st.key = ANY (keys) ORDER BY st.key FOR UPDATE;
    DELETE FROM entries e WHERE e.key = ANY (keys);
    DELETE FROM permits p WHERE p.key = ANY (keys);
    DELETE FROM states st WHERE st.key = ANY (keys);
END $$;

-- Looks at up to `budget` states from a key on, and drops the expired ones but for those that somebody uses: it never
-- waits. Gives how many it saw and dropped, and the last key it looked at.
CREATE OR REPLACE FUNCTION sweep(
    moment bigint, start uuid, budget bigint, OUT seen bigint, OUT dropped bigint, OUT last uuid
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    now CONSTANT bigint := coalesce(moment, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    expired uuid[];
    lists uuid[];
BEGIN
    SELECT count(*), array_agg(t.key) FILTER (WHERE t.at < now), (array_agg(t.key ORDER BY t.key DESC))[1]
        INTO seen, expired, last
        FROM (SELECT st.key, st.at FROM states st WHERE st.key >= start ORDER BY st.key LIMIT budget) t;
    SELECT array_agg(t.key), array_agg(t.key) FILTER (WHERE t.listed > 0) INTO expired, lists
        FROM (
            SELECT st.key, st.listed FROM states st
            WHERE st.key = ANY (expired) AND st.at < now ORDER BY st.key FOR UPDATE SKIP LOCKED
        ) t;
    IF lists IS NOT NULL THEN
        DELETE FROM entries e WHERE e.key = ANY (lists);
        DELETE FROM permits p WHERE p.key = ANY (lists);
    END IF;
    DELETE FROM states st WHERE st.key = ANY (expired);
    GET DIAGNOSTICS dropped = ROW_COUNT;
    -- What is expired is as good as gone: nothing is lost if the disk does not hear of it.
    PERFORM set_config('synchronous_commit', 'off', true);
END $$;
