//! Every sign of life of one team.

use std::path::Path;

use teamster_fs::{FileKind, FsError, Lock, layout};
use teamster_types::process::Life;
use teamster_types::task::{Status, Task};
use teamster_types::team::TeamConfig;
use teamster_types::time::say_span;
use teamster_types::{TaskId, TeamName};

use super::Zombie;
use super::folder::{ScanInterrupted, TeamFolder};
use super::heartbeats::{self, HeartbeatVerdict};
use super::lock_files::{self, LockFileState};
use super::members::{self, text};
use super::scanner::ZombieScanner;

/// What is known about a team's life.
#[derive(Debug, Default)]
pub(super) struct LifeSigns {
    /// Signs of life, in words.
    pub(super) alive: Vec<String>,
    /// Messages that nobody has read, in words. They are for somebody who may come back, and no proof that anybody lives.
    pub(super) unread: Vec<String>,
    /// What cannot be judged from here, in words.
    pub(super) unsure: Vec<String>,
    /// Why the lead is proven gone.
    pub(super) lead_gone: Option<String>,
    /// Whether a member is neither alive nor proven stopped.
    pub(super) unproven: bool,
    /// Tasks that are not completed, those that cannot be read among them.
    pub(super) open_tasks: usize,
    /// Members that go on, and dead panes.
    pub(super) members: Vec<Zombie>,
}

impl LifeSigns {
    /// Returns whether nothing speaks for life. Unread messages do, for a team whose lead is proven gone only until it is
    /// old.
    pub(super) fn are_none(&self, is_old: bool) -> bool {
        let is_read = self.unread.is_empty() || is_old && self.lead_gone.is_some();
        self.alive.is_empty() && self.unsure.is_empty() && is_read
    }

    /// Returns every sign in words, the surest first.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let signs = self.alive.iter().chain(&self.unread);
        signs.chain(&self.unsure).cloned()
    }

    fn add(&mut self, life: Life, what: impl Fn(&str) -> String) {
        match life {
            Life::Alive => self.alive.push(what("runs")),
            Life::Unknown => self.unsure.push(what("cannot be judged from here")),
            Life::Gone => {}
        }
    }
}

/// Returns why the lead of a team of Claude Code is proven gone. A missing record proves nothing, nor does one that
/// does not say where its pid is valid: it may have been written in a container.
pub(super) fn lead_gone(scanner: &ZombieScanner<'_>, team: &TeamFolder) -> Option<String> {
    let config = team.config()?;
    if ends_now(scanner, config) {
        return Some("the session of its lead ends".to_owned());
    }
    let machine = scanner.options.machine;
    let lead_session = text(config, "leadSessionId");
    let sessions = scanner.sessions().iter();
    let mut records: Vec<_> = sessions
        .filter(|session| session.leads(lead_session, &team.name))
        .map(|session| session.process.clone())
        .collect();
    records.extend(config.lead_process());
    let all_gone = records
        .iter()
        .all(|process| machine.life(process) == Life::Gone);
    let proof = records.iter().rfind(|process| !process.pid_ns.is_empty())?;
    all_gone.then(|| format!("its lead (pid {}) is gone", proof.pid))
}

fn ends_now(scanner: &ZombieScanner<'_>, config: &TeamConfig) -> bool {
    let session = text(config, "leadSessionId");
    !session.is_empty() && scanner.ended == Some(session)
}

/// Looks for every sign.
pub(super) fn gather(
    scanner: &ZombieScanner<'_>,
    team: &TeamFolder,
) -> Result<LifeSigns, ScanInterrupted> {
    let mut signs = LifeSigns {
        lead_gone: lead_gone(scanner, team),
        ..LifeSigns::default()
    };
    leaders(scanner, team, &mut signs);
    if let Some(config) = team.config().filter(|_| !team.is_ours()) {
        let members = members::look_at(scanner, &team.name, config);
        signs.alive.extend(members.alive);
        signs.unsure.extend(members.unsure);
        signs.unproven = members.unproven;
        signs.members = members.found;
    }
    hearts(scanner, team, &mut signs);
    inboxes(team, &mut signs)?;
    tasks(scanner, team, &mut signs)?;
    locks(scanner, team, &mut signs)?;
    Ok(signs)
}

/// The process that is recorded as lead or host, and the sessions that lead this team.
fn leaders(scanner: &ZombieScanner<'_>, team: &TeamFolder, signs: &mut LifeSigns) {
    let machine = scanner.options.machine;
    let config = team.config();
    if config.is_some_and(|config| ends_now(scanner, config)) {
        return;
    }
    if let Some(process) = config.and_then(TeamConfig::lead_process) {
        signs.add(machine.life(&process), |how| {
            format!("its lead (pid {}) {how}", process.pid)
        });
    }
    if let Some(process) = config.and_then(TeamConfig::host) {
        signs.add(machine.life(&process), |how| {
            format!("its host (pid {}) {how}", process.pid)
        });
    }
    let lead_session = config.map_or("", |config| text(config, "leadSessionId"));
    for session in scanner.sessions() {
        if session.leads(lead_session, &team.name) {
            signs.add(machine.life(&session.process), |how| {
                format!(
                    "the session of its lead (pid {}) {how}",
                    session.process.pid
                )
            });
        }
    }
}

fn hearts(scanner: &ZombieScanner<'_>, team: &TeamFolder, signs: &mut LifeSigns) {
    let project = team.config().and_then(TeamConfig::project);
    let (Some(project), Ok(name)) = (project, team.name.parse::<TeamName>()) else {
        return;
    };
    let beats = match heartbeats::of_team(Path::new(project), &name) {
        Ok(beats) => beats,
        Err(error) => {
            signs
                .unsure
                .push(format!("its heartbeats cannot be read: {error}"));
            return;
        }
    };
    for (_, beat) in beats {
        let age = say_span(scanner.options.now.since(beat.last_poll_at));
        let (worker, pid) = (&beat.worker_name, beat.pid);
        match heartbeats::judge(scanner, &beat) {
            HeartbeatVerdict::Alive => signs
                .alive
                .push(format!("heartbeat of {worker} (pid {pid}) {age} old")),
            HeartbeatVerdict::Unsure => signs
                .unsure
                .push(format!("{worker} (pid {pid}) cannot be judged from here")),
            HeartbeatVerdict::Dead | HeartbeatVerdict::Silent => {}
        }
    }
}

/// Claude Code empties an inbox when it reads it, so what lies there is unread. A missing inbox is a sign of nothing.
fn inboxes(team: &TeamFolder, signs: &mut LifeSigns) -> Result<(), FsError> {
    let Some(inboxes) = team.dir.child(layout::NATIVE_INBOXES)? else {
        return Ok(());
    };
    for entry in inboxes.entries()? {
        let name = entry.name;
        let Some(stamp) = inboxes.stamp(&name)? else {
            continue;
        };
        if stamp.kind == FileKind::Folder && name.strip_suffix(".lock").is_none() {
            signs
                .alive
                .push(format!("there is a folder inboxes/{name}"));
        }
        let is_inbox = name.strip_suffix(".json").is_some() && !name.starts_with('.');
        if stamp.kind != FileKind::File || !is_inbox {
            continue;
        }
        let Some((bytes, _)) = inboxes.read(&name)? else {
            continue;
        };
        let unread = match serde_json::from_slice::<Vec<serde_json::Value>>(&bytes) {
            Ok(entries) => {
                let read = |entry: &&serde_json::Value| {
                    entry.get("read").and_then(serde_json::Value::as_bool) != Some(true)
                };
                entries.iter().filter(read).count()
            }
            Err(_) if bytes.is_empty() => 0,
            Err(_) => {
                signs.unsure.push(format!("inboxes/{name} cannot be read"));
                0
            }
        };
        if unread > 0 {
            let s = if unread == 1 { "" } else { "s" };
            signs
                .unread
                .push(format!("{unread} unread message{s} in inboxes/{name}"));
        }
    }
    Ok(())
}

fn tasks(
    scanner: &ZombieScanner<'_>,
    team: &TeamFolder,
    signs: &mut LifeSigns,
) -> Result<(), ScanInterrupted> {
    let Some(tasks) = &team.tasks else {
        return Ok(());
    };
    for entry in tasks.entries()? {
        let Some(id) = layout::task_of_file(&entry.name) else {
            continue;
        };
        if scanner.options.budget.is_spent() {
            return Err(ScanInterrupted::OutOfTime);
        }
        match tasks.read(&entry.name) {
            Ok(None) => {}
            Ok(Some((bytes, _))) => match Task::parse(&id, &bytes) {
                Ok(task) => one_task(scanner, &id, &task, signs),
                Err(_) => signs.open_tasks += 1,
            },
            Err(_) => signs.open_tasks += 1,
        }
    }
    Ok(())
}

fn one_task(scanner: &ZombieScanner<'_>, id: &TaskId, task: &Task, signs: &mut LifeSigns) {
    if task.status() != Status::Completed {
        signs.open_tasks += 1;
    }
    let Some(claim) = task.claim() else {
        return;
    };
    let worker = &claim.worker;
    let at_work = task.status() == Status::InProgress;
    if at_work && claim.leased_until > scanner.options.now {
        signs
            .alive
            .push(format!("the claim of {worker} on task {id} runs"));
        return;
    }
    // Whoever completed a task long ago may be anywhere; it counts only where it can be seen.
    match scanner.options.machine.life(&claim.process()) {
        Life::Unknown if !at_work => {}
        life => signs.add(life, |how| {
            format!("{worker} (pid {}), who claimed task {id}, {how}", claim.pid)
        }),
    }
}

/// Adds the locks that somebody holds: ours are held by a process, Claude Code's are folders that it keeps fresh.
fn locks(
    scanner: &ZombieScanner<'_>,
    team: &TeamFolder,
    signs: &mut LifeSigns,
) -> Result<(), FsError> {
    let inboxes = team.dir.child(layout::NATIVE_INBOXES)?;
    for dir in [Some(&team.dir), team.tasks.as_ref(), inboxes.as_ref()]
        .into_iter()
        .flatten()
    {
        for lock in lock_files::in_folder(scanner, dir)? {
            match lock.state {
                LockFileState::InUse => signs.alive.push(format!("{} is in use", lock.name)),
                LockFileState::Unsure => signs
                    .unsure
                    .push(format!("{} cannot be judged from here", lock.name)),
                LockFileState::Abandoned => {}
            }
        }
    }
    for entry in team.dir.entries()? {
        let of_process = entry.name == layout::HOST_LOCK || layout::is_bridge_lock(&entry.name);
        if of_process && Lock::is_held(&team.dir, &entry.name)? {
            signs.alive.push(format!("{} is held", entry.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use teamster_fs::proc::Machine;

    use super::*;

    #[test]
    fn a_recorded_lead_is_read_in_every_shape() {
        let machine = Machine::read();
        let me = machine.me();
        let record = |space: &str, start: Value| json!({"pid": me.pid, "pidSpace": space, "claimedAt": 1, "procStart": start});
        let lead = |record: &Value| {
            let config = json!({"members": [], "leadProcess": record}).to_string();
            TeamConfig::parse(config.as_bytes()).unwrap().lead_process()
        };
        let here = format!("{}#{}", me.host, me.pid_ns);
        let text = json!(me.process_start_time.to_string());
        let other = json!((me.process_start_time + 1).to_string());
        for (value, expected) in [
            (record(&here, text.clone()), Life::Alive),
            (record(&here, json!(me.process_start_time)), Life::Alive),
            (record("", text.clone()), Life::Alive),
            (record(&here, json!([])), Life::Alive),
            (record(&here, other), Life::Gone),
            (
                record("another#pid:[4026531836]", text.clone()),
                Life::Unknown,
            ),
            (record(&format!("{}#pid:[1]", me.host), text), Life::Unknown),
        ] {
            let process = lead(&value).unwrap();
            assert_eq!(machine.life(&process), expected, "{value}");
        }
        for none in [json!({}), json!({"pid": 0}), json!({"pid": "x"}), json!(7)] {
            assert_eq!(lead(&none), None, "{none}");
        }
    }
}
