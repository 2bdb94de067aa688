-- Logs and permits, for `apply`: called for few steps, under the lock of the key's state.

-- A log when a group of batches begins: what its entries cost that are in the window, what those cost that are not but
-- are kept, and the instant that now is taken for. Entries that had left the window when the last one was made are
-- dropped; later is too late for that, because nobody knows yet whether this time will be written down.
CREATE OR REPLACE FUNCTION open_log(
    of uuid, total bigint, last bigint, period bigint, now bigint,
    OUT live bigint, OUT stale bigint, OUT moment bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    gone bigint := 0;
BEGIN
    moment := greatest(now, last);
    stale := 0;
    live := total;
    IF total = 0 THEN
        RETURN;
    END IF;
    WITH dropped AS (DELETE FROM entries e WHERE e.key = of AND e.at <= last - period RETURNING e.cost)
        SELECT coalesce(sum(d.cost), 0) INTO gone FROM dropped d;
    SELECT coalesce(sum(e.cost), 0) INTO stale FROM entries e WHERE e.key = of AND e.at <= moment - period;
    live := total - gone - stale;
END $$;

-- Permits when a group begins: what lapsed before the latest was taken is dropped. Gives what those cost that are kept;
-- what those cost that are out and that nobody names, and when the last of them lapses; the instant that now is taken
-- for; and of those that are out and named the time, the cost and the place of their names.
CREATE OR REPLACE FUNCTION open_permits(
    of uuid, total bigint, lifetime bigint, now bigint, ids uuid[],
    OUT kept bigint, OUT others bigint, OUT latest bigint, OUT moment bigint, OUT named bigint[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    gone bigint;
    r record;
BEGIN
    SELECT coalesce(max(p.expires), 0) INTO latest FROM permits p WHERE p.key = of;
    WITH dropped AS (DELETE FROM permits p WHERE p.key = of AND p.expires <= latest - lifetime RETURNING p.cost)
        SELECT coalesce(sum(d.cost), 0) INTO gone FROM dropped d;
    kept := total - gone;
    moment := greatest(now, latest - lifetime);
    SELECT coalesce(sum(p.cost), 0) INTO gone FROM permits p WHERE p.key = of AND p.expires <= moment;
    others := kept - gone;
    FOR r IN SELECT p.expires, p.cost, array_position(ids, p.id) AS place FROM permits p
        WHERE p.key = of AND p.id = ANY (ids) AND p.expires > moment
    LOOP
        others := others - r.cost;
        named := named || ARRAY[r.expires, r.cost, r.place];
    END LOOP;
    SELECT p.expires INTO latest FROM permits p
        WHERE p.key = of AND p.id <> ALL (ids) ORDER BY p.expires DESC LIMIT 1;
END $$;

-- The first entries of a log, or the first permits that nobody names, that together cost what is needed; then the rest
-- as one, at the time of the last.
CREATE OR REPLACE FUNCTION first_of_list(
    of uuid, place bigint, is_log boolean, moment bigint, period bigint, needed bigint, ids uuid[],
    total bigint, last bigint, OUT more bigint[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    r record;
    taken bigint := 0;
BEGIN
    more := '{}';
    IF needed > 0 AND is_log THEN
        FOR r IN SELECT e.at, e.cost FROM entries e WHERE e.key = of AND e.at > moment - period ORDER BY e.at LOOP
            EXIT WHEN taken >= needed;
            taken := taken + r.cost;
            more := more || ARRAY[place, r.at, r.cost, 0];
        END LOOP;
    ELSIF needed > 0 THEN
        FOR r IN SELECT p.expires, p.cost FROM permits p
            WHERE p.key = of AND p.expires > moment AND p.id <> ALL (ids) ORDER BY p.expires
        LOOP
            EXIT WHEN taken >= needed;
            taken := taken + r.cost;
            more := more || ARRAY[place, r.expires, r.cost, 0];
        END LOOP;
    END IF;
    IF total > taken THEN
        more := more || ARRAY[place, last, total - taken, 0];
    END IF;
END $$;

-- Takes (1), keeps (2) or gives back (3) a permit. Says whether that is admitted, how much is in the way if not, and
-- what was there before under its name (zero for nothing), which takes it back.
CREATE OR REPLACE FUNCTION act_on_permit(
    of uuid, name uuid, act bigint, price bigint, most bigint, lifetime bigint, now bigint,
    INOUT total bigint, OUT admitted boolean, OUT needed bigint,
    OUT was_expires bigint, OUT was_cost bigint, OUT expires bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    latest bigint;
    moment bigint;
    used bigint;
BEGIN
    admitted := true;
    needed := 0;
    expires := 0;
    SELECT p.expires, p.cost INTO was_expires, was_cost FROM permits p WHERE p.key = of AND p.id = name;
    was_expires := coalesce(was_expires, 0);
    was_cost := coalesce(was_cost, 0);
    IF act = 3 THEN
        DELETE FROM permits p WHERE p.key = of AND p.id = name;
        total := total - was_cost;
        RETURN;
    END IF;
    SELECT max(p.expires) INTO latest FROM permits p WHERE p.key = of;
    moment := greatest(now, coalesce(latest, 0) - lifetime);
    IF was_expires > moment THEN
        expires := greatest(was_expires, moment + lifetime);
        UPDATE permits p SET expires = expires WHERE p.key = of AND p.id = name;
        RETURN;
    END IF;
    admitted := false;
    IF act = 2 OR price > most THEN
        RETURN;
    END IF;
    SELECT coalesce(sum(p.cost), 0) INTO used FROM permits p WHERE p.key = of AND p.expires <= moment;
    used := total - used;
    IF used + price > most THEN
        needed := used + price - most;
        RETURN;
    END IF;
    admitted := true;
    expires := moment + lifetime;
    -- One that lapsed may still stand under the same name.
    INSERT INTO permits AS p (key, id, expires, cost) VALUES (of, name, expires, price)
        ON CONFLICT (key, id) DO UPDATE SET expires = excluded.expires, cost = excluded.cost;
    total := total - was_cost + price;
END $$;

-- Takes back what `act_on_permit` did.
CREATE OR REPLACE FUNCTION restore_permit(of uuid, name uuid, was_expires bigint, was_cost bigint)
RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_variable
BEGIN
    IF was_expires = 0 THEN
        DELETE FROM permits p WHERE p.key = of AND p.id = name;
    ELSE
        INSERT INTO permits AS p (key, id, expires, cost) VALUES (of, name, was_expires, was_cost)
            ON CONFLICT (key, id) DO UPDATE SET expires = excluded.expires, cost = excluded.cost;
    END IF;
END $$;
