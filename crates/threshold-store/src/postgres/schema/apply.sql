-- One call judges and charges a group of batches, each as one, in order. Mirrors `threshold_core::transition`; the
-- contract suite compares the two.
--
-- keys     sorted and different; their states are locked in this order, so that no two calls wait for each other
-- steps    twelve numbers for each step: place of its key, kind, flags, and the numbers it is judged by
--          flags: 1 last of its batch, 2 observed, 4 only checked, 8 its batch has more than one
-- lists    for each key with a list three numbers: its place, 1 for a log or 2 for permits, the period or lifetime
-- ids      the permits that are named
-- moment   the time, for tests; else the clock is read once all locks are held
--
-- was_*    the states as they were before the first batch
-- refused  the places of the batches that were not charged
-- more     of lists, four numbers for each entry: place of the key, time, cost, and the place of its permit's id
CREATE OR REPLACE FUNCTION apply(
    moment bigint, keys uuid[], steps bigint[], lists bigint[], ids uuid[],
    OUT now bigint, OUT was_at bigint[], OUT was_first bigint[], OUT was_second bigint[],
    OUT refused integer[], OUT more bigint[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    ats bigint[];
    firsts bigint[];
    seconds bigint[];
    places tid[];
    found integer;
    -- The step at hand: where its numbers are, its key, and the state.
    i integer := 0;
    last CONSTANT integer := array_length(steps, 1);
    k integer;
    kind bigint;
    flags bigint;
    a bigint;
    f bigint;
    s bigint;
    admitted boolean;
    -- The batch at hand.
    batch integer := 0;
    refusing boolean := false;
    charged boolean := false;
    undo bigint[];
    undos integer := 0;
    -- Windows.
    start bigint;
    -- Lists, for each key with one: what is kept of a log that is not in the window, or what the permits cost that
    -- nobody names; when the last of those lapses; now, as the key takes it; and what is in the way of a refused step.
    listed CONSTANT integer := coalesce(array_length(lists, 1), 0) / 3;
    rests bigint[];
    latest bigint[];
    moments bigint[];
    needs bigint[];
    r record;
BEGIN
    LOOP
        BEGIN
            SELECT array_agg(t.at), array_agg(t.first), array_agg(t.second), array_agg(t.place)
                INTO ats, firsts, seconds, places
                FROM (
                    SELECT st.at, st.first, st.second, st.ctid AS place
                    FROM states st WHERE st.key = ANY (keys) ORDER BY st.key FOR UPDATE
                ) t;
            found := array_length(ats, 1);
            IF found IS DISTINCT FROM array_length(keys, 1) THEN
                -- Gives the locks back: rows are made in order before others are locked in order.
                RAISE EXCEPTION SQLSTATE 'TH001';
            END IF;
            now := coalesce(moment, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
            now := least(now, 3940649673949183);
            was_at := ats;
            was_first := firsts;
            was_second := seconds;

            FOR l IN 1..listed LOOP
                k := lists[3 * l - 2];
                needs[l] := 0;
                -- While steps are judged, this says which list it is.
                seconds[k] := l;
                IF lists[3 * l - 1] = 1 THEN
                    r := open_log(keys[k], firsts[k], was_second[k], lists[3 * l], now);
                    firsts[k] := r.live;
                    rests[l] := r.stale;
                    moments[l] := r.moment;
                    -- And this what they add.
                    ats[k] := 0;
                ELSE
                    r := open_permits(keys[k], firsts[k], lists[3 * l], now, ids);
                    firsts[k] := r.kept;
                    rests[l] := r.others;
                    latest[l] := r.latest;
                    moments[l] := r.moment;
                    FOR n IN 1..coalesce(array_length(r.named, 1), 0) BY 3 LOOP
                        more := more || ARRAY[k, r.named[n], r.named[n + 1], r.named[n + 2]];
                    END LOOP;
                END IF;
            END LOOP;

            WHILE i < last LOOP
                k := steps[i + 1];
                kind := steps[i + 2];
                flags := steps[i + 3];
                a := ats[k];
                f := firsts[k];
                s := seconds[k];
                IF kind = 1 THEN
                    IF s <> steps[i + 9] AND a >= now THEN
                        r := judge_changed(steps, i, now, a, f, s);
                        a := r.at;
                        f := r.rest;
                        s := r.mark;
                        admitted := r.admitted;
                    ELSE
                        IF a < now THEN
                            a := now;
                            f := 0;
                        END IF;
                        a := a + steps[i + 4];
                        f := f + steps[i + 5];
                        IF f >= steps[i + 8] THEN
                            a := a + 1;
                            f := f - steps[i + 8];
                        END IF;
                        start := now + steps[i + 6];
                        admitted := a < start OR (a = start AND f <= steps[i + 7]);
                        s := steps[i + 9];
                    END IF;
                ELSIF kind = 2 THEN
                    IF now >= a THEN
                        -- Calendar windows are aligned, the others start now.
                        a := now + steps[i + 6] - CASE WHEN steps[i + 7] = 1 THEN now % steps[i + 6] ELSE 0 END;
                        f := 0;
                    END IF;
                    f := f + steps[i + 4];
                    admitted := f <= steps[i + 5];
                ELSIF kind = 3 THEN
                    start := a - 2 * steps[i + 6];
                    IF now >= a OR (s = 0 AND now >= start + steps[i + 6]) THEN
                        start := now;
                        f := 0;
                        s := 0;
                    ELSIF now >= start + steps[i + 6] THEN
                        start := start + steps[i + 6];
                        f := s;
                        s := 0;
                    END IF;
                    s := s + steps[i + 4];
                    -- Slices that have passed are rounded down, and what has not faded is rounded up.
                    admitted := s + (f * (steps[i + 8] - greatest(now - start, 0) / steps[i + 7]) + steps[i + 8] - 1)
                        / steps[i + 8] <= steps[i + 5];
                    a := start + 2 * steps[i + 6];
                ELSIF kind = 4 THEN
                    a := a + steps[i + 4];
                    admitted := f + a <= steps[i + 5];
                    IF NOT admitted AND steps[i + 4] <= steps[i + 5] THEN
                        needs[s] := greatest(needs[s], f + a - steps[i + 5]);
                    END IF;
                ELSIF kind = 5 THEN
                    r := act_on_permit(
                        keys[k], ids[steps[i + 8]], steps[i + 4], steps[i + 5], steps[i + 6], steps[i + 7], now, f
                    );
                    admitted := r.admitted;
                    f := r.total;
                    a := greatest(a, r.expires);
                    needs[s] := greatest(needs[s], r.needed);
                    IF admitted THEN
                        undo[undos + 5] := steps[i + 8];
                        undo[undos + 6] := r.was_expires;
                        undo[undos + 7] := r.was_cost;
                    END IF;
                ELSE
                    admitted := false;
                END IF;

                IF flags = 1 THEN
                    -- A batch of one.
                    IF admitted THEN
                        ats[k] := a;
                        firsts[k] := f;
                        seconds[k] := s;
                        charged := true;
                    ELSE
                        refused := refused || batch;
                    END IF;
                    batch := batch + 1;
                ELSE
                    IF NOT admitted THEN
                        refusing := refusing OR flags & 2 = 0;
                    ELSIF flags & 4 = 0 THEN
                        IF flags & 8 <> 0 THEN
                            undo[undos + 1] := k;
                            undo[undos + 2] := ats[k];
                            undo[undos + 3] := firsts[k];
                            undo[undos + 4] := seconds[k];
                            IF kind <> 5 THEN
                                undo[undos + 5] := 0;
                            END IF;
                            undos := undos + 7;
                        END IF;
                        ats[k] := a;
                        firsts[k] := f;
                        seconds[k] := s;
                    END IF;
                    IF flags & 1 = 1 THEN
                        IF refusing THEN
                            -- Last first, so that a key that was charged twice ends where it began.
                            WHILE undos > 0 LOOP
                                undos := undos - 7;
                                k := undo[undos + 1];
                                ats[k] := undo[undos + 2];
                                firsts[k] := undo[undos + 3];
                                seconds[k] := undo[undos + 4];
                                IF undo[undos + 5] > 0 THEN
                                    PERFORM restore_permit(
                                        keys[k], ids[undo[undos + 5]], undo[undos + 6], undo[undos + 7]
                                    );
                                END IF;
                            END LOOP;
                            refused := refused || batch;
                            refusing := false;
                        ELSE
                            charged := true;
                            undos := 0;
                        END IF;
                        batch := batch + 1;
                    END IF;
                END IF;
                i := i + 12;
            END LOOP;

            FOR l IN 1..listed LOOP
                k := lists[3 * l - 2];
                more := more || first_of_list(
                    keys[k], k, lists[3 * l - 1] = 1, moments[l], lists[3 * l], needs[l], ids,
                    CASE WHEN lists[3 * l - 1] = 1 THEN firsts[k] ELSE rests[l] END,
                    CASE WHEN lists[3 * l - 1] = 1 THEN was_second[k] ELSE latest[l] END
                );
                IF lists[3 * l - 1] = 2 THEN
                    seconds[k] := 0;
                ELSIF ats[k] > 0 THEN
                    INSERT INTO entries AS e (key, at, cost) VALUES (keys[k], moments[l], ats[k])
                        ON CONFLICT (key, at) DO UPDATE SET cost = e.cost + excluded.cost;
                    firsts[k] := firsts[k] + rests[l] + ats[k];
                    ats[k] := moments[l] + lists[3 * l];
                    seconds[k] := moments[l];
                ELSE
                    firsts[k] := firsts[k] + rests[l];
                    ats[k] := was_at[k];
                    seconds[k] := was_second[k];
                END IF;
            END LOOP;
            IF charged OR listed > 0 THEN
                UPDATE states st SET at = n.at, first = n.first, second = n.second
                    FROM unnest(places, ats, firsts, seconds) AS n (place, at, first, second)
                    WHERE st.ctid = n.place
                    AND (st.at <> n.at OR st.first <> n.first OR st.second <> n.second);
            END IF;
            FOR l IN 1..listed LOOP
                UPDATE states st SET listed = lists[3 * l - 1]
                    WHERE st.key = keys[lists[3 * l - 2]] AND st.listed = 0;
            END LOOP;
            IF NOT charged THEN
                -- Nothing was admitted: nothing is lost if the disk does not hear of it.
                PERFORM set_config('synchronous_commit', 'off', true);
            END IF;
            EXIT;
        EXCEPTION WHEN SQLSTATE 'TH001' THEN
            INSERT INTO states AS st (key) SELECT u.key FROM unnest(keys) AS u (key) ON CONFLICT (key) DO NOTHING;
        END;
    END LOOP;
END $$;
