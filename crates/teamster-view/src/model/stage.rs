//! Where a run stands, without reading the whole journal.

use teamster_store::{Read, Result};
use teamster_types::TeamName;
use teamster_journal::Event;

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

/// Events that a run is looked for in by whoever cannot wait.
const LATELY: usize = 200;
/// What a run's standing is read from: its last event, its last stage, and what is at its gate.
const ASKED: [&[&str]; 3] = [
    &["run."],
    &["run.started", "run.stage"],
    &["approval.", "run.started", "run.finished"],
];

/// Where the run of a team stands, from the end of its journal. The same as a whole story would tell. A run that has not
/// said anything for long is looked for far back, which takes a while in a long journal.
pub fn run_now(read: &dyn Read, team: &TeamName) -> Result<RunNow> {
    let mut found = read.last_of_each(team, &ASKED)?.into_iter();
    let mut next = || found.next().flatten();
    let (said, entered, gate) = (next(), next(), next());
    Ok(standing(said.as_ref(), entered.as_ref(), gate.as_ref()))
}

/// The same by the last events alone, which takes no time: what was said before them is not known.
pub fn run_lately(read: &dyn Read, team: &TeamName) -> Result<RunNow> {
    let events = read.last_events(team, LATELY)?.events;
    let last = |kinds: &[&str]| {
        let fits = |event: &&Event| kinds.iter().any(|kind| event.kind.starts_with(kind));
        events.iter().rfind(fits)
    };
    let [said, entered, gate] = ASKED.map(last);
    Ok(standing(said, entered, gate))
}

fn standing(last: Option<&Event>, entered: Option<&Event>, gate: Option<&Event>) -> RunNow {
    let Some(last) = last else {
        return RunNow::default();
    };
    let stage = match last.kind.as_str() {
        "run.started" => None,
        "run.stage" => stage_of(last),
        _ => entered
            .filter(|entered| entered.kind == "run.stage")
            .and_then(stage_of),
    };
    let is_open = |event: &Event| {
        matches!(
            event.kind.as_str(),
            "approval.requested" | "approval.answered"
        )
    };
    RunNow {
        stage,
        awaits_approval: gate.is_some_and(is_open),
        finished: last.kind == "run.finished",
    }
}

fn stage_of(event: &Event) -> Option<String> {
    let stage = event.data.get("to")?.as_str()?;
    Some(stage.to_owned())
}
