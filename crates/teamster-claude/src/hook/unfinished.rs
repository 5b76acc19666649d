//! The note to a new session about an unfinished run of its project.

use serde_json::Value;
use teamster_fs::{Dir, FsError, Lock, layout};
use teamster_types::TeamName;

use super::HookContext;
use crate::state::{LONGEST_TASK, LONGEST_TEXT};
use teamster_types::text::shown_line;

/// Returns the stage of the run, and the command to use; `None` when there is no run, or it is over. It reads one file
/// and checks whether a lock is held.
pub(super) fn notice(context: &HookContext) -> Result<Option<String>, FsError> {
    let Some(project) = Dir::open_root(&context.layout.project)? else {
        return Ok(None);
    };
    let Some(state) = project.descend(&layout::OUR_STATE)? else {
        return Ok(None);
    };
    let Some((bytes, _)) = state.read(layout::TEAM_STATE)? else {
        return Ok(None);
    };
    let Ok(told) = serde_json::from_slice::<Value>(&bytes) else {
        return Ok(None);
    };
    if told["active"] != true {
        return Ok(None);
    }
    let Some(team) = told["team"]
        .as_str()
        .and_then(|team| team.parse::<TeamName>().ok())
    else {
        return Ok(None);
    };
    if !exists(context, &team)? {
        return Ok(None);
    }
    let is_hosted = Lock::is_held(&state, layout::RUN_LOCK)?;
    Ok(Some(words(&told, &team, is_hosted)))
}

/// Returns whether the team still exists. A team that was removed by another process leaves this state behind.
fn exists(context: &HookContext, team: &TeamName) -> Result<bool, FsError> {
    let Some(claude) = Dir::open_root(&context.layout.claude)? else {
        return Ok(false);
    };
    let Some(teams) = claude.child(layout::TEAMS)? else {
        return Ok(false);
    };
    Ok(teams.child(team.as_str())?.is_some())
}

fn words(told: &Value, team: &TeamName, is_hosted: bool) -> String {
    let text = |key: &str, longest| shown_line(told[key].as_str().unwrap_or_default(), longest);
    let (task, stage) = (text("task", LONGEST_TASK), text("stage", LONGEST_TEXT));
    let count = |key: &str| told["progress"][key].as_u64().unwrap_or_default();
    let far = format!(
        "at {stage}, {} of {} tasks done",
        count("completedTasks"),
        count("totalTasks")
    );
    if told["awaitingApproval"] == true {
        return format!(
            "The run of teamster team {team} ({task:?}) waits for the user's approval.\nApproving is the user's alone: \
             they run `teamster approve --team {team}`, `teamster reject --team {team}` or `teamster revise --team {team} \
             TEXT` in a terminal of their own. Tell them, and do not run these yourself."
        );
    }
    if is_hosted {
        return format!(
            "Teamster team {team} is at work on this project ({task:?}; {far}).\n`teamster status --team {team}` shows \
             how it stands. Leave the files it works on alone until it is done."
        );
    }
    format!(
        "The run of teamster team {team} ({task:?}) was interrupted {far}.\n`teamster run --resume {team} --detach` goes \
         on with it; ask the user first."
    )
}
