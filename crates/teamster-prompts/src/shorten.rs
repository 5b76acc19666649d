//! The order in which parts of a prompt that is too long are shortened.

use std::fmt::Write as _;

use crate::facts::{
    CommonFacts, ConflictPrompt, DoneTask, FixPrompt, JudgePrompt, PlanPrompt, ReviewPrompt,
    WakePrompt, WorkerPrompt,
};

/// A part that can be shortened: its name, and the function that shortens it.
pub type Shortening<T> = (&'static str, fn(&mut T));

/// Facts that can be shortened.
pub trait Shorten: Clone + PartialEq + 'static {
    /// The parts that can be shortened, the least important first.
    const PARTS: &'static [Shortening<Self>];
}

const OTHERS: &str = "who else is working";
const FILES: &str = "files that others changed";
const DONE: &str = "what others did";
const DIFFS: &str = "changes that are in a file or in git";
const REASON: &str = "why the earlier attempt failed";
const GOAL: &str = "the goal";
const MESSAGES: &str = "messages and answers";
const DESCRIPTION: &str = "the description of the task";
const OUTPUT: &str = "what a check printed";

/// Keeps the beginning of a text, up to the end of a line if possible, and states how much was cut.
fn clip_end(text: &mut String, limit: usize) {
    let Some((at, _)) = text.char_indices().nth(limit) else {
        return;
    };
    let at = text[..at].rfind('\n').filter(|end| *end > 0).unwrap_or(at);
    let more = text[at..].chars().count();
    text.truncate(at);
    let _ = write!(text, "\n[{more} more characters were left out]");
}

/// Keeps the end of a text, from the beginning of a line on.
fn clip_begin(text: &mut String, limit: usize) {
    let length = text.chars().count();
    if length <= limit {
        return;
    }
    let at = text
        .char_indices()
        .nth(length - limit)
        .map_or(0, |(at, _)| at);
    let at = text[at..].find('\n').map_or(at, |end| at + end + 1);
    let more = text[..at].chars().count();
    *text = format!("[{more} characters before were left out]\n{}", &text[at..]);
}

fn few_files(tasks: &mut [DoneTask]) {
    for task in tasks {
        let most = task.files.len().min(10);
        task.more_files += task.files.len() - most;
        task.files.truncate(most);
    }
}

fn short_summaries(tasks: &mut [DoneTask]) {
    for task in tasks {
        clip_end(&mut task.summary, 400);
        clip_end(&mut task.handover, 1_500);
        task.problems.truncate(3);
        task.problems
            .iter_mut()
            .for_each(|problem| clip_end(problem, 200));
    }
}

/// Keeps the tasks that were completed last.
fn few_tasks(tasks: &mut Vec<DoneTask>) {
    keep_last(tasks, 8);
    for task in tasks {
        clip_end(&mut task.summary, 200);
        clip_end(&mut task.handover, 400);
    }
}

impl CommonFacts {
    fn few_others(&mut self) {
        let most = self.others.len().min(8);
        self.more_others += self.others.len() - most;
        self.others.truncate(most);
        for other in &mut self.others {
            other.paths.truncate(5);
            clip_end(&mut other.subject, 200);
        }
    }

    fn short_reason(&mut self) {
        if let Some(earlier) = &mut self.earlier {
            clip_begin(&mut earlier.reason, 1_000);
            earlier.files.truncate(10);
            earlier
                .remarks
                .iter_mut()
                .for_each(|remark| clip_end(&mut remark.text, 2_000));
        }
    }

    fn short_goal(&mut self) {
        if let Some(goal) = &mut self.goal {
            clip_end(goal, 3_000);
        }
    }

    fn short_mail(&mut self) {
        for message in &mut self.messages {
            clip_end(&mut message.text, 2_000);
        }
        for answer in &mut self.answers {
            clip_end(&mut answer.question, 500);
            clip_end(&mut answer.text, 2_000);
        }
    }

    fn shorter_mail(&mut self) {
        for message in &mut self.messages {
            clip_end(&mut message.text, 300);
        }
        for answer in &mut self.answers {
            clip_end(&mut answer.text, 600);
        }
    }
}

impl Shorten for WorkerPrompt {
    const PARTS: &'static [Shortening<Self>] = &[
        (FILES, |facts| few_files(&mut facts.builds_on)),
        (OTHERS, |facts| facts.situation.few_others()),
        (REASON, |facts| facts.situation.short_reason()),
        (DONE, |facts| short_summaries(&mut facts.builds_on)),
        (GOAL, |facts| facts.situation.short_goal()),
        (MESSAGES, |facts| facts.situation.short_mail()),
        (DESCRIPTION, |facts| {
            clip_end(&mut facts.task.description, 20_000);
        }),
        (DONE, |facts| few_tasks(&mut facts.builds_on)),
        (MESSAGES, |facts| facts.situation.shorter_mail()),
        (DESCRIPTION, |facts| {
            clip_end(&mut facts.task.description, 8_000);
        }),
        (DONE, |facts| keep_last(&mut facts.builds_on, 3)),
        (DESCRIPTION, |facts| {
            clip_end(&mut facts.task.description, 3_000);
        }),
    ];
}

impl Shorten for FixPrompt {
    const PARTS: &'static [Shortening<Self>] = &[
        (FILES, |facts| few_files(&mut facts.fix.merged)),
        (OTHERS, |facts| facts.situation.few_others()),
        (DONE, |facts| short_summaries(&mut facts.fix.merged)),
        (REASON, |facts| facts.situation.short_reason()),
        (GOAL, |facts| facts.situation.short_goal()),
        (DONE, |facts| few_tasks(&mut facts.fix.merged)),
        (MESSAGES, |facts| facts.situation.short_mail()),
        (OUTPUT, |facts| clip_begin(&mut facts.fix.output, 8_000)),
        (MESSAGES, |facts| facts.situation.shorter_mail()),
        (OUTPUT, |facts| clip_begin(&mut facts.fix.output, 2_000)),
    ];
}

impl Shorten for ConflictPrompt {
    const PARTS: &'static [Shortening<Self>] = &[
        (DIFFS, |facts| {
            clip_end(&mut facts.conflict.merged_diff, 4_000);
            clip_end(&mut facts.conflict.incoming_diff, 8_000);
        }),
        (OTHERS, |facts| facts.situation.few_others()),
        (FILES, |facts| {
            few_files(&mut facts.conflict.merged);
            few_files(std::slice::from_mut(&mut facts.conflict.incoming));
        }),
        (DONE, |facts| short_summaries(&mut facts.conflict.merged)),
        (REASON, |facts| facts.situation.short_reason()),
        (GOAL, |facts| facts.situation.short_goal()),
        (MESSAGES, |facts| facts.situation.short_mail()),
        (DIFFS, |facts| {
            facts.conflict.merged_diff.clear();
            clip_end(&mut facts.conflict.incoming_diff, 2_000);
        }),
        (DESCRIPTION, |facts| {
            clip_end(&mut facts.conflict.incoming_description, 4_000);
        }),
        (DONE, |facts| few_tasks(&mut facts.conflict.merged)),
        (MESSAGES, |facts| facts.situation.shorter_mail()),
        (FILES, |facts| facts.conflict.files.truncate(50)),
    ];
}

impl Shorten for PlanPrompt {
    const PARTS: &'static [Shortening<Self>] = &[
        ("the README", |facts| {
            clip_end(&mut facts.repository.readme, 1_000);
        }),
        ("files of the repository", |facts| {
            facts.repository.paths.truncate(60);
        }),
        (OUTPUT, |facts| {
            for check in &mut facts.checks {
                clip_begin(&mut check.output, 2_000);
            }
        }),
        ("the README", |facts| facts.repository.readme.clear()),
        ("files of the repository", |facts| {
            facts.repository.paths.clear();
        }),
        (OUTPUT, |facts| {
            for check in &mut facts.checks {
                clip_begin(&mut check.output, 300);
            }
        }),
        ("what the preset says", |facts| {
            clip_end(&mut facts.meaning, 6_000);
        }),
        ("the plan before", |facts| {
            if let Some(previous) = &mut facts.previous {
                clip_end(previous, 8_000);
            }
        }),
        (MESSAGES, |facts| {
            for answer in &mut facts.answers {
                clip_end(&mut answer.question, 300);
                clip_end(&mut answer.text, 1_000);
            }
            for wish in &mut facts.earlier {
                clip_end(wish, 1_000);
            }
            keep_last(&mut facts.earlier, 10);
        }),
        (GOAL, |facts| clip_end(&mut facts.goal, 10_000)),
    ];
}

impl Shorten for WakePrompt {
    const PARTS: &'static [Shortening<Self>] = &[
        ("what happened long ago", |facts| {
            keep_last(&mut facts.digest, 60);
        }),
        ("tasks that are over", |facts| {
            let over = facts.tasks.len().saturating_sub(60);
            facts.tasks.drain(..over);
        }),
        ("descriptions of tasks", |facts| {
            for task in &mut facts.tasks {
                clip_end(&mut task.description, 300);
            }
        }),
        ("what you found out before", |facts| {
            clip_end(&mut facts.analysis, 1_000);
            keep_last(&mut facts.notes, 10);
            for note in &mut facts.notes {
                clip_end(note, 300);
            }
        }),
        ("descriptions of tasks", |facts| {
            for task in &mut facts.tasks {
                task.description.clear();
                task.accept.clear();
            }
        }),
        (MESSAGES, |facts| {
            for answer in &mut facts.answers {
                clip_end(&mut answer.question, 300);
                clip_end(&mut answer.text, 1_000);
            }
        }),
        (GOAL, |facts| clip_end(&mut facts.goal, 3_000)),
        ("what happened long ago", |facts| {
            keep_last(&mut facts.digest, 20);
        }),
        ("what it is about", |facts| {
            for part in &mut facts.subject {
                clip_end(&mut part.text, 4_000);
            }
        }),
    ];
}

fn keep_last<T>(list: &mut Vec<T>, most: usize) {
    let over = list.len().saturating_sub(most);
    list.drain(..over);
}

impl Shorten for ReviewPrompt {
    const PARTS: &'static [Shortening<Self>] = &[
        (DIFFS, |facts| clip_end(&mut facts.diff, 20_000)),
        (FILES, |facts| {
            for task in &mut facts.tasks {
                few_files(std::slice::from_mut(&mut task.done));
            }
        }),
        (DIFFS, |facts| facts.diff.clear()),
        (DONE, |facts| {
            for task in &mut facts.tasks {
                short_summaries(std::slice::from_mut(&mut task.done));
            }
        }),
        (DIFFS, |facts| clip_end(&mut facts.stat, 4_000)),
        (GOAL, |facts| clip_end(&mut facts.goal, 3_000)),
    ];
}

impl Shorten for JudgePrompt {
    const PARTS: &'static [Shortening<Self>] = &[
        (DIFFS, |facts| {
            for candidate in &mut facts.candidates {
                clip_end(&mut candidate.diff, 6_000);
            }
        }),
        (DONE, |facts| {
            for candidate in &mut facts.candidates {
                clip_end(&mut candidate.summary, 500);
            }
        }),
        (DIFFS, |facts| {
            for candidate in &mut facts.candidates {
                candidate.diff.clear();
                clip_end(&mut candidate.stat, 2_000);
            }
        }),
        (GOAL, |facts| clip_end(&mut facts.goal, 3_000)),
    ];
}
