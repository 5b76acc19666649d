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
    pub(super) fn fits(&self, context: &ScriptContext<'_>) -> bool {
        // A task that no plan has named is known by its number.
        let name = context.label.unwrap_or(context.id);
        self.task
            .as_deref()
            .is_none_or(|task| task == name || context.subject.starts_with(task))
            && self
                .attempt
                .is_none_or(|attempt| attempt == context.attempt)
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
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::scripted::Script;
    use crate::scripted::play::tests::Nowhere;

    fn parsed(text: &str) -> Result<Script, String> {
        Script::parse(Path::new("demo.toml"), text).map_err(|error| error.to_string())
    }

    /// What is played for a task.
    fn part(script: &str, label: Option<&str>, subject: &str, attempt: u32) -> Vec<ScriptStep> {
        let context = ScriptContext {
            worktree: Path::new("/nowhere"),
            id: "7",
            subject,
            attempt,
            team: "t",
            worker: "w",
            label,
            host: &Nowhere,
        };
        let script = parsed(script).unwrap();
        let part = script.part(&context).unwrap();
        assert!(part.starts && !part.fills);
        part.steps.into_iter().cloned().collect()
    }

    fn says(words: &[&str]) -> Vec<ScriptStep> {
        let say = |word: &&str| ScriptStep::Say((*word).to_owned());
        words.iter().map(say).collect()
    }

    #[test]
    fn steps_are_for_every_task_or_for_the_one_they_name() {
        let script = "
        [[step]]\ndo = 'say'\ntext = 'all'\n\
        [[step]]\ntask = '1'\ndo = 'say'\ntext = 'one'\n\
        [[step]]\ntask = 'Fix'\ndo = 'say'\ntext = 'fix'\n\
        [[step]]\ntask = 7\nattempt = 2\ndo = 'say'\ntext = 'again'\n\
        [[step]]\ndo = 'say'\ntext = 'end'";
        assert_eq!(
            part(script, Some("1"), "Build", 1),
            says(&["all", "one", "end"])
        );
        assert_eq!(
            part(script, Some("x"), "Fix it", 1),
            says(&["all", "fix", "end"])
        );
        // The number of a task is not what its plan calls it.
        assert_eq!(part(script, Some("x"), "Build", 2), says(&["all", "end"]));
        assert_eq!(
            part(script, None, "Build", 2),
            says(&["all", "again", "end"])
        );
        assert_eq!(part("step = []", None, "Build", 1), []);
    }

    #[test]
    fn every_deed_has_its_keys() {
        let script = "
        [[step]]\ndo = 'edit'\npath = 'a/b'\ncontent = 'c'\n\
        [[step]]\ndo = 'edit'\npath = 'a'\nfind = 'x'\nreplace = ''\n\
        [[step]]\ndo = 'run'\ncommand = 'true'\n\
        [[step]]\ndo = 'commit'\n\
        [[step]]\ndo = 'sleep'\nseconds = 0.25\n\
        [[step]]\ndo = 'usage'\ntokens_in = 1_000\ntokens_out = 5\n\
        [[step]]\ndo = 'fail'\ncode = 3\ntext = 'no'\n\
        [[step]]\ndo = 'hang'\n\
        [[step]]\ndo = 'crash'\n\
        [[step]]\ndo = 'ignore-signals'\n\
        [[step]]\ndo = 'spawn-orphan'\nseconds = 60";
        let usage = Usage {
            input: 1_000,
            output: 5,
            ..Usage::default()
        };
        let expected = vec![
            ScriptStep::Write {
                path: "a/b".into(),
                text: "c".into(),
            },
            ScriptStep::Edit {
                path: "a".into(),
                find: "x".into(),
                replace: String::new(),
            },
            ScriptStep::Run {
                command: "true".into(),
                within: RUN_WITHIN,
                may_fail: false,
            },
            ScriptStep::Commit("Work in progress".into()),
            ScriptStep::Sleep(Duration::from_millis(250)),
            ScriptStep::Used {
                usage,
                cost_usd: None,
            },
            ScriptStep::Fail {
                reason: "no".into(),
                code: 3,
            },
            ScriptStep::Hang,
            ScriptStep::Crash(None),
            ScriptStep::IgnoreSignals,
            ScriptStep::SpawnOrphan(Duration::from_secs(60)),
        ];
        assert_eq!(part(script, None, "", 1), expected);
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        for (text, says) in [
            ("[[step]]\ntext = 'a'", "line 1: [[step]] needs `do`"),
            (
                "[[step]]\ndo = 'dance'",
                "line 1: nobody can do \"dance\"; there are say, edit, run",
            ),
            (
                "[[step]]\ndo = 'say'\ntext = 'a'\ntxt = 'b'",
                "line 4: [[step]] has no `txt`",
            ),
            (
                "\n[[step]]\ndo = 'edit'\npath = 'a'\ncontent = 'x'\nfind = 'y'",
                "line 2: an edit needs `content`, or `find` and `replace`",
            ),
            ("[[step]]\ndo = 'edit'\ncontent = 'a'", "needs `path`"),
            ("[[step]]\ndo = 'sleep'", "needs `seconds`"),
            (
                "[[step]]\ndo = 'sleep'\nseconds = -1",
                "line 3: `seconds` must be a number of seconds",
            ),
            ("[[step]]\ndo = 'fail'\ncode = 0", "must be 1 to 255"),
            (
                "[[step]]\ndo = 'fail'\ncode = 256",
                "must be a whole number",
            ),
            ("[[step]]\ndo = 'say'\ntext = 'a'\ntask = ''", "`task` must"),
            ("step = 3", "write [[step]]"),
            ("step = [3]", "a step is a table"),
            (
                "[[step]]\ndo = 'hang'\n\n[[task]]\nsteps = []",
                "demo.toml, line 4: a script is written either with [[step]] or with [[task]]",
            ),
            (
                "steps = []\n[[step]]\ndo = 'hang'",
                "line 1: a script is written either",
            ),
            (
                "x = 1\n[[step]]\ndo = 'hang'",
                "line 1: the script has no `x`",
            ),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
