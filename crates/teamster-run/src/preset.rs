//! Presets: predefined teams, chosen by words of the task.
//!
//! A preset is a Markdown file. Its front matter defines the members and their flow; a section headed `## Worker` goes
//! to all workers, `## Leader` to the leader, `## prompt NAME` to the member or the role of that name; the rest is for
//! people who read the file. In a section, `{task}`, `{team}` and `{member}` are placeholders.
//!
//! A preset may bring its own plan, for runs in which no agent plans: `tasks` as in a plan file, each for the `role` of
//! a member. In their texts `{task}` is replaced with the task of the run. A task that tests or reviews must depend on
//! the work that is tested or reviewed.
//!
//! ```markdown
//! ---
//! name: bugfix
//! trigger_keywords: [bug, 버그]
//! members:
//!   - { name: fixer, agent: executor, role: fixer }
//! flow: staged
//! verify: ["cargo test"]
//! tasks:
//!   - { id: fix, role: fixer, subject: "Fix it: {task}", accept: [A test fails without the change.] }
//! ---
//!
//! ## prompt fixer
//!
//! Find the cause before you change anything.
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use serde::Deserialize;
use teamster_document::{DocumentFormat, Fault, Faults, Lined, TextOr, Word, parse};
use teamster_journal::payload::PlanDraft;
use teamster_types::WorkerName;

use crate::plan::TaskEntry;
use crate::request::{MOST_WORKERS, check_word};

mod agents;
mod choose;
mod flow;
mod prompt;
mod propose;
mod stem;
mod tasks;

pub use agents::Agents;
pub use choose::{PresetChoice, choose};
use flow::FlowTable;
pub use flow::PresetFlow;
pub use prompt::{PlaceholderValues, PresetPrompts};
pub use propose::{AvailableAgent, NoAgents, TeamProposal, propose};
pub use tasks::fill_plan;
use tasks::own_plan;

/// The built-in presets: files like any other.
const BUILTIN: [(&str, &str); 4] = [
    ("bugfix.md", include_str!("../presets/bugfix.md")),
    ("devops.md", include_str!("../presets/devops.md")),
    ("dev-backend.md", include_str!("../presets/dev-backend.md")),
    (
        "dev-frontend.md",
        include_str!("../presets/dev-frontend.md"),
    ),
];

/// The word for the member that plans instead of working.
const LEADER: &str = "leader";

/// The front matter of a preset as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FrontMatter {
    name: Lined<Word>,
    description: Lined<String>,
    trigger_keywords: Lined<Vec<Lined<Word>>>,
    members: Lined<Vec<Lined<MemberEntry>>>,
    flow: Lined<TextOr<FlowTable>>,
    verify: Lined<Vec<Lined<Word>>>,
    tasks: Lined<Vec<Lined<TaskEntry>>>,
}

/// A member as it is written.
#[derive(Deserialize)]
#[serde(rename = "member", deny_unknown_fields)]
struct MemberEntry {
    name: Lined<Word>,
    agent: Lined<Word>,
    role: Lined<String>,
    provider: Lined<String>,
    model: Lined<String>,
    capabilities: Lined<Vec<Lined<Word>>>,
}

/// A predefined team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The name of the preset.
    pub name: String,
    /// The purpose of the preset, in the words of its author.
    pub description: Option<String>,
    /// Words of a task that call for it.
    pub keywords: Vec<String>,
    /// The leader, where the preset names one.
    pub leader: Option<PresetLeader>,
    /// The workers; never empty.
    pub members: Vec<PresetMember>,
    /// The flow of a run; `None` for the default.
    pub flow: Option<PresetFlow>,
    /// Commands that verify the result.
    pub verify: Vec<String>,
    /// Its own plan, with placeholders for the words of the run.
    pub plan: Option<PlanDraft>,
    /// The prompts of its members.
    pub prompts: PresetPrompts,
}

/// A worker of a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetMember {
    /// Its name.
    pub name: WorkerName,
    /// The agent, as a role or a provider.
    pub agent: String,
    /// Its role in the team.
    pub role: String,
    /// The provider, instead of the one that its agent stands for.
    pub provider: Option<String>,
    /// The model, instead of the provider's.
    pub model: Option<String>,
    /// Its capabilities, instead of those of its provider.
    pub capabilities: Vec<String>,
}

/// The leader of a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetLeader {
    /// The agent, as a role or a provider.
    pub agent: String,
    /// The provider, instead of the one that its agent stands for.
    pub provider: Option<String>,
    /// The model, instead of the provider's.
    pub model: Option<String>,
}

impl Preset {
    /// Reads the preset in `file`; every fault is reported with its line.
    pub fn parse(file: &Path, text: &str, agents: &Agents) -> Result<Self, Faults> {
        Self::read(text, agents).map_err(|list| Faults::new(file, list))
    }

    fn read(text: &str, agents: &Agents) -> Result<Self, Vec<Fault>> {
        let (front, body, body_line) = split(text).map_err(|fault| vec![fault])?;
        // The empty line stands for the one that opens the front matter, so that line numbers are those of the file.
        let root =
            parse(DocumentFormat::Yaml, &format!("\n{front}")).map_err(|fault| vec![fault])?;
        let mut faults = Vec::new();
        let Some(front) = root.read::<FrontMatter>("the front matter", &mut faults) else {
            return Err(faults);
        };
        let mut missing = |key: &str| {
            let message = format!("the front matter has no `{key}`");
            faults.push(Fault::new(root.line, message));
        };
        if front.name.is_missing() {
            missing("name");
        }
        if front.members.is_missing() {
            missing("members");
        }
        if let Some(Word(name)) = &front.name.value
            && let Err(why) = check_word(name, "name of a team")
        {
            faults.push(Fault::new(front.name.line, why));
        }
        let keywords = keywords(&front.trigger_keywords, &mut faults);
        let (leader, members) = members(front.members, agents, &mut faults);
        let flow = front.flow;
        let flow = flow
            .value
            .and_then(|entry| PresetFlow::of(entry, flow.line, &mut faults));
        let plan = own_plan(front.tasks, &members, &mut faults);
        let known: BTreeSet<&str> = members
            .iter()
            .flat_map(|member| [member.name.as_str(), member.role.as_str()])
            .chain(leader.as_ref().map(|_| LEADER))
            .collect();
        let prompts = PresetPrompts::read(body, body_line, &known, &mut faults);
        let Some(Word(name)) = front.name.value.filter(|_| faults.is_empty()) else {
            return Err(faults);
        };
        Ok(Self {
            name,
            description: front.description.value,
            keywords,
            leader,
            members,
            flow,
            verify: front.verify.texts(),
            plan,
            prompts,
        })
    }
}

/// Returns the front matter, the text after it, and the line in which that text begins.
fn split(text: &str) -> Result<(&str, &str, usize), Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let first = text.lines().next().unwrap_or_default();
    if first.trim_end() != "---" {
        let message = "a preset begins with a line `---` and its front matter in YAML";
        return Err(Fault::new(1, message));
    }
    let begin = text.find('\n').map_or(text.len(), |end| end + 1);
    let mut at = begin;
    for (number, line) in text[begin..].split_inclusive('\n').enumerate() {
        if line.trim_end() == "---" {
            return Ok((&text[begin..at], &text[at + line.len()..], number + 3));
        }
        at += line.len();
    }
    Err(Fault::new(1, "the front matter has no end: a line `---`"))
}

fn keywords(words: &Lined<Vec<Lined<Word>>>, faults: &mut Vec<Fault>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (line, Word(keyword)) in words.items() {
        let text = keyword.trim().to_owned();
        let lower = text.to_lowercase();
        if found.iter().any(|other| other.to_lowercase() == lower) {
            let message = format!("the keyword {text:?} is listed twice, and would count twice");
            faults.push(Fault::new(line, message));
        } else {
            found.push(text);
        }
    }
    found
}

fn members(
    entries: Lined<Vec<Lined<MemberEntry>>>,
    agents: &Agents,
    faults: &mut Vec<Fault>,
) -> (Option<PresetLeader>, Vec<PresetMember>) {
    let (mut leader, mut members, mut names) = (None, Vec::new(), BTreeSet::new());
    let list_line = entries.line;
    for (place, entry) in entries.value.into_iter().flatten().enumerate() {
        let line = entry.line;
        let Some(entry) = entry.value else {
            continue;
        };
        entry.check(place, line, agents, faults);
        let (Some(Word(name)), Some(Word(agent))) = (entry.name.value, entry.agent.value) else {
            continue;
        };
        let line = entry.name.line;
        if !names.insert(name.clone()) {
            faults.push(Fault::new(line, format!("two members are called {name}")));
        } else if name == LEADER {
            leader = Some(PresetLeader {
                agent,
                provider: entry.provider.value,
                model: entry.model.value,
            });
        } else {
            match name.parse() {
                Ok(name) => members.push(PresetMember {
                    name,
                    role: entry.role.value.unwrap_or_else(|| agent.clone()),
                    agent,
                    provider: entry.provider.value,
                    model: entry.model.value,
                    capabilities: entry.capabilities.texts(),
                }),
                Err(error) => faults.push(Fault::new(line, format!("{error}"))),
            }
        }
    }
    let most = usize::try_from(MOST_WORKERS).unwrap_or(usize::MAX);
    if members.is_empty() && faults.is_empty() {
        faults.push(Fault::new(list_line, "it has no workers"));
    } else if members.len() > most {
        let message = format!(
            "it has {} members; the limit is {MOST_WORKERS}",
            members.len()
        );
        faults.push(Fault::new(list_line, message));
    }
    (leader, members)
}

impl MemberEntry {
    /// Adds a fault for each missing key and each unknown name.
    fn check(&self, place: usize, line: usize, agents: &Agents, faults: &mut Vec<Fault>) {
        let mut wrong = |line: usize, why: String| faults.push(Fault::new(line, why));
        for (key, value) in [("name", &self.name), ("agent", &self.agent)] {
            if value.is_missing() {
                wrong(
                    line,
                    format!("member {} of the list has no `{key}`", place + 1),
                );
            }
        }
        // The word for the leader is seldom a known agent: it is only the preset's name for it.
        let is_leader = self
            .name
            .value
            .as_ref()
            .is_some_and(|name| name.0 == LEADER);
        if let Some(Word(agent)) = &self.agent.value
            && !is_leader
            && !agents.has(agent)
        {
            let known = agents.list();
            wrong(
                self.agent.line,
                format!("there is no agent {agent:?}; there are {known}"),
            );
        }
        if let Some(provider) = &self.provider.value
            && !agents.provides(provider)
        {
            let known = agents.list_providers();
            wrong(
                self.provider.line,
                format!("there is no provider {provider:?}; there are {known}"),
            );
        }
        if let Some(role) = &self.role.value
            && let Err(why) = check_word(role, "role")
        {
            wrong(self.role.line, why);
        }
    }
}

/// Returns the built-in presets. A test reads each, so none is missing.
pub fn builtin() -> Vec<Preset> {
    let agents = Agents::default();
    BUILTIN
        .iter()
        .filter_map(|(file, text)| Preset::parse(Path::new(file), text, &agents).ok())
        .collect()
}

#[cfg(test)]
mod tests;
