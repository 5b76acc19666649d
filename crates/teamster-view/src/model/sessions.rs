//! Sessions that are known by their state files, which any program may have written.

use std::path::{Path, PathBuf};

use teamster_claude::state::{AgentState, Liveness, ShownSession, StateError, StateFiles, Status};
use teamster_fs::layout::{self, Layout};
use teamster_types::Time;
use teamster_types::health::Verdict;
use teamster_types::phrase::{Phrase, PhraseCode};

use super::overview::TeamRow;
use super::projection::TeamProjection;
use super::rows::{MessageView, WorkerView};
use super::team::{SessionView, TeamKind, TeamView, Viewed};

/// The prefix of a session's identifier in the API. No team's name can start with it.
const PREFIX: &str = "session~";

/// The state files of one project.
#[derive(Clone, Debug)]
pub struct Sessions {
    project: PathBuf,
    states: StateFiles,
}

impl Sessions {
    /// Returns the state files of `project`.
    pub fn of(layout: &Layout, project: &Path) -> Self {
        Self {
            project: project.to_owned(),
            states: StateFiles::of(&layout.of_project(project)),
        }
    }

    /// Returns whether an identifier in the API denotes a session.
    pub fn is_id(id: &str) -> bool {
        id.starts_with(PREFIX)
    }

    /// Returns a summary of every session of the project.
    pub fn rows(&self, now: Time) -> Vec<TeamRow> {
        let mut rows: Vec<TeamRow> = self
            .shown()
            .iter()
            .map(|shown| self.row(shown, now))
            .collect();
        let problem = match self.states.read() {
            Ok(_) | Err(StateError::NoProject(_)) => None,
            Err(StateError::Corrupt { error, .. }) => Some(format!(
                "{} cannot be understood: {error}",
                layout::AGENT_STATE
            )),
            Err(error) => Some(format!("{} cannot be read: {error}", layout::AGENT_STATE)),
        };
        if problem.is_some() {
            rows.push(TeamRow {
                state: Viewed::Stale,
                problem,
                problems: 1,
                ..self.empty_row()
            });
        }
        rows
    }

    /// Returns the view of one session.
    pub fn view(&self, id: &str, now: Time) -> Option<TeamView> {
        let shown = self.shown();
        let shown = shown.iter().find(|shown| self.id(&shown.state) == id)?;
        Some(self.whole(shown, now))
    }

    /// Returns whether one of the state files exists but cannot be parsed.
    pub fn has_damaged(&self) -> bool {
        self.states.has_damaged()
    }

    /// Returns a summary of every session of the project that does not describe one of these teams.
    pub fn rows_besides(&self, teams: &[String], now: Time) -> Vec<TeamRow> {
        let mut rows = self.rows(now);
        rows.retain(|row| !teams.contains(&row.name));
        rows
    }

    /// Returns the session that describes this team as well.
    pub fn of_team(&self, team: &str, now: Time) -> Option<TeamView> {
        let shown = self.shown();
        let is_its = |shown: &&ShownSession| name_of(&shown.state) == team;
        shown
            .iter()
            .find(is_its)
            .map(|shown| self.whole(shown, now))
    }

    fn shown(&self) -> Vec<ShownSession> {
        self.states.all().unwrap_or_default()
    }

    fn id(&self, state: &AgentState) -> String {
        id_of(&self.project, &state.session_id)
    }

    fn empty_row(&self) -> TeamRow {
        TeamRow {
            id: id_of(&self.project, ""),
            name: String::new(),
            kind: Some(TeamKind::StateFile),
            project: Some(self.project.display().to_string()),
            state: Viewed::Inactive,
            stage: None,
            outcome: None,
            members: 0,
            progress: teamster_types::progress::Progress::default(),
            problems: 0,
            awaits_approval: false,
            questions: 0,
            seq: 0,
            updated_at: None,
            same_as: None,
            problem: None,
        }
    }

    fn row(&self, shown: &ShownSession, now: Time) -> TeamRow {
        let state = &shown.state;
        TeamRow {
            id: self.id(state),
            name: name_of(state),
            state: activity(self.states.liveness(state, now)),
            stage: Some(state.pdca_phase.as_str().to_owned()),
            members: state.teammates.len(),
            progress: state.progress.counts,
            updated_at: state.updated(),
            ..self.empty_row()
        }
    }

    fn whole(&self, shown: &ShownSession, now: Time) -> TeamView {
        let state = &shown.state;
        let id = self.id(state);
        let view = activity(self.states.liveness(state, now));
        let gone = self.states.gone_teammates(state);
        TeamView {
            name: name_of(state),
            kind: Some(TeamKind::StateFile),
            project: Some(self.project.display().to_string()),
            description: state.feature.clone(),
            state: view,
            at: state.updated(),
            past: false,
            progress: state.progress.counts,
            workers: state
                .teammates
                .iter()
                .map(|row| {
                    let (mut verdict, mut evidence) =
                        judged(row.status, view, &row.last_activity_at, now);
                    if let Some(pid) = gone.get(&row.name) {
                        verdict = Verdict::Dead;
                        evidence.insert(0, Phrase::new(PhraseCode::PidGone, [("pid", pid)]));
                    }
                    WorkerView {
                        role: Some(row.role.clone()),
                        model: Some(row.model.as_str().to_owned()),
                        status: Some(row.status.as_str().to_owned()),
                        verdict,
                        evidence: Phrase::texts(&evidence),
                        evidence_codes: Phrase::keys(&evidence),
                        current_task_id: row.task_id.as_ref().and_then(|id| id.parse().ok()),
                        current_task: row.current_task.clone(),
                        since: row.started_at.parse().ok(),
                        last_event_at: row.last_activity_at.parse().ok(),
                        ..WorkerView::named(&row.name)
                    }
                })
                .collect(),
            messages: state
                .recent_messages
                .iter()
                .map(|letter| MessageView {
                    seq: 0,
                    id: String::new(),
                    kind: "message".to_owned(),
                    from: letter.from.clone(),
                    to: letter.to.clone(),
                    content: letter.content.clone(),
                    sent_at: letter.timestamp.parse().ok(),
                    task_id: None,
                })
                .collect(),
            message_count: state.recent_messages.len() as u64,
            session: Some(SessionView {
                file: if shown.is_main {
                    format!("{}/{}", layout::BKIT, layout::AGENT_STATE)
                } else {
                    let (folder, id) = (layout::STATE_SESSIONS, &state.session_id);
                    format!("{}/{folder}/{id}.json", layout::BKIT)
                },
                session_id: state.session_id.clone(),
                feature: state.feature.clone(),
                pdca_phase: state.pdca_phase.as_str().to_owned(),
                orchestration_pattern: state.orchestration_pattern.as_str().to_owned(),
                cto_agent: state.cto_agent.clone(),
                started_at: state.started_at.parse().ok(),
                last_updated: state.updated(),
            }),
            ..TeamProjection::of(&id).view()
        }
        .bounded()
    }
}

/// Judges a teammate by its state file, which never proves it alive: it only holds what its writer last recorded.
fn judged(status: Status, view: Viewed, active: &str, now: Time) -> (Verdict, Vec<Phrase>) {
    let heard = active.parse().ok().map(|at: Time| {
        let ago = teamster_types::time::say_span(now.since(at));
        Phrase::new(PhraseCode::LastActive, [("ago", &ago)])
    });
    let said = status.as_str();
    let mut evidence = vec![Phrase::new(PhraseCode::StateFileSays, [("status", &said)])];
    evidence.extend(heard);
    let verdict = match (status, view) {
        (Status::Spawning | Status::Working | Status::Idle, Viewed::Live) => Verdict::Healthy,
        _ => Verdict::Unknown,
    };
    (verdict, evidence)
}

fn name_of(state: &AgentState) -> String {
    let names = [&state.team_name, &state.feature, &state.session_id];
    let name = names.into_iter().find(|name| !name.is_empty());
    name.cloned().unwrap_or_else(|| "session".to_owned())
}

/// Returns the identifier of a session, which is the same in whichever state file it is found.
fn id_of(project: &Path, session: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let bytes = project.as_os_str().as_encoded_bytes();
    for byte in bytes.iter().chain(b"\0").chain(session.as_bytes()) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{PREFIX}{hash:016x}")
}

fn activity(state: Liveness) -> Viewed {
    match state {
        Liveness::Live => Viewed::Live,
        Liveness::Stale => Viewed::Stale,
        Liveness::Ended => Viewed::Ended,
    }
}
