//! A script: which steps are played for which task.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use teamster_fs::Dir;
use thiserror::Error;
use toml::de::{DeTable, DeValue};

use super::play::ScriptContext;
use super::section::Fields;
use super::step_list::{self, ConditionalStep};
use crate::event::{Trouble, Usage};

/// Scripts are written by people; one that is larger is not a script.
const LARGEST: usize = 1024 * 1024;

/// A script.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    form: ScriptForm,
}

/// The two ways to write one.
#[derive(Clone, Debug, PartialEq)]
enum ScriptForm {
    /// `[[task]]` and `steps`: the first section that fits is played.
    Sections(Vec<ScriptSection>),
    /// `[[step]]`: every step that fits is played, in order.
    Steps(Vec<ConditionalStep>),
}

/// What is played for one attempt at a task.
#[derive(Debug)]
pub(super) struct ScriptPart<'a> {
    /// Whether it says that it is there before it begins.
    pub(super) starts: bool,
    /// Whether words in braces stand for what is known about the task.
    pub(super) fills: bool,
    pub(super) steps: Vec<&'a ScriptStep>,
}

/// The steps for some tasks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ScriptSection {
    pub(super) id: Option<String>,
    pub(super) subject: Option<String>,
    pub(super) worker: Option<String>,
    pub(super) attempt: Option<u32>,
    /// Whether it says that it is there before it begins.
    pub(super) starts: bool,
    pub(super) steps: Vec<ScriptStep>,
}

/// One thing to do. Paths are relative to the worktree.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScriptStep {
    Say(String),
    Write {
        path: String,
        text: String,
    },
    Append {
        path: String,
        text: String,
    },
    Edit {
        path: String,
        find: String,
        replace: String,
    },
    Delete(String),
    Commit(String),
    Sleep(Duration),
    Run {
        command: String,
        within: Duration,
        may_fail: bool,
    },
    WaitForFile {
        path: String,
        within: Duration,
    },
    Used {
        usage: Usage,
        cost_usd: Option<f64>,
    },
    Fail {
        reason: String,
        code: u8,
    },
    Pause(Trouble),
    Hang,
    Crash(Option<u8>),
    Done(String),
    IgnoreSignals,
    SpawnOrphan(Duration),
}

/// What is wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ScriptError {
    /// Which file.
    pub file: PathBuf,
    /// Which line of it; `None` when it could not be read at all.
    pub line: Option<usize>,
    /// What is wrong.
    pub error: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}: {}", self.file.display(), self.error),
            None => write!(f, "{}: {}", self.file.display(), self.error),
        }
    }
}

impl Script {
    /// Reads a script's file and understands it.
    pub fn read(file: &Path) -> Result<Self, ScriptError> {
        Self::parse(file, &Self::text(file)?)
    }

    /// Reads the text of a script's file; links to it are the user's own.
    pub fn text(file: &Path) -> Result<String, ScriptError> {
        let unread = |error: String| ScriptError {
            file: file.to_owned(),
            line: None,
            error,
        };
        let missing = || unread("there is no such script".to_owned());
        let real = file.canonicalize().map_err(|_| missing())?;
        let (Some(folder), Some(name)) = (
            real.parent(),
            real.file_name().and_then(|name| name.to_str()),
        ) else {
            return Err(missing());
        };
        let dir = Dir::open_root(folder).map_err(|error| unread(error.to_string()))?;
        let content = dir.ok_or_else(missing)?.read(name);
        let (bytes, _) = content
            .map_err(|error| unread(error.to_string()))?
            .ok_or_else(missing)?;
        if bytes.len() > LARGEST {
            return Err(unread("a script has at most 1 MiB".to_owned()));
        }
        String::from_utf8(bytes).map_err(|_| unread("it is not UTF-8".to_owned()))
    }

    /// Understands a script's text; `file` is for the messages.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ScriptError> {
        let fail = |(at, error): (usize, String)| ScriptError {
            file: file.to_owned(),
            line: Some(1 + text.get(..at).unwrap_or_default().matches('\n').count()),
            error,
        };
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            fail((at, format!("not valid TOML: {}", error.message())))
        })?;
        let table = table.get_ref();
        let form = match step_list::parse(table) {
            Ok(Some(steps)) => Ok(ScriptForm::Steps(steps)),
            Ok(None) => sections(table).map(ScriptForm::Sections),
            Err(wrong) => Err(wrong),
        };
        form.map(|form| Self { form }).map_err(fail)
    }

    /// What is played for a context. `None`: the script does not know what to do.
    ///
    /// A list of steps always knows: one that has nothing for a task asks nothing of it. Sections are cases, and a task
    /// that is none of them was forgotten.
    pub(super) fn part(&self, context: &ScriptContext<'_>) -> Option<ScriptPart<'_>> {
        match &self.form {
            ScriptForm::Sections(sections) => {
                // The default stands behind all others.
                let section = sections.iter().find(|section| section.fits(context))?;
                Some(ScriptPart {
                    starts: section.starts,
                    fills: true,
                    steps: section.steps.iter().collect(),
                })
            }
            ScriptForm::Steps(steps) => Some(ScriptPart {
                starts: true,
                fills: false,
                steps: steps
                    .iter()
                    .filter(|single| single.fits(context))
                    .map(|single| &single.step)
                    .collect(),
            }),
        }
    }
}

/// Something wrong at a byte of the text.
pub(super) type Wrong = (usize, String);

fn sections(table: &DeTable<'_>) -> Result<Vec<ScriptSection>, Wrong> {
    let mut fields = Fields::new(table, 0, "the script");
    let mut sections = Vec::new();
    if let Some((at, value)) = fields.take("task") {
        let DeValue::Array(tasks) = value else {
            return Err((
                at,
                "`task` is a list of sections: write [[task]]".to_owned(),
            ));
        };
        for task in tasks {
            let DeValue::Table(inner) = task.get_ref() else {
                return Err((
                    task.span().start,
                    "a task is a section: write [[task]]".to_owned(),
                ));
            };
            sections.push(ScriptSection::parse(inner, task.span().start)?);
        }
    }
    let has_default = table.iter().any(|(key, _)| key.get_ref() == "steps");
    if has_default {
        let steps = fields.steps()?;
        let starts = fields.flag("starts")?.unwrap_or(true);
        sections.push(ScriptSection {
            id: None,
            subject: None,
            worker: None,
            attempt: None,
            starts,
            steps,
        });
    }
    fields.nothing_left()?;
    if sections.is_empty() {
        return Err((
            0,
            "a script needs `steps`, at least one [[task]], or at least one [[step]]".to_owned(),
        ));
    }
    Ok(sections)
}

impl ScriptSection {
    fn parse(table: &DeTable<'_>, at: usize) -> Result<Self, Wrong> {
        let mut fields = Fields::new(table, at, "[[task]]");
        let section = Self {
            id: fields.word("id")?,
            subject: fields.text("subject")?,
            worker: fields.text("worker")?,
            attempt: fields.number("attempt")?,
            starts: fields.flag("starts")?.unwrap_or(true),
            steps: fields.steps()?,
        };
        fields.nothing_left()?;
        Ok(section)
    }

    fn fits(&self, context: &ScriptContext<'_>) -> bool {
        self.id.as_deref().is_none_or(|id| id == context.id)
            && self
                .subject
                .as_deref()
                .is_none_or(|pattern| matches(pattern, context.subject))
            && self
                .worker
                .as_deref()
                .is_none_or(|pattern| matches(pattern, context.worker))
            && self
                .attempt
                .is_none_or(|attempt| attempt == context.attempt)
    }
}

/// Whether a text fits a pattern in which `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = text.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut rest = rest;
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::play::tests::Nowhere;

    fn parse(text: &str) -> Result<Script, String> {
        Script::parse(Path::new("demo.toml"), text).map_err(|error| error.to_string())
    }

    fn context<'a>(id: &'a str, subject: &'a str, attempt: u32) -> ScriptContext<'a> {
        ScriptContext {
            worktree: Path::new("/nowhere"),
            id,
            subject,
            attempt,
            team: "t",
            worker: "worker-1",
            label: None,
            host: &Nowhere,
        }
    }

    #[test]
    fn the_first_section_that_fits_is_played() {
        let script = parse(
            "steps = [{ say = 'default' }]\n\
         [[task]]\nid = 3\nsteps = [{ say = 'three' }]\n\
         [[task]]\nsubject = 'Fix *'\nattempt = 1\nsteps = [{ fail = 'not yet' }]\n\
         [[task]]\nsubject = 'Fix *'\nsteps = [{ say = 'fixed' }]\n\
         [[task]]\nworker = 'other-*'\nsteps = [{ say = 'other' }]",
        )
        .unwrap();
        let first = |context: ScriptContext<'_>| script.part(&context).unwrap().steps[0].clone();
        let not_yet = ScriptStep::Fail {
            reason: "not yet".into(),
            code: 1,
        };
        assert_eq!(
            first(context("3", "Fix it", 1)),
            ScriptStep::Say("three".into())
        );
        assert_eq!(first(context("4", "Fix it", 1)), not_yet);
        assert_eq!(
            first(context("4", "Fix it", 2)),
            ScriptStep::Say("fixed".into())
        );
        assert_eq!(
            first(context("4", "Build", 1)),
            ScriptStep::Say("default".into())
        );
    }

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text) in [
            ("*", ""),
            ("a*", "ab"),
            ("*b", "ab"),
            ("a*c*e", "abcde"),
            ("ab", "ab"),
            ("*a*", "bab"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("a", "ab"),
            ("a*b", "a"),
            ("*b", "ba"),
            ("a*a", "a"),
            ("", "a"),
        ] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn every_mistake_is_told_with_its_line() {
        for (text, says) in [
            (
                "steps = [\n  { say = 'a' },\n  { sya = 'b' },\n]",
                "demo.toml, line 3: nobody knows this step",
            ),
            (
                "steps = [{ say = 'a', run = 'b' }]",
                "line 1: a step is one thing, not say and run at once",
            ),
            (
                "\nsteps = [{ write = 'a' }]",
                "line 2: this step needs `text`",
            ),
            (
                "steps = [{ write = 'a', txt = 'b', text = '' }]",
                "this step has no `txt`; it has write, text",
            ),
            ("steps = [{ sleep = 5 }]", "`sleep` must be a time such as"),
            ("steps = [{ crash = 0 }]", "`crash` must be true"),
            ("steps = [{ pause = 'x' }]", "`pause` must be"),
            ("steps = [{ usage = { in = 1 } }]", "`usage` has no `in`"),
            ("steps = [{ hang = false }]", "write `hang = true`"),
            ("steps = 'x'", "`steps` must be a list of steps"),
            ("steps = ['x']", "a step is { say"),
            ("[[task]]\nid = '1'", "line 1: [[task]] needs `steps`"),
            (
                "[[task]]\nid = '1'\nsteps = []\nname = 'x'",
                "line 4: [[task]] has no `name`",
            ),
            ("[task]\nsteps = []", "write [[task]]"),
            ("x = 1\nsteps = []", "line 1: the script has no `x`"),
            ("", "line 1: a script needs `steps`"),
            ("steps = [\n", "not valid TOML"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
