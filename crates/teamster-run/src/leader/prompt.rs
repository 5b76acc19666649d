//! Builds the prompts of a leader.

use std::fmt::Write as _;

use teamster_prompts::facts::{MemberFacts, PlanLimits, PlanPrompt, RepositoryFacts, WakePrompt};
use teamster_prompts::{PromptError, Prompts};
use teamster_types::text::{clip, quoted};

use super::PlanRequest;
use crate::plan::schema;
use teamster_document::Fault;

/// The number of characters of its own answer that a leader is shown in the second attempt.
const SHOWN_ANSWER: usize = 12_000;
/// The number of characters of one fault that are shown.
const FAULT_WORDS: usize = 300;
/// The number of characters for the capabilities of one member.
const MEMBER_WORDS: usize = 160;
/// The number of characters that are reserved for the text around the leader's own answer.
const ANSWER_ROOM: usize = 200;
/// The number of characters of a first prompt that are reserved for the second attempt.
const RETRY_ROOM: usize = 10_000;
/// The number of characters of the preset's text that are shown. With the longest task and the largest team, everything
/// together still fits into a prompt.
const PRESET_WORDS: usize = 6_000;

/// Returns the prompt for a plan. If not everything fits, the task takes precedence over the overview of the
/// repository.
pub(super) fn plan_prompt(
    request: &PlanRequest<'_>,
    team: &str,
    limit: usize,
) -> Result<String, PromptError> {
    let members = request.members.iter().map(|member| MemberFacts {
        name: member.name.to_string(),
        role: member.role.clone(),
        provider: member.provider_name().to_owned(),
        can: vec![clip(&member.can.join(", "), MEMBER_WORDS)],
    });
    let facts = PlanPrompt {
        team: team.to_owned(),
        goal: request.task.to_owned(),
        meaning: clip(request.told.trim(), PRESET_WORDS),
        members: members.collect(),
        checks: request.checks.to_vec(),
        repository: RepositoryFacts {
            files: request.overview.files,
            paths: request.overview.paths.clone(),
            folders: request.overview.folders.clone(),
            readme: request.overview.readme.clone(),
            instructions: request.overview.instructions.clone(),
        },
        can_read: true,
        limits: PlanLimits {
            tasks: Some(super::MOST_TASKS),
            budget: super::budget_words(request.budget),
        },
        may_ask: request.may_ask,
        requirements: request.requirements,
        answers: request.answers.to_vec(),
        earlier: match request.revision {
            Some(revision) => revision.earlier.clone(),
            None => Vec::new(),
        },
        previous: match request.revision {
            Some(revision) => serde_json::to_string_pretty(&revision.before).ok(),
            None => None,
        },
        revise: request.revision.and_then(|revision| revision.words.clone()),
        schema: format!("{:#}", schema()),
    };
    let rendered = request
        .prompts
        .render(&facts, limit.saturating_sub(RETRY_ROOM))?;
    if let Some(error) = rendered.fallback {
        tracing::warn!("uses the built-in prompt for the leader: {error}");
    }
    Ok(rendered.text)
}

/// Returns the prompt that asks what to do during the run.
pub(super) fn wake_prompt(
    prompts: &Prompts,
    facts: &WakePrompt,
    limit: usize,
) -> Result<String, PromptError> {
    let rendered = prompts.render(facts, limit.saturating_sub(RETRY_ROOM))?;
    if let Some(error) = rendered.fallback {
        tracing::warn!("uses the built-in prompt for the leader: {error}");
    }
    Ok(rendered.text)
}

/// Returns the prompt of the second attempt, with the leader's own answer and its faults.
pub(super) fn retry_prompt(first: &str, said: &str, faults: &[Fault], limit: usize) -> String {
    let mut text =
        format!("{first}\nYou were asked this before, and your answer could not be used:\n\n");
    for fault in faults {
        let message = clip(&fault.message, FAULT_WORDS);
        let _ = match fault.line {
            0 => writeln!(text, "- {message}"),
            line => writeln!(text, "- line {line}: {message}"),
        };
    }
    match said.trim() {
        "" => text.push_str("\nYou had said nothing.\n"),
        said => {
            let room = limit.saturating_sub(text.chars().count() + ANSWER_ROOM);
            let said = quoted(&super::tail(said, SHOWN_ANSWER.min(room / 2)));
            let _ = write!(text, "\nYour answer was:\n\n{said}\n");
        }
    }
    text.push_str("\nAnswer again, with the whole JSON object.\n");
    text
}
