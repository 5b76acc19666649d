//! Judges a whole run by the requests that the model server got.

use anyhow::Result;

use super::super::super::Report;
use super::super::super::model_server::{Dialect, ModelRequest, PromptRole};
use super::super::{LabTeam, claim};
use super::{
    ACCEPT, ANSWER, CHECK, CLAIM, DESCRIPTION, FAILURE, GREETING, MARK, MESSAGES, OTHER_MARK,
    OTHER_TEAM, QUESTION, REQUEST, SEPARATOR, TEAM, TRIAGE,
};

/// What the prompt of the worker that joins both files must contain, by the parts of a briefing before the earlier
/// attempts.
const BEFORE: [(&str, &[&str]); 6] = [
    (
        "1. you: name, role, team",
        &[
            "You are worker-3, a worker of the team alpha.",
            "Your role is tester.",
        ],
    ),
    (
        "2. the goal in the person's words, and the task",
        &[REQUEST, "Write joined.txt", DESCRIPTION],
    ),
    ("2. acceptance criteria", &[ACCEPT]),
    (
        "2. the paths that it may change",
        &["> joined.txt", "Change only files"],
    ),
    (
        "3. what it builds on: who, summary, files",
        &[
            "done by worker-1",
            "done by worker-2",
            "The greeting is written.",
            "The separator is written.",
            "> greeting.txt",
            "> separator.txt",
        ],
    ),
    (
        "3. the dependant's prompt has the handover",
        &[GREETING, SEPARATOR],
    ),
];
/// What it must contain in the parts after them.
const AFTER: [(&str, &[&str]); 4] = [
    (
        "6. how it is judged: the exact command",
        &[CHECK, "How your work is judged"],
    ),
    (
        "7. how to reach others: the tools",
        &["ask", "message_send", "Ask instead of guessing"],
    ),
    (
        "8. rules",
        &["Do not commit, push or switch branches", "no secrets"],
    ),
    ("9. how to end", &["```teamster", "\"handover\""]),
];

/// Returns the requests to agents of a role.
fn of_role(requests: &[ModelRequest], role: PromptRole) -> impl Iterator<Item = &ModelRequest> {
    requests.iter().filter(move |request| request.role == role)
}

/// Returns the requests of one task of the first team.
fn of_task<'a>(
    requests: &'a [ModelRequest],
    task: &'a str,
) -> impl Iterator<Item = &'a ModelRequest> {
    let of_team = requests.iter().filter(|request| request.team == TEAM);
    of_team.filter(move |request| request.task == task)
}

/// Returns the first request with which the leader was woken because of these words.
fn wake_for<'a>(requests: &'a [ModelRequest], words: &str) -> Option<&'a ModelRequest> {
    of_role(requests, PromptRole::Leader).find(|request| request.prompt.contains(words))
}

/// Claims that the prompt of a request contains all of these parts.
fn claim_parts(report: &mut Report, claim: &str, request: Option<&ModelRequest>, parts: &[&str]) {
    let Some(ModelRequest { prompt, .. }) = request else {
        return report.claim(claim, false, "there is no such prompt");
    };
    let mut missing = parts.to_vec();
    missing.retain(|part| !prompt.contains(part));
    let seen = match missing.as_slice() {
        [] => {
            let characters = prompt.chars().count();
            format!("{} facts in {characters} characters", parts.len())
        }
        missing => format!("missing: {missing:?}"),
    };
    report.claim(claim, missing.is_empty(), seen);
}

/// Judges the prompt of each agent, and what the leader was told before the work.
pub(super) fn judge_prompts(report: &mut Report, requests: &[ModelRequest]) {
    let first = of_role(requests, PromptRole::Worker).filter(|request| request.results.is_empty());
    let mut prompts: Vec<&str> = first.map(|request| request.prompt.as_str()).collect();
    let told = prompts.len();
    prompts.sort_unstable();
    prompts.dedup();
    let different = prompts.len();
    claim!(report, told == different && told >= 6 =>
        "no two workers got the same prompt", "{told} prompts, {different} different");
    let parts = [
        REQUEST,
        CHECK,
        "AGENTS.md",
        "README.md",
        "\"blockedBy\"",
        "worker-1 (executor), claude",
        "worker-2 (executor), codex",
        "worker-3 (tester), gemini",
        "worker-4 (reviewer), codex",
    ];
    let claim = "leader: request, roster, checks, instructions, layout, schema";
    let mut plans = of_role(requests, PromptRole::Planner);
    claim_parts(report, claim, plans.next(), &parts);
    let mut results = of_role(requests, PromptRole::Planner).flat_map(|plan| &plan.results);
    claim!(report, results.any(|result| result.contains("AGENTS.md")) =>
        "leader: a command that only reads ran before the plan", "`ls`");
}

/// Judges whether each part of a briefing is in the prompt of a worker that needs it.
pub(super) fn judge_briefings(report: &mut Report, requests: &[ModelRequest]) {
    let first = |task| of_task(requests, task).next();
    for (part, facts) in BEFORE {
        claim_parts(report, &format!("worker {part}"), first("3"), facts);
    }
    let knows = |(task, other): (&'static str, &str)| {
        first(task).is_some_and(|ModelRequest { prompt, .. }| {
            prompt.contains("Who else is working now") && prompt.contains(other)
        })
    };
    let others = [("1", "separator.txt"), ("2", "greeting.txt")];
    claim!(report, others.into_iter().any(knows) =>
        "worker 4. who else is working on what, with paths", "in the prompt of task 1 or 2");
    let mut attempts = of_task(requests, "4");
    let again = attempts.find(|request| request.prompt.contains("An earlier attempt"));
    let claim = "worker 5. an earlier attempt and what was said about it";
    claim_parts(report, claim, again, &[FAILURE]);
    for (part, facts) in AFTER {
        claim_parts(report, &format!("worker {part}"), first("3"), facts);
    }
}

/// Judges messages in the middle of tasks, and the question with its answer.
pub(super) fn judge_talk(
    report: &mut Report,
    team: &LabTeam,
    requests: &[ModelRequest],
) -> Result<()> {
    for (client, (task, _, words), turn) in [
        ("claude", MESSAGES[0], 1),
        ("codex", MESSAGES[1], 2),
        ("gemini (with the answer of a tool of ours)", MESSAGES[2], 2),
    ] {
        let of_task: Vec<_> = of_task(requests, task).collect();
        let place = of_task
            .iter()
            .position(|request| request.texts.contains(words));
        let turns = place.map(|place| of_task[place].results.len());
        let (place, count) = (place.map_or(0, |place| place + 1), of_task.len());
        let seen = format!("request {place} of {count}, after {turns:?} results");
        let claim = format!("message in mid-task is in the next request: {client}");
        report.claim(&claim, turns == Some(turn), seen);
    }
    let claim = "the leader is woken by the question";
    let wake = wake_for(requests, QUESTION);
    claim_parts(report, claim, wake, &[QUESTION, REQUEST]);
    let mut first_results = of_task(requests, "2").filter_map(|request| request.results.first());
    let by = team.events("question.answered")?;
    let by: Vec<String> = by.iter().map(|event| event["actor"].to_string()).collect();
    claim!(report, first_results.any(|result| result.contains(ANSWER)) =>
        "its answer reaches the worker as the result of its tool", "answered by {}", by.join(", "));
    Ok(())
}

/// Judges the review, the fix of its finding, and the review of that fix.
pub(super) fn judge_review(report: &mut Report, team: &LabTeam, requests: &[ModelRequest]) {
    let is_begin = |request: &&ModelRequest| request.results.is_empty();
    let mut reviews: Vec<&ModelRequest> = of_role(requests, PromptRole::Reviewer)
        .filter(is_begin)
        .collect();
    let by_codex = reviews
        .iter()
        .all(|request| request.dialect == Dialect::OpenAi);
    reviews.dedup_by_key(|request| request.prompt.as_str());
    let first = reviews.first().copied();
    let claim = "reviewer: request, tasks, checks, the whole change";
    let facts = [
        REQUEST,
        CHECK,
        "+hello",
        "Write joined.txt",
        "greeting.txt",
        "separator.txt",
    ];
    claim_parts(report, claim, first, &facts);
    claim_parts(report, "reviewer: acceptance criteria", first, &[ACCEPT]);
    let claim = "the leader decides what becomes of the finding";
    let wake = wake_for(requests, CLAIM);
    claim_parts(report, claim, wake, &[CLAIM, REQUEST, "blocker"]);
    let is_added = |request: &&ModelRequest| request.task.parse::<u32>().is_ok_and(|id| id > 4);
    let mut of_team = requests.iter().filter(|request| request.team == TEAM);
    let claim = "the reviewer's blocker becomes a fix";
    let facts = [CLAIM, TRIAGE, "joined.txt", REQUEST];
    claim_parts(report, claim, of_team.find(is_added), &facts);
    let second = reviews.get(1).copied();
    let claim = "the second review sees what changed";
    let facts = ["You have reviewed it before", "+petrel-36", CLAIM];
    claim_parts(report, claim, second, &facts);
    let is_only = second.is_some_and(|ModelRequest { prompt, .. }| {
        !prompt.contains("+hello") && !prompt.contains("+twice")
    });
    claim!(report, is_only => "and nothing of what it has seen", "{} reviews", reviews.len());
    let mut led = requests
        .iter()
        .filter(|request| matches!(request.role, PromptRole::Planner | PromptRole::Leader));
    let by_claude = led.all(|request| request.dialect == Dialect::Anthropic);
    claim!(report, by_codex && by_claude => "codex reviews, claude leads", "by the servers' dialects");
    let landed = team.git("show HEAD:joined.txt").unwrap_or_default();
    claim!(report, landed == "hello\n;\npetrel-36" => "what lands has all of it", "{landed:?}");
}

/// Judges whether a team was told something about the other one.
pub(super) fn judge_teams(report: &mut Report, requests: &[ModelRequest]) {
    for (team, own, foreign) in [(TEAM, MARK, OTHER_MARK), (OTHER_TEAM, OTHER_MARK, MARK)] {
        let of_team = || requests.iter().filter(|request| request.team == team);
        let with = |mark: &str| {
            of_team()
                .filter(|request| request.texts.contains(mark))
                .count()
        };
        let (all, own, leaks) = (of_team().count(), with(own), with(foreign));
        claim!(report, leaks == 0 && own == all && own > 0 =>
            format!("nothing of another team is in a request of {team}"),
            "{all} requests, {own} with its own mark, {leaks} with the other's");
    }
}
