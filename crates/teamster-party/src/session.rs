//! The session: its team, its task and its phase. A session that is replaced by a later one is archived completely.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use teamster_fs::{Durability, Lock, layout};
use teamster_types::flow::{Flow, FlowFacts, Round, Step};
use teamster_types::json::Object;
use teamster_types::redact::{redact, redact_json};
use teamster_types::{TeamName, Time};

use crate::{Party, PartyError, Result};

mod stored;

/// The size in bytes at which the event log is rotated; one older part is kept.
const MOST_EVENTS: u64 = 1024 * 1024;
/// The maximum length of a transition's reason, in characters.
const REASON_LIMIT: usize = 2_000;

/// A session, as stored in its file. Data of other programs in the file is preserved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "stored::Stored")]
pub struct PartySession {
    /// The id, `party-{team}-{time}-{4 random}`.
    pub id: String,
    /// The team of the session.
    pub team: String,
    /// The task of the session.
    pub task: String,
    /// The current phase.
    pub phase: String,
    /// Every transition of the session, the first one first.
    pub phase_history: Vec<PhaseChange>,
    /// The fix rounds of the session.
    pub fix_loop: FixLoop,
    /// The artifacts of the session.
    pub artifacts: Vec<Value>,
    /// The members: `name`, `agent`, `role`, whether they were `spawned`, and other keys.
    pub members: Vec<Value>,
    /// When the session began.
    pub created_at: Time,
    /// When the session was last changed.
    pub updated_at: Time,
    /// Data of other programs.
    #[serde(flatten)]
    pub more: Object,
}

/// A transition of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhaseChange {
    /// The phase that was left.
    pub from: String,
    /// The phase that was entered.
    pub to: String,
    /// Why the transition was made.
    #[serde(default)]
    pub reason: String,
    /// When the transition was made.
    pub at: Time,
}

/// The fix rounds of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixLoop {
    /// The number of fix rounds so far.
    pub attempt: u32,
    /// The maximum number of fix rounds.
    pub max_attempts: u32,
}

/// The content of a new session.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// The team of the session.
    pub team: TeamName,
    /// The task of the session.
    pub task: String,
    /// The members: objects with at least a `name`.
    pub members: Vec<Value>,
    /// The maximum number of fix rounds.
    pub max_attempts: u32,
}

/// The default maximum number of fix rounds.
pub const MAX_ATTEMPTS: u32 = 3;

/// A transition that was just made.
#[derive(Clone, Debug, PartialEq)]
pub struct TakenStep {
    /// The transition.
    pub step: Step,
    /// The session afterwards.
    pub session: PartySession,
}

/// Returns the flow of all sessions.
fn flow() -> Result<Flow> {
    Flow::builtin("party")
        .ok_or_else(|| PartyError::refused("there is no flow `party`", "this build is broken"))
}

impl PartySession {
    /// Returns whether the session is working, or waits for a person.
    pub fn is_active(&self) -> bool {
        flow().is_ok_and(|flow| flow.is_active(&self.phase))
    }

    /// Returns whether a person has to decide about the work.
    pub fn is_awaiting_approval(&self) -> bool {
        self.phase == "AWAITING_APPROVAL"
    }

    /// Returns the number of revisions that were requested so far.
    fn revisions(&self) -> u32 {
        let asked = self
            .phase_history
            .iter()
            .filter(|passed| passed.to == "REVISION");
        u32::try_from(asked.count()).unwrap_or(u32::MAX)
    }
}

impl Party {
    /// Returns the session, if there is one.
    pub fn session(&self) -> Result<Option<PartySession>> {
        let Some((bytes, _)) = self.dir.read(layout::SESSION)? else {
            return Ok(None);
        };
        let session = serde_json::from_slice(&bytes);
        session
            .map(Some)
            .map_err(|error| PartyError::damaged(layout::SESSION, &error))
    }

    /// Returns the session, or an error when there is none.
    pub fn must_session(&self) -> Result<PartySession> {
        self.session()?.ok_or_else(|| {
            PartyError::not_found(
                "there is no session here",
                "`teamster session init --team TEAM --task TEXT` starts one",
            )
        })
    }

    /// Starts a session. A finished session is archived first; an unfinished one only with `force`.
    pub fn begin(&self, new: &NewSession, now: Time, force: bool) -> Result<PartySession> {
        if new.task.trim().is_empty() {
            return Err(PartyError::refused(
                "a session needs a task",
                "say in --task what it is about",
            ));
        }
        let mut members = checked_members(&new.members)?;
        members.iter_mut().for_each(redact_json);
        let lock = self.lock()?;
        match self.session() {
            Ok(Some(old)) if old.is_active() && !force => {
                return Err(PartyError::conflict(
                    format!("session {} is under way, in {}", old.id, old.phase),
                    "`teamster state transition CANCELLED REASON` stops it; --force puts it aside",
                ));
            }
            Ok(Some(old)) => self.archive(&lock, &old.id)?,
            Ok(None) => {}
            Err(_) if force => self.archive(&lock, &format!("damaged-{}", now.as_millis()))?,
            Err(error) => return Err(error),
        }
        let phase = flow()?.initial;
        let session = PartySession {
            id: self.new_id(&new.team, now)?,
            team: new.team.to_string(),
            task: redact(&new.task).into_owned(),
            phase_history: Vec::new(),
            phase,
            fix_loop: FixLoop {
                attempt: 0,
                max_attempts: new.max_attempts,
            },
            artifacts: Vec::new(),
            members,
            created_at: now,
            updated_at: now,
            more: Object::new(),
        };
        self.save(&lock, &session)?;
        self.append_event(
            now,
            &json!({ "type": "session.begun", "session": session.id }),
        )?;
        Ok(session)
    }

    /// Makes a transition, if the flow allows it and its conditions are met.
    pub fn transition(&self, to: &str, reason: &str, now: Time) -> Result<TakenStep> {
        if reason.chars().count() > REASON_LIMIT {
            return Err(PartyError::refused(
                format!("a reason has at most {REASON_LIMIT} characters"),
                "say it shorter, or put it into a finding",
            ));
        }
        let lock = self.lock()?;
        let mut session = self.must_session()?;
        let flow = flow()?;
        let facts = FlowFacts {
            fix_attempt: session.fix_loop.attempt,
            max_attempts: session.fix_loop.max_attempts,
            revisions: session.revisions(),
            ..self.facts()?
        };
        let step = flow.step(&session.phase, to, &facts)?;
        if let Some((Round::Fix, number)) = step.begins {
            session.fix_loop.attempt = number;
        }
        let recorded = redact(reason).into_owned();
        self.enter_phase(&lock, &mut session, &step.to, (recorded, reason), now)?;
        Ok(TakenStep { step, session })
    }

    /// Returns the current facts that the conditions of a transition depend on. The rounds are those of a session that
    /// has begun none.
    pub fn facts(&self) -> Result<FlowFacts> {
        Ok(FlowFacts {
            findings: self.findings()?,
            open_tickets: self.open_tickets()?,
            ..FlowFacts::default()
        })
    }

    /// Records which members were started, and the artifacts of the session; unchanged data is not written again.
    pub fn note_progress(&self, spawned: &[String], artifacts: &[Value], now: Time) -> Result<()> {
        let lock = self.lock()?;
        let before = self.must_session()?;
        let mut session = before.clone();
        for member in &mut session.members {
            let name = member.get("name").and_then(Value::as_str);
            if name.is_some_and(|name| spawned.iter().any(|one| one == name)) {
                member["spawned"] = Value::Bool(true);
            }
        }
        for artifact in artifacts {
            let mut artifact = artifact.clone();
            redact_json(&mut artifact);
            if !session.artifacts.contains(&artifact) {
                session.artifacts.push(artifact);
            }
        }
        if session == before {
            return Ok(());
        }
        session.updated_at = now;
        self.save(&lock, &session)
    }

    /// Ends a session as failed from any phase, when its driver has given up. A finished session is not changed.
    pub fn fail(&self, reason: &str, now: Time) -> Result<()> {
        const FAILED: &str = "FAILED";
        let lock = self.lock()?;
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
        let recorded = redact(reason).chars().take(REASON_LIMIT).collect();
        self.enter_phase(&lock, &mut session, FAILED, (recorded, reason), now)
    }

    /// Moves a session to another phase, with the reason as its history records it and as it was given, and saves it.
    fn enter_phase(
        &self,
        lock: &Lock,
        session: &mut PartySession,
        to: &str,
        (recorded, reason): (String, &str),
        now: Time,
    ) -> Result<()> {
        let from = std::mem::replace(&mut session.phase, to.to_owned());
        session.phase_history.push(PhaseChange {
            from: from.clone(),
            to: to.to_owned(),
            reason: recorded,
            at: now,
        });
        session.updated_at = now;
        self.save(lock, session)?;
        self.append_event(
            now,
            &json!({
                "type": "session.phase", "session": session.id,
                "from": from, "to": to, "reason": reason,
            }),
        )
    }

    /// Returns the phases that can be entered now.
    pub fn next_states(&self, session: &PartySession) -> Result<Vec<String>> {
        let flow = flow()?;
        let next = flow.next_states(&session.phase);
        Ok(next.into_iter().map(str::to_owned).collect())
    }

    /// Returns whether a session with this id was archived.
    fn is_archived(&self, id: &str) -> Result<bool> {
        let Some(archive) = self.dir.child(layout::PARTY_ARCHIVE)? else {
            return Ok(false);
        };
        Ok(archive.stamp(id)?.is_some())
    }

    /// Archives the session with its findings, tickets and approvals. Nothing is discarded.
    ///
    /// The session's own file is moved last: after a crash before that, the session still exists and is archived again,
    /// into the same folder.
    fn archive(&self, _held: &Lock, id: &str) -> Result<()> {
        // A file that was written by hand may have any id; an unsafe one is not used as a folder name.
        let is_plain = !id.is_empty()
            && !id.starts_with('.')
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let unnamed = format!("unnamed-{}", teamster_fs::random_hex());
        let archive = self.folder(layout::PARTY_ARCHIVE)?;
        let place = archive.child_or_create(if is_plain { id } else { &unnamed })?;
        for name in [layout::FINDINGS, layout::TICKETS, layout::APPROVALS] {
            if self.dir.stamp(name)?.is_some() {
                self.dir.rename_new(name, &place, name)?;
            }
            self.dir.child_or_create(name)?;
        }
        if self.dir.stamp(layout::SESSION)?.is_some() {
            self.dir.rename(layout::SESSION, &place, layout::SESSION)?;
        }
        Ok(())
    }

    fn save(&self, _held: &Lock, session: &PartySession) -> Result<()> {
        let mut bytes = serde_json::to_vec_pretty(session)
            .map_err(|error| PartyError::damaged(layout::SESSION, &error))?;
        bytes.push(b'\n');
        Ok(self
            .dir
            .replace(layout::SESSION, &bytes, Durability::Durable)?)
    }

    /// Adds a line to the session's events.
    pub(crate) fn append_event(&self, now: Time, event: &Value) -> Result<()> {
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
            .append(layout::PARTY_EVENTS, line.as_bytes(), Durability::Durable)?;
        Ok(())
    }

    /// Returns an id that no session of this project has had.
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

/// Returns the members with every key that readers expect: `name`, `agent`, `role`, `spawned`. Other keys are kept.
fn checked_members(members: &[Value]) -> Result<Vec<Value>> {
    let mut names: Vec<&str> = Vec::new();
    let mut checked = Vec::with_capacity(members.len());
    for member in members {
        let bad = |what: String| {
            PartyError::refused(
                what,
                r#"members are a list such as [{"name":"leader","agent":"leader-agent","role":"orchestrator"}]"#,
            )
        };
        let name = member.get("name").and_then(Value::as_str);
        let (Some(given), Some(name)) = (member.as_object(), name.filter(|name| !name.is_empty()))
        else {
            return Err(bad(format!("a member has no name: {member}")));
        };
        if names.contains(&name) {
            return Err(bad(format!("two members are called {name}")));
        }
        names.push(name);
        let mut whole = given.clone();
        for key in ["agent", "role"] {
            let value = whole.entry(key).or_insert_with(|| json!(""));
            if !value.is_string() {
                return Err(bad(format!("`{key}` of {name} must be a text")));
            }
        }
        let spawned = whole.entry("spawned").or_insert(Value::Bool(false));
        if !spawned.is_boolean() {
            return Err(bad(format!("`spawned` of {name} must be true or false")));
        }
        checked.push(Value::Object(whole));
    }
    Ok(checked)
}
