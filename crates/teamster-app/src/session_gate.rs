//! The gate of a session that people lead by hand, with the same decisions, rules and records as the gate of a run.

use teamster_fs::Dir;
use teamster_isolate::git::{Git, Repo};
use teamster_journal::payload::GateAnswer;
use teamster_party::{ApprovalDecision, NewApproval, Party, PartySession, TakenStep};
use teamster_store::{Clock as _, SystemClock};
use teamster_types::TeamName;

use crate::app::App;
use crate::env_vars;
use crate::error::{AppError, ErrorKind, Result};
use crate::gate;
use crate::runs;

/// A decision about a session, and the transitions that it caused.
#[derive(Debug)]
pub struct SessionDecision {
    /// The session afterwards.
    pub session: PartySession,
    /// The commit that was decided about; empty without a repository.
    pub commit: String,
    /// The decision, as text: `approved`, `rejected` or `to be revised`.
    pub word: &'static str,
}

/// Decides about the project's session, if it waits for a decision and no run of its team does; `None` otherwise. A
/// caller that can be asked may accept the checked-out commit; any other caller must name the commit.
pub fn decide(
    app: &App,
    team: Option<&str>,
    commit: Option<&str>,
    answer: &GateAnswer,
) -> Result<Option<SessionDecision>> {
    app.must_be_a_person("deciding at the gate")?;
    let Some((party, session)) = waiting(app, team)? else {
        return Ok(None);
    };
    let head = checked_out(app);
    gate::check_commit(app, &head, commit)?;
    let (decision, text) = match answer {
        GateAnswer::Approve => (ApprovalDecision::Approved, ""),
        GateAnswer::Reject { text, .. } => (ApprovalDecision::Rejected, text.as_str()),
        GateAnswer::Revise { text } => (ApprovalDecision::Revision, text.as_str()),
    };
    let mut session = step(app, &party, &session, decision, text, head.clone())?.session;
    if matches!(answer, GateAnswer::Reject { rollback: true, .. }) {
        session = party
            .transition("ROLLED_BACK", text, SystemClock.now())?
            .session;
    }
    Ok(Some(SessionDecision {
        session,
        commit: head,
        word: gate::word(answer),
    }))
}

/// Performs a transition of the project's session. A decision at the gate is reserved for a person, is recorded, and is
/// refused while the run of the session's team waits at its own gate.
pub fn transition(app: &App, party: &Party, to: &str, reason: &str) -> Result<TakenStep> {
    let Some(decision) = ApprovalDecision::of_phase(to) else {
        return Ok(party.transition(to, reason, SystemClock.now())?);
    };
    app.must_be_a_person("deciding at the gate")?;
    let session = party.must_session()?;
    if let Ok(team) = session.team.parse()
        && let Some(commit) = open_gate_commit(app, &team)?
    {
        return Err(AppError::new(
            ErrorKind::Conflict,
            format!("the work of team {team} is waiting at its gate; decide on it there"),
        )
        .hint(format!(
            "`teamster approve --team {team} --commit {commit}`, or `teamster reject`, `teamster revise TEXT`"
        )));
    }
    let head = checked_out(app);
    step(app, party, &session, decision, reason, head)
}

/// Performs the transition of a decision and records the decision.
fn step(
    app: &App,
    party: &Party,
    session: &PartySession,
    decision: ApprovalDecision,
    reason: &str,
    commit: String,
) -> Result<TakenStep> {
    let now = SystemClock.now();
    let stepped = party.transition(decision.phase(), reason, now)?;
    party.record_approval(
        &NewApproval {
            decision,
            commit,
            base: String::new(),
            session_id: session.id.clone(),
            via: app.actor.via(),
            reason: reason.to_owned(),
        },
        now,
    )?;
    Ok(stepped)
}

/// Returns the project's session, if it waits for a decision that does not belong to a run.
fn waiting(app: &App, named: Option<&str>) -> Result<Option<(Party, PartySession)>> {
    let Some(project) = Dir::open_root(&app.layout.project)? else {
        return Ok(None);
    };
    let Some(party) = Party::find(&project)? else {
        return Ok(None);
    };
    let session = party.session()?;
    let Some(session) = session.filter(PartySession::is_awaiting_approval) else {
        return Ok(None);
    };
    if named.is_some_and(|named| named != session.team) {
        return Ok(None);
    }
    let meant = app.team(named).ok();
    let of_session = session.team.parse().ok();
    for team in meant.iter().chain(&of_session) {
        if open_gate_commit(app, team)?.is_some() {
            return Ok(None);
        }
    }
    Ok(Some((party, session)))
}

/// Returns the commit that a run of a team waits for a decision about; `None` when there is none.
fn open_gate_commit(app: &App, team: &TeamName) -> Result<Option<String>> {
    if app.read()?.team(team).is_err() {
        return Ok(None);
    }
    let (state, _) = runs::state_of(app.read()?, team)?;
    Ok(state.open_gate().map(|gate| gate.commit.clone()))
}

/// Returns the checked-out commit of the project; empty if there is none.
fn checked_out(app: &App) -> String {
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let found = Git::find(&path).and_then(|git| Repo::find(&git, &app.layout.project));
    found
        .inspect_err(|error| tracing::debug!("a session without a commit: {error}"))
        .map_or_else(|_| String::new(), |found| found.head.to_string())
}
