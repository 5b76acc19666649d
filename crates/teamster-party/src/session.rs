//! The session: who works on what, and in which phase.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use teamster_fs::{Lock, Sync, layout};
use teamster_types::flow::{Facts, Flow, Round, Step};
use teamster_types::json::Object;
use teamster_types::redact::{redact, redact_json};
use teamster_types::{TeamName, Time};

use crate::{Party, PartyError, Result};

mod members;
mod stored;

/// The longest reason of a step, in characters.
/// From this size on the story of sessions goes on in a new file; one older part is kept.
const MOST_EVENTS: u64 = 1024 * 1024;
const REASON_LIMIT: usize = 2_000;

/// A session, as its file holds it. What others put into the file stays there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "stored::Stored")]
pub struct Session {
    /// `party-{team}-{time}-{4 random}`.
    pub id: String,
    /// Its team.
    pub team: String,
    /// What it is about.
    pub task: String,
    /// Where it is.
    pub phase: String,
    /// Every step it took, the first one first.
    pub phase_history: Vec<Passed>,
    /// How often what was found wrong has been worked on.
    pub fix_loop: FixLoop,
    /// What it made.
    pub artifacts: Vec<Value>,
    /// Who takes part: `name`, `agent`, `role`, whether they were `spawned`, and what else was said of them.
    pub members: Vec<Value>,
    /// When it began.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
    /// What others put there.
    #[serde(flatten)]
    pub more: Object,
}

/// A step that was taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// The phase that was left.
    pub from: String,
    /// The phase that was entered.
    pub to: String,
    /// Why.
    #[serde(default)]
    pub reason: String,
    /// When.
    pub at: Time,
}

/// How often what was found wrong has been worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixLoop {
    /// So often.
    pub attempt: u32,
    /// At most so often.
    pub max_attempts: u32,
}

/// What a new session is made of.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// Its team.
    pub team: TeamName,
    /// What it is about.
    pub task: String,
    /// Who takes part: objects with at least a `name`.
    pub members: Vec<Value>,
}

/// A step that was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Stepped {
    /// The step.
    pub step: Step,
    /// The session afterwards.
    pub session: Session,
}

/// The flow of all sessions.
fn flow() -> Result<Flow> {
    Flow::builtin("party")
        .ok_or_else(|| PartyError::refused("there is no flow `party`", "this build is broken"))
}

impl Session {
    /// Whether work goes on, or a person is asked.
    pub fn is_active(&self) -> bool {
        flow().is_ok_and(|flow| flow.is_active(&self.phase))
    }

    /// Revisions that a person asked for so far.
    fn revisions(&self) -> u32 {
        let asked = self
            .phase_history
            .iter()
            .filter(|passed| passed.to == "REVISION");
        u32::try_from(asked.count()).unwrap_or(u32::MAX)
    }
}

impl Party {
    /// The session, if there is one.
    pub fn session(&self) -> Result<Option<Session>> {
        let Some((bytes, _)) = self.dir.read(layout::SESSION)? else {
            return Ok(None);
        };
        let session = serde_json::from_slice(&bytes);
        session
            .map(Some)
            .map_err(|error| PartyError::damaged(layout::SESSION, &error))
    }

    /// The session; an error when there is none.
    pub fn must_session(&self) -> Result<Session> {
        self.session()?.ok_or_else(|| {
            PartyError::not_found(
                "there is no session here",
                "`teamster session init --team TEAM --task TEXT` begins one",
            )
        })
    }

    /// Begins a session. One that is over is put aside; one that is under way only if `force` says so.
    pub fn begin(&self, new: &NewSession, now: Time, force: bool) -> Result<Session> {
        if new.task.trim().is_empty() {
            return Err(PartyError::refused(
                "a session needs a task",
                "say in --task what it is about",
            ));
        }
        let mut members = members::checked(&new.members)?;
        members.iter_mut().for_each(redact_json);
        let lock = self.hold()?;
        match self.session() {
            Ok(Some(old)) if old.is_active() && !force => {
                return Err(PartyError::conflict(
                    format!("session {} is under way, in {}", old.id, old.phase),
                    "`teamster state transition CANCELLED REASON` stops it; --force puts it aside",
                ));
            }
            Ok(Some(old)) => self.put_aside(&lock, &old.id)?,
            Ok(None) => {}
            Err(error) if force => self.put_aside(&lock, &damaged_name(now, &error))?,
            Err(error) => return Err(error),
        }
        let phase = flow()?.initial;
        let session = Session {
            id: self.new_id(&new.team, now)?,
            team: new.team.to_string(),
            task: redact(&new.task).into_owned(),
            phase_history: Vec::new(),
            phase,
            fix_loop: FixLoop {
                attempt: 0,
                max_attempts: 3,
            },
            artifacts: Vec::new(),
            members,
            created_at: now,
            updated_at: now,
            more: Object::new(),
        };
        self.save(&lock, &session)?;
        self.tell(
            now,
            &json!({ "type": "session.begun", "session": session.id }),
        )?;
        Ok(session)
    }

    /// Takes a step, if the flow has it and everything it needs is there.
    pub fn transition(&self, to: &str, reason: &str, now: Time) -> Result<Stepped> {
        if reason.chars().count() > REASON_LIMIT {
            return Err(PartyError::refused(
                format!("a reason has at most {REASON_LIMIT} characters"),
                "say it shorter, or put it into a finding",
            ));
        }
        let lock = self.hold()?;
        let mut session = self.must_session()?;
        let flow = flow()?;
        let facts = Facts {
            findings: self.findings()?,
            open_tickets: self.open_tickets()?,
            fix_attempt: session.fix_loop.attempt,
            max_attempts: session.fix_loop.max_attempts,
            revisions: session.revisions(),
            ..Facts::default()
        };
        let step = flow.step(&session.phase, to, &facts)?;
        if let Some((Round::Fix, number)) = step.begins {
            session.fix_loop.attempt = number;
        }
        session.phase.clone_from(&step.to);
        session.phase_history.push(Passed {
            from: step.from.clone(),
            to: step.to.clone(),
            reason: redact(reason).into_owned(),
            at: now,
        });
        session.updated_at = now;
        self.save(&lock, &session)?;
        self.tell(
            now,
            &json!({
                "type": "session.phase", "session": session.id,
                "from": step.from, "to": step.to, "reason": reason,
            }),
        )?;
        Ok(Stepped { step, session })
    }

    /// Ends a session as failed, from wherever it is: whoever drives it has given up. One that is over stays as it is.
    pub fn fail(&self, reason: &str, now: Time) -> Result<()> {
        const FAILED: &str = "FAILED";
        let lock = self.hold()?;
        let mut session = self.must_session()?;
        if session.phase == FAILED {
            return Ok(());
        }
        if matches!(session.phase.as_str(), "DONE" | "ROLLED_BACK") {
            return Err(PartyError::conflict(
                format!("session {} is over, as {}", session.id, session.phase),
                "`teamster session init` begins another one",
            ));
        }
        let from = std::mem::replace(&mut session.phase, FAILED.to_owned());
        session.phase_history.push(Passed {
            from: from.clone(),
            to: FAILED.to_owned(),
            reason: redact(reason).chars().take(REASON_LIMIT).collect(),
            at: now,
        });
        session.updated_at = now;
        self.save(&lock, &session)?;
        self.tell(
            now,
            &json!({
                "type": "session.phase", "session": session.id,
                "from": from, "to": FAILED, "reason": reason,
            }),
        )
    }

    /// The states that can be asked for now.
    pub fn next_states(&self, session: &Session) -> Result<Vec<String>> {
        let flow = flow()?;
        let next = flow.next_states(&session.phase);
        Ok(next.into_iter().map(str::to_owned).collect())
    }

    fn save(&self, _held: &Lock, session: &Session) -> Result<()> {
        let mut bytes = serde_json::to_vec_pretty(session)
            .map_err(|error| PartyError::damaged(layout::SESSION, &error))?;
        bytes.push(b'\n');
        Ok(self.dir.replace(layout::SESSION, &bytes, Sync::Durable)?)
    }

    /// Adds a line to the session's story.
    pub(crate) fn tell(&self, now: Time, event: &Value) -> Result<()> {
        let mut event = event.clone();
        redact_json(&mut event);
        event["ts"] = json!(now);
        let line = format!("{event}\n");
        let stamp = self.dir.stamp(layout::PARTY_EVENTS)?;
        if stamp.is_some_and(|stamp| stamp.size >= MOST_EVENTS) {
            self.dir
                .rename(layout::PARTY_EVENTS, &self.dir, layout::OLD_PARTY_EVENTS)?;
        }
        self.dir
            .append(layout::PARTY_EVENTS, line.as_bytes(), Sync::Durable)?;
        Ok(())
    }

    /// An id that no session of this project had.
    fn new_id(&self, team: &TeamName, now: Time) -> Result<String> {
        let digits: String = now
            .to_string()
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        let time = digits.get(..14).unwrap_or(&digits);
        loop {
            let random = teamster_fs::random_hex();
            let id = format!("party-{team}-{time}-{}", random.get(..4).unwrap_or("0000"));
            if !self.is_archived(&id)? {
                return Ok(id);
            }
        }
    }
}

fn damaged_name(now: Time, error: &PartyError) -> String {
    let _ = error;
    format!("damaged-{}", now.as_millis())
}
