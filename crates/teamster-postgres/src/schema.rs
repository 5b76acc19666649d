//! The schema: its numbered, forward-only migrations, and the version of a database.

use std::time::{Duration, Instant};

use teamster_store::{Result, StoreError, StoreErrorKind};
use teamster_types::TeamName;
use tokio_postgres::types::{ToSql, Type};

use crate::session::{Session, StatementError};
use crate::store::no_team;
use crate::url::StoreUrl;

/// The migrations, in order. A released migration never changes; later changes are new migrations.
const MIGRATIONS: [&str; 5] = [
    include_str!("../migrations/0001_store.sql"),
    include_str!("../migrations/0002_hosts.sql"),
    include_str!("../migrations/0003_roles.sql"),
    include_str!("../migrations/0004_logs.sql"),
    include_str!("../migrations/0005_claims.sql"),
];

/// The oldest supported server, in the server's version format.
const OLDEST_SERVER: u32 = 130_000;

/// Excludes concurrent migrations. The lock is released at the end of the transaction, so it also works behind a
/// pooler.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(8314572964021)";

/// The status of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// The version of the server, such as `15.4`.
    pub server: String,
    /// The number of the last applied migration; 0 when there is no store.
    pub schema: usize,
    /// The number of the migration that this teamster needs.
    pub needed: usize,
    /// The database role that this teamster uses.
    pub role: String,
    /// The round-trip time of a statement.
    pub latency: Duration,
    /// Whether a notification from one connection wakes another. Behind a pooler in transaction mode it does not, and
    /// changes are found by polling instead.
    pub wakes: bool,
}

/// How long to wait for a notification before concluding that none arrives.
const WAKE: Duration = Duration::from_secs(1);

/// Creates the schema, or updates it. Any number of machines may do so at once. Returns the numbers of the migrations
/// that this call applied.
pub fn init(url: &StoreUrl) -> Result<Vec<usize>> {
    let session = Session::connect(url)?;
    refuse_old_server(url, &session)?;
    // A role without the privilege to migrate still learns that nothing is to be done.
    let found = version(url, &session)?;
    refuse_newer(url, found)?;
    if found == MIGRATIONS.len() {
        return Ok(Vec::new());
    }
    let run = |statements: &str| session.execute(url, statements).map_err(StoreError::from);
    run("BEGIN")?;
    let migrated = (|| {
        run(MIGRATION_LOCK)?;
        run("CREATE SCHEMA IF NOT EXISTS teamster; \
            CREATE TABLE IF NOT EXISTS teamster.migrations (\
                version int PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT clock_timestamp())")?;
        let before = version(url, &session)?;
        refuse_newer(url, before)?;
        let mut made = Vec::new();
        for (number, migration) in (1..).zip(MIGRATIONS).skip(before) {
            run(migration)?;
            run(&format!(
                "INSERT INTO teamster.migrations (version) VALUES ({number})"
            ))?;
            made.push(number);
        }
        run("COMMIT")?;
        Ok(made)
    })();
    if migrated.is_err() {
        let _ = session.execute(url, "ROLLBACK");
    }
    migrated
}

/// Returns the number of the newest migration that this teamster knows.
pub const fn schema_needed() -> usize {
    MIGRATIONS.len()
}

/// Returns the status of a database.
pub fn status(url: &StoreUrl) -> Result<StoreStatus> {
    let mut session = Session::connect(url)?;
    let asked = Instant::now();
    let rows = session.query(url, "SELECT current_user::text", &[])?;
    let latency = asked.elapsed();
    let number = session.version;
    Ok(StoreStatus {
        server: format!("{}.{}", number / 10_000, number % 10_000),
        schema: version(url, &session)?,
        needed: MIGRATIONS.len(),
        role: rows.first().map_or_else(String::new, |row| row.get(0)),
        latency,
        wakes: receives_notifications(url, &mut session, &Session::connect(url)?)?,
    })
}

/// Grants a database role access to a team: it may read everything of the team, and change what workers change. Only
/// the owner of the store can do so.
pub fn grant_access(url: &StoreUrl, role: &str, team: &TeamName) -> Result<()> {
    let session = Session::connect(url)?;
    check(url, &session)?;
    let team_and_role = [
        (&role as &(dyn ToSql + Sync), Type::TEXT),
        (&team.as_str(), Type::TEXT),
    ];
    session.query(url, "SELECT teamster.let_work($1, $2)", &team_and_role)?;
    let granted = session.query(
        url,
        "SELECT FROM teamster.grants WHERE role = $1 AND team = $2",
        &team_and_role,
    )?;
    if granted.is_empty() {
        return Err(no_team(team));
    }
    Ok(())
}

/// Revokes a role's access to a team, and returns whether it had it.
pub fn revoke_access(url: &StoreUrl, role: &str, team: &TeamName) -> Result<bool> {
    let session = Session::connect(url)?;
    check(url, &session)?;
    let taken = session.query(
        url,
        "DELETE FROM teamster.grants WHERE role = $1 AND team = $2 RETURNING 1",
        &[(&role, Type::TEXT), (&team.as_str(), Type::TEXT)],
    )?;
    Ok(!taken.is_empty())
}

/// Returns whether a notification from another connection wakes this one.
pub(crate) fn receives_notifications(
    url: &StoreUrl,
    session: &mut Session,
    other: &Session,
) -> Result<bool> {
    let channel = format!("teamster_status_{}", teamster_fs::random_hex());
    session.execute(url, &format!("LISTEN \"{channel}\""))?;
    other.execute(url, &format!("NOTIFY \"{channel}\""))?;
    let woken = !session.wait_for_notifications(WAKE).is_empty();
    // Behind a pooler, another client gets the connection afterwards.
    let _ = session.execute(url, &format!("UNLISTEN \"{channel}\""));
    Ok(woken)
}

/// Refuses a server or a schema that this teamster does not support.
pub(crate) fn check(url: &StoreUrl, session: &Session) -> Result<()> {
    refuse_old_server(url, session)?;
    let found = version(url, session)?;
    refuse_newer(url, found)?;
    let needed = MIGRATIONS.len();
    if found < needed {
        let what = match found {
            0 => format!("the database {url} has no teamster store"),
            _ => {
                format!("the store of {url} has version {found}, but this teamster needs {needed}")
            }
        };
        return Err(StoreError::new(StoreErrorKind::Unreachable, what)
            .hint("`teamster store init` creates or upgrades it, and keeps its data"));
    }
    Ok(())
}

fn refuse_old_server(url: &StoreUrl, session: &Session) -> Result<()> {
    if session.version >= OLDEST_SERVER {
        return Ok(());
    }
    let found = session.version / 10_000;
    Err(StoreError::refused(format!(
        "the server of {url} is PostgreSQL {found}, but teamster needs 13 or newer"
    ))
    .hint("use a newer server; nothing was changed"))
}

fn refuse_newer(url: &StoreUrl, found: usize) -> Result<()> {
    let known = MIGRATIONS.len();
    if found <= known {
        return Ok(());
    }
    Err(StoreError::refused(format!(
        "the store of {url} has version {found}, which a newer teamster created; this one supports {known}"
    ))
    .hint("use the newer teamster; nothing was changed"))
}

/// Returns the number of the last migration; 0 when there is no store.
fn version(url: &StoreUrl, session: &Session) -> Result<usize> {
    let found = session.query(
        url,
        "SELECT coalesce(max(version), 0)::int4 FROM teamster.migrations",
        &[],
    );
    match found {
        Ok(rows) => {
            let version = rows.first().map_or(0, |row| row.get::<_, i32>(0));
            Ok(usize::try_from(version).unwrap_or(0))
        }
        Err(StatementError::Refused(state, _)) if matches!(state.code(), "3F000" | "42P01") => {
            Ok(0)
        }
        Err(trouble) => Err(trouble.into()),
    }
}
