//! Scripts that are a list of `[[step]]`: each says what to `do`, and for which task and attempt.

use toml::de::{DeTable, DeValue};

use super::play::ScriptContext;
use super::script::{ScriptStep, Wrong};
use super::section::{Fields, RUN_WITHIN};
use crate::event::Usage;

/// What `do` may say.
const DEEDS: [&str; 11] = [
    "say",
    "edit",
    "run",
    "commit",
    "sleep",
    "usage",
    "fail",
    "hang",
    "crash",
    "ignore-signals",
    "spawn-orphan",
];

/// A step, and when it is taken.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ConditionalStep {
    task: Option<String>,
    attempt: Option<u32>,
    pub(super) step: ScriptStep,
}

impl ConditionalStep {
    pub(super) fn fits(&self, scene: &ScriptContext<'_>) -> bool {
        // A task that no plan has named is known by its number.
        let name = scene.label.unwrap_or(scene.id);
        self.task
            .as_deref()
            .is_none_or(|task| task == name || scene.subject.starts_with(task))
            && self.attempt.is_none_or(|attempt| attempt == scene.attempt)
    }

    fn parse(table: &DeTable<'_>, at: usize) -> Result<Self, Wrong> {
        let mut fields = Fields::new(table, at, "[[step]]");
        let deed = fields.needed("do")?;
        let task = fields.word("task")?;
        let attempt = fields.number("attempt")?;
        if task.as_deref() == Some("") {
            return Err((
                at,
                "`task` must be the id of the plan or how the subject begins".to_owned(),
            ));
        }
        let step = step_of(&deed, &mut fields, at)?;
        fields.nothing_left()?;
        Ok(Self {
            task,
            attempt,
            step,
        })
    }
}

/// The steps of such a script; `None` when it is written in the other form.
pub(super) fn parse(table: &DeTable<'_>) -> Result<Option<Vec<ConditionalStep>>, Wrong> {
    let Some((_, steps)) = table.iter().find(|(key, _)| key.get_ref() == "step") else {
        return Ok(None);
    };
    let other = table
        .iter()
        .find(|(key, _)| ["task", "steps", "starts"].contains(&key.get_ref().as_ref()));
    if let Some((key, value)) = other {
        // What stands in tables of its own has its place there, not where its first table is named.
        let at = match value.get_ref() {
            DeValue::Array(list) => list
                .first()
                .map_or(key.span().start, |one| one.span().start),
            _ => key.span().start,
        };
        return Err((
            at,
            format!(
                "a script is written either with [[step]] or with [[task]] and `steps`; this one has [[step]] and `{}`",
                key.get_ref()
            ),
        ));
    }
    let mut fields = Fields::new(table, 0, "the script");
    fields.take("step");
    fields.nothing_left()?;
    let at = steps.span().start;
    let DeValue::Array(list) = steps.get_ref() else {
        return Err((at, "`step` is a list: write [[step]]".to_owned()));
    };
    let singles = list.iter().map(|step| match step.get_ref() {
        DeValue::Table(table) => ConditionalStep::parse(table, step.span().start),
        _ => Err((
            step.span().start,
            "a step is a table: write [[step]]".to_owned(),
        )),
    });
    singles.collect::<Result<_, _>>().map(Some)
}

fn step_of(deed: &str, fields: &mut Fields<'_, '_>, at: usize) -> Result<ScriptStep, Wrong> {
    Ok(match deed {
        "say" => ScriptStep::Say(fields.needed("text")?),
        "edit" => edit(fields, at)?,
        "run" => ScriptStep::Run {
            command: fields.needed("command")?,
            within: RUN_WITHIN,
            may_fail: false,
        },
        "commit" => ScriptStep::Commit(
            fields
                .text("text")?
                .unwrap_or_else(|| "Work in progress".to_owned()),
        ),
        "sleep" => ScriptStep::Sleep(needed_seconds(fields, at)?),
        "usage" => ScriptStep::Used {
            usage: Usage {
                input: fields.number("tokens_in")?.unwrap_or(0),
                output: fields.number("tokens_out")?.unwrap_or(0),
                cached_input: fields.number("cached_in")?.unwrap_or(0),
                ..Usage::default()
            },
            cost_usd: fields.money("usd")?,
        },
        "fail" => ScriptStep::Fail {
            code: match fields.number("code")? {
                Some(0) => {
                    let says = "`code` must be 1 to 255: 0 means that all went well";
                    return Err((at, says.to_owned()));
                }
                code => code.unwrap_or(1),
            },
            reason: fields
                .text("text")?
                .unwrap_or_else(|| "the script says that it fails".to_owned()),
        },
        "hang" => ScriptStep::Hang,
        "crash" => ScriptStep::Crash(None),
        "ignore-signals" => ScriptStep::IgnoreSignals,
        "spawn-orphan" => ScriptStep::SpawnOrphan(needed_seconds(fields, at)?),
        unknown => {
            let all = DEEDS.join(", ");
            return Err((at, format!("nobody can do {unknown:?}; there are {all}")));
        }
    })
}

fn edit(fields: &mut Fields<'_, '_>, at: usize) -> Result<ScriptStep, Wrong> {
    let path = fields.needed("path")?;
    let parts = (
        fields.text("content")?,
        fields.text("find")?,
        fields.text("replace")?,
    );
    match parts {
        (Some(text), None, None) => Ok(ScriptStep::Write { path, text }),
        (None, Some(find), Some(replace)) => Ok(ScriptStep::Edit {
            path,
            find,
            replace,
        }),
        _ => Err((
            at,
            "an edit needs `content`, or `find` and `replace`".to_owned(),
        )),
    }
}

fn needed_seconds(fields: &mut Fields<'_, '_>, at: usize) -> Result<std::time::Duration, Wrong> {
    fields
        .seconds("seconds")?
        .ok_or_else(|| (at, "[[step]] needs `seconds`".to_owned()))
}

#[cfg(test)]
#[path = "step_list_tests.rs"]
mod tests;
