//! The hook calls that get faults, and the rules that hold after them.
//!
//! A hook has its own rules: it lets the agent continue whatever happens, and it changes the state that viewers poll.
//! So afterwards that file is missing or complete, with or without the change; a hook of another session succeeds at
//! once; and nothing temporary is left after that.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::{Case, Fault, Run, Struck, Target};
use crate::fixture::{self, teammates};
use crate::product::{self, Finished, Product, TempProject, check, list, text, words};

/// The time limit for a hook, whatever happens to it or to others.
const WITHIN: Duration = Duration::from_secs(2);
/// The session whose hooks get faults, the one after it, and one that ended before.
const SESSION: &str = "5e550001-0000-4000-8000-000000000001";
const NEXT_SESSION: &str = "5e550002-0000-4000-8000-000000000002";
const OLD_SESSION: &str = "5e550000-0000-4000-8000-000000000000";
/// The teammate that the hook is about, those that exist already, and that of the next session.
const NAME: &str = "w0";
const OTHERS: [&str; 4] = ["w1", "w2", "w3", "w4"];
const NEXT_NAME: &str = "other";
/// A message that waits for the next holder of the lock.
const LATE: &str = "this came too late for the lock";
/// The fields of a state, in order.
const FIELDS: &str = "version enabled teamName feature pdcaPhase orchestrationPattern ctoAgent startedAt lastUpdated \
    teammates progress recentMessages sessionId";
/// Names that may be beside the states at any time.
const USUAL: [&str; 2] = [".agent-state.lock", "sessions"];

/// The state before the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// No state.
    Nothing,
    /// Other teammates of the same session, and for a stop the teammate itself.
    Others,
    /// An ended session that is still shown and must not be lost.
    EndedSession,
    /// Other teammates, and a change that waits to be applied.
    LateChange,
}

/// One hook call.
pub(super) struct HookCase {
    name: &'static str,
    is_central: bool,
    event: &'static str,
    before: Before,
}

const fn case(
    name: &'static str,
    is_central: bool,
    event: &'static str,
    before: Before,
) -> HookCase {
    HookCase {
        name,
        is_central,
        event,
        before,
    }
}

const START: &str = "SubagentStart";
const STOP: &str = "SubagentStop";

/// All hook calls. After a stop without a state only the end is recorded.
pub(super) const CASES: [HookCase; 6] = [
    case("hook SubagentStart, cold", true, START, Before::Nothing),
    case("hook SubagentStart, warm", true, START, Before::Others),
    case(
        "hook SubagentStart, after",
        false,
        START,
        Before::EndedSession,
    ),
    case("hook SubagentStart, late", false, START, Before::LateChange),
    case("hook SubagentStop, cold", false, STOP, Before::Nothing),
    case("hook SubagentStop, warm", true, STOP, Before::Others),
];

impl Target for HookCase {
    fn name(&self) -> (&'static str, bool) {
        (self.name, self.is_central)
    }

    fn prepare<'a>(&self, product: &'a Product) -> Result<Case<'a>> {
        let project = TempProject::new()?;
        register_team(&project)?;
        let tell = |event: &str, session: &str, name: &str| -> Result<()> {
            let finished = call(product, &project, event, session, name)?;
            let (is_good, end) = (finished.success(), finished.describe());
            ensure!(is_good, "the case cannot be prepared: {end}");
            Ok(())
        };
        match self.before {
            Before::Nothing => {}
            Before::EndedSession => {
                tell(START, OLD_SESSION, "old")?;
                tell("SessionEnd", OLD_SESSION, "")?;
            }
            Before::Others | Before::LateChange => {
                if self.event == STOP {
                    tell(START, SESSION, NAME)?;
                }
                for name in OTHERS {
                    tell(START, SESSION, name)?;
                }
            }
        }
        if self.before == Before::LateChange {
            let change = json!({"at": fixture::now(), "session": SESSION, "ops": [
                {"message": {"from": "w1", "to": "w2", "content": LATE, "timestamp": null}}]});
            let file = project.folder().join(".bkit/pending.jsonl");
            std::fs::write(file, format!("{change}\n"))?;
        }
        let input = payload(&project, self.event, SESSION, NAME)?;
        let case = Case::new(product, project, &format!("hook {}", self.event));
        Ok(Case {
            input: Some(input),
            ..case
        })
    }

    fn judge(&self, struck: &Struck<'_>, run: &mut Run) -> Result<()> {
        let (finished, is_runtime) = (&struck.finished, struck.point.is_runtime());
        let (took, stdout, end) = (finished.took, &finished.stdout, finished.describe());
        if struck.fault != Fault::Kill {
            let found = &mut run.violations;
            check!(found, finished.code() == Some(0) || is_runtime => "it must end with 0: {end}");
            let lets_go_on = stdout.trim().is_empty() || finished.json().is_some();
            check!(found, lets_go_on => "the output is no JSON: {stdout:?}");
            check!(found, took <= WITHIN => "it took {took:?}");
        }
        let happened = self.go_on(struck.case, run)?;
        let (holds, otherwise) = match struck.fault {
            // The output comes last.
            Fault::Kill => (finished.json().is_none(), "printed its result"),
            // An interrupted call is retried.
            Fault::Error("EINTR") => (is_runtime, "was interrupted"),
            Fault::Error(_) => (true, ""),
        };
        check!(run.violations, happened || holds => "it {otherwise}, but did not happen");
        Ok(())
    }
}

impl HookCase {
    /// Checks the files, calls a hook of another session, checks again, and returns whether the change is there.
    fn go_on(&self, case: &Case<'_>, run: &mut Run) -> Result<bool> {
        let project = &case.project;
        let before = StateFiles::read(project)?;
        let at_once = self.happened(&before)?;
        let next = call(case.product, project, START, NEXT_SESSION, NEXT_NAME)?;
        run.next = next.took;
        let after = StateFiles::read(project)?;
        let found = &mut run.violations;
        found.extend(before.problems.iter().chain(&after.problems).cloned());
        let (took, end, stdout) = (next.took, next.describe(), &next.stdout);
        let is_good = next.code() == Some(0) && next.json().is_some();
        check!(found, is_good => "the next hook failed: {end}, {stdout:?}");
        check!(found, took <= WITHIN => "the next hook took {took:?}");
        let row = after.sessions.get(NEXT_SESSION).map(teammates);
        let has_row = row.is_some_and(|names| names.contains(&NEXT_NAME));
        check!(found, has_row => "the next hook's row is not there");
        let left = after.leftovers.iter();
        found.extend(left.map(|name| format!("{name} is left after the next hook")));
        self.check_nothing_lost(&after, found);
        let happened = self.happened(&after)?;
        check!(found, happened || !at_once => "it had happened, and is gone");
        run.late = happened && !at_once;
        run.happened = Some(happened);
        Ok(happened)
    }

    /// Returns whether the hook's change is there; an error for any intermediate state.
    fn happened(&self, states: &StateFiles) -> Result<bool> {
        if self.event == STOP && self.before == Before::Nothing {
            return match states.records.as_slice() {
                [] => Ok(false),
                [one] if one["teammate"] == NAME => Ok(true),
                more => bail!("one end, and these records: {more:?}"),
            };
        }
        let others: &[&str] = match self.before {
            Before::Nothing | Before::EndedSession => &[],
            Before::Others | Before::LateChange => &OTHERS,
        };
        let Some(state) = states.sessions.get(SESSION) else {
            if others.is_empty() {
                return Ok(false);
            }
            bail!("the state that was there is gone");
        };
        let shown_as = |name: &str| -> Option<&str> {
            let row = list(&state["teammates"]).find(|row| row["name"] == name)?;
            Some(text(&row["status"]))
        };
        let is = shown_as(NAME);
        let mut expected: Vec<&str> = is.map(|_| NAME).into_iter().collect();
        expected.extend(others);
        let names = teammates(state);
        ensure!(names == expected, "the roster is {names:?}");
        let are_spawning = others.iter().all(|name| shown_as(name) == Some("spawning"));
        let is_same = state["enabled"] == true && are_spawning;
        ensure!(is_same, "the others are not as they were: {state}");
        match (self.event, is) {
            (START, Some("spawning")) | (STOP, Some("completed")) => Ok(true),
            (START, None) | (STOP, Some("spawning")) => Ok(false),
            _ => bail!("{NAME} is {is:?}"),
        }
    }

    /// Checks that earlier changes by others are still there.
    fn check_nothing_lost(&self, states: &StateFiles, found: &mut Vec<String>) {
        if self.before == Before::EndedSession {
            check!(found, states.sessions.contains_key(OLD_SESSION) => "the ended session is lost");
        }
        if self.before == Before::LateChange {
            let state = states.sessions.get(SESSION);
            let messages = state
                .into_iter()
                .flat_map(|state| list(&state["recentMessages"]));
            let count = messages.filter(|one| one["content"] == LATE).count();
            check!(found, count == 1 => "the late change was applied {count} times");
        }
        let ends = states.records.len();
        check!(found, ends <= 1 => "one end, and {ends} records");
    }
}

/// Calls a hook without a fault.
fn call(
    product: &Product,
    project: &TempProject,
    event: &str,
    session: &str,
    name: &str,
) -> Result<Finished> {
    let input = File::open(payload(project, event, session, name)?)?;
    let mut command = product.command(project, words(&format!("hook {event}")));
    Finished::reading(&mut command, input.into())
}

/// Writes the client's payload about an agent in the lead's process.
fn payload(project: &TempProject, event: &str, session: &str, name: &str) -> Result<PathBuf> {
    let payload = fixture::hook_payload(project, event, session, name);
    let file = project.root().join(format!("payload-{event}-{name}.json"));
    std::fs::write(&file, payload.to_string())?;
    Ok(file)
}

/// Writes the client's registry, in which the session leads all teammates of the hooks.
fn register_team(project: &TempProject) -> Result<()> {
    let team = "session-5e550001";
    let member = |name: &str| {
        json!({"agentId": format!("{name}@{team}"), "name": name, "agentType": "general-purpose",
            "model": "claude-opus-5-5", "tmuxPaneId": "in-process"})
    };
    let mut members = vec![member("team-lead"), member(NAME)];
    members.extend(OTHERS.map(member));
    let config = json!({"name": team, "createdAt": 1_794_728_281_220_u64,
        "leadAgentId": format!("team-lead@{team}"), "leadSessionId": SESSION, "members": members});
    let folder = project.claude().join("teams").join(team);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("config.json"), config.to_string())?;
    Ok(())
}

/// The state files of a project on the disk, read without the product's own code.
#[derive(Debug, Default)]
struct StateFiles {
    /// States by session. The one that viewers poll counts where a session has two.
    sessions: BTreeMap<String, Value>,
    /// Ends that were recorded.
    records: Vec<Value>,
    /// Names of files that are not states.
    leftovers: Vec<String>,
    /// Problems that are independent of the hook.
    problems: Vec<String>,
}

impl StateFiles {
    fn read(project: &TempProject) -> Result<Self> {
        let mut states = Self::default();
        let folder = project.folder().join(".bkit");
        states.read_folder(&folder.join("sessions"))?;
        states.read_folder(&folder)?;
        states.read_records(&project.claude().join("zombie-alerts.jsonl"));
        Ok(states)
    }

    fn read_folder(&mut self, folder: &Path) -> Result<()> {
        for name in product::names(folder) {
            if USUAL.contains(&name.as_str()) {
                continue;
            }
            if name.starts_with('.') || name.strip_suffix(".json").is_none() {
                self.leftovers.push(name);
                continue;
            }
            match serde_json::from_slice::<Value>(&std::fs::read(folder.join(&name))?) {
                Ok(state) => {
                    let fields = state.as_object().into_iter().flat_map(|o| o.keys());
                    let fields: Vec<&str> = fields.map(String::as_str).collect();
                    let is_whole = fields == words(FIELDS);
                    check!(self.problems, is_whole => "{name} has fields {fields:?}");
                    let session = text(&state["sessionId"]).to_owned();
                    self.sessions.insert(session, state);
                }
                Err(error) => self.problems.push(format!("{name} is torn: {error}")),
            }
        }
        Ok(())
    }

    fn read_records(&mut self, file: &Path) {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        check!(self.problems, text.is_empty() || text.ends_with('\n') => "the last record is torn");
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(record) => self.records.push(record),
                Err(error) => self.problems.push(format!("a record is torn: {error}")),
            }
        }
    }
}
