//! The situations in which a hook is struck at.

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::super::scenario::Case;
use super::states::{States, names};
use crate::product::{Answer, Place, Product};

/// The session whose hooks are struck at, the one that comes after, and one that ended before.
const SESSION: &str = "5e550001-0000-4000-8000-000000000001";
pub(super) const NEXT_SESSION: &str = "5e550002-0000-4000-8000-000000000002";
const OLD_SESSION: &str = "5e550000-0000-4000-8000-000000000000";
pub(super) const NEXT_NAME: &str = "other";
/// Whom the hook is about, and who is there already.
const NAME: &str = "w0";
const OTHERS: [&str; 4] = ["w1", "w2", "w3", "w4"];
/// A message that waits for the next holder of the lock.
const LATE: &str = "this came too late for the lock";

/// One situation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Situation {
    /// An agent starts, and there is no state yet.
    ColdStart,
    /// An agent starts beside others.
    WarmStart,
    /// An agent starts where an ended session is still shown, which must not be lost.
    StartAfterAnother,
    /// An agent starts while a change of somebody else waits to be applied.
    StartWithLateChange,
    /// A teammate stops, and there is no state: only its end is recorded.
    ColdStop,
    /// A teammate stops beside others.
    WarmStop,
}

impl Situation {
    pub(super) const ALL: [Self; 6] = [
        Self::ColdStart,
        Self::WarmStart,
        Self::StartAfterAnother,
        Self::StartWithLateChange,
        Self::ColdStop,
        Self::WarmStop,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ColdStart => "hook SubagentStart, cold",
            Self::WarmStart => "hook SubagentStart, warm",
            Self::StartAfterAnother => "hook SubagentStart, after",
            Self::StartWithLateChange => "hook SubagentStart, late",
            Self::ColdStop => "hook SubagentStop, cold",
            Self::WarmStop => "hook SubagentStop, warm",
        }
    }

    /// Whether even a sample strikes at every call of it.
    pub(super) fn is_central(self) -> bool {
        matches!(self, Self::ColdStart | Self::WarmStart | Self::WarmStop)
    }

    fn is_start(self) -> bool {
        !matches!(self, Self::ColdStop | Self::WarmStop)
    }

    /// A project in this situation, and the hook.
    pub(super) fn prepare(self, product: &Product) -> Result<Case> {
        let place = Place::temporary()?;
        register_team(&place)?;
        let tell = |event: &str, session: &str, name: &str| -> Result<()> {
            let answer = Told::new(&place, event, session, name)?.call(product, &place)?;
            if !answer.status.success() {
                bail!("the situation cannot be made: {}", answer.said());
            }
            Ok(())
        };
        match self {
            Self::ColdStart | Self::ColdStop => {}
            Self::WarmStart | Self::StartWithLateChange => {
                for name in OTHERS {
                    tell("SubagentStart", SESSION, name)?;
                }
            }
            Self::WarmStop => {
                for name in [NAME].into_iter().chain(OTHERS) {
                    tell("SubagentStart", SESSION, name)?;
                }
            }
            Self::StartAfterAnother => {
                tell("SubagentStart", OLD_SESSION, "old")?;
                tell("SessionEnd", OLD_SESSION, "")?;
            }
        }
        if self == Self::StartWithLateChange {
            let now = teamster_store::Clock::now(&teamster_store::SystemClock);
            let change = json!({"at": now, "session": SESSION, "ops": [
                {"message": {"from": "w1", "to": "w2", "content": LATE, "timestamp": null}}]});
            let file = place.project().join(".bkit/pending.jsonl");
            std::fs::write(file, format!("{change}\n"))?;
        }
        let event = if self.is_start() {
            "SubagentStart"
        } else {
            "SubagentStop"
        };
        let Told { line, file } = Told::new(&place, event, SESSION, NAME)?;
        Ok(Case::reading(place, &line, file))
    }

    /// Whether the hook's change is there; an error when there is something between.
    pub(super) fn happened(self, states: &States) -> Result<bool> {
        if self == Self::ColdStop {
            return match states.records.as_slice() {
                [] => Ok(false),
                [one] if one["teammate"] == NAME => Ok(true),
                more => bail!("one end, and these records: {more:?}"),
            };
        }
        let others: &[&str] = match self {
            Self::ColdStart | Self::StartAfterAnother => &[],
            _ => &OTHERS,
        };
        let Some(state) = states.of(SESSION) else {
            if others.is_empty() {
                return Ok(false);
            }
            bail!("the state that was there is gone");
        };
        let row = |name: &str| -> Option<&Value> {
            let rows = state["teammates"].as_array()?;
            rows.iter().find(|row| row["name"] == name)
        };
        let mut expected: Vec<&str> = others.to_vec();
        expected.extend(row(NAME).map(|_| NAME));
        expected.sort_unstable();
        if names(state) != expected {
            bail!("the roster is {:?}", names(state));
        }
        let is_spawning = |name: &str| row(name).is_some_and(|row| row["status"] == "spawning");
        if state["enabled"] != true || !others.iter().all(|name| is_spawning(name)) {
            bail!("the others are not as they were: {state}");
        }
        let is = row(NAME).map(|row| row["status"].as_str().unwrap_or_default());
        match (self.is_start(), is) {
            (true, Some("spawning")) | (false, Some("completed")) => Ok(true),
            (true, None) | (false, Some("spawning")) => Ok(false),
            _ => bail!("{NAME} is {is:?}"),
        }
    }

    /// What others did before, and is not there any more.
    pub(super) fn lost(self, states: &States) -> Vec<String> {
        let mut lost = Vec::new();
        if self == Self::StartAfterAnother && states.of(OLD_SESSION).is_none() {
            lost.push("the ended session is lost".to_owned());
        }
        if self == Self::StartWithLateChange {
            let letters = states.of(SESSION).map(|state| &state["recentMessages"]);
            let count = letters
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter(|letter| letter["content"] == LATE)
                .count();
            if count != 1 {
                lost.push(format!("the late change was applied {count} times"));
            }
        }
        if self == Self::WarmStop && states.records.len() > 1 {
            lost.push(format!("one end, and {} records", states.records.len()));
        }
        lost
    }
}

/// What another session's client calls next, in the same project.
pub(super) fn next(product: &Product, place: &Place) -> Result<Answer> {
    Told::new(place, "SubagentStart", NEXT_SESSION, NEXT_NAME)?.call(product, place)
}

/// A hook and the file with its payload.
struct Told {
    line: String,
    file: PathBuf,
}

impl Told {
    /// What the client tells about an agent in the lead's process.
    fn new(place: &Place, event: &str, session: &str, name: &str) -> Result<Self> {
        let payload = json!({
            "session_id": session,
            "transcript_path": place.home().join("transcript.jsonl"),
            "cwd": place.project(),
            "hook_event_name": event,
            "agent_id": format!("a{name}-0123456789abcdef"),
            "agent_type": name,
        });
        let file = place.root().join(format!("payload-{event}-{name}.json"));
        std::fs::write(&file, payload.to_string())?;
        Ok(Self {
            line: format!("hook {event}"),
            file,
        })
    }

    /// Calls it, and nobody disturbs it.
    fn call(&self, product: &Product, place: &Place) -> Result<Answer> {
        let mut command = product.command(place, self.line.split(' '));
        Answer::reading(&mut command, File::open(&self.file)?.into())
    }
}

/// The client's registry: the session leads everybody whom the hooks tell of.
fn register_team(place: &Place) -> Result<()> {
    let team = "session-5e550001";
    let member = |name: &str| {
        json!({"agentId": format!("{name}@{team}"), "name": name, "agentType": "general-purpose",
            "model": "claude-opus-5-5", "tmuxPaneId": "in-process"})
    };
    let mut members = vec![member("team-lead"), member(NAME)];
    members.extend(OTHERS.map(member));
    let config = json!({"name": team, "createdAt": 1_794_728_281_220_u64,
        "leadAgentId": format!("team-lead@{team}"), "leadSessionId": SESSION, "members": members});
    let folder = place.claude().join("teams").join(team);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("config.json"), config.to_string())?;
    Ok(())
}
