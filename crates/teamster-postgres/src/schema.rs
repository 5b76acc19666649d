//! The schema: numbered migrations, forward only, and what version a database has.

use std::time::{Duration, Instant};

use teamster_store::{Kind, Result, StoreError};
use teamster_types::TeamName;
use tokio_postgres::types::{ToSql, Type};

use crate::session::{Session, StatementError};
use crate::store::no_team;
use crate::url::StoreUrl;

/// Every migration in its order. One that was released never changes; what comes after it is a new one.
const MIGRATIONS: [&str; 5] = [
    include_str!("../migrations/0001_store.sql"),
    include_str!("../migrations/0002_hosts.sql"),
    include_str!("../migrations/0003_roles.sql"),
    include_str!("../migrations/0004_logs.sql"),
    include_str!("../migrations/0005_claims.sql"),
];

/// The oldest server whose SQL is enough, as the server tells its version.
const OLDEST_SERVER: u32 = 130_000;

/// Keeps other migrations out. It is freed at the end of the transaction, so it works behind a pooler, too.
const MIGRATION_LOCK: &str = "SELECT pg_advisory_xact_lock(8314572964021)";

/// What a database has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// The version of the server, as `15.4`.
    pub server: String,
    /// The number of the last migration that was made; 0 when there is no store.
    pub schema: usize,
    /// The number that this teamster needs.
    pub needed: usize,
    /// The role in whose name this teamster works there.
    pub role: String,
    /// How long the server takes to answer, the way there and back included.
    pub latency: Duration,
    /// Whether a notification of one connection wakes another. Behind a pooler that hands out connections for one transaction it does
    /// not, and changes are looked for now and then instead.
    pub wakes: bool,
}

/// How long a notification may take before it is said that none comes.
const WAKE: Duration = Duration::from_secs(1);

/// Makes the schema, or brings it up to date. Any number of machines may do so at once. Returns the numbers of the migrations
/// that were made here.
pub fn init(url: &StoreUrl) -> Result<Vec<usize>> {
    let session = Session::connect(url)?;
    refuse_old_server(url, &session)?;
    // A role that may not make anything can still be told that there is nothing to be made.
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

/// Returns the number of the last migration that this teamster knows.
pub const fn schema_needed() -> usize {
    MIGRATIONS.len()
}

/// Looks at what a database has.
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
        wakes: is_woken(url, &mut session, &Session::connect(url)?)?,
    })
}

/// Lets a role of the server work for a team: read all of it, and change what workers change. Only the role that owns the store can
/// do so.
pub fn let_work(url: &StoreUrl, role: &str, team: &TeamName) -> Result<()> {
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

/// Takes that from a role again, and returns whether it had it.
pub fn let_work_no_more(url: &StoreUrl, role: &str, team: &TeamName) -> Result<bool> {
    let session = Session::connect(url)?;
    check(url, &session)?;
    let taken = session.query(
        url,
        "DELETE FROM teamster.grants WHERE role = $1 AND team = $2 RETURNING 1",
        &[(&role, Type::TEXT), (&team.as_str(), Type::TEXT)],
    )?;
    Ok(!taken.is_empty())
}

/// Returns whether a notification of another connection wakes this one.
pub(crate) fn is_woken(url: &StoreUrl, session: &mut Session, other: &Session) -> Result<bool> {
    let channel = format!("teamster_status_{}", teamster_fs::random_hex());
    session.execute(url, &format!("LISTEN \"{channel}\""))?;
    other.execute(url, &format!("NOTIFY \"{channel}\""))?;
    let woken = !session.wait_for_wakes(WAKE).is_empty();
    // Behind a pooler the connection goes to others afterwards.
    let _ = session.execute(url, &format!("UNLISTEN \"{channel}\""));
    Ok(woken)
}

/// Refuses a server or a schema that this teamster cannot work with.
pub(crate) fn check(url: &StoreUrl, session: &Session) -> Result<()> {
    refuse_old_server(url, session)?;
    let found = version(url, session)?;
    refuse_newer(url, found)?;
    let needed = MIGRATIONS.len();
    if found < needed {
        let what = match found {
            0 => format!("the database {url} has no store of teamster"),
            _ => {
                format!("the store of {url} has version {found}, and this teamster needs {needed}")
            }
        };
        return Err(StoreError::new(Kind::Unreachable, what)
            .hint("`teamster store init` makes it, and keeps what is there"));
    }
    Ok(())
}

fn refuse_old_server(url: &StoreUrl, session: &Session) -> Result<()> {
    if session.version >= OLDEST_SERVER {
        return Ok(());
    }
    let found = session.version / 10_000;
    Err(StoreError::refused(format!(
        "the server of {url} is PostgreSQL {found}, and teamster needs 13 or newer"
    ))
    .hint("use a newer server; nothing was changed"))
}

fn refuse_newer(url: &StoreUrl, found: usize) -> Result<()> {
    let known = MIGRATIONS.len();
    if found <= known {
        return Ok(());
    }
    Err(StoreError::refused(format!(
        "the store of {url} has version {found}, which a newer teamster has made; this one knows {known}"
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
