//! Templates, their overrides, and how a prompt is rendered from one.

use std::collections::BTreeMap;
use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{Environment, ErrorKind, Output, State, UndefinedBehavior, context};
use serde::Serialize;
use teamster_types::text::{clean, one_line, quoted};

use crate::facts::{
    ConflictPrompt, FixPrompt, JudgePrompt, PlanPrompt, ReviewPrompt, WakePrompt, WorkerPrompt,
};
use crate::shorten::Shorten;

/// The maximum number of template engine steps per prompt: an override with an endless loop must not block a worker.
const FUEL: u64 = 5_000_000;
/// The maximum number of characters of an untrusted text that are processed. Prompts contain less of it.
const LONGEST_QUOTE: usize = 200_000;
/// The marker where the middle of a prompt was cut out.
const CUT: &str = "\n[…cut…]\n";

/// Every built-in template, by the name that `include` takes. Those in `parts/` are parts of the others.
pub const TEMPLATES: [(&str, &str); 14] = [
    ("plan.md", include_str!("../prompts/plan.md")),
    ("wake.md", include_str!("../prompts/wake.md")),
    ("worker.md", include_str!("../prompts/worker.md")),
    ("fix.md", include_str!("../prompts/fix.md")),
    ("conflict.md", include_str!("../prompts/conflict.md")),
    ("review.md", include_str!("../prompts/review.md")),
    ("judge.md", include_str!("../prompts/judge.md")),
    ("parts/you.md", include_str!("../prompts/parts/you.md")),
    (
        "parts/done_task.md",
        include_str!("../prompts/parts/done_task.md"),
    ),
    (
        "parts/situation.md",
        include_str!("../prompts/parts/situation.md"),
    ),
    (
        "parts/judged.md",
        include_str!("../prompts/parts/judged.md"),
    ),
    ("parts/reach.md", include_str!("../prompts/parts/reach.md")),
    ("parts/rules.md", include_str!("../prompts/parts/rules.md")),
    ("parts/end.md", include_str!("../prompts/parts/end.md")),
];

/// The kind of a prompt, by its recipient and purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PromptKind {
    /// The leader, for planning.
    Plan,
    /// The leader, during the run.
    Wake,
    /// A worker with a task.
    Worker,
    /// A worker that fixes a failing check.
    Fix,
    /// A worker that resolves a conflict.
    Conflict,
    /// A reviewer of the merged work.
    Review,
    /// The judge that chooses one of several candidate results.
    Judge,
}

impl PromptKind {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::Plan,
        Self::Wake,
        Self::Worker,
        Self::Fix,
        Self::Conflict,
        Self::Review,
        Self::Judge,
    ];

    /// Returns the name of its template, which is also the file name of an override.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Plan => "plan.md",
            Self::Wake => "wake.md",
            Self::Worker => "worker.md",
            Self::Fix => "fix.md",
            Self::Conflict => "conflict.md",
            Self::Review => "review.md",
            Self::Judge => "judge.md",
        }
    }

    /// Returns the kind whose template has this name.
    pub fn of_file(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.file_name() == name)
    }

    const fn override_name(self) -> &'static str {
        match self {
            Self::Plan => "override/plan.md",
            Self::Wake => "override/wake.md",
            Self::Worker => "override/worker.md",
            Self::Fix => "override/fix.md",
            Self::Conflict => "override/conflict.md",
            Self::Review => "override/review.md",
            Self::Judge => "override/judge.md",
        }
    }
}

/// A template that overrides a built-in one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The kind of the overridden template.
    pub kind: PromptKind,
    /// The file that it was read from, for errors.
    pub file: String,
    /// The content of the file.
    pub text: String,
}

/// The overrides of built-in templates. The last one of a kind counts.
pub type Overrides = Vec<Override>;

/// Why a template cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct PromptError {
    /// Its file.
    pub file: String,
    /// The line with the error, if known.
    pub line: Option<usize>,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for PromptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.reason),
            None => write!(f, "{}: {}", self.file, self.reason),
        }
    }
}

/// The facts of one template.
pub trait Prompt: Serialize + Shorten {
    /// The template that takes these facts.
    const KIND: PromptKind;

    /// Returns example facts like those of a real run, the shortest first: an override is tested with them before it is
    /// used.
    fn examples() -> Vec<Self>;
}

/// A rendered prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The whole text.
    pub text: String,
    /// The parts that were shortened because the prompt was too long, the least important first.
    pub left_out: Vec<&'static str>,
    /// Why the built-in template was used instead of the override.
    pub fallback: Option<PromptError>,
}

/// All templates, compiled.
#[derive(Debug)]
pub struct Prompts {
    environment: Environment<'static>,
    /// The files of the overrides.
    overrides: BTreeMap<PromptKind, String>,
}

impl Prompts {
    /// Compiles the templates with these overrides. Each override is tested; the error names file, line and reason.
    pub fn new(overrides: Overrides) -> Result<Self, PromptError> {
        let mut prompts = Self {
            environment: environment(),
            overrides: BTreeMap::new(),
        };
        for (name, text) in TEMPLATES {
            prompts
                .environment
                .add_template(name, text)
                .map_err(|error| prompt_error(name, &error))?;
        }
        for replacing in overrides {
            let name = replacing.kind.override_name();
            prompts
                .environment
                .add_template_owned(name, replacing.text)
                .map_err(|error| prompt_error(&replacing.file, &error))?;
            prompts.overrides.insert(replacing.kind, replacing.file);
        }
        for kind in prompts.overrides.keys() {
            prompts.try_out(*kind)?;
        }
        Ok(prompts)
    }

    /// Renders a prompt of at most `limit` characters. If it would be longer, the least important parts are shortened
    /// first, and finally the middle is cut out.
    pub fn render<P: Prompt>(&self, facts: &P, limit: usize) -> Result<Rendered, PromptError> {
        let Some(file) = self.overrides.get(&P::KIND) else {
            return self.shortened(P::KIND.file_name(), P::KIND.file_name(), facts, limit);
        };
        match self.shortened(P::KIND.override_name(), file, facts, limit) {
            Ok(rendered) => Ok(rendered),
            Err(error) => {
                let own = P::KIND.file_name();
                let rendered = self.shortened(own, own, facts, limit)?;
                Ok(Rendered {
                    fallback: Some(error),
                    ..rendered
                })
            }
        }
    }

    fn shortened<P: Prompt>(
        &self,
        name: &str,
        file: &str,
        facts: &P,
        limit: usize,
    ) -> Result<Rendered, PromptError> {
        let mut left_out = Vec::new();
        let mut text = self.fill(name, file, facts, &left_out)?;
        let mut facts = facts.clone();
        for (part, shorten) in P::PARTS {
            if is_short(&text, limit) {
                break;
            }
            let before = facts.clone();
            shorten(&mut facts);
            if facts != before {
                if !left_out.contains(part) {
                    left_out.push(*part);
                }
                text = self.fill(name, file, &facts, &left_out)?;
            }
        }
        if !is_short(&text, limit) {
            text = cut(&text, limit);
            left_out.push("the middle");
        }
        Ok(Rendered {
            text,
            left_out,
            fallback: None,
        })
    }

    fn fill<P: Prompt>(
        &self,
        name: &str,
        file: &str,
        facts: &P,
        left_out: &[&'static str],
    ) -> Result<String, PromptError> {
        let template = self.environment.get_template(name);
        let facts = Value::from(Serde(facts));
        let left_out = left_out.to_vec();
        let text = template
            .and_then(|template| template.render(context! { left_out, ..facts }))
            .map_err(|error| prompt_error(file, &error))?;
        Ok(without_gaps(&text))
    }

    fn try_out(&self, kind: PromptKind) -> Result<(), PromptError> {
        match kind {
            PromptKind::Plan => self.try_with::<PlanPrompt>(),
            PromptKind::Wake => self.try_with::<WakePrompt>(),
            PromptKind::Worker => self.try_with::<WorkerPrompt>(),
            PromptKind::Fix => self.try_with::<FixPrompt>(),
            PromptKind::Conflict => self.try_with::<ConflictPrompt>(),
            PromptKind::Review => self.try_with::<ReviewPrompt>(),
            PromptKind::Judge => self.try_with::<JudgePrompt>(),
        }
    }

    fn try_with<P: Prompt>(&self) -> Result<(), PromptError> {
        let Some(file) = self.overrides.get(&P::KIND) else {
            return Ok(());
        };
        for facts in P::examples() {
            self.fill(P::KIND.override_name(), file, &facts, &[])?;
        }
        Ok(())
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_debug(true);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    if let Ok(syntax) = syntax {
        environment.set_syntax(syntax);
    }
    environment.set_fuel(Some(FUEL));
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_formatter(on_one_line);
    environment.add_filter("quote", quote);
    environment.add_filter("items", items);
    environment
}

/// Writes a value. A text that no filter has marked as safe is kept on its line, whatever it contains.
fn on_one_line(
    output: &mut Output<'_>,
    _: &mut State<'_, '_>,
    value: &Value,
) -> Result<(), minijinja::Error> {
    let text = value.to_string();
    let written = if value.is_safe() {
        output.write_str(&text)
    } else {
        output.write_str(&one_line(&clean(&text, usize::MAX)))
    };
    written.map_err(minijinja::Error::from)
}

/// Marks a text as untrusted by quoting it.
fn quote(text: &Value) -> Result<Value, minijinja::Error> {
    if text.is_undefined() {
        return Err(ErrorKind::UndefinedError.into());
    }
    let text = text.as_str().unwrap_or_default();
    Ok(Value::from_safe_string(quoted(beginning(text))))
}

/// Returns as much of a text as any prompt could use.
fn beginning(text: &str) -> &str {
    match text.char_indices().nth(LONGEST_QUOTE) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// Returns the texts of a list, each on its own line after a dash.
fn items(texts: &Value) -> Result<String, minijinja::Error> {
    if texts.kind() == ValueKind::String {
        let message = "this is one text, and not a list";
        return Err(minijinja::Error::new(ErrorKind::InvalidOperation, message));
    }
    let lines = texts.try_iter()?;
    let lines: Vec<String> = lines
        .map(|text| format!("- {}", one_line(&text.to_string())))
        .collect();
    Ok(lines.join("\n"))
}

/// Collapses consecutive empty lines into one. Lines within a quote are never empty.
fn without_gaps(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut ends = 2;
    for character in text.chars() {
        if character == '\n' {
            ends += 1;
        } else {
            ends = 0;
        }
        if ends <= 2 {
            shown.push(character);
        }
    }
    shown.truncate(shown.trim_end().len());
    shown.push('\n');
    shown
}

fn is_short(text: &str, limit: usize) -> bool {
    text.len() <= limit || text.chars().count() <= limit
}

/// Cuts out the middle of a text: the beginning says what to do, the end says how. The end begins with a whole line, so
/// that a quoted line keeps its mark.
fn cut(text: &str, limit: usize) -> String {
    let length = text.chars().count();
    let kept = limit.saturating_sub(CUT.chars().count());
    let end = kept / 3;
    let head: String = text.chars().take(kept - end).collect();
    let tail: String = text.chars().skip(length - end).collect();
    let tail = tail.split_once('\n').map_or("", |(_, lines)| lines);
    format!("{head}{CUT}{tail}").chars().take(limit).collect()
}

fn prompt_error(file: &str, error: &minijinja::Error) -> PromptError {
    // Templates are strict, and a name that is not among the facts is the most common mistake.
    let hint = match error.kind() {
        ErrorKind::UndefinedError => "; docs/prompts.md lists the facts of each template",
        _ => "",
    };
    let kind = error.kind();
    let reason = error
        .detail()
        .map_or_else(|| kind.to_string(), |detail| format!("{kind}: {detail}"));
    let reason = format!("{}{hint}", one_line(&clean(&reason, 500)));
    PromptError {
        file: file.to_owned(),
        line: error.line(),
        reason,
    }
}

#[cfg(test)]
mod tests;
