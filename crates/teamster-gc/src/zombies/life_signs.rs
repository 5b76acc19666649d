//! Every sign of life of one team.

use std::path::Path;

use teamster_claude::state::StateFiles;
use teamster_fs::{FileKind, FsError, Lock, layout};
use teamster_types::claim_lock::LockUse;
use teamster_types::phrase::{Phrase, PhraseCode};
use teamster_types::process::ProcessState;
use teamster_types::task::{Status, Task};
use teamster_types::team::TeamConfig;
use teamster_types::time::say_span;
use teamster_types::{TaskId, TeamName};

use super::Zombie;
use super::folder::{ScanInterrupted, TeamFolder};
use super::heartbeats::{self, HeartbeatVerdict};
use super::lock_files;
use super::members::{self, text};
use super::scanner::ZombieScanner;

/// The facts known about a team's life.
#[derive(Debug, Default)]
pub(super) struct LifeSigns {
    /// Signs of life.
    pub(super) alive: Vec<Phrase>,
    /// Unread messages. Their recipient may come back, but they do not prove that any member is alive.
    pub(super) unread: Vec<Phrase>,
    /// Facts that cannot be judged from here.
    pub(super) unsure: Vec<Phrase>,
    /// Why the lead is proven gone; `None` when it is not.
    pub(super) lead_gone: Option<Phrase>,
    /// Whether a member is neither alive nor proven stopped.
    pub(super) unproven: bool,
    /// The number of tasks that are not completed, including unreadable ones.
    pub(super) open_tasks: usize,
    /// Members that still run, and dead panes.
    pub(super) members: Vec<Zombie>,
}

impl LifeSigns {
    /// Returns whether there is no sign of life. Unread messages count as one, unless the team is old and its lead is
    /// proven gone.
    pub(super) fn are_none(&self, is_old: bool) -> bool {
        let is_read = self.unread.is_empty() || is_old && self.lead_gone.is_some();
        self.alive.is_empty() && self.unsure.is_empty() && is_read
    }

    /// Returns every sign as a phrase, the most certain first.
    pub(super) fn words(&self) -> impl Iterator<Item = Phrase> {
        let signs = self.alive.iter().chain(&self.unread);
        signs.chain(&self.unsure).cloned()
    }

    /// Adds one of two phrases: that the process runs, or that it cannot be judged from here.
    fn add(
        &mut self,
        life: ProcessState,
        [runs, not_judged]: [PhraseCode; 2],
        say: impl Fn(PhraseCode) -> Phrase,
    ) {
        match life {
            ProcessState::Alive => self.alive.push(say(runs)),
            ProcessState::Unknown => self.unsure.push(say(not_judged)),
            ProcessState::Gone => {}
        }
    }
}

/// Returns why the lead of a team of Claude Code is proven gone. A missing record proves nothing, nor does one without
/// a pid namespace: it may have been written in a container.
pub(super) fn lead_gone(scanner: &ZombieScanner<'_>, team: &TeamFolder) -> Option<Phrase> {
    let config = team.config()?;
    if ends_now(scanner, config) {
        return Some(Phrase::new(PhraseCode::LeadSessionEnds, []));
    }
    let machine = scanner.options.machine;
    let lead_session = text(config, "leadSessionId");
    let sessions = scanner.sessions().iter();
    let mut records: Vec<_> = sessions
        .filter(|session| session.leads(lead_session, &team.name))
        .map(|session| session.process.clone())
        .collect();
    records.extend(config.lead_process());
    // A client that does not record its lead's process removes the record of the session soon after its end, but a hook
    // that the lead called in its project has recorded the process, too.
    if let Some(project) = config.project() {
        let layout = scanner.options.layout.of_project(Path::new(project));
        records.extend(StateFiles::of(&layout).lead_process(lead_session));
    }
    let all_gone = records
        .iter()
        .all(|process| machine.process_state(process) == ProcessState::Gone);
    let proof = records.iter().rfind(|process| !process.pid_ns.is_empty())?;
    all_gone.then(|| Phrase::new(PhraseCode::LeadProcessGone, [("pid", &proof.pid)]))
}

fn ends_now(scanner: &ZombieScanner<'_>, config: &TeamConfig) -> bool {
    let session = text(config, "leadSessionId");
    !session.is_empty() && scanner.ended == Some(session)
}

/// Collects every sign of life of a team.
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
        let members = members::assess(scanner, &team.name, config);
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

/// Adds the processes that are recorded as lead or host, and the sessions that lead this team.
fn leaders(scanner: &ZombieScanner<'_>, team: &TeamFolder, signs: &mut LifeSigns) {
    let machine = scanner.options.machine;
    let config = team.config();
    if config.is_some_and(|config| ends_now(scanner, config)) {
        return;
    }
    if let Some(process) = config.and_then(TeamConfig::lead_process) {
        let codes = [
            PhraseCode::LeadProcessRuns,
            PhraseCode::LeadProcessNotJudged,
        ];
        signs.add(machine.process_state(&process), codes, |code| {
            Phrase::new(code, [("pid", &process.pid)])
        });
    }
    if let Some(process) = config.and_then(TeamConfig::host) {
        let codes = [PhraseCode::HostRuns, PhraseCode::HostNotJudged];
        signs.add(machine.process_state(&process), codes, |code| {
            Phrase::new(code, [("pid", &process.pid)])
        });
    }
    let lead_session = config.map_or("", |config| text(config, "leadSessionId"));
    for session in scanner.sessions() {
        if session.leads(lead_session, &team.name) {
            let codes = [
                PhraseCode::LeadSessionRuns,
                PhraseCode::LeadSessionNotJudged,
            ];
            signs.add(machine.process_state(&session.process), codes, |code| {
                Phrase::new(code, [("pid", &session.process.pid)])
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
            let code = PhraseCode::HeartbeatsUnreadable;
            signs.unsure.push(Phrase::new(code, [("error", &error)]));
            return;
        }
    };
    for (_, beat) in beats {
        let age = say_span(scanner.options.now.since(beat.last_poll_at));
        let (worker, pid) = (&beat.worker_name, beat.pid);
        match heartbeats::judge(scanner, &beat) {
            HeartbeatVerdict::Alive => signs.alive.push(Phrase::new(
                PhraseCode::WorkerHeartbeat,
                [("worker", worker), ("pid", &pid), ("age", &age)],
            )),
            HeartbeatVerdict::Unsure => signs.unsure.push(Phrase::new(
                PhraseCode::WorkerNotJudged,
                [("worker", worker), ("pid", &pid)],
            )),
            HeartbeatVerdict::Dead | HeartbeatVerdict::Silent => {}
        }
    }
}

/// Adds the unread messages. Claude Code empties an inbox when it reads it, so a message that is there and not marked
/// as read is unread. A missing inbox proves nothing.
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
            let code = PhraseCode::InboxFolder;
            signs.alive.push(Phrase::new(code, [("name", &name)]));
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
                let code = PhraseCode::InboxUnreadable;
                signs.unsure.push(Phrase::new(code, [("name", &name)]));
                0
            }
        };
        if unread > 0 {
            signs.unread.push(match unread {
                1 => Phrase::new(PhraseCode::InboxUnreadMessage, [("name", &name)]),
                count => Phrase::new(
                    PhraseCode::InboxUnreadMessages,
                    [("count", &count), ("name", &name)],
                ),
            });
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
        let told = Phrase::new(PhraseCode::ClaimRuns, [("worker", worker), ("task", id)]);
        signs.alive.push(told);
        return;
    }
    // The claimer of a completed task may be on any machine by now; it counts only if it can be judged from here.
    match scanner.options.machine.process_state(&claim.process()) {
        ProcessState::Unknown if !at_work => {}
        life => {
            let codes = [PhraseCode::ClaimerRuns, PhraseCode::ClaimerNotJudged];
            signs.add(life, codes, |code| {
                Phrase::new(
                    code,
                    [("worker", worker), ("pid", &claim.pid), ("task", id)],
                )
            });
        }
    }
}

/// Adds the locks in use: teamster's are held by a process, Claude Code's are folders that it keeps touching.
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
                LockUse::InUse => signs
                    .alive
                    .push(Phrase::new(PhraseCode::LockInUse, [("name", &lock.name)])),
                LockUse::Unsure => signs.unsure.push(Phrase::new(
                    PhraseCode::LockNotJudged,
                    [("name", &lock.name)],
                )),
                LockUse::Abandoned => {}
            }
        }
    }
    for entry in team.dir.entries()? {
        let of_process = entry.name == layout::HOST_LOCK || layout::is_bridge_lock(&entry.name);
        if of_process && Lock::is_held(&team.dir, &entry.name)? {
            let code = PhraseCode::LockHeld;
            signs.alive.push(Phrase::new(code, [("name", &entry.name)]));
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
            (record(&here, text.clone()), ProcessState::Alive),
            (
                record(&here, json!(me.process_start_time)),
                ProcessState::Alive,
            ),
            (record("", text.clone()), ProcessState::Alive),
            (record(&here, json!([])), ProcessState::Alive),
            (record(&here, other), ProcessState::Gone),
            (
                record("another#pid:[4026531836]", text.clone()),
                ProcessState::Unknown,
            ),
            (
                record(&format!("{}#pid:[1]", me.host), text),
                ProcessState::Unknown,
            ),
        ] {
            let process = lead(&value).unwrap();
            assert_eq!(machine.process_state(&process), expected, "{value}");
        }
        for none in [json!({}), json!({"pid": 0}), json!({"pid": "x"}), json!(7)] {
            assert_eq!(lead(&none), None, "{none}");
        }
    }
}
