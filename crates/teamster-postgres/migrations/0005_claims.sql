-- A claim costs the same however many tasks are in progress: those are looked at only when the lease of one is over.
CREATE INDEX tasks_pending ON teamster.tasks (team, number) WHERE status = 0 AND offered;
CREATE INDEX tasks_leased ON teamster.tasks (team, leased_until) WHERE status = 1;
DROP INDEX teamster.tasks_open;

-- Tells whether a task may suit a worker that asks for its own tasks or for any, but for what the task waits for. The planner takes
-- this for a part of the query, which it cannot do with a function that reads other rows.
CREATE FUNCTION teamster.suits(
    t teamster.tasks, in_own boolean, in_worker text, in_capabilities text[], in_lost text[], in_now bigint, in_longest_pause bigint
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN t.status = 1 THEN NOT in_own AND t.leased_until <= in_now
        WHEN t.not_before > in_now AND t.not_before - in_now <= in_longest_pause THEN false
        WHEN in_own THEN t.owner = in_worker
        ELSE (t.owner IS NULL OR t.owner = ANY (in_lost))
            AND (t.capabilities = '{}' OR 'general' = ANY (in_capabilities) OR t.capabilities && in_capabilities)
    END
$$;

-- Tells whether there is a task that may suit a worker and was not offered to it: somebody else is claiming that at this moment.
CREATE FUNCTION teamster.is_passed_over(
    in_team text, in_offered text[], in_worker text, in_capabilities text[], in_lost text[], in_now bigint, in_longest_pause bigint
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM (
            SELECT t FROM teamster.tasks t WHERE t.team = in_team AND t.status = 0 AND t.offered
            UNION ALL
            SELECT t FROM teamster.tasks t WHERE t.team = in_team AND t.status = 1 AND t.leased_until <= in_now AND t.offered
        ) AS open
        WHERE (open.t).id <> ALL (in_offered)
            AND (teamster.suits(open.t, true, in_worker, in_capabilities, in_lost, in_now, in_longest_pause)
                OR teamster.suits(open.t, false, in_worker, in_capabilities, in_lost, in_now, in_longest_pause))
            AND ((open.t).blockers = '{}' OR NOT EXISTS (
                SELECT FROM unnest((open.t).blockers) AS waits (id)
                LEFT JOIN teamster.tasks b ON b.team = in_team AND b.id = waits.id
                WHERE b.passing IS NOT TRUE)))
$$;

-- The version of the registry is looked at by every change, in the row that is locked anyway.
ALTER TABLE teamster.positions ADD COLUMN config_version bigint NOT NULL DEFAULT 1;
UPDATE teamster.positions p SET config_version = t.config_version FROM teamster.teams t WHERE t.name = p.team;
ALTER TABLE teamster.teams DROP COLUMN config_version;

-- Returns the first task after `in_after` that may suit a worker, locked until the transaction ends, and behind it what it waits for.
-- A task that somebody else is claiming at this moment is passed over. Blockers are looked at here, so that tasks that have to wait cost
-- nothing; the rules look at them again. Tasks whose lease is over are among them where `in_is_over` says that there is one.
CREATE FUNCTION teamster.offer(
    in_team text, in_own boolean, in_worker text, in_capabilities text[], in_lost text[],
    in_after numeric, in_now bigint, in_longest_pause bigint, in_is_over boolean
) RETURNS TABLE (found_id text, found_version bigint, found_fence bigint, found_body text)
LANGUAGE plpgsql AS $$
DECLARE
    waits_for text[];
BEGIN
    IF in_is_over THEN
        SELECT t.id, t.version, t.fence, t.body, t.blockers
        INTO found_id, found_version, found_fence, found_body, waits_for
        FROM teamster.tasks t
        WHERE t.team = in_team AND t.status < 2 AND t.number > in_after AND t.offered
            AND teamster.suits(t, in_own, in_worker, in_capabilities, in_lost, in_now, in_longest_pause)
            AND (t.blockers = '{}' OR NOT EXISTS (
                SELECT FROM unnest(t.blockers) AS waits (id)
                LEFT JOIN teamster.tasks b ON b.team = t.team AND b.id = waits.id
                WHERE b.passing IS NOT TRUE))
        ORDER BY t.number
        LIMIT 1
        FOR UPDATE OF t SKIP LOCKED;
    ELSE
        SELECT t.id, t.version, t.fence, t.body, t.blockers
        INTO found_id, found_version, found_fence, found_body, waits_for
        FROM teamster.tasks t
        WHERE t.team = in_team AND t.status = 0 AND t.number > in_after AND t.offered
            AND teamster.suits(t, in_own, in_worker, in_capabilities, in_lost, in_now, in_longest_pause)
            AND (t.blockers = '{}' OR NOT EXISTS (
                SELECT FROM unnest(t.blockers) AS waits (id)
                LEFT JOIN teamster.tasks b ON b.team = t.team AND b.id = waits.id
                WHERE b.passing IS NOT TRUE))
        ORDER BY t.number
        LIMIT 1
        FOR UPDATE OF t SKIP LOCKED;
    END IF;
    IF found_id IS NULL THEN
        RETURN;
    END IF;
    RETURN NEXT;
    IF cardinality(waits_for) > 0 THEN
        RETURN QUERY
            SELECT b.id, b.version, b.fence, b.body FROM teamster.tasks b
            WHERE b.team = in_team AND b.id = ANY (waits_for);
    END IF;
END $$;
DROP FUNCTION teamster.next_candidate(text, boolean, text, text[], text[], numeric, bigint, bigint);

-- Returns what every change begins with: the time, the registry with its version, the highest number of a task, whether any task that
-- waits is somebody's, and the heartbeat of a worker. The registry is left out for whoever has it, which `edition` tells: no two rows
-- that differ have the same.
CREATE FUNCTION teamster.open_change(
    in_team text, in_edition text, in_worker text,
    OUT now bigint, OUT edition text, OUT config text, OUT config_version bigint, OUT highest text, OUT has_assigned boolean,
    OUT beat text
) RETURNS SETOF record LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY
        SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, t.xmin::text,
            CASE WHEN t.xmin::text = in_edition THEN NULL ELSE t.config END, p.config_version, p.highest::text, EXISTS (
                SELECT FROM teamster.tasks a WHERE a.team = in_team AND a.status = 0 AND a.owner IS NOT NULL),
            (SELECT h.body FROM teamster.beats h WHERE h.team = in_team AND h.worker = in_worker)
        FROM teamster.teams t JOIN teamster.positions p ON p.team = t.name WHERE t.name = in_team;
END $$;

-- Returns the same for a claim, and with it the first task that may suit a worker, locked until the transaction ends, as `offer` has
-- it. Where a task that waits is somebody's, a worker asks for its own first: there none is looked for.
CREATE FUNCTION teamster.open_claim(
    in_team text, in_edition text, in_worker text, in_capabilities text[], in_longest_pause bigint,
    OUT now bigint, OUT edition text, OUT config text, OUT config_version bigint, OUT highest text, OUT has_assigned boolean,
    OUT beat text,
    OUT found_id text, OUT found_version bigint, OUT found_fence bigint, OUT found_body text
) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
    is_over boolean;
BEGIN
    now := (extract(epoch FROM clock_timestamp()) * 1000)::bigint;
    SELECT t.xmin::text, CASE WHEN t.xmin::text = in_edition THEN NULL ELSE t.config END, p.config_version, p.highest::text, EXISTS (
            SELECT FROM teamster.tasks a WHERE a.team = in_team AND a.status = 0 AND a.owner IS NOT NULL),
        (SELECT h.body FROM teamster.beats h WHERE h.team = in_team AND h.worker = in_worker),
        EXISTS (SELECT FROM teamster.tasks l WHERE l.team = in_team AND l.status = 1 AND l.leased_until <= now)
    INTO edition, config, config_version, highest, has_assigned, beat, is_over
    FROM teamster.teams t JOIN teamster.positions p ON p.team = t.name WHERE t.name = in_team;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF NOT has_assigned THEN
        RETURN QUERY
            SELECT now, edition, config, config_version, highest, has_assigned, beat, o.*
            FROM teamster.offer(in_team, false, in_worker, in_capabilities, '{}', -1, now, in_longest_pause, is_over) AS o;
        IF FOUND THEN
            RETURN;
        END IF;
    END IF;
    RETURN NEXT;
END $$;

-- Makes one change whole, or refuses it with TM409 when anything that was read has changed since: then it is tried again from the
-- beginning. Returns the position before its first event.
--
-- The commit itself does not wait for the disk, so that the lock of the team is held for a moment only; whoever asked for the change
-- is answered when `pg_logical_emit_message`, committed after it, has brought the log to the disk.
--
-- The rows of tasks are locked before the lock of the team, as claimers do. Who has that already must not wait for a claimer.
CREATE OR REPLACE FUNCTION teamster.apply(
    in_team text, in_has_lock boolean,
    in_config_version bigint, in_claims bigint, in_highest numeric,
    in_read_ids text[], in_read_versions bigint[],
    in_config text,
    in_ids text[], in_numbers numeric[], in_fences_before bigint[], in_fences bigint[], in_statuses smallint[], in_owners text[],
    in_leases bigint[], in_pauses bigint[], in_offered boolean[], in_passing boolean[],
    in_capabilities text[], in_blockers text[], in_bodies text[],
    in_removed text[],
    in_failed text[], in_failures text[],
    in_boxes text[], in_messages text[],
    in_cursor_boxes text[], in_acked_before bigint[], in_acked bigint[], in_delivered bigint[],
    in_signal_workers text[], in_drains boolean[], in_signals text[], in_obeyed text[],
    in_event_ids text[], in_kinds text[], in_events text[]
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    held record;
    told integer := coalesce(cardinality(in_event_ids), 0);
    -- How many of the tasks that are written were there before.
    known integer := coalesce(cardinality(array_remove(in_fences_before, NULL)), 0);
    changed integer := 0;
    wakes boolean;
    -- An assignment costs less than a query.
    setting text := set_config('synchronous_commit', 'off', true);
BEGIN
    IF known = 0 AND coalesce(cardinality(in_removed), 0) = 0 THEN
        -- There is no row to lock.
    ELSIF in_has_lock THEN
        PERFORM FROM teamster.tasks t WHERE t.team = in_team AND t.id = ANY (in_ids || in_removed) FOR UPDATE NOWAIT;
    ELSE
        PERFORM FROM teamster.tasks t WHERE t.team = in_team AND t.id = ANY (in_ids || in_removed) ORDER BY t.number FOR UPDATE;
    END IF;
    SELECT p.seq, p.claims, p.highest, p.config_version, p.notified_at INTO held
    FROM teamster.positions p WHERE p.team = in_team FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no team %', in_team USING ERRCODE = 'TM404';
    END IF;
    IF (in_claims IS NOT NULL AND in_claims <> held.claims)
        OR (in_highest IS NOT NULL AND in_highest <> held.highest)
        OR (in_config_version IS NOT NULL AND in_config_version <> held.config_version)
    THEN
        RAISE EXCEPTION 'what was read has changed' USING ERRCODE = 'TM409';
    END IF;
    -- A condition with a query in it costs one even where the rest of it decides.
    IF cardinality(in_read_ids) > 0 THEN
        IF EXISTS (
            SELECT FROM unnest(in_read_ids, in_read_versions) AS was (id, version)
            LEFT JOIN teamster.tasks t ON t.team = in_team AND t.id = was.id
            WHERE coalesce(t.version, 0) <> was.version)
        THEN
            RAISE EXCEPTION 'what was read has changed' USING ERRCODE = 'TM409';
        END IF;
    END IF;
    IF cardinality(in_cursor_boxes) > 0 THEN
        IF EXISTS (
            SELECT FROM unnest(in_cursor_boxes, in_acked_before) AS was (box, acked)
            LEFT JOIN teamster.boxes b ON b.team = in_team AND b.box = was.box
            WHERE coalesce(b.acked, 0) <> was.acked)
        THEN
            RAISE EXCEPTION 'what was read has changed' USING ERRCODE = 'TM409';
        END IF;
    END IF;

    IF known > 0 THEN
        UPDATE teamster.tasks t SET
            version = t.version + 1, fence = put.fence, status = put.status, owner = put.owner, leased_until = put.lease,
            not_before = put.pause, offered = put.offered, passing = put.passing,
            capabilities = string_to_array(put.capabilities, chr(31)), blockers = string_to_array(put.blockers, chr(31)), body = put.body
        FROM unnest(in_ids, in_fences_before, in_fences, in_statuses, in_owners, in_leases, in_pauses, in_offered, in_passing,
                in_capabilities, in_blockers, in_bodies)
            AS put (id, fence_before, fence, status, owner, lease, pause, offered, passing, capabilities, blockers, body)
        WHERE t.team = in_team AND t.id = put.id AND t.fence = put.fence_before;
        GET DIAGNOSTICS changed = ROW_COUNT;
    END IF;
    IF changed <> known THEN
        RAISE EXCEPTION 'a task was claimed meanwhile' USING ERRCODE = 'TM409';
    END IF;
    IF cardinality(in_ids) > known THEN
        INSERT INTO teamster.tasks (team, id, number, fence, status, owner, leased_until, not_before, offered, passing,
            capabilities, blockers, body)
        SELECT in_team, put.id, put.number, put.fence, put.status, put.owner, put.lease, put.pause, put.offered, put.passing,
            string_to_array(put.capabilities, chr(31)), string_to_array(put.blockers, chr(31)), put.body
        FROM unnest(in_ids, in_numbers, in_fences_before, in_fences, in_statuses, in_owners, in_leases, in_pauses, in_offered,
                in_passing, in_capabilities, in_blockers, in_bodies)
            AS put (id, number, fence_before, fence, status, owner, lease, pause, offered, passing, capabilities, blockers, body)
        WHERE put.fence_before IS NULL;
    END IF;
    IF cardinality(in_removed) > 0 THEN
        DELETE FROM teamster.tasks t WHERE t.team = in_team AND t.id = ANY (in_removed);
    END IF;
    IF cardinality(in_failed) > 0 THEN
        DELETE FROM teamster.failures f WHERE f.team = in_team AND f.id = ANY (in_failed);
        INSERT INTO teamster.failures (team, id, body)
        SELECT in_team, put.id, put.body FROM unnest(in_failed, in_failures) AS put (id, body) WHERE put.body IS NOT NULL;
    END IF;
    IF in_config IS NOT NULL THEN
        UPDATE teamster.teams t SET config = in_config WHERE t.name = in_team;
    END IF;

    IF cardinality(in_boxes) > 0 THEN
        INSERT INTO teamster.boxes (team, box) SELECT DISTINCT in_team, box FROM unnest(in_boxes) AS put (box)
        ON CONFLICT DO NOTHING;
        INSERT INTO teamster.mail (team, box, place, body)
        SELECT in_team, put.box, b.size + row_number() OVER (PARTITION BY put.box ORDER BY put.nth), put.body
        FROM unnest(in_boxes, in_messages) WITH ORDINALITY AS put (box, body, nth)
        JOIN teamster.boxes b ON b.team = in_team AND b.box = put.box;
        UPDATE teamster.boxes b SET size = b.size + put.count
        FROM (SELECT box, count(*) AS count FROM unnest(in_boxes) AS put (box) GROUP BY box) AS put
        WHERE b.team = in_team AND b.box = put.box;
    END IF;
    IF cardinality(in_cursor_boxes) > 0 THEN
        INSERT INTO teamster.boxes AS b (team, box, acked, delivered)
        SELECT in_team, put.box, put.acked, put.delivered
        FROM unnest(in_cursor_boxes, in_acked, in_delivered) AS put (box, acked, delivered)
        ON CONFLICT (team, box) DO UPDATE SET acked = EXCLUDED.acked, delivered = greatest(b.delivered, EXCLUDED.delivered);
    END IF;
    IF cardinality(in_obeyed) > 0 THEN
        DELETE FROM teamster.signals s WHERE s.team = in_team AND s.worker = ANY (in_obeyed);
    END IF;
    IF cardinality(in_signal_workers) > 0 THEN
        INSERT INTO teamster.signals (team, worker, drain, body)
        SELECT in_team, put.worker, put.drain, put.body
        FROM unnest(in_signal_workers, in_drains, in_signals) AS put (worker, drain, body)
        ON CONFLICT (team, worker, drain) DO UPDATE SET body = EXCLUDED.body;
    END IF;

    IF told = 1 THEN
        INSERT INTO teamster.events (team, seq, id, kind, body)
        VALUES (in_team, held.seq + 1, in_event_ids[1], in_kinds[1], in_events[1]);
    ELSIF told > 1 THEN
        INSERT INTO teamster.events (team, seq, id, kind, body)
        SELECT in_team, held.seq + put.nth, put.id, put.kind, put.body
        FROM unnest(in_event_ids, in_kinds, in_events) WITH ORDINALITY AS put (id, kind, body, nth);
    END IF;
    -- Waking everybody for each of a hundred changes a second costs more than it brings: who was woken looks again for a while.
    wakes := told > 0 AND (held.notified_at IS NULL
        OR held.notified_at NOT BETWEEN clock_timestamp() - interval '20 milliseconds' AND clock_timestamp());
    IF wakes THEN
        PERFORM pg_notify('teamster_' || in_team, '');
    END IF;
    -- Whoever is meant looks at once, however many there are.
    IF cardinality(in_signal_workers) > 0 THEN
        PERFORM pg_notify('teamster_' || in_team, put.worker) FROM unnest(in_signal_workers) AS put (worker);
    END IF;
    IF cardinality(in_boxes) > 0 THEN
        PERFORM pg_notify('teamster_' || in_team, substr(put.box, 7)) FROM unnest(in_boxes) AS put (box)
        WHERE put.box LIKE 'inbox/%' AND put.box <> 'inbox/lead';
    END IF;
    UPDATE teamster.positions p SET
        seq = held.seq + told,
        changes = p.changes + 1,
        claims = p.claims + coalesce((1 = ANY (in_statuses))::integer, 0),
        config_version = p.config_version + (in_config IS NOT NULL)::integer,
        highest = CASE WHEN cardinality(in_ids) > known
            THEN greatest(p.highest, (SELECT max(number) FROM unnest(in_numbers) AS put (number))) ELSE p.highest END,
        notified_at = CASE WHEN wakes THEN clock_timestamp() ELSE p.notified_at END
    WHERE p.team = in_team;
    RETURN held.seq;
END $$;

-- Makes the change that is made most often: one task that is there is written, nothing else was read, and one event tells of it. It is
-- `apply` for that case, and refuses with the same codes. The lock of the team is taken by the statement that gives the event its
-- position, and what can be done before is done before: whoever waits for that lock waits for less.
CREATE FUNCTION teamster.apply_one(
    in_team text, in_config_version bigint,
    in_id text, in_version bigint, in_fence_before bigint,
    in_fence bigint, in_status smallint, in_owner text, in_lease bigint, in_pause bigint, in_offered boolean, in_passing boolean,
    in_capabilities text, in_blockers text, in_body text,
    in_event_id text, in_kind text, in_event text
) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    setting text := set_config('synchronous_commit', 'off', true);
    held record;
BEGIN
    UPDATE teamster.tasks t SET
        version = t.version + 1, fence = in_fence, status = in_status, owner = in_owner, leased_until = in_lease,
        not_before = in_pause, offered = in_offered, passing = in_passing,
        capabilities = string_to_array(in_capabilities, chr(31)), blockers = string_to_array(in_blockers, chr(31)), body = in_body
    WHERE t.team = in_team AND t.id = in_id AND t.version = in_version AND t.fence = in_fence_before;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'what was read has changed' USING ERRCODE = 'TM409';
    END IF;
    UPDATE teamster.positions p SET
        seq = p.seq + 1, changes = p.changes + 1, claims = p.claims + (in_status = 1)::integer
    WHERE p.team = in_team
    RETURNING p.seq - 1 AS seq, p.config_version, p.notified_at INTO held;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no team %', in_team USING ERRCODE = 'TM404';
    END IF;
    IF in_config_version <> held.config_version THEN
        RAISE EXCEPTION 'what was read has changed' USING ERRCODE = 'TM409';
    END IF;
    INSERT INTO teamster.events (team, seq, id, kind, body) VALUES (in_team, held.seq + 1, in_event_id, in_kind, in_event);
    IF held.notified_at IS NULL
        OR held.notified_at NOT BETWEEN clock_timestamp() - interval '20 milliseconds' AND clock_timestamp()
    THEN
        UPDATE teamster.positions p SET notified_at = clock_timestamp() WHERE p.team = in_team;
        PERFORM pg_notify('teamster_' || in_team, '');
    END IF;
    RETURN held.seq;
END $$;

-- Most changes are not those of a host, so they do not call the function that looks whether it still has its right.
DROP TRIGGER host_has_its_right ON teamster.positions;
CREATE TRIGGER host_has_its_right BEFORE UPDATE ON teamster.positions FOR EACH ROW
WHEN (coalesce(current_setting('teamster.host', true), '') <> '') EXECUTE FUNCTION teamster.check_host();
