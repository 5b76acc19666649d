-- Roles for workers, each with the teams that it may work for. Hosts use the role that owns the store, which row security does not hold.
CREATE TABLE teamster.grants (
    role text NOT NULL,
    team text NOT NULL,
    PRIMARY KEY (role, team)
);

-- The teams of whoever is connected.
CREATE FUNCTION teamster.own_teams() RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT g.team FROM teamster.grants g WHERE g.role = session_user $$;

ALTER TABLE teamster.teams ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_teams ON teamster.teams USING (name IN (SELECT teamster.own_teams()));

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['positions', 'tasks', 'failures', 'boxes', 'mail', 'signals', 'events', 'beats', 'hosts'] LOOP
        EXECUTE format('ALTER TABLE teamster.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY own_teams ON teamster.%I USING (team IN (SELECT teamster.own_teams()))', name);
    END LOOP;
END $$;

-- Lets a role work for a team: it may read all of the team and change what workers change. It may not host it, nor make or remove one.
CREATE FUNCTION teamster.let_work(in_role text, in_team text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA teamster TO %I', in_role);
    EXECUTE format('GRANT SELECT ON teamster.migrations, teamster.hosts TO %I', in_role);
    EXECUTE format('GRANT SELECT, UPDATE ON teamster.teams, teamster.positions TO %I', in_role);
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON teamster.tasks, teamster.failures, teamster.boxes, teamster.mail, '
        'teamster.signals, teamster.beats TO %I', in_role);
    EXECUTE format('GRANT SELECT, INSERT ON teamster.events TO %I', in_role);
    INSERT INTO teamster.grants (role, team) SELECT in_role, t.name FROM teamster.teams t WHERE t.name = in_team
    ON CONFLICT DO NOTHING;
END $$;
REVOKE EXECUTE ON FUNCTION teamster.let_work(text, text) FROM PUBLIC;

-- The right ends with the team.
CREATE FUNCTION teamster.forget_grants() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM teamster.grants g WHERE g.team = OLD.name;
    RETURN OLD;
END $$;
CREATE TRIGGER grants_go_with_their_team AFTER DELETE ON teamster.teams FOR EACH ROW EXECUTE FUNCTION teamster.forget_grants();
