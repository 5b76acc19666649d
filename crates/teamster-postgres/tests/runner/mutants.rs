//! Mutation tests of the SQL: each shows that a test fails when one of the checks is removed. Also tests stores of
//! every schema version.

use std::time::Duration;

use teamster_store::{Backend as _, Candidates, ReadStore as _, Store as _};
use teamster_testkit::wait::wait_until;
use teamster_types::team::NewMember;
use teamster_types::transitions::TaskEdit;

use crate::{Database, PATIENCE, claim, complete, create};

const SCHEMA: &str = concat!(
    include_str!("../../migrations/0001_store.sql"),
    include_str!("../../migrations/0005_claims.sql"),
);

/// Removes a check from a function of the schema, as the last migration defines it.
fn mutate(database: &Database, function: &str, changes: &[(&str, &str)]) {
    let begin = ["CREATE FUNCTION", "CREATE OR REPLACE FUNCTION"]
        .iter()
        .filter_map(|create| SCHEMA.rfind(&format!("{create} teamster.{function}(")))
        .max()
        .unwrap();
    let body = begin + SCHEMA[begin..].find("AS $$").unwrap() + "AS $$".len();
    let end = body + SCHEMA[body..].find("$$;").unwrap() + "$$;".len();
    let mut text = SCHEMA[begin..end].replacen("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1);
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    database.sql(&text);
}

/// Asserts that the probe succeeds on the real schema and fails on the mutant.
fn is_caught(probe: fn(&Database) -> Result<(), String>, function: &str, changes: &[(&str, &str)]) {
    let Some(database) = Database::new() else {
        return;
    };
    probe(&database).unwrap();
    let Some(mutant) = Database::new() else {
        return;
    };
    mutate(&mutant, function, changes);
    let wrong = probe(&mutant);
    assert!(wrong.is_err(), "nobody notices that the check is gone");
}

/// Checks that a claimer is offered another task while the first one is being claimed, and does not wait.
fn claimers_pass_each_other(database: &Database) -> Result<(), String> {
    let (store, team) = database.team();
    let first = create(&store, &team, "first");
    let second = create(&store, &team, "second");
    let other = database.store(Duration::from_millis(10));
    let mut got = None;
    let made = store.change(&team, "claim", &mut |tx| {
        let offered = tx.next_candidate(Candidates::Free, &"ada".parse()?, &[], &[], None)?;
        assert_eq!(offered.as_ref(), Some(&first));
        got = Some(claim(&other, &team, "bob"));
        Ok(())
    });
    made.map_err(|error| error.to_string())?;
    match got {
        Some(Ok(Some(claimed))) if *claimed.task.id() == second => Ok(()),
        got => Err(format!("bob got {got:?}")),
    }
}

#[test]
fn missing_skip_locked_is_caught() {
    is_caught(
        claimers_pass_each_other,
        "offer",
        &[("FOR UPDATE OF t SKIP LOCKED", "FOR UPDATE OF t")],
    );
}

/// Checks that a task with a valid lease is not offered, and that one with an expired lease is.
fn leased_task_is_not_offered(database: &Database) -> Result<(), String> {
    let (store, team) = database.team();
    create(&store, &team, "leased");
    claim(&store, &team, "ada").unwrap().unwrap();
    create(&store, &team, "over");
    let over = claim(&store, &team, "ada").unwrap().unwrap();
    let over = over.task.id().clone();
    database.sql(&format!(
        "UPDATE teamster.tasks SET leased_until = 0 WHERE id = '{over}'"
    ));
    let mut offered = None;
    let made = store.change(&team, "look", &mut |tx| {
        offered = tx.next_candidate(Candidates::Free, &"bob".parse()?, &[], &[], None)?;
        Ok(())
    });
    made.map_err(|error| error.to_string())?;
    match offered {
        Some(id) if id == over => Ok(()),
        other => Err(format!("{other:?} was offered")),
    }
}

#[test]
fn missing_check_of_the_lease_is_caught() {
    is_caught(
        leased_task_is_not_offered,
        "suits",
        &[("NOT in_own AND t.leased_until <= in_now", "NOT in_own")],
    );
}

/// Checks that a task that changed since it was read is read again before anything is written.
fn change_is_made_of_what_is_there(database: &Database) -> Result<(), String> {
    let (store, team) = database.team();
    let other = database.store(PATIENCE);
    let id = create(&store, &team, "first");
    let mut tries = 0;
    let made = store.change(&team, "update", &mut |tx| {
        tries += 1;
        let task = tx.open(&id)?.unwrap();
        if tries == 1 {
            let edit = TaskEdit {
                subject: Some("better".to_owned()),
                ..TaskEdit::default()
            };
            other.update_task(&team, &teamster_journal::EventActor::Lead, &id, &edit)?;
        }
        tx.put(task);
        let event = teamster_testkit::recorded("agent.event", "ada", &serde_json::json!({}));
        tx.event(event);
        Ok(())
    });
    made.map_err(|error| error.to_string())?;
    let kept = store.task(&team, &id).unwrap();
    match kept.subject() {
        "better" if tries == 2 => Ok(()),
        subject => Err(format!("{tries} tries left {subject:?}")),
    }
}

#[test]
fn missing_check_of_what_was_read_is_caught() {
    is_caught(
        change_is_made_of_what_is_there,
        "apply_one",
        &[(" AND t.version = in_version", "")],
    );
}

/// Checks that a change of a task that was only read also causes a retry.
fn change_relies_on_what_it_read(database: &Database) -> Result<(), String> {
    let (store, team) = database.team();
    let other = database.store(PATIENCE);
    let read = create(&store, &team, "read");
    let written = create(&store, &team, "written");
    let mut tries = 0;
    let made = store.change(&team, "update", &mut |tx| {
        tries += 1;
        tx.read_task(&read)?;
        let task = tx.open(&written)?.unwrap();
        if tries == 1 {
            let edit = TaskEdit {
                subject: Some("better".to_owned()),
                ..TaskEdit::default()
            };
            other.update_task(&team, &teamster_journal::EventActor::Lead, &read, &edit)?;
        }
        tx.put(task);
        let event = teamster_testkit::recorded("agent.event", "ada", &serde_json::json!({}));
        tx.event(event);
        Ok(())
    });
    made.map_err(|error| error.to_string())?;
    match tries {
        2 => Ok(()),
        tries => Err(format!("it took {tries} tries")),
    }
}

#[test]
fn missing_check_of_what_was_only_read_is_caught() {
    is_caught(
        change_relies_on_what_it_read,
        "apply",
        &[(
            "WHERE coalesce(t.version, 0) <> was.version)",
            "WHERE false)",
        )],
    );
}

/// Writes claimed tasks with the fence from before their claims, which must be refused although nothing else conflicts.
fn write_with_old_fences(database: &Database, tasks: usize) -> Result<(), String> {
    let (store, team) = database.team();
    for number in 0..tasks {
        create(&store, &team, &format!("number {number}"));
        claim(&store, &team, "ada").unwrap().unwrap();
    }
    let none = "ARRAY[]::text[]";
    let empty = "ARRAY[]::bigint[]";
    let each = |value: &str| format!("ARRAY[{}]", vec![value; tasks].join(", "));
    let ids: Vec<String> = (1..=tasks).map(|number| format!("'{number}'")).collect();
    let numbers: Vec<String> = (1..=tasks)
        .map(|number| format!("{number}::numeric"))
        .collect();
    let write = format!(
        "SELECT teamster.apply('crew', false, NULL, NULL, NULL, {none}, {empty}, NULL, \
         ARRAY[{}], ARRAY[{}], {}, {}, {}, {}, {nothing}, {nothing}, {yes}, {yes}, {blank}, {blank}, {}, \
         {none}, {none}, {none}, {none}, {none}, {none}, {empty}, {empty}, {empty}, {none}, ARRAY[]::boolean[], {none}, {none}, \
         {none}, {none}, {none})",
        ids.join(", "),
        numbers.join(", "),
        each("0::bigint"),
        each("7::bigint"),
        each("2::smallint"),
        each("NULL::text"),
        each("'{}'"),
        nothing = each("NULL::bigint"),
        yes = each("true"),
        blank = each("''"),
    );
    is_refused(database, &write)
}

/// Checks that the database refuses a statement.
fn is_refused(database: &Database, write: &str) -> Result<(), String> {
    let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| database.sql(write)));
    match written {
        Err(_) => Ok(()),
        Ok(_) => Err("it was written".to_owned()),
    }
}

/// Writes a claimed task with the fence from before its claim, by the function for one task.
fn old_fence_is_refused(database: &Database) -> Result<(), String> {
    let (store, team) = database.team();
    create(&store, &team, "claimed");
    claim(&store, &team, "ada").unwrap().unwrap();
    let version = database.sql("SELECT version FROM teamster.tasks");
    let write = format!(
        "SELECT teamster.apply_one('crew', NULL, '1', {version}, 0, 7, 2::smallint, NULL, NULL, NULL, true, true, '', '', '{{}}', \
         'event', 'agent.event', '{{}}')"
    );
    is_refused(database, &write)
}

fn old_fences_are_refused(database: &Database) -> Result<(), String> {
    write_with_old_fences(database, 1)?;
    database.sql("SELECT teamster.drop_team('crew')");
    write_with_old_fences(database, 2)
}

#[test]
fn missing_check_of_the_fence_is_caught() {
    is_caught(
        old_fence_is_refused,
        "apply_one",
        &[(" AND t.fence = in_fence_before", "")],
    );
    is_caught(
        old_fences_are_refused,
        "apply",
        &[(
            " AND t.fence = put.fence_before;",
            " AND put.fence_before IS NOT NULL;",
        )],
    );
}

/// Checks that a change of one task that relies on the registry is retried when the registry has changed.
fn change_relies_on_the_registry(database: &Database) -> Result<(), String> {
    let (store, team) = database.team();
    let other = database.store(PATIENCE);
    create(&store, &team, "first");
    let mut tries = 0;
    let made = store.change(&team, "claim", &mut |tx| {
        tries += 1;
        let config = tx.config()?;
        let id = tx.next_candidate(Candidates::Free, &"ada".parse()?, &[], &[], None)?;
        let task = tx.open(&id.unwrap())?.unwrap();
        if tries == 1 {
            let eve = NewMember {
                name: "eve".parse()?,
                provider: String::new(),
                capabilities: None,
            };
            other.join_team(&team, &eve)?;
        }
        tx.put(task);
        let seen = serde_json::json!({ "members": config.members().len() });
        tx.event(teamster_testkit::recorded("agent.event", "ada", &seen));
        Ok(())
    });
    made.map_err(|error| error.to_string())?;
    match tries {
        2 => Ok(()),
        tries => Err(format!("it took {tries} tries")),
    }
}

#[test]
fn missing_check_of_the_registry_is_caught() {
    is_caught(
        change_relies_on_the_registry,
        "apply_one",
        &[("in_config_version <> held.config_version", "false")],
    );
}

/// Checks that no reader sees a later position while an earlier change is not committed. `change` makes the changes and
/// gets the number of each, in a team with `tasks` tasks.
fn no_position_overtakes_another(
    database: &Database,
    tasks: u8,
    change: impl Fn(u8) -> String + Sync,
) -> Result<(), String> {
    let (store, team) = database.team();
    for number in 1..=tasks {
        create(&store, &team, &format!("number {number}"));
    }
    let before = store.last_events(&team, 1).unwrap().events[0].seq;
    let mut positions = Vec::new();
    std::thread::scope(|scope| {
        let slow = format!("BEGIN; {}; SELECT pg_sleep(1.5); COMMIT", change(1));
        let slow = scope.spawn(move || database.sql(&slow));
        let sleeps = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(1.5)%' AND wait_event = 'PgSleep' \
            AND datname = current_database()";
        wait_until("the slow change is made", || database.sql(sleeps) == "1");
        let quick = scope.spawn(|| database.sql(&change(2)));
        // Follow as a watcher does: from the position after the last one seen.
        let mut next = before + 1;
        wait_until("both changes are seen, or neither can be any more", || {
            let page = store.events(&team, next, 100).unwrap();
            for event in page.events {
                next = event.seq + 1;
                positions.push(event.seq);
            }
            positions.len() == 2 || (slow.is_finished() && quick.is_finished())
        });
        slow.join().unwrap();
        quick.join().unwrap();
    });
    let next = positions.last().map_or(before + 1, |last| last + 1);
    let page = store.events(&team, next, 100);
    positions.extend(page.unwrap().events.iter().map(|event| event.seq));
    if positions == [before + 1, before + 2] {
        Ok(())
    } else {
        Err(format!("a follower saw {positions:?} after {before}"))
    }
}

fn event(number: u8) -> String {
    format!(
        r#"{{"seq":0,"id":"event {number}","ts":"2026-01-01T00:00:00.000Z","team":"crew","type":"agent.event","actor":"ada","data":{{}}}}"#
    )
}

fn positions_of_changes_are_in_order(database: &Database) -> Result<(), String> {
    let (none, empty) = ("ARRAY[]::text[]", "ARRAY[]::bigint[]");
    no_position_overtakes_another(database, 0, |number| {
        let event = event(number);
        format!(
            "SELECT teamster.apply('crew', false, NULL, NULL, NULL, {none}, {empty}, NULL, {none}, ARRAY[]::numeric[], {empty}, \
             {empty}, ARRAY[]::smallint[], {none}, {empty}, {empty}, ARRAY[]::boolean[], ARRAY[]::boolean[], {none}, {none}, {none}, \
             {none}, {none}, {none}, {none}, {none}, {none}, {empty}, {empty}, {empty}, {none}, ARRAY[]::boolean[], {none}, {none}, \
             ARRAY['event {number}'], ARRAY['agent.event'], ARRAY['{event}'])"
        )
    })
}

fn positions_of_changes_of_one_task_are_in_order(database: &Database) -> Result<(), String> {
    no_position_overtakes_another(database, 2, |number| {
        let event = event(number);
        format!(
            "SELECT teamster.apply_one('crew', NULL, '{number}', 1, 0, 0, 0::smallint, NULL, NULL, NULL, true, false, '', '', '{{}}', \
             'event {number}', 'agent.event', '{event}')"
        )
    })
}

#[test]
fn positions_given_before_the_commit_are_caught() {
    type Probe = fn(&Database) -> Result<(), String>;
    let is_caught = |probe: Probe, first: u8, function: &str, changes: &[(&str, &str)]| {
        let Some(database) = Database::new() else {
            return;
        };
        probe(&database).unwrap();
        let Some(mutant) = Database::new() else {
            return;
        };
        mutant.sql(&format!("CREATE SEQUENCE teamster.given START {first}"));
        mutate(&mutant, function, changes);
        let wrong = probe(&mutant);
        assert!(
            wrong.is_err(),
            "nobody notices that {function} gives positions too soon"
        );
    };
    is_caught(
        positions_of_changes_are_in_order,
        2,
        "apply",
        &[
            (
                "SELECT p.seq, p.claims",
                "SELECT nextval('teamster.given') - 1 AS seq, p.claims",
            ),
            (
                "WHERE p.team = in_team FOR NO KEY UPDATE",
                "WHERE p.team = in_team",
            ),
            (
                "    WHERE p.team = in_team;\n    RETURN",
                "    WHERE false;\n    RETURN",
            ),
        ],
    );
    is_caught(
        positions_of_changes_of_one_task_are_in_order,
        4,
        "apply_one",
        &[(
            "UPDATE teamster.positions p SET\n        seq = p.seq + 1, changes = p.changes + 1, claims = p.claims + (in_status = 1)::integer\n    WHERE p.team = in_team\n    RETURNING p.seq - 1 AS seq, p.config_version, p.notified_at INTO held",
            "SELECT nextval('teamster.given') - 1 AS seq, p.config_version, clock_timestamp() AS notified_at FROM teamster.positions p WHERE p.team = in_team INTO held",
        )],
    );
}

#[test]
fn schema_can_be_made_by_ten_at_once() {
    let Some(server) = teamster_testkit::postgres::shared_server() else {
        return;
    };
    let database = Database::empty(server);
    let made: usize = std::thread::scope(|scope| {
        let inits: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| teamster_postgres::init(&database.url()).unwrap().len()))
            .collect();
        inits.into_iter().map(|init| init.join().unwrap()).sum()
    });
    let all = teamster_postgres::schema_needed();
    assert_eq!(made, all, "each migration was made once");
}

/// The migrations, in order.
const MIGRATIONS: [&str; 5] = [
    include_str!("../../migrations/0001_store.sql"),
    include_str!("../../migrations/0002_hosts.sql"),
    include_str!("../../migrations/0003_roles.sql"),
    include_str!("../../migrations/0004_logs.sql"),
    include_str!("../../migrations/0005_claims.sql"),
];

#[test]
fn store_of_every_older_version_is_brought_up_to_date_with_its_team() {
    let Some(new) = Database::new() else {
        return;
    };
    assert_eq!(MIGRATIONS.len(), teamster_postgres::schema_needed());
    let (store, team) = new.team();
    create(&store, &team, "from before");
    let config = new.sql("SELECT config FROM teamster.teams");
    let task = new.sql("SELECT body FROM teamster.tasks");
    for version in 1..MIGRATIONS.len() {
        let old = Database::empty(new.server);
        old.sql(
            "CREATE SCHEMA teamster; CREATE TABLE teamster.migrations (\
                version int PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT clock_timestamp())",
        );
        for (number, migration) in (1..=version).zip(MIGRATIONS) {
            old.sql(migration);
            old.sql(&format!(
                "INSERT INTO teamster.migrations (version) VALUES ({number})"
            ));
        }
        let event = r#"{"v":1,"seq":0,"id":"e","ts":"2026-01-01T00:00:00.000Z","team":"crew","type":"team.created","actor":"lead","data":{}}"#;
        old.sql(&format!(
            "SELECT teamster.create_team('crew', $body${config}$body$, 'e', 'team.created', $body${event}$body$);
             UPDATE teamster.teams SET config_version = 7;
             UPDATE teamster.positions SET highest = 1;
             INSERT INTO teamster.tasks (team, id, number, status, offered, passing, capabilities, blockers, body)
             VALUES ('crew', '1', 1, 0, true, false, '{{}}', '{{}}', $body${task}$body$)"
        ));
        assert_eq!(
            teamster_postgres::init(&old.url()).unwrap().len(),
            MIGRATIONS.len() - version
        );
        let store = old.store(PATIENCE);
        let member = NewMember {
            name: "eve".parse().unwrap(),
            provider: String::new(),
            capabilities: None,
        };
        store.join_team(&team, &member).unwrap();
        assert!(store.team(&team).unwrap().member("eve").is_some());
        for subject in ["from before", "from now"] {
            if subject == "from now" {
                create(&store, &team, subject);
            }
            let claimed = claim(&store, &team, "eve").unwrap().unwrap();
            assert_eq!(claimed.task.subject(), subject, "version {version}");
            complete(&store, &team, &claimed).unwrap();
        }
        let kept = old.sql("SELECT config_version FROM teamster.positions");
        assert_eq!(kept, "8", "version {version}");
    }
}
