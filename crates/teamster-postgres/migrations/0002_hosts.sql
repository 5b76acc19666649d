-- Which process hosts a team. Whoever does so renews its lease; once that has run out, or its process is proven gone, another may take it.
CREATE TABLE teamster.hosts (
    team text PRIMARY KEY,
    holder text NOT NULL,
    -- The process, as JSON.
    process text NOT NULL,
    -- A moment of the server's clock, in milliseconds since 1970.
    leased_until bigint NOT NULL
);

-- Takes or renews the right to host a team, unless somebody else has it: who has it then, and for how long. `in_gone` is a holder that
-- is proven gone.
CREATE FUNCTION teamster.hold_host(in_team text, in_holder text, in_process text, in_lease bigint, in_gone text)
RETURNS TABLE (holder text, process text, millis_left bigint)
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO teamster.hosts AS h (team, holder, process, leased_until)
    SELECT t.name, in_holder, in_process, teamster.now_millis() + in_lease FROM teamster.teams t WHERE t.name = in_team
    ON CONFLICT (team) DO UPDATE SET
        holder = EXCLUDED.holder, process = EXCLUDED.process, leased_until = EXCLUDED.leased_until
    WHERE h.holder = in_holder OR h.holder = in_gone OR h.leased_until <= teamster.now_millis();
    RETURN QUERY SELECT h.holder, h.process, h.leased_until - teamster.now_millis() FROM teamster.hosts h WHERE h.team = in_team;
END $$;

-- A host that lost its right makes no change any more, whatever it believes. Others name no host.
CREATE FUNCTION teamster.check_host() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    names text := coalesce(current_setting('teamster.host', true), '');
BEGIN
    IF names <> '' THEN
        -- Nobody takes the right over before this change is made.
        PERFORM FROM teamster.hosts h WHERE h.team = NEW.team AND h.holder = names FOR SHARE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'another process hosts team %', NEW.team USING ERRCODE = 'TM423';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER host_has_its_right BEFORE UPDATE ON teamster.positions FOR EACH ROW EXECUTE FUNCTION teamster.check_host();

-- The right ends with the team.
CREATE FUNCTION teamster.forget_host() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM teamster.hosts h WHERE h.team = OLD.name;
    RETURN OLD;
END $$;
CREATE TRIGGER host_goes_with_its_team AFTER DELETE ON teamster.teams FOR EACH ROW EXECUTE FUNCTION teamster.forget_host();
