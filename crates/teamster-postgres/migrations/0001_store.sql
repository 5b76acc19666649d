-- Teams, tasks, mail and the journal.
--
-- Whole records are kept as the JSON text that teamster wrote: foreign keys keep their order, numbers their digits. Columns beside
-- them are what is searched by, and are written together with the text.

CREATE TABLE teamster.teams (
    name text PRIMARY KEY,
    config text NOT NULL,
    config_version bigint NOT NULL DEFAULT 1
);

-- What changes with every change of a team, in a narrow row of its own. Its lock is the lock of the team: `apply` takes it last, so
-- positions are given in the order in which changes are committed.
CREATE TABLE teamster.positions (
    team text PRIMARY KEY,
    seq bigint NOT NULL DEFAULT 0,
    -- Grows with every change, journalled or not.
    changes bigint NOT NULL DEFAULT 0,
    -- Grows whenever a task comes into somebody's hands.
    claims bigint NOT NULL DEFAULT 0,
    highest numeric(20) NOT NULL DEFAULT 0,
    notified_at timestamptz
) WITH (fillfactor = 20);

CREATE TABLE teamster.tasks (
    team text NOT NULL,
    id text NOT NULL,
    number numeric(20) NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    fence bigint NOT NULL DEFAULT 0,
    -- 0 pending, 1 in progress, 2 completed.
    status smallint NOT NULL,
    owner text,
    -- Moments of the server's clock, in milliseconds since 1970.
    leased_until bigint,
    not_before bigint,
    -- Whether a worker that asks for any task may be offered it.
    offered boolean NOT NULL,
    -- Whether those that wait for it may begin.
    passing boolean NOT NULL,
    capabilities text[] NOT NULL,
    blockers text[] NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (team, id)
) WITH (fillfactor = 70);
CREATE INDEX tasks_open ON teamster.tasks (team, number) WHERE status < 2;
CREATE INDEX tasks_assigned ON teamster.tasks (team, owner, number) WHERE status = 0 AND owner IS NOT NULL;

CREATE TABLE teamster.failures (
    team text NOT NULL,
    id text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (team, id)
);

-- A place in a mailbox is the number of its message there.
CREATE TABLE teamster.boxes (
    team text NOT NULL,
    box text NOT NULL,
    size bigint NOT NULL DEFAULT 0,
    acked bigint NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (team, box)
);
CREATE TABLE teamster.mail (
    team text NOT NULL,
    box text NOT NULL,
    place bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (team, box, place)
);

CREATE TABLE teamster.signals (
    team text NOT NULL,
    worker text NOT NULL,
    drain boolean NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (team, worker, drain)
);

CREATE TABLE teamster.events (
    team text NOT NULL,
    seq bigint NOT NULL,
    id text NOT NULL,
    kind text NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (team, seq),
    -- A change that is sent again after a lost connection cannot be made twice.
    UNIQUE (team, id)
);
CREATE INDEX events_kind ON teamster.events (team, kind COLLATE "C", seq);

-- A beat that is lost with the server is followed by another in a few seconds.
CREATE UNLOGGED TABLE teamster.beats (
    team text NOT NULL,
    worker text NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    body text NOT NULL,
    PRIMARY KEY (team, worker)
) WITH (fillfactor = 30);

-- Removed teams, whole, until they are swept.
CREATE TABLE teamster.trash (
    team text NOT NULL,
    removed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    body text NOT NULL
);

CREATE FUNCTION teamster.now_millis() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint $$;

-- Tells whether a task may suit a worker that asks for its own tasks or for any. Blockers are looked at here, so that tasks that have to
-- wait cost nothing; the rules look at them again.
CREATE FUNCTION teamster.may_suit(
    t teamster.tasks, in_own boolean, in_worker text, in_capabilities text[], in_lost text[], in_now bigint, in_longest_pause bigint
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE
            WHEN t.status = 1 THEN NOT in_own AND t.leased_until <= in_now
            WHEN t.not_before > in_now AND t.not_before - in_now <= in_longest_pause THEN false
            WHEN in_own THEN t.owner = in_worker
            ELSE (t.owner IS NULL OR t.owner = ANY (in_lost))
                AND (t.capabilities = '{}' OR 'general' = ANY (in_capabilities) OR t.capabilities && in_capabilities)
        END
        AND NOT EXISTS (
            SELECT FROM unnest(t.blockers) AS waits (id)
            LEFT JOIN teamster.tasks b ON b.team = t.team AND b.id = waits.id
            WHERE b.passing IS NOT TRUE
        )
$$;

-- Returns the first task after `in_after` that may suit a worker, locked until the transaction ends, and behind it what it waits for.
-- A task that somebody else is claiming at this moment is passed over.
CREATE FUNCTION teamster.next_candidate(
    in_team text, in_own boolean, in_worker text, in_capabilities text[], in_lost text[],
    in_after numeric, in_now bigint, in_longest_pause bigint
) RETURNS TABLE (found_id text, found_version bigint, found_fence bigint, found_body text)
LANGUAGE plpgsql AS $$
DECLARE
    waits_for text[];
BEGIN
    SELECT t.id, t.version, t.fence, t.body, t.blockers
    INTO found_id, found_version, found_fence, found_body, waits_for
    FROM teamster.tasks t
    WHERE t.team = in_team AND t.status < 2 AND t.number > in_after AND t.offered
        AND teamster.may_suit(t, in_own, in_worker, in_capabilities, in_lost, in_now, in_longest_pause)
    ORDER BY t.number
    LIMIT 1
    FOR UPDATE OF t SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN NEXT;
    RETURN QUERY
        SELECT b.id, b.version, b.fence, b.body FROM teamster.tasks b
        WHERE b.team = in_team AND b.id = ANY (waits_for);
END $$;

-- Makes one change whole, or refuses it with TM409 when anything that was read has changed since: then it is tried again from the
-- beginning. Returns the position before its first event.
--
-- The commit itself does not wait for the disk, so that the lock of the team is held for a moment only; whoever asked for the change
-- is answered when `pg_logical_emit_message`, committed after it, has brought the log to the disk.
--
-- The rows of tasks are locked before the lock of the team, as claimers do. Who has that already must not wait for a claimer.
CREATE FUNCTION teamster.apply(
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
    changed integer;
    wakes boolean;
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    IF in_has_lock THEN
        PERFORM FROM teamster.tasks t WHERE t.team = in_team AND t.id = ANY (in_ids || in_removed) FOR UPDATE NOWAIT;
    ELSE
        PERFORM FROM teamster.tasks t WHERE t.team = in_team AND t.id = ANY (in_ids || in_removed) ORDER BY t.number FOR UPDATE;
    END IF;
    SELECT p.seq, p.claims, p.highest, p.notified_at INTO held
    FROM teamster.positions p WHERE p.team = in_team FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no team %', in_team USING ERRCODE = 'TM404';
    END IF;
    IF (in_claims IS NOT NULL AND in_claims <> held.claims)
        OR (in_highest IS NOT NULL AND in_highest <> held.highest)
        OR (in_config_version IS NOT NULL AND NOT EXISTS (
            SELECT FROM teamster.teams t WHERE t.name = in_team AND t.config_version = in_config_version))
        OR EXISTS (
            SELECT FROM unnest(in_read_ids, in_read_versions) AS was (id, version)
            LEFT JOIN teamster.tasks t ON t.team = in_team AND t.id = was.id
            WHERE coalesce(t.version, 0) <> was.version)
        OR EXISTS (
            SELECT FROM unnest(in_cursor_boxes, in_acked_before) AS was (box, acked)
            LEFT JOIN teamster.boxes b ON b.team = in_team AND b.box = was.box
            WHERE coalesce(b.acked, 0) <> was.acked)
    THEN
        RAISE EXCEPTION 'what was read has changed' USING ERRCODE = 'TM409';
    END IF;

    IF cardinality(in_ids) > 0 THEN
        UPDATE teamster.tasks t SET
            version = t.version + 1, fence = put.fence, status = put.status, owner = put.owner, leased_until = put.lease,
            not_before = put.pause, offered = put.offered, passing = put.passing,
            capabilities = string_to_array(put.capabilities, chr(31)), blockers = string_to_array(put.blockers, chr(31)), body = put.body
        FROM unnest(in_ids, in_fences_before, in_fences, in_statuses, in_owners, in_leases, in_pauses, in_offered, in_passing,
                in_capabilities, in_blockers, in_bodies)
            AS put (id, fence_before, fence, status, owner, lease, pause, offered, passing, capabilities, blockers, body)
        WHERE t.team = in_team AND t.id = put.id AND t.fence = put.fence_before;
        GET DIAGNOSTICS changed = ROW_COUNT;
        IF changed <> (SELECT count(*) FROM unnest(in_fences_before) AS was (fence) WHERE was.fence IS NOT NULL) THEN
            RAISE EXCEPTION 'a task was claimed meanwhile' USING ERRCODE = 'TM409';
        END IF;
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
        UPDATE teamster.teams t SET config = in_config, config_version = t.config_version + 1 WHERE t.name = in_team;
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

    IF told > 0 THEN
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
    UPDATE teamster.positions p SET
        seq = held.seq + told,
        changes = p.changes + 1,
        claims = p.claims + (1 = ANY (in_statuses))::integer,
        highest = greatest(p.highest, (SELECT max(number) FROM unnest(in_numbers) AS put (number))),
        notified_at = CASE WHEN wakes THEN clock_timestamp() ELSE p.notified_at END
    WHERE p.team = in_team;
    RETURN held.seq;
END $$;

-- Makes a team with its first event; false when there is one of that name.
CREATE FUNCTION teamster.create_team(in_team text, in_config text, in_event_id text, in_kind text, in_event text)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO teamster.teams (name, config) VALUES (in_team, in_config) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN EXISTS (SELECT FROM teamster.events e WHERE e.team = in_team AND e.id = in_event_id);
    END IF;
    INSERT INTO teamster.positions (team, seq, changes) VALUES (in_team, 1, 1);
    INSERT INTO teamster.events (team, seq, id, kind, body) VALUES (in_team, 1, in_event_id, in_kind, in_event);
    PERFORM pg_notify('teamster_' || in_team, '');
    RETURN true;
END $$;

-- Moves a team to the trash.
CREATE FUNCTION teamster.drop_team(in_team text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO teamster.trash (team, body)
    SELECT in_team, json_build_object(
        'config', (SELECT t.config FROM teamster.teams t WHERE t.name = in_team),
        'tasks', (SELECT json_agg(t.body ORDER BY t.number) FROM teamster.tasks t WHERE t.team = in_team),
        'failures', (SELECT json_agg(f.body) FROM teamster.failures f WHERE f.team = in_team),
        'mail', (SELECT json_agg(json_build_array(m.box, m.body) ORDER BY m.box, m.place)
            FROM teamster.mail m WHERE m.team = in_team),
        'events', (SELECT json_agg(e.body ORDER BY e.seq) FROM teamster.events e WHERE e.team = in_team))::text;
    DELETE FROM teamster.teams WHERE name = in_team;
    DELETE FROM teamster.positions WHERE team = in_team;
    DELETE FROM teamster.tasks WHERE team = in_team;
    DELETE FROM teamster.failures WHERE team = in_team;
    DELETE FROM teamster.boxes WHERE team = in_team;
    DELETE FROM teamster.mail WHERE team = in_team;
    DELETE FROM teamster.signals WHERE team = in_team;
    DELETE FROM teamster.events WHERE team = in_team;
    DELETE FROM teamster.beats WHERE team = in_team;
    PERFORM pg_notify('teamster_' || in_team, '');
END $$;
