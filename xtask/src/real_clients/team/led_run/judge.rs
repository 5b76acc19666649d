//! Judges a whole run by the requests that the model server got.

use std::path::Path;

use anyhow::Result;

use super::super::super::Report;
use super::super::super::model_server::{Dialect, ModelRequest, Role};
use super::super::{Surroundings, git};
use super::{
    ACCEPT, ANSWER, CHECK, CLAIM, DESCRIPTION, FAILURE, GREETING, MARK, MESSAGES, OTHER_MARK,
    OTHER_TEAM, QUESTION, REQUEST, SEPARATOR, TEAM, TRIAGE,
};

/// Returns the requests of one task of the first team.
fn of_task<'a>(
    requests: &'a [ModelRequest],
    wanted: &'a str,
) -> impl Iterator<Item = &'a ModelRequest> + 'a {
    requests.iter().filter(move |request| {
        matches!(&request.role, Some(Role::Worker { team, task, .. }) if team == TEAM && task == wanted)
    })
}

/// Returns the first prompt of a kind of agent of the first team.
fn prompt_of(requests: &[ModelRequest], is_it: impl Fn(&Role) -> bool) -> Option<&str> {
    let mut found = requests.iter().filter_map(|request| {
        let role = request.role.as_ref().filter(|role| role.team() == TEAM)?;
        is_it(role).then_some(request.prompt.as_str())
    });
    found.next()
}

/// Claims that a prompt has all of these parts.
fn claim_parts(report: &mut Report, claim: &str, prompt: Option<&str>, parts: &[&str]) {
    let Some(prompt) = prompt else {
        return report.claim(claim, false, "there is no such prompt");
    };
    let missing: Vec<&&str> = parts
        .iter()
        .filter(|part| !prompt.contains(**part))
        .collect();
    let seen = match missing.as_slice() {
        [] => format!(
            "{} facts in {} characters",
            parts.len(),
            prompt.chars().count()
        ),
        missing => format!("missing: {missing:?}"),
    };
    report.claim(claim, missing.is_empty(), seen);
}

/// Judges who got which prompt, and what the leader was told before the work.
pub(super) fn judge_prompts(report: &mut Report, requests: &[ModelRequest]) {
    let mut prompts: Vec<&str> = requests
        .iter()
        .filter(|request| request.results.is_empty())
        .filter(|request| matches!(request.role, Some(Role::Worker { .. })))
        .map(|request| request.prompt.as_str())
        .collect();
    let told = prompts.len();
    prompts.sort_unstable();
    prompts.dedup();
    let seen = format!("{told} prompts, {} different", prompts.len());
    let is_unique = told == prompts.len() && told >= 6;
    report.claim("no two workers got the same prompt", is_unique, seen);

    let planner = prompt_of(requests, |role| matches!(role, Role::Planner { .. }));
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
    claim_parts(report, claim, planner, &parts);
    let looked = requests.iter().any(|request| {
        matches!(&request.role, Some(Role::Planner { .. }))
            && request
                .results
                .iter()
                .any(|result| result.contains("AGENTS.md"))
    });
    let claim = "leader: a command that only reads ran before the plan";
    report.claim(claim, looked, "`ls`");
}

/// Judges whether each part of a briefing is in the prompt of a worker that needs it.
pub(super) fn judge_briefings(report: &mut Report, requests: &[ModelRequest]) {
    let task = |id: &'static str| {
        let mut of_task = of_task(requests, id);
        of_task.next().map(|request| request.prompt.as_str())
    };
    let before: [(&str, &[&str]); 6] = [
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
    for (part, facts) in before {
        claim_parts(report, &format!("worker {part}"), task("3"), facts);
    }
    let others = [("1", "separator.txt"), ("2", "greeting.txt")];
    let knows = others.iter().any(|(id, other)| {
        let prompt = task(id).unwrap_or_default();
        prompt.contains("Who else is working now") && prompt.contains(other)
    });
    let claim = "worker 4. who else is working on what, with paths";
    report.claim(claim, knows, "in the prompt of task 1 or 2");
    let mut attempts = of_task(requests, "4");
    let again = attempts.find(|request| request.prompt.contains("An earlier attempt"));
    let again = again.map(|request| request.prompt.as_str());
    let claim = "worker 5. an earlier attempt and what was said about it";
    claim_parts(report, claim, again, &[FAILURE]);
    let after: [(&str, &[&str]); 4] = [
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
    for (part, facts) in after {
        claim_parts(report, &format!("worker {part}"), task("3"), facts);
    }
}

/// Judges messages in the middle of tasks, and the question with its answer.
pub(super) fn judge_talk(
    report: &mut Report,
    lab: &Surroundings,
    project: &Path,
    requests: &[ModelRequest],
) -> Result<()> {
    for (client, (task, _, words), turn) in [
        ("claude", MESSAGES[0], 1),
        ("codex", MESSAGES[1], 2),
        ("gemini (with the answer of a tool of ours)", MESSAGES[2], 2),
    ] {
        let of_task: Vec<&ModelRequest> = of_task(requests, task).collect();
        let first = of_task
            .iter()
            .position(|request| request.texts.contains(words));
        let turns = first.map(|place| of_task[place].results.len());
        let seen = match first {
            Some(place) => format!(
                "request {} of {}, after {} results",
                place + 1,
                of_task.len(),
                turns.unwrap_or(0)
            ),
            None => format!("in none of {} requests", of_task.len()),
        };
        let claim = format!("message in mid-task is in the next request: {client}");
        report.claim(&claim, turns == Some(turn), seen);
    }
    claim_parts(
        report,
        "the leader is woken by the question",
        wake_for(requests, QUESTION),
        &[QUESTION, REQUEST],
    );
    let heard = of_task(requests, "2").find(|request| {
        request
            .results
            .first()
            .is_some_and(|result| result.contains(ANSWER))
    });
    let by = lab.events(project, TEAM, "question.answered")?;
    let by: Vec<String> = by.iter().map(|event| event["actor"].to_string()).collect();
    report.claim(
        "its answer reaches the worker as the result of its tool",
        heard.is_some(),
        format!("answered by {}", by.join(", ")),
    );
    Ok(())
}

/// Judges the review, the fix of what it found, and the review of that.
pub(super) fn judge_review(report: &mut Report, project: &Path, requests: &[ModelRequest]) {
    let is_review = |request: &&ModelRequest| {
        matches!(&request.role, Some(Role::Reviewer { .. })) && request.results.is_empty()
    };
    let mut reviews: Vec<&str> = requests
        .iter()
        .filter(is_review)
        .map(|request| request.prompt.as_str())
        .collect();
    reviews.dedup();
    let first = reviews.first().copied();
    let facts = [
        REQUEST,
        CHECK,
        "+hello",
        "Write joined.txt",
        "greeting.txt",
        "separator.txt",
    ];
    claim_parts(
        report,
        "reviewer: request, tasks, checks, the whole change",
        first,
        &facts,
    );
    claim_parts(report, "reviewer: acceptance criteria", first, &[ACCEPT]);
    let fixes: Vec<&ModelRequest> = requests
        .iter()
        .filter(|request| matches!(&request.role, Some(Role::Worker { team, task, .. }) if team == TEAM && task.parse::<u32>().is_ok_and(|id| id > 4)))
        .collect();
    claim_parts(
        report,
        "the leader decides what becomes of the finding",
        wake_for(requests, CLAIM),
        &[CLAIM, REQUEST, "blocker"],
    );
    let fix = fixes.first().map(|request| request.prompt.as_str());
    claim_parts(
        report,
        "the reviewer's blocker becomes a fix",
        fix,
        &[CLAIM, TRIAGE, "joined.txt", REQUEST],
    );
    let second = reviews.get(1).copied();
    claim_parts(
        report,
        "the second review sees what changed",
        second,
        &["You have reviewed it before", "+petrel-36", CLAIM],
    );
    let is_only =
        second.is_some_and(|prompt| !prompt.contains("+hello") && !prompt.contains("+twice"));
    report.claim(
        "and nothing of what it has seen",
        is_only,
        format!("{} reviews", reviews.len()),
    );
    let by_codex = requests
        .iter()
        .filter(is_review)
        .all(|request| request.dialect == Dialect::OpenAi);
    report.claim(
        "codex reviews, claude leads",
        by_codex && leads(requests),
        "by the servers' dialects",
    );
    let landed = git(project, &["show", "HEAD:joined.txt"]).unwrap_or_default();
    report.claim(
        "what lands has all of it",
        landed == "hello\n;\npetrel-36",
        format!("{landed:?}"),
    );
}

/// Returns the prompt with which the leader was woken for these words.
fn wake_for<'a>(requests: &'a [ModelRequest], words: &str) -> Option<&'a str> {
    let of_leader = |request: &&ModelRequest| matches!(request.role, Some(Role::Leader { .. }));
    let mut wakes = requests
        .iter()
        .filter(of_leader)
        .map(|request| request.prompt.as_str());
    wakes.find(|prompt| prompt.contains(words))
}

fn leads(requests: &[ModelRequest]) -> bool {
    requests
        .iter()
        .filter(|request| {
            matches!(
                request.role,
                Some(Role::Planner { .. } | Role::Leader { .. })
            )
        })
        .all(|request| request.dialect == Dialect::Anthropic)
}

/// Judges whether a team was told something of the other one.
pub(super) fn judge_teams(report: &mut Report, requests: &[ModelRequest]) {
    for (team, own, foreign) in [(TEAM, MARK, OTHER_MARK), (OTHER_TEAM, OTHER_MARK, MARK)] {
        let of_team: Vec<&ModelRequest> = requests
            .iter()
            .filter(|request| {
                request
                    .role
                    .as_ref()
                    .is_some_and(|role| role.team() == team)
            })
            .collect();
        let leaks = of_team
            .iter()
            .filter(|request| request.texts.contains(foreign))
            .count();
        let own = of_team
            .iter()
            .filter(|request| request.texts.contains(own))
            .count();
        let holds = leaks == 0 && own == of_team.len() && own > 0;
        let claim = format!("nothing of another team is in a request of {team}");
        report.claim(
            &claim,
            holds,
            format!(
                "{} requests, {own} with its own mark, {leaks} with the other's",
                of_team.len()
            ),
        );
    }
}
