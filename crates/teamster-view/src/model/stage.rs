//! Where a run stands, without reading the whole journal.

use teamster_store::{Read, Result};
use teamster_types::TeamName;
use teamster_types::event::Event;

/// Where a run stands now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunNow {
    /// The stage it is in; `None` while there is none.
    pub stage: Option<String>,
    /// Whether a decision waits for a person.
    pub awaits_approval: bool,
    /// Whether it is over.
    pub finished: bool,
}

/// Where the run of a team stands, from the end of its journal. The same as a whole story would tell.
pub fn run_now(read: &dyn Read, team: &TeamName) -> Result<RunNow> {
    let asked: [&[&str]; 3] = [
        &["run."],
        &["run.started", "run.stage"],
        &["approval.", "run.started", "run.finished"],
    ];
    let mut found = read.last_of_each(team, &asked)?.into_iter();
    let mut next = || found.next().flatten();
    let (last, entered, gate) = (next(), next(), next());
    let Some(last) = last else {
        return Ok(RunNow::default());
    };
    let stage = match last.kind.as_str() {
        "run.started" => None,
        "run.stage" => stage_of(&last),
        _ => entered
            .filter(|entered| entered.kind == "run.stage")
            .as_ref()
            .and_then(stage_of),
    };
    let is_open = |event: &Event| {
        matches!(
            event.kind.as_str(),
            "approval.requested" | "approval.answered"
        )
    };
    Ok(RunNow {
        stage,
        awaits_approval: gate.as_ref().is_some_and(is_open),
        finished: last.kind == "run.finished",
    })
}

fn stage_of(event: &Event) -> Option<String> {
    let stage = event.data.get("stage")?.as_str()?;
    Some(stage.to_owned())
}
