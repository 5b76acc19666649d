//! Exports and imports a whole team.
//!
//! Each is one transaction. If a process is killed in the middle of an import, its connection is lost and the server
//! rolls the import back.

use std::collections::HashSet;

use teamster_store::{ExportedMailbox, MailLine, Result, StoreError, TeamExport, mailbox_of};
use teamster_types::failure::Failure;
use teamster_types::team::TeamConfig;
use teamster_types::{TaskId, TeamName};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::read;
use crate::session::{Param, Session, StatementError};
use crate::store::{PgStore, config_text, no_team, position, stored};
use crate::txn::{AppliedColumns, INSERT_TASKS, json_text};

/// How many rows one statement reads or writes.
const PAGE: usize = 2_000;
/// The same number, in the type of the database.
const PAGE_ROWS: i64 = 2_000;

/// A transaction that sees one snapshot, or whose changes become visible together.
struct TransferTxn<'a> {
    store: &'a PgStore,
    session: &'a Session,
    team: &'a str,
}

impl TransferTxn<'_> {
    fn query(&self, statement: &str, more: &[Param<'_>]) -> Result<Vec<Row>, StatementError> {
        let mut params: Vec<Param<'_>> = vec![(&self.team, Type::TEXT)];
        params.extend(more.iter().map(|(value, kind)| (*value, kind.clone())));
        self.session.query(&self.store.url, statement, &params)
    }
}

/// Runs `work` in a transaction, which `work` commits. On an error it is rolled back.
fn in_transaction<T>(
    store: &PgStore,
    session: &Session,
    begin: &str,
    team: &TeamName,
    work: impl FnOnce(&TransferTxn<'_>) -> Result<T>,
) -> Result<T> {
    session.execute(&store.url, begin)?;
    let txn = TransferTxn {
        store,
        session,
        team: team.as_str(),
    };
    let done = work(&txn);
    if done.is_err() {
        // If this fails, the connection is closed, which its next user notices.
        let _ = session.execute(&store.url, "ROLLBACK");
    }
    done
}

/// Reads a consistent snapshot of everything a team has.
pub(crate) fn export(store: &PgStore, team: &TeamName) -> Result<TeamExport> {
    let session = store.session()?;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let read = in_transaction(store, &session, begin, team, |txn| {
        let whole = read_whole(txn, team)?;
        session.execute(&store.url, "COMMIT")?;
        Ok(whole)
    });
    // An export must not contain anything that a crash of the server could still undo.
    let durable = read.and_then(|whole| {
        store.make_durable(&session)?;
        Ok(whole)
    });
    store.return_session(session);
    durable
}

fn read_whole(txn: &TransferTxn<'_>, team: &TeamName) -> Result<TeamExport> {
    let rows = txn.query(
        "SELECT t.config, p.highest::text FROM teamster.teams t JOIN teamster.positions p ON p.team = t.name WHERE t.name = $1",
        &[],
    )?;
    let row = rows.first().ok_or_else(|| no_team(team))?;
    let config = TeamConfig::parse(row.get::<_, &str>(0).as_bytes())
        .map_err(|error| read::damaged("the registry", &error))?;
    let highest: String = row.get(1);
    let tasks = txn.query(
        "SELECT id, body FROM teamster.tasks WHERE team = $1 ORDER BY number, id COLLATE \"C\"",
        &[],
    )?;
    let tasks = tasks.iter().map(|row| read::task(row.get(0), row.get(1)));
    let tasks = tasks.collect::<Result<Vec<_>>>()?;
    let failures = txn.query("SELECT body FROM teamster.failures WHERE team = $1", &[])?;
    let failures = failures
        .iter()
        .map(|row| read::parsed::<Failure>("a record of failures", row.get(0)));
    let mut failures = failures.collect::<Result<Vec<_>>>()?;
    failures.sort_by(|one, other| one.task_id.cmp(&other.task_id));
    let signals = txn.query(
        "SELECT worker, drain, body FROM teamster.signals WHERE team = $1 ORDER BY worker COLLATE \"C\", drain",
        &[],
    )?;
    let signals = signals.iter().map(|row| {
        let signal = read::signal(row.get(1), row.get(2))?;
        Ok((row.get::<_, &str>(0).parse()?, signal))
    });
    let mut events = Vec::new();
    loop {
        let after = events
            .last()
            .map_or(0, |event: &teamster_journal::Event| stored(event.seq));
        let rows = txn.query(
            "SELECT seq, body FROM teamster.events WHERE team = $1 AND seq > $2 ORDER BY seq LIMIT $3",
            &[(&after, Type::INT8), (&PAGE_ROWS, Type::INT8)],
        )?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            events.push(read::event(row.get(0), row.get(1))?);
        }
    }
    Ok(TeamExport {
        team: team.clone(),
        config,
        highest_task: match highest.as_str() {
            "0" => None,
            highest => Some(highest.parse()?),
        },
        tasks,
        failures,
        mailboxes: read_mail(txn)?,
        signals: signals.collect::<Result<_>>()?,
        events,
    })
}

fn read_mail(txn: &TransferTxn<'_>) -> Result<Vec<ExportedMailbox>> {
    let rows = txn.query(
        "SELECT box, acked, delivered FROM teamster.boxes WHERE team = $1 AND size > 0 ORDER BY box COLLATE \"C\"",
        &[],
    )?;
    let mut mailboxes = Vec::with_capacity(rows.len());
    for row in &rows {
        let label: &str = row.get(0);
        let mailbox =
            mailbox_of(label).ok_or_else(|| read::damaged(label, "is not a mailbox of a team"))?;
        let (mut lines, mut after) = (Vec::new(), 0_i64);
        loop {
            let rows = txn.query(
                "SELECT place, body FROM teamster.mail WHERE team = $1 AND box = $2 AND place > $3 ORDER BY place LIMIT $4",
                &[
                    (&label, Type::TEXT),
                    (&after, Type::INT8),
                    (&PAGE_ROWS, Type::INT8),
                ],
            )?;
            let Some(last) = rows.last() else { break };
            after = last.get(0);
            let bodies = rows.iter().map(|row| row.get::<_, &str>(1).as_bytes());
            lines.extend(bodies.map(MailLine::parse));
        }
        mailboxes.push(ExportedMailbox {
            mailbox,
            acked: position(row.get(1)),
            delivered: position(row.get(2)),
            lines,
        });
    }
    Ok(mailboxes)
}

/// Creates a team from an export, in one transaction.
pub(crate) fn import(store: &PgStore, export: &TeamExport) -> Result<()> {
    let session = store.session()?;
    let made = in_transaction(store, &session, "BEGIN", &export.team, |txn| {
        write_whole(txn, export)
    });
    // If the connection was lost during the commit, it is unknown whether the commit happened.
    let made = match made {
        Err(error) if session.is_closed() => match is_imported(store, export) {
            Ok(true) => Ok(()),
            _ => Err(error),
        },
        made => made,
    };
    store.return_session(session);
    made
}

/// Returns whether the team exists and comes from this export: only an import of the same export has the same event
/// ids.
fn is_imported(store: &PgStore, export: &TeamExport) -> Result<bool> {
    let rows = store.query(
        "SELECT body FROM teamster.events WHERE team = $1 AND seq = $2",
        &[
            (&export.team.as_str(), Type::TEXT),
            (&stored(export.position()), Type::INT8),
        ],
    )?;
    let last = export.events.last().map(json_text);
    Ok(rows.first().map(|row| row.get::<_, String>(0)) == last)
}

fn write_whole(txn: &TransferTxn<'_>, export: &TeamExport) -> Result<()> {
    let made = txn.query(
        "INSERT INTO teamster.teams (name, config) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING 1",
        &[(&config_text(&export.config), Type::TEXT)],
    )?;
    if made.is_empty() {
        return Err(StoreError::conflict(format!(
            "there is a team {} already",
            export.team
        ))
        .hint("an import only creates teams; delete the existing one first, or import into another store"));
    }
    let highest = export.highest_task.as_ref().map_or(0, TaskId::number);
    txn.query(
        "INSERT INTO teamster.positions (team, seq, changes, highest) VALUES ($1, $2, 1, $3::text::numeric)",
        &[
            (&stored(export.position()), Type::INT8),
            (&highest.to_string(), Type::TEXT),
        ],
    )?;
    for page in export.tasks.chunks(PAGE) {
        let mut columns = AppliedColumns::default();
        for task in page {
            columns.put(task, None);
        }
        let params = columns.task_params(&txn.team);
        txn.session.query(&txn.store.url, INSERT_TASKS, &params)?;
    }
    for page in export.failures.chunks(PAGE) {
        let ids: Vec<&str> = page
            .iter()
            .map(|failure| failure.task_id.as_str())
            .collect();
        let bodies: Vec<String> = page.iter().map(json_text).collect();
        txn.query(
            "INSERT INTO teamster.failures (team, id, body) SELECT $1, put.* FROM unnest($2, $3) AS put (id, body)",
            &[(&ids, Type::TEXT_ARRAY), (&bodies, Type::TEXT_ARRAY)],
        )?;
    }
    write_mail(txn, export)?;
    for (worker, signal) in &export.signals {
        txn.query(
            "INSERT INTO teamster.signals (team, worker, drain, body) VALUES ($1, $2, $3, $4)",
            &[
                (&worker.as_str(), Type::TEXT),
                (&signal.drain, Type::BOOL),
                (&json_text(signal), Type::TEXT),
            ],
        )?;
    }
    write_journal(txn, export)?;
    let notify = "SELECT pg_notify('teamster_' || $1, '')";
    let params: [Param<'_>; 1] = [(&txn.team, Type::TEXT)];
    txn.session
        .commit_durably(&txn.store.url, notify, &params, true)
        .map(drop)
        .map_err(StoreError::from)
}

fn write_mail(txn: &TransferTxn<'_>, export: &TeamExport) -> Result<()> {
    for whole in &export.mailboxes {
        let label = whole.mailbox.label();
        txn.query(
            "INSERT INTO teamster.boxes (team, box, size, acked, delivered) VALUES ($1, $2, $3, $4, $5)",
            &[
                (&label, Type::TEXT),
                (&stored(whole.lines.len() as u64), Type::INT8),
                (&stored(whole.acked), Type::INT8),
                (&stored(whole.delivered), Type::INT8),
            ],
        )?;
        let mut before = 0_i64;
        for page in whole.lines.chunks(PAGE) {
            let bodies: Vec<String> = page.iter().map(MailLine::text).collect();
            txn.query(
                "INSERT INTO teamster.mail (team, box, place, body) \
                 SELECT $1, $2, $3 + put.nth, put.body FROM unnest($4) WITH ORDINALITY AS put (body, nth)",
                &[
                    (&label, Type::TEXT),
                    (&before, Type::INT8),
                    (&bodies, Type::TEXT_ARRAY),
                ],
            )?;
            before += stored(page.len() as u64);
        }
    }
    Ok(())
}

fn write_journal(txn: &TransferTxn<'_>, export: &TeamExport) -> Result<()> {
    let mut known = HashSet::new();
    for page in export.events.chunks(PAGE) {
        let seqs: Vec<i64> = page.iter().map(|event| stored(event.seq)).collect();
        // The journal may contain a line twice, written by another program. The column only prevents a change from
        // being made twice.
        let ids = page.iter().map(|event| {
            if known.insert(event.id.as_str()) {
                event.id.replace('\0', "")
            } else {
                format!("{}#{}", event.id.replace('\0', ""), event.seq)
            }
        });
        let ids: Vec<String> = ids.collect();
        let kinds: Vec<String> = page
            .iter()
            .map(|event| event.kind.replace('\0', ""))
            .collect();
        let bodies: Vec<String> = page.iter().map(json_text).collect();
        txn.query(
            "INSERT INTO teamster.events (team, seq, id, kind, body) \
             SELECT $1, put.* FROM unnest($2, $3, $4, $5) AS put (seq, id, kind, body)",
            &[
                (&seqs, Type::INT8_ARRAY),
                (&ids, Type::TEXT_ARRAY),
                (&kinds, Type::TEXT_ARRAY),
                (&bodies, Type::TEXT_ARRAY),
            ],
        )?;
    }
    Ok(())
}
