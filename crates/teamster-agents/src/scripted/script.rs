//! A script: a list of `[[step]]`, each with an action (`do`) and the task, worker, attempt and prompt that it is for.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use teamster_document::{DocumentFormat, DocumentValue, Fault, Lined, Word};
use teamster_fs::Dir;
use thiserror::Error;

use super::play::ScriptContext;
use crate::event::{ErrorClass, Usage};

/// The largest script, in bytes. Scripts are written by people, so a larger file is not a script.
const LARGEST: usize = 1024 * 1024;
/// The default time limit of a command, and of the wait for a file.
const WITHIN: Duration = Duration::from_secs(60);

/// A script that an agent plays.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    steps: Vec<(StepCondition, ScriptStep)>,
}

/// A script file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    #[serde(default)]
    step: Lined<Vec<Lined<(StepCondition, ScriptStep)>>>,
}

/// When a step is played, and whether its texts have placeholders.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename = "step", deny_unknown_fields)]
pub(super) struct StepCondition {
    /// The task's label in its plan, or the beginning of its subject.
    task: Option<Word>,
    worker: Option<String>,
    attempt: Option<u32>,
    /// Words that the prompt must contain.
    prompt: Option<String>,
    /// Whether placeholders in braces are replaced by facts about the task.
    pub(super) fill: bool,
}

/// One action. Paths are relative to the worktree.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum ScriptStep {
    Say {
        text: String,
    },
    Edit(EditStep),
    Append {
        path: String,
        text: String,
    },
    Delete {
        path: String,
    },
    Run {
        command: String,
        #[serde(default = "within", rename = "seconds", deserialize_with = "seconds")]
        within: Duration,
        #[serde(default)]
        may_fail: bool,
    },
    WaitForFile {
        path: String,
        #[serde(default = "within", rename = "seconds", deserialize_with = "seconds")]
        within: Duration,
    },
    Commit {
        #[serde(default = "commit_message")]
        text: String,
    },
    Sleep {
        #[serde(rename = "seconds", deserialize_with = "seconds")]
        span: Duration,
    },
    Usage(UsageStep),
    Done {
        text: String,
    },
    Fail {
        #[serde(default = "failure")]
        text: String,
        #[serde(default = "failure_code", deserialize_with = "failing_code")]
        code: u8,
    },
    Pause {
        reason: PauseReason,
    },
    Hang,
    /// Is killed by a signal, or exits with a code and without a report.
    Crash {
        #[serde(default, deserialize_with = "crash_code")]
        code: Option<u8>,
    },
    /// Never reports that it has started, so that its launch fails.
    NeverStart,
    IgnoreSignals,
    SpawnOrphan {
        #[serde(rename = "seconds", deserialize_with = "seconds")]
        span: Duration,
    },
}

/// A change of a file: new content, or a replacement of the first occurrence of a text.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "EditKeys")]
pub(super) enum EditStep {
    Write {
        path: String,
        content: String,
    },
    Replace {
        path: String,
        find: String,
        replace: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditKeys {
    path: String,
    content: Option<String>,
    find: Option<String>,
    replace: Option<String>,
}

impl TryFrom<EditKeys> for EditStep {
    type Error = &'static str;

    fn try_from(keys: EditKeys) -> Result<Self, Self::Error> {
        let path = keys.path;
        match (keys.content, keys.find, keys.replace) {
            (Some(content), None, None) => Ok(Self::Write { path, content }),
            (None, Some(find), Some(replace)) => Ok(Self::Replace {
                path,
                find,
                replace,
            }),
            _ => Err("an edit needs `content`, or `find` and `replace`"),
        }
    }
}

/// Tokens and money that a step uses.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct UsageStep {
    tokens_in: u64,
    tokens_out: u64,
    cached_in: u64,
    #[serde(deserialize_with = "money")]
    pub(super) usd: Option<f64>,
}

impl UsageStep {
    pub(super) fn usage(&self) -> Usage {
        Usage {
            input: self.tokens_in,
            output: self.tokens_out,
            cached_input: self.cached_in,
            ..Usage::default()
        }
    }
}

/// Why an agent pauses, which does not count as a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PauseReason {
    RateLimit,
    Outage,
    SignIn,
}

impl PauseReason {
    pub(super) fn class(self) -> ErrorClass {
        match self {
            Self::RateLimit => ErrorClass::RateLimit,
            Self::Outage => ErrorClass::Outage,
            Self::SignIn => ErrorClass::SignIn,
        }
    }
}

fn within() -> Duration {
    WITHIN
}

fn commit_message() -> String {
    "Work in progress".to_owned()
}

fn failure() -> String {
    "the script says that it fails".to_owned()
}

fn failure_code() -> u8 {
    1
}

/// Reads a number of seconds, which may have a fraction.
fn seconds<'de, D: Deserializer<'de>>(source: D) -> Result<Duration, D::Error> {
    Duration::try_from_secs_f64(f64::deserialize(source)?)
        .map_err(|_| D::Error::custom("it must be a number of seconds such as 5 or 0.2"))
}

fn money<'de, D: Deserializer<'de>>(source: D) -> Result<Option<f64>, D::Error> {
    let sum = f64::deserialize(source)?;
    let is_sum = sum.is_finite() && sum >= 0.0;
    is_sum
        .then_some(Some(sum))
        .ok_or_else(|| D::Error::custom("it must be a sum of money such as 0.02"))
}

fn failing_code<'de, D: Deserializer<'de>>(source: D) -> Result<u8, D::Error> {
    match u8::deserialize(source)? {
        0 => Err(D::Error::custom(
            "it must be 1 to 255: 0 means that all went well",
        )),
        code => Ok(code),
    }
}

fn crash_code<'de, D: Deserializer<'de>>(source: D) -> Result<Option<u8>, D::Error> {
    failing_code(source).map(Some)
}

/// A mistake in a script, and its place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct ScriptError {
    /// The file of the script.
    pub file: PathBuf,
    /// The line of the mistake; `None` when the file could not be read.
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
    /// Reads and parses a script file.
    pub fn read(file: &Path) -> Result<Self, ScriptError> {
        Self::parse(file, &Self::text(file)?)
    }

    /// Reads the text of a script file; links are followed, because they are the user's own.
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

    /// Parses the text of a script; `file` is for error messages.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ScriptError> {
        let mut faults = Vec::new();
        let steps = Self::steps(text, &mut faults);
        // Only the first mistake is reported: a script is short, and the others are often consequences.
        faults.sort();
        match (faults.into_iter().next(), steps) {
            (None, Some(steps)) => Ok(Self { steps }),
            (fault, _) => {
                let fault = fault.unwrap_or_else(|| Fault::new(1, "it cannot be read"));
                Err(ScriptError {
                    file: file.to_owned(),
                    line: Some(fault.line),
                    error: fault.message,
                })
            }
        }
    }

    fn steps(text: &str, faults: &mut Vec<Fault>) -> Option<Vec<(StepCondition, ScriptStep)>> {
        let root = teamster_document::parse(DocumentFormat::Toml, text)
            .map_err(|fault| faults.push(fault))
            .ok()?;
        let former = ["task", "steps", "starts"];
        if let Some(node) = former.iter().find_map(|key| root.get(key)) {
            // The keys of nested tables are located there.
            let first = match &node.value {
                DocumentValue::List(items) => items.first(),
                _ => None,
            };
            faults.push(Fault::new(
                first.unwrap_or(node).line,
                "a script is a list of [[step]]; `steps` and [[task]] are not read any more, and docs/scripted.md tells \
                 how each of them is written as a step",
            ));
            return None;
        }
        let script: ScriptFile = root.read("the script", faults)?;
        if script.step.is_missing() {
            faults.push(Fault::new(1, "a script needs at least one [[step]]"));
        }
        let steps = script.step.value?.into_iter();
        steps.map(|step| step.value).collect()
    }

    /// Returns the steps that match a context, in order. Without any, the task requires nothing.
    pub(super) fn part(&self, context: &ScriptContext<'_>) -> Vec<&(StepCondition, ScriptStep)> {
        let steps = self.steps.iter();
        steps.filter(|(when, _)| when.fits(context)).collect()
    }
}

impl StepCondition {
    fn fits(&self, context: &ScriptContext<'_>) -> bool {
        // A task without a label in a plan is known by its number.
        let name = context.label.unwrap_or(context.id);
        self.task
            .as_ref()
            .is_none_or(|Word(task)| task == name || context.subject.starts_with(task.as_str()))
            && self
                .worker
                .as_deref()
                .is_none_or(|pattern| matches(pattern, context.worker))
            && self
                .attempt
                .is_none_or(|attempt| attempt == context.attempt)
            && self
                .prompt
                .as_deref()
                .is_none_or(|words| context.prompt_contains(words))
    }
}

/// Returns whether a text matches a pattern in which `*` stands for any text.
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

    /// Returns the steps that are played for the task with number 7.
    fn part(script: &str, label: Option<&str>, subject: &str, attempt: u32) -> Vec<ScriptStep> {
        let context = ScriptContext {
            worktree: Path::new("/nowhere"),
            id: "7",
            subject,
            attempt,
            team: "t",
            worker: "worker-1",
            label,
            prompt: "You are asked because\nworker-2 asks a question.",
            host: &Nowhere,
        };
        let script = parse(script).unwrap();
        let part = script.part(&context);
        part.into_iter().map(|(_, step)| step.clone()).collect()
    }

    fn says(texts: &[&str]) -> Vec<ScriptStep> {
        let say = |text: &&str| ScriptStep::Say {
            text: (*text).to_owned(),
        };
        texts.iter().map(say).collect()
    }

    #[test]
    fn steps_are_for_every_task_or_for_the_one_they_name() {
        let script = "
        [[step]]\ndo = 'say'\ntext = 'all'\n\
        [[step]]\ntask = '1'\ndo = 'say'\ntext = 'one'\n\
        [[step]]\ntask = 'Fix'\ndo = 'say'\ntext = 'fix'\n\
        [[step]]\ntask = 7\nattempt = 2\ndo = 'say'\ntext = 'again'\n\
        [[step]]\nworker = 'other-*'\ndo = 'say'\ntext = 'other'\n\
        [[step]]\nworker = 'worker-*'\ndo = 'say'\ntext = 'end'";
        assert_eq!(
            part(script, Some("1"), "Build", 1),
            says(&["all", "one", "end"])
        );
        assert_eq!(
            part(script, Some("x"), "Fix it", 1),
            says(&["all", "fix", "end"])
        );
        // A task with a label in its plan does not match by its number.
        assert_eq!(part(script, Some("x"), "Build", 2), says(&["all", "end"]));
        assert_eq!(
            part(script, None, "Build", 2),
            says(&["all", "again", "end"])
        );
        assert_eq!(part("step = []", None, "Build", 1), []);
    }

    #[test]
    fn steps_with_a_prompt_are_for_whoever_was_told_these_words() {
        let script = "
        [[step]]\nprompt = 'asked because worker-2'\ndo = 'say'\ntext = 'woken'\n\
        [[step]]\nprompt = 'Split the work'\ndo = 'say'\ntext = 'plans'";
        assert_eq!(part(script, None, "Build", 1), says(&["woken"]));
    }

    #[test]
    fn every_deed_has_its_keys() {
        let script = "
        [[step]]\ndo = 'edit'\npath = 'a/b'\ncontent = 'c'\n\
        [[step]]\ndo = 'edit'\npath = 'a'\nfind = 'x'\nreplace = ''\n\
        [[step]]\ndo = 'append'\npath = 'a'\ntext = 'b'\n\
        [[step]]\ndo = 'delete'\npath = 'a'\n\
        [[step]]\ndo = 'run'\ncommand = 'true'\n\
        [[step]]\ndo = 'run'\ncommand = 'false'\nseconds = 5\nmay_fail = true\n\
        [[step]]\ndo = 'wait-for-file'\npath = 'a'\n\
        [[step]]\ndo = 'commit'\n\
        [[step]]\ndo = 'sleep'\nseconds = 0.25\n\
        [[step]]\ndo = 'usage'\ntokens_in = 1_000\ntokens_out = 5\n\
        [[step]]\ndo = 'usage'\ncached_in = 1\nusd = 0.5\n\
        [[step]]\ndo = 'done'\ntext = 'so'\n\
        [[step]]\ndo = 'fail'\ncode = 3\ntext = 'no'\n\
        [[step]]\ndo = 'pause'\nreason = 'rate-limit'\n\
        [[step]]\ndo = 'hang'\n\
        [[step]]\ndo = 'crash'\n\
        [[step]]\ndo = 'crash'\ncode = 7\n\
        [[step]]\ndo = 'never-start'\n\
        [[step]]\ndo = 'ignore-signals'\n\
        [[step]]\ndo = 'spawn-orphan'\nseconds = 60";
        let expected = vec![
            ScriptStep::Edit(EditStep::Write {
                path: "a/b".into(),
                content: "c".into(),
            }),
            ScriptStep::Edit(EditStep::Replace {
                path: "a".into(),
                find: "x".into(),
                replace: String::new(),
            }),
            ScriptStep::Append {
                path: "a".into(),
                text: "b".into(),
            },
            ScriptStep::Delete { path: "a".into() },
            ScriptStep::Run {
                command: "true".into(),
                within: WITHIN,
                may_fail: false,
            },
            ScriptStep::Run {
                command: "false".into(),
                within: Duration::from_secs(5),
                may_fail: true,
            },
            ScriptStep::WaitForFile {
                path: "a".into(),
                within: WITHIN,
            },
            ScriptStep::Commit {
                text: "Work in progress".into(),
            },
            ScriptStep::Sleep {
                span: Duration::from_millis(250),
            },
            ScriptStep::Usage(UsageStep {
                tokens_in: 1_000,
                tokens_out: 5,
                ..UsageStep::default()
            }),
            ScriptStep::Usage(UsageStep {
                cached_in: 1,
                usd: Some(0.5),
                ..UsageStep::default()
            }),
            ScriptStep::Done { text: "so".into() },
            ScriptStep::Fail {
                text: "no".into(),
                code: 3,
            },
            ScriptStep::Pause {
                reason: PauseReason::RateLimit,
            },
            ScriptStep::Hang,
            ScriptStep::Crash { code: None },
            ScriptStep::Crash { code: Some(7) },
            ScriptStep::NeverStart,
            ScriptStep::IgnoreSignals,
            ScriptStep::SpawnOrphan {
                span: Duration::from_secs(60),
            },
        ];
        assert_eq!(part(script, None, "", 1), expected);
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
                "[[step]]\ntext = 'a'",
                "demo.toml, line 1: item 1 of `step` has no `do`",
            ),
            (
                "[[step]]\ndo = 'hang'\n[[step]]\ndo = 'dance'",
                "line 4: item 2 of `step` has a bad `do`: there is no \"dance\"; there are say, edit, append",
            ),
            (
                "[[step]]\ndo = 'say'\ntext = 'a'\ntxt = 'b'",
                "line 4: item 1 of `step` has the unknown key `txt`; known are task, worker, attempt, prompt, fill, do, text",
            ),
            (
                "[[step]]\ndo = 'hang'\ntext = 'a'",
                "line 3: item 1 of `step` has the unknown key `text`",
            ),
            (
                "\n[[step]]\ndo = 'edit'\npath = 'a'\ncontent = 'x'\nfind = 'y'",
                "line 2: `edit`: an edit needs `content`, or `find` and `replace`",
            ),
            (
                "[[step]]\ndo = 'edit'\ncontent = 'a'",
                "line 1: `edit` has no `path`",
            ),
            ("[[step]]\ndo = 'say'", "line 1: `say` has no `text`"),
            ("[[step]]\ndo = 'sleep'", "line 1: `sleep` has no `seconds`"),
            (
                "[[step]]\ndo = 'sleep'\nseconds = '5s'",
                "line 3: `sleep` has a `seconds` that is a text, not a number",
            ),
            (
                "[[step]]\ndo = 'sleep'\nseconds = -1",
                "line 3: `sleep` has a bad `seconds`: it must be a number of seconds",
            ),
            ("[[step]]\ndo = 'fail'\ncode = 0", "must be 1 to 255"),
            (
                "[[step]]\ndo = 'fail'\ncode = 256",
                "line 3: `fail` has a `code` that is 256, not a whole number from 0 to 255",
            ),
            ("[[step]]\ndo = 'crash'\ncode = 0", "must be 1 to 255"),
            ("[[step]]\ndo = 'usage'\nusd = -1", "must be a sum of money"),
            (
                "[[step]]\ndo = 'usage'\nin = 1",
                "line 3: item 1 of `step` has the unknown key `in`",
            ),
            (
                "[[step]]\ndo = 'pause'\nreason = 'x'",
                "line 3: `pause` has a bad `reason`: there is no \"x\"; there are rate-limit, outage, sign-in",
            ),
            (
                "[[step]]\ndo = 'say'\ntext = 'a'\ntask = ''",
                "line 4: step 1 of the list has an empty `task`",
            ),
            (
                "step = 3",
                "line 1: the script has a `step` that is a number, not a list",
            ),
            (
                "step = [3]",
                "line 1: the script has a number in `step`, not a table",
            ),
            (
                "[[step]]\ndo = 'hang'\n\n[[task]]\nsteps = []",
                "demo.toml, line 4: a script is a list of [[step]]",
            ),
            (
                "steps = [{ say = 'a' }]",
                "demo.toml, line 1: a script is a list of [[step]]",
            ),
            (
                "x = 1\n[[step]]\ndo = 'hang'",
                "line 1: the script has the unknown key `x`; known are step",
            ),
            ("", "line 1: a script needs at least one [[step]]"),
            ("step = [\n", "not valid TOML"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
