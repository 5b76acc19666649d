//! The fields of a script's sections and steps, each with its place in the text.

use std::borrow::Cow;
use std::time::Duration;

use teamster_types::time::parse_span;
use toml::de::{DeTable, DeValue};

use super::script::{ScriptStep, Wrong};
use crate::event::{Trouble, Usage};

/// A command of a script that takes longer is meant to hang.
pub(super) const RUN_WITHIN: Duration = Duration::from_secs(60);
const WAIT_WITHIN: Duration = Duration::from_secs(60);

/// A table whose keys are taken one by one; what is left in the end nobody knows.
pub(super) struct Fields<'a, 'i> {
    table: &'a DeTable<'i>,
    at: usize,
    what: &'static str,
    taken: Vec<&'static str>,
}

impl<'a, 'i> Fields<'a, 'i> {
    pub(super) fn new(table: &'a DeTable<'i>, at: usize, what: &'static str) -> Self {
        Self {
            table,
            at,
            what,
            taken: Vec::new(),
        }
    }

    /// A value and its place.
    pub(super) fn take(&mut self, key: &'static str) -> Option<(usize, &'a DeValue<'i>)> {
        self.taken.push(key);
        let (_, value) = self
            .table
            .iter()
            .find(|(known, _)| known.get_ref() == key)?;
        Some((value.span().start, value.get_ref()))
    }

    fn of_kind<T>(
        &mut self,
        key: &'static str,
        expected: &str,
        parse: impl FnOnce(&DeValue<'i>) -> Option<T>,
    ) -> Result<Option<T>, Wrong> {
        match self.take(key) {
            None => Ok(None),
            Some((at, value)) => match parse(value) {
                Some(parsed) => Ok(Some(parsed)),
                None => Err((at, format!("`{key}` must be {expected}"))),
            },
        }
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, Wrong> {
        self.of_kind(key, "a text", |value| value.as_str().map(str::to_owned))
    }

    /// A text, or a number taken for one: ids look like numbers.
    pub(super) fn word(&mut self, key: &'static str) -> Result<Option<String>, Wrong> {
        self.of_kind(key, "a text or a number", |value| match value {
            DeValue::String(text) => Some(text.to_string()),
            other => whole::<u64>(other).map(|number| number.to_string()),
        })
    }

    pub(super) fn number<T: TryFrom<u64>>(
        &mut self,
        key: &'static str,
    ) -> Result<Option<T>, Wrong> {
        self.of_kind(key, "a whole number", |value| whole(value))
    }

    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, Wrong> {
        self.of_kind(key, "true or false", DeValue::as_bool)
    }

    fn span(&mut self, key: &'static str) -> Result<Option<Duration>, Wrong> {
        let expected = "a time such as \"200ms\", \"5s\" or \"2m\"";
        self.of_kind(key, expected, |value| parse_span(value.as_str()?))
    }

    /// So many seconds; halves of one are fine.
    pub(super) fn seconds(&mut self, key: &'static str) -> Result<Option<Duration>, Wrong> {
        self.of_kind(key, "a number of seconds such as 5 or 0.2", |value| {
            Duration::try_from_secs_f64(amount(value)?).ok()
        })
    }

    pub(super) fn money(&mut self, key: &'static str) -> Result<Option<f64>, Wrong> {
        self.of_kind(key, "a sum of money such as 0.02", |value| {
            amount(value).filter(|number| number.is_finite() && *number >= 0.0)
        })
    }

    pub(super) fn needed(&mut self, key: &'static str) -> Result<String, Wrong> {
        let missing = (self.at, format!("{} needs `{key}`", self.what));
        self.text(key)?.ok_or(missing)
    }

    /// The list of steps.
    pub(super) fn steps(&mut self) -> Result<Vec<ScriptStep>, Wrong> {
        let missing = (self.at, format!("{} needs `steps`", self.what));
        let (at, value) = self.take("steps").ok_or(missing)?;
        let DeValue::Array(list) = value else {
            return Err((at, "`steps` must be a list of steps".to_owned()));
        };
        list.iter()
            .map(|step| match step.get_ref() {
                DeValue::Table(table) => parse_step(table, step.span().start),
                other => Err((
                    step.span().start,
                    format!(
                        "a step is {{ say = \"…\" }} or the like, not {}",
                        other.type_str()
                    ),
                )),
            })
            .collect()
    }

    /// A key that nobody took is a misspelt one.
    pub(super) fn nothing_left(&self) -> Result<(), Wrong> {
        let unknown = |key: &str| !self.taken.contains(&key);
        match self.table.iter().find(|(key, _)| unknown(key.get_ref())) {
            None => Ok(()),
            Some((key, _)) => Err((
                key.span().start,
                format!(
                    "{} has no `{}`; it has {}",
                    self.what,
                    key.get_ref(),
                    self.taken.join(", ")
                ),
            )),
        }
    }
}

fn amount(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
        other => whole::<u32>(other).map(f64::from),
    }
}

fn whole<T: TryFrom<u64>>(value: &DeValue<'_>) -> Option<T> {
    let DeValue::Integer(number) = value else {
        return None;
    };
    let number = u64::from_str_radix(number.as_str(), number.radix()).ok()?;
    T::try_from(number).ok()
}

/// The word that makes a step what it is.
const VERBS: [&str; 15] = [
    "say",
    "write",
    "append",
    "edit",
    "delete",
    "commit",
    "sleep",
    "run",
    "wait_for_file",
    "usage",
    "fail",
    "pause",
    "hang",
    "crash",
    "done",
];

fn parse_step(table: &DeTable<'_>, at: usize) -> Result<ScriptStep, Wrong> {
    let named: Vec<&Cow<'_, str>> = table.iter().map(|(key, _)| key.get_ref()).collect();
    let verbs: Vec<&'static str> = VERBS
        .into_iter()
        .filter(|verb| named.iter().any(|key| key == verb))
        .collect();
    let verb = match verbs.as_slice() {
        [verb] => *verb,
        [] => {
            let all = VERBS.join(", ");
            return Err((at, format!("nobody knows this step; there are {all}")));
        }
        several => {
            let several = several.join(" and ");
            return Err((at, format!("a step is one thing, not {several} at once")));
        }
    };
    let mut fields = Fields::new(table, at, "this step");
    let step = step_of(verb, &mut fields)?;
    fields.nothing_left()?;
    Ok(step)
}

fn step_of(verb: &'static str, fields: &mut Fields<'_, '_>) -> Result<ScriptStep, Wrong> {
    let at = fields.at;
    Ok(match verb {
        "say" => ScriptStep::Say(fields.needed(verb)?),
        "write" => ScriptStep::Write {
            path: fields.needed(verb)?,
            text: fields.needed("text")?,
        },
        "append" => ScriptStep::Append {
            path: fields.needed(verb)?,
            text: fields.needed("text")?,
        },
        "edit" => ScriptStep::Edit {
            path: fields.needed(verb)?,
            find: fields.needed("find")?,
            replace: fields.needed("replace")?,
        },
        "delete" => ScriptStep::Delete(fields.needed(verb)?),
        "commit" => ScriptStep::Commit(fields.needed(verb)?),
        "sleep" => ScriptStep::Sleep(fields.span(verb)?.unwrap_or_default()),
        "run" => ScriptStep::Run {
            command: fields.needed(verb)?,
            within: fields.span("within")?.unwrap_or(RUN_WITHIN),
            may_fail: fields.flag("may_fail")?.unwrap_or(false),
        },
        "wait_for_file" => ScriptStep::WaitForFile {
            path: fields.needed(verb)?,
            within: fields.span("within")?.unwrap_or(WAIT_WITHIN),
        },
        "usage" => usage(fields)?,
        "fail" => ScriptStep::Fail {
            reason: fields.needed(verb)?,
            code: 1,
        },
        "pause" => match fields.needed(verb)?.as_str() {
            "rate-limit" => ScriptStep::Pause(Trouble::RateLimit),
            "outage" => ScriptStep::Pause(Trouble::Outage),
            "sign-in" => ScriptStep::Pause(Trouble::SignIn),
            _ => {
                let expected = "`pause` must be \"rate-limit\", \"outage\" or \"sign-in\"";
                return Err((at, expected.to_owned()));
            }
        },
        "hang" => match fields.flag(verb)? {
            Some(true) => ScriptStep::Hang,
            _ => return Err((at, "write `hang = true`".to_owned())),
        },
        "crash" => match fields.take(verb) {
            Some((_, DeValue::Boolean(true))) => ScriptStep::Crash(None),
            Some((_, value)) => match whole::<u8>(value) {
                Some(code) if code > 0 => ScriptStep::Crash(Some(code)),
                _ => {
                    let expected =
                        "`crash` must be true (by a signal) or an exit code from 1 to 255";
                    return Err((at, expected.to_owned()));
                }
            },
            None => return Err((at, "write `crash = true`".to_owned())),
        },
        _ => ScriptStep::Done(fields.needed(verb)?),
    })
}

fn usage(fields: &mut Fields<'_, '_>) -> Result<ScriptStep, Wrong> {
    let Some((at, DeValue::Table(table))) = fields.take("usage") else {
        return Err((
            fields.at,
            "`usage` must be { input = 1000, output = 50 }".to_owned(),
        ));
    };
    let mut inner = Fields::new(table, at, "`usage`");
    let usage = Usage {
        input: inner.number("input")?.unwrap_or(0),
        cached_input: inner.number("cached_input")?.unwrap_or(0),
        cache_write: inner.number("cache_write")?.unwrap_or(0),
        output: inner.number("output")?.unwrap_or(0),
        reasoning: inner.number("reasoning")?.unwrap_or(0),
    };
    let cost_usd = inner.money("cost_usd")?;
    inner.nothing_left()?;
    Ok(ScriptStep::Used { usage, cost_usd })
}
