//! Plain reads, and the heartbeats of workers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use teamster_journal::{Event, EventKind, EventType};
use teamster_store::backend::no_task;
use teamster_store::{
    Damaged, HostRight, JournalPage, KnownLog, Listen, LogPiece, LogRequest, OtherHost, ReadStore,
    Result, Signal, Store, StoreError, StoreErrorKind, StoredMessage, TaskList, TeamEntry, Watch,
    WorkLeft,
};
use teamster_types::failure::Failure;
use teamster_types::heartbeat::Heartbeat;
use teamster_types::message::Message;
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::progress::Progress;
use teamster_types::task::Task;
use teamster_types::team::TeamConfig;
use teamster_types::{TaskId, TeamName, Time, WorkerName};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::session::Param;
use crate::store::{PgStore, no_team, position, stored};
use crate::watch::{PgListener, PgWatch};

/// Writes the heartbeat of a worker, if its team exists.
pub(crate) const WRITE_BEAT: &str = "INSERT INTO teamster.beats AS b (team, worker, body) \
    SELECT name, $2, $3 FROM teamster.teams WHERE name = $1 \
    ON CONFLICT (team, worker) DO UPDATE SET body = EXCLUDED.body, version = b.version + 1 RETURNING 1";

/// Counts the remaining tasks with index scans only.
pub(crate) const WORK_LEFT: &str = "SELECT \
    (SELECT count(*) FROM teamster.tasks WHERE team = $1 AND status = 0 AND offered), \
    (SELECT count(*) FROM teamster.tasks WHERE team = $1 AND status = 1)";

/// The maximum size of an answer with logs, in bytes. A regular worker sends less than half of it, escapes included.
const LONGEST_ANSWER: i32 = 4 * 1024 * 1024;

/// Returns the error for a record that cannot be parsed.
pub(crate) fn damaged(what: &str, error: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Failed,
        format!("{what} in the database {error}"),
    )
    .hint("`teamster store status` checks the store")
}

/// Parses a record that is stored as text.
pub(crate) fn parsed<T: DeserializeOwned>(what: &str, body: &str) -> Result<T> {
    serde_json::from_str(body).map_err(|error| damaged(what, &format!("cannot be read: {error}")))
}

/// Parses a task.
pub(crate) fn task(id: &str, body: &str) -> Result<Task> {
    let id: TaskId = id.parse()?;
    Task::parse(&id, body.as_bytes()).map_err(|error| damaged(&format!("task {id}"), &error))
}

/// Parses an event; its position comes from the row.
pub(crate) fn event(seq: i64, body: &str) -> Result<Event> {
    let mut event: Event = parsed("an event", body)?;
    event.seq = position(seq);
    Ok(event)
}

/// Parses a signal; the row says whether it is a drain.
pub(crate) fn signal(drain: bool, body: &str) -> Result<Signal> {
    let mut signal: Signal = parsed("a signal", body)?;
    signal.drain = drain;
    Ok(signal)
}

impl PgStore {
    /// Reads rows of one team. If there are none, checks that the team exists.
    fn query_team(&self, team: &TeamName, statement: &str, more: &[Param<'_>]) -> Result<Vec<Row>> {
        let name = team.as_str();
        let mut params: Vec<Param<'_>> = vec![(&name, Type::TEXT)];
        params.extend(more.iter().map(|(value, kind)| (*value, kind.clone())));
        let rows = self.query(statement, &params)?;
        if rows.is_empty() {
            self.check_team_exists(team)?;
        }
        Ok(rows)
    }

    fn check_team_exists(&self, team: &TeamName) -> Result<()> {
        let found = self.query(
            "SELECT FROM teamster.teams WHERE name = $1",
            &[(&team.as_str(), Type::TEXT)],
        )?;
        if found.is_empty() {
            return Err(no_team(team));
        }
        Ok(())
    }

    /// Reads a page of the journal.
    fn page(&self, team: &TeamName, statement: &str, more: &[Param<'_>]) -> Result<JournalPage> {
        let name = team.as_str();
        let mut params: Vec<Param<'_>> = vec![(&name, Type::TEXT)];
        params.extend(more.iter().map(|(value, kind)| (*value, kind.clone())));
        let rows = self.durable_query(statement, &params)?;
        if rows.is_empty() {
            self.check_team_exists(team)?;
        }
        let mut page = JournalPage {
            events: Vec::with_capacity(rows.len()),
            damaged: Vec::new(),
        };
        for row in &rows {
            let seq: i64 = row.get(0);
            match event(seq, row.get(1)) {
                Ok(event) => page.events.push(event),
                Err(error) => page.damaged.push(Damaged {
                    file: format!("event {seq}"),
                    error: error.message,
                }),
            }
        }
        Ok(page)
    }
}

impl ReadStore for PgStore {
    fn now(&self) -> Time {
        self.server_now()
    }

    fn limit_retries(&self) {
        self.note_shutdown();
    }

    fn teams(&self) -> Result<Vec<TeamEntry>> {
        let rows = self.query(
            "SELECT name, config FROM teamster.teams ORDER BY name COLLATE \"C\"",
            &[],
        )?;
        Ok(rows
            .iter()
            .map(|row| TeamEntry {
                name: row.get(0),
                config: TeamConfig::parse(row.get::<_, &str>(1).as_bytes()),
            })
            .collect())
    }

    fn team(&self, team: &TeamName) -> Result<TeamConfig> {
        let rows = self.query_team(
            team,
            "SELECT config FROM teamster.teams WHERE name = $1",
            &[],
        )?;
        let row = rows.first().ok_or_else(|| no_team(team))?;
        TeamConfig::parse(row.get::<_, &str>(0).as_bytes())
            .map_err(|error| damaged("the registry", &error))
    }

    fn task(&self, team: &TeamName, id: &TaskId) -> Result<Task> {
        let rows = self.query_team(
            team,
            "SELECT id, body FROM teamster.tasks WHERE team = $1 AND id = $2",
            &[(&id.as_str(), Type::TEXT)],
        )?;
        let row = rows.first().ok_or_else(|| no_task(team, id))?;
        task(row.get(0), row.get(1))
    }

    fn tasks(&self, team: &TeamName) -> Result<TaskList> {
        let rows = self.query_team(
            team,
            "SELECT id, body FROM teamster.tasks WHERE team = $1 ORDER BY number, id COLLATE \"C\"",
            &[],
        )?;
        let mut list = TaskList::default();
        for row in &rows {
            match task(row.get(0), row.get(1)) {
                Ok(task) => list.tasks.push(task),
                Err(error) => list.problems.push(Damaged {
                    file: format!("task {}", row.get::<_, &str>(0)),
                    error: error.message,
                }),
            }
        }
        Ok(list)
    }

    fn progress(&self, team: &TeamName) -> Result<(Progress, Vec<Damaged>)> {
        let list = self.tasks(team)?;
        Ok((Progress::of(&list.tasks), list.problems))
    }

    fn work_left(&self, team: &TeamName) -> Result<WorkLeft> {
        let rows = self.repeated_query(WORK_LEFT, &[(&team.as_str(), Type::TEXT)])?;
        let count = |place: usize| usize::try_from(rows[0].get::<_, i64>(place)).unwrap_or(0);
        Ok(WorkLeft {
            pending: count(0),
            in_progress: count(1),
        })
    }

    fn failure(&self, team: &TeamName, id: &TaskId) -> Result<Option<Failure>> {
        let rows = self.query_team(
            team,
            "SELECT body FROM teamster.failures WHERE team = $1 AND id = $2",
            &[(&id.as_str(), Type::TEXT)],
        )?;
        let body = rows.first().map(|row| row.get::<_, &str>(0));
        body.map(|body| parsed("a record of failures", body))
            .transpose()
    }

    fn messages(&self, team: &TeamName) -> Result<Vec<StoredMessage>> {
        let rows = self.query_team(
            team,
            "SELECT box, place, body FROM teamster.mail WHERE team = $1 \
             ORDER BY box LIKE 'outbox/%', box = 'inbox/lead', box COLLATE \"C\", place",
            &[],
        )?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let kinds = [EventType::MessageDelivered, EventType::MessageAcked].map(EventType::name);
        let cursor_moves = self.page(
            team,
            "SELECT seq, body FROM teamster.events WHERE team = $1 AND kind = ANY ($2) ORDER BY seq",
            &[(&kinds.to_vec(), Type::TEXT_ARRAY)],
        )?;
        let mut receipts: HashMap<String, [Vec<(u64, Time)>; 2]> = HashMap::new();
        for event in cursor_moves.events {
            let (cursor, which) = match event.payload() {
                EventKind::MessageDelivered(cursor) => (cursor, 0),
                EventKind::MessageAcked(cursor) => (cursor, 1),
                _ => continue,
            };
            receipts.entry(cursor.mailbox).or_default()[which].push((cursor.up_to, event.ts));
        }
        let receipt = |mailbox: &str, which: usize, place: u64| {
            let moves = &receipts.get(mailbox)?[which];
            // Cursors only move forwards.
            let at = moves.partition_point(|(up_to, _)| *up_to < place);
            moves.get(at).map(|(_, moment)| *moment)
        };
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let mailbox: String = row.get(0);
            let place = position(row.get(1));
            let Ok(message) = Message::parse(row.get::<_, &str>(2).as_bytes()) else {
                continue;
            };
            found.push(StoredMessage {
                delivered_at: receipt(&mailbox, 0, place),
                acked_at: receipt(&mailbox, 1, place),
                mailbox,
                message,
            });
        }
        Ok(found)
    }

    fn undelivered(&self, team: &TeamName, before: Time) -> Result<Vec<StoredMessage>> {
        let rows = self.query_team(
            team,
            "SELECT m.box, m.body FROM teamster.mail m JOIN teamster.boxes b ON b.team = m.team AND b.box = m.box \
             WHERE m.team = $1 AND m.place > b.delivered \
             ORDER BY m.box LIKE 'outbox/%', m.box = 'inbox/lead', m.box COLLATE \"C\", m.place",
            &[],
        )?;
        let filed = rows.iter().filter_map(|row| {
            let message = Message::parse(row.get::<_, &str>(1).as_bytes()).ok()?;
            Some(StoredMessage {
                mailbox: row.get(0),
                message,
                delivered_at: None,
                acked_at: None,
            })
        });
        let is_old =
            |filed: &StoredMessage| filed.message.timestamp().is_some_and(|sent| sent < before);
        Ok(filed.filter(is_old).collect())
    }

    fn beat(&self, heartbeat: &Heartbeat) -> Result<()> {
        let team = &heartbeat.team_name;
        let body = serde_json::to_string(heartbeat).unwrap_or_default();
        let written = self.repeated_query(
            WRITE_BEAT,
            &[
                (&team.as_str(), Type::TEXT),
                (&heartbeat.worker_name.as_str(), Type::TEXT),
                (&body, Type::TEXT),
            ],
        )?;
        if written.is_empty() {
            return Err(no_team(team));
        }
        Ok(())
    }

    fn register_launch(&self, heartbeat: &Heartbeat, seen: Option<&str>) -> Result<bool> {
        let team = &heartbeat.team_name;
        let body = serde_json::to_string(heartbeat).unwrap_or_default();
        // A retry after a lost reply finds its own launch in the row and succeeds.
        let taken = self.query_team(
            team,
            "INSERT INTO teamster.beats AS b (team, worker, body) VALUES ($1, $2, $3) \
             ON CONFLICT (team, worker) DO UPDATE SET body = EXCLUDED.body, version = b.version + 1 \
             WHERE b.body::json ->> 'launch' IS NOT DISTINCT FROM $4 \
                OR b.body::json ->> 'launch' = EXCLUDED.body::json ->> 'launch' RETURNING 1",
            &[
                (&heartbeat.worker_name.as_str(), Type::TEXT),
                (&body, Type::TEXT),
                (&seen, Type::TEXT),
            ],
        )?;
        Ok(!taken.is_empty())
    }

    fn ask_for_logs(
        &self,
        team: &TeamName,
        worker: &WorkerName,
        present: &[KnownLog],
    ) -> Result<Option<String>> {
        let id = teamster_fs::random_hex();
        let present = serde_json::to_string(present).unwrap_or_default();
        self.query(
            "DELETE FROM teamster.log_requests WHERE team = $1 AND asked_at < clock_timestamp() - interval '1 minute'",
            &[(&team.as_str(), Type::TEXT)],
        )?;
        self.query(
            "WITH asked AS ( \
                INSERT INTO teamster.log_requests (id, team, worker, present) VALUES ($1, $2, $3, $4) \
                ON CONFLICT DO NOTHING RETURNING team) \
             SELECT pg_notify('teamster_' || team, $3) FROM asked",
            &[
                (&id, Type::TEXT),
                (&team.as_str(), Type::TEXT),
                (&worker.as_str(), Type::TEXT),
                (&present, Type::TEXT),
            ],
        )?;
        Ok(Some(id))
    }

    fn answered_logs(&self, team: &TeamName, request: &str) -> Result<Option<Vec<LogPiece>>> {
        let rows = self.query(
            "DELETE FROM teamster.log_requests WHERE team = $1 AND id = $2 AND answer IS NOT NULL \
             RETURNING CASE WHEN octet_length(answer) <= $3 THEN answer END",
            &[
                (&team.as_str(), Type::TEXT),
                (&request, Type::TEXT),
                (&LONGEST_ANSWER, Type::INT4),
            ],
        )?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        match row.get::<_, Option<&str>>(0) {
            Some(answer) => parsed("an answer with logs", answer).map(Some),
            None => Err(StoreError::new(
                StoreErrorKind::Failed,
                format!("a worker of team {team} answered with more of its logs than allowed"),
            )
            .hint("check that worker and its machine; the answer was discarded")),
        }
    }

    fn log_requests(&self, team: &TeamName, worker: &WorkerName) -> Result<Vec<LogRequest>> {
        let rows = self.query(
            "SELECT id, present FROM teamster.log_requests WHERE team = $1 AND worker = $2 AND answer IS NULL \
             AND asked_at > clock_timestamp() - interval '10 seconds' ORDER BY asked_at",
            &[
                (&team.as_str(), Type::TEXT),
                (&worker.as_str(), Type::TEXT),
            ],
        )?;
        rows.iter()
            .map(|row| {
                let present = parsed("a request for logs", row.get(1))?;
                Ok(LogRequest {
                    id: row.get(0),
                    present,
                })
            })
            .collect()
    }

    fn answer_logs(&self, team: &TeamName, request: &str, pieces: &[LogPiece]) -> Result<()> {
        let answer = serde_json::to_string(pieces).unwrap_or_default();
        self.query(
            "UPDATE teamster.log_requests SET answer = $3 WHERE team = $1 AND id = $2",
            &[
                (&team.as_str(), Type::TEXT),
                (&request, Type::TEXT),
                (&answer, Type::TEXT),
            ],
        )
        .map(drop)
    }

    fn remove_heartbeat(&self, team: &TeamName, worker: &WorkerName) -> Result<()> {
        self.query_team(
            team,
            "DELETE FROM teamster.beats WHERE team = $1 AND worker = $2",
            &[(&worker.as_str(), Type::TEXT)],
        )
        .map(drop)
    }

    fn heartbeats(&self, team: &TeamName) -> Result<(Vec<Heartbeat>, Vec<Damaged>)> {
        let rows = self.query_team(
            team,
            "SELECT worker, body FROM teamster.beats WHERE team = $1 ORDER BY worker COLLATE \"C\"",
            &[],
        )?;
        let (mut beats, mut problems) = (Vec::new(), Vec::new());
        for row in &rows {
            match parsed("a heartbeat", row.get(1)) {
                Ok(beat) => beats.push(beat),
                Err(error) => problems.push(Damaged {
                    file: format!("heartbeat of {}", row.get::<_, &str>(0)),
                    error: error.message,
                }),
            }
        }
        Ok((beats, problems))
    }

    fn process_state(&self, process: &ProcessId) -> ProcessState {
        self.life_of(process)
    }

    fn hold_host(
        &self,
        team: &TeamName,
        holder: &str,
        lease: Duration,
        gone: Option<&str>,
    ) -> Result<HostRight> {
        let process = serde_json::to_string(&self.me).unwrap_or_default();
        let lease = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
        let rows = self.query(
            "SELECT holder, process, millis_left FROM teamster.hold_host($1, $2, $3, $4, $5)",
            &[
                (&team.as_str(), Type::TEXT),
                (&holder, Type::TEXT),
                (&process, Type::TEXT),
                (&lease, Type::INT8),
                (&gone.unwrap_or_default(), Type::TEXT),
            ],
        )?;
        let found = other_host(rows.first().ok_or_else(|| no_team(team))?);
        Ok(if found.holder == holder {
            HostRight::Ours
        } else {
            HostRight::Theirs(found)
        })
    }

    fn current_host(&self, team: &TeamName) -> Result<Option<OtherHost>> {
        let rows = self.query(
            "SELECT holder, process, leased_until - teamster.now_millis() FROM teamster.hosts \
             WHERE team = $1 AND leased_until > teamster.now_millis()",
            &[(&team.as_str(), Type::TEXT)],
        )?;
        Ok(rows.first().map(other_host))
    }

    fn release_host(&self, team: &TeamName, holder: &str) -> Result<()> {
        self.query(
            "DELETE FROM teamster.hosts WHERE team = $1 AND holder = $2",
            &[(&team.as_str(), Type::TEXT), (&holder, Type::TEXT)],
        )
        .map(drop)
    }

    fn hosted_by(&self, holder: &str) -> Option<Arc<dyn Store>> {
        Some(Arc::new(self.accepted_while_host(holder)))
    }

    fn signals(&self, team: &TeamName, worker: &WorkerName) -> Result<Vec<Signal>> {
        let rows = self.query_team(
            team,
            "SELECT drain, body FROM teamster.signals WHERE team = $1 AND worker = $2 ORDER BY drain",
            &[(&worker.as_str(), Type::TEXT)],
        )?;
        rows.iter()
            .map(|row| signal(row.get(0), row.get(1)))
            .collect()
    }

    fn listen(&self, team: &TeamName, worker: &WorkerName) -> Result<Box<dyn Listen>> {
        self.check_team_exists(team)?;
        Ok(Box::new(PgListener::new(
            self.second_handle(),
            team,
            worker,
        )))
    }

    fn position(&self, team: &TeamName) -> Result<u64> {
        let rows = self.durable_query(
            "SELECT seq FROM teamster.positions WHERE team = $1",
            &[(&team.as_str(), Type::TEXT)],
        )?;
        let row = rows.first().ok_or_else(|| no_team(team))?;
        Ok(position(row.get(0)))
    }

    fn events(&self, team: &TeamName, from: u64, limit: usize) -> Result<JournalPage> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.page(
            team,
            "SELECT seq, body FROM teamster.events WHERE team = $1 AND seq >= $2 ORDER BY seq LIMIT $3",
            &[(&stored(from), Type::INT8), (&limit, Type::INT8)],
        )
    }

    fn last_events(&self, team: &TeamName, count: usize) -> Result<JournalPage> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut page = self.page(
            team,
            "SELECT seq, body FROM teamster.events WHERE team = $1 ORDER BY seq DESC LIMIT $2",
            &[(&count, Type::INT8)],
        )?;
        page.events.reverse();
        page.damaged.reverse();
        Ok(page)
    }

    fn last_of(&self, team: &TeamName, kinds: &[&str]) -> Result<Option<Event>> {
        // Event types are ASCII, so every type with such a prefix sorts before the prefix followed by `~`.
        let page = self.page(
            team,
            "SELECT e.seq, e.body FROM teamster.events e WHERE e.team = $1 AND e.seq = ( \
                SELECT max(last.seq) FROM unnest($2) AS wanted (kind), LATERAL ( \
                    SELECT max(k.seq) AS seq FROM teamster.events k WHERE k.team = $1 \
                    AND k.kind COLLATE \"C\" >= wanted.kind AND k.kind COLLATE \"C\" < wanted.kind || '~') AS last)",
            &[(&kinds.to_vec(), Type::TEXT_ARRAY)],
        )?;
        Ok(page.events.into_iter().next())
    }

    fn watch(&self, team: &TeamName, after: u64) -> Result<Box<dyn Watch>> {
        self.check_team_exists(team)?;
        Ok(Box::new(PgWatch::new(self.second_handle(), team, after)?))
    }
}

/// Parses a row with the holder of the right to host a team, its process, and the remaining milliseconds.
fn other_host(row: &Row) -> OtherHost {
    let left: i64 = row.get(2);
    OtherHost {
        holder: row.get(0),
        process: serde_json::from_str(row.get(1)).ok(),
        left: Duration::from_millis(u64::try_from(left).unwrap_or(0)),
    }
}
