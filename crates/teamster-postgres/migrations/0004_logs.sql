-- Logs stay on the machine of their worker. Whoever reads one elsewhere asks for what it lacks, and the worker answers with at most a
-- megabyte. A request that is lost with the server is asked again.
CREATE UNLOGGED TABLE teamster.log_requests (
    id text PRIMARY KEY,
    team text NOT NULL,
    worker text NOT NULL,
    -- What the asker has by now: a list of files, and how much of each.
    present text NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The pieces that come next; null until the worker has answered.
    answer text
);
CREATE INDEX log_requests_open ON teamster.log_requests (team, worker) WHERE answer IS NULL;

ALTER TABLE teamster.log_requests ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_teams ON teamster.log_requests USING (team IN (SELECT teamster.own_teams()));

-- Requests and answers go with the team.
CREATE FUNCTION teamster.forget_log_requests() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM teamster.log_requests l WHERE l.team = OLD.name;
    RETURN OLD;
END $$;
CREATE TRIGGER log_requests_go_with_their_team AFTER DELETE ON teamster.teams FOR EACH ROW EXECUTE FUNCTION teamster.forget_log_requests();

-- Lets a role work for a team: it may read all of the team and change what workers change. It may not host it, nor make or remove one.
CREATE OR REPLACE FUNCTION teamster.let_work(in_role text, in_team text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA teamster TO %I', in_role);
    EXECUTE format('GRANT SELECT ON teamster.migrations, teamster.hosts TO %I', in_role);
    EXECUTE format('GRANT SELECT, UPDATE ON teamster.teams, teamster.positions TO %I', in_role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON teamster.tasks, teamster.failures, teamster.boxes, teamster.mail, '
        'teamster.signals, teamster.beats, teamster.log_requests TO %I', in_role);
    EXECUTE format('GRANT SELECT, INSERT ON teamster.events TO %I', in_role);
    INSERT INTO teamster.grants (role, team) SELECT in_role, t.name FROM teamster.teams t WHERE t.name = in_team
    ON CONFLICT DO NOTHING;
END $$;

-- Roles that may work for a team already.
DO $$
DECLARE
    granted record;
BEGIN
    FOR granted IN SELECT DISTINCT g.role FROM teamster.grants g JOIN pg_roles r ON r.rolname = g.role LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON teamster.log_requests TO %I', granted.role);
    END LOOP;
END $$;
