//! What a leader is told.

use std::fmt::Write as _;

use super::{LeaderJob, NAME};
use crate::document::Fault;
use crate::plan::schema;

/// So much of its own answer a leader is shown again.
const OWN_WORDS: usize = 12_000;

/// The first time.
pub(super) fn first(job: &LeaderJob<'_>) -> String {
    let mut text = format!(
        "You are the {NAME} of a team of coding agents. Split the work below into tasks for the team, and answer with the \
         plan. Do not do the work yourself, and change no file.\n\n\
         The work, as it was asked for:\n\n{}\n\n",
        quoted(job.task)
    );
    text.push_str("The team:\n\n");
    for member in job.members {
        let role = member
            .role
            .as_ref()
            .map_or_else(String::new, |role| format!(" ({role})"));
        let _ = writeln!(text, "- {}{role}: {}", member.name, member.can.join(", "));
    }
    text.push('\n');
    if !job.told.is_empty() {
        let _ = writeln!(text, "{}\n", job.told);
    }
    repository(job, &mut text);
    let _ = writeln!(
        text,
        "How the team works:\n\n\
         - Each task goes to one member, who works in a copy of the repository and sees nothing but the task. So say \
         everything in `description`: where to look, what to change, when it is done.\n\
         - Tasks run at the same time. Name in `blockedBy` the tasks whose result a task needs, and no others.\n\
         - Name in `paths` the files that a task may change. Tasks whose paths overlap wait for each other.\n\
         - `owner` is one of {}. Leave it out, and whoever suits takes the task.\n\
         - `capabilities` are of those that the team has. Leave them out where anybody will do.\n\
         - Leave `verify` out: what is run to check the result is not yours to say.\n\
         - Few tasks that are whole are better than many that are not.\n",
        names(job)
    );
    let _ = write!(
        text,
        "End your answer with the plan: one JSON object that fits this schema, in a fence of three backticks, and nothing \
         after it.\n\n```json\n{:#}\n```\n",
        schema()
    );
    text
}

/// Once more, with its own answer and what was wrong with it.
pub(super) fn again(first: &str, said: &str, faults: &[Fault]) -> String {
    let mut text =
        format!("{first}\nYou were asked this before, and your answer could not be used:\n\n");
    for fault in faults {
        let _ = writeln!(text, "- line {}: {}", fault.line, fault.message);
    }
    match said.trim() {
        "" => text.push_str("\nYou had said nothing.\n"),
        said => {
            let _ = write!(
                text,
                "\nYour answer was:\n\n{}\n",
                quoted(&super::end_of(said, OWN_WORDS))
            );
        }
    }
    text.push_str("\nAnswer again, with the whole plan.\n");
    text
}

fn repository(job: &LeaderJob<'_>, text: &mut String) {
    let overview = job.overview;
    match overview.files {
        0 => text.push_str("The repository has no files yet.\n\n"),
        files => {
            let which = if files > overview.paths.len() {
                format!("{files} files, among them")
            } else {
                "these files".to_owned()
            };
            let _ = writeln!(
                text,
                "The repository has {which}:\n\n{}\n",
                quoted(&overview.paths.join("\n"))
            );
        }
    }
    if !overview.readme.is_empty() {
        let _ = writeln!(text, "Its README begins:\n\n{}\n", quoted(&overview.readme));
    }
}

fn names(job: &LeaderJob<'_>) -> String {
    let names: Vec<&str> = job
        .members
        .iter()
        .map(|member| member.name.as_str())
        .collect();
    names.join(", ")
}

/// What others wrote, set off from what we say.
fn quoted(text: &str) -> String {
    let lines = text.lines().map(|line| match line.trim_end() {
        "" => String::new(),
        line => format!("    {line}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}
