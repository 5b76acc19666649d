//! Presets: teams that are ready, chosen by words of the task.
//!
//! A preset is a Markdown file. Its front matter says who works and how; a section headed `## Worker` goes to everybody,
//! `## Leader` to whoever plans, `## prompt NAME` to the member or the role of that name; the rest is for people who read
//! the file. In a section `{task}`, `{team}` and `{member}` stand for what they name.
//!
//! ```markdown
//! ---
//! name: bugfix
//! trigger_keywords: [bug, 버그]
//! members:
//!   - { name: fixer, agent: executor, role: fixer }
//! flow: staged
//! verify: ["cargo test"]
//! ---
//!
//! ## prompt fixer
//!
//! Find the cause before you change anything.
//! ```

use std::collections::BTreeSet;
use std::path::Path;

use teamster_types::WorkerName;

use crate::document::form::Form;
use crate::document::{Fault, Faults, Format, Node, parse};
use crate::request::{MOST_WORKERS, check_word};

mod agents;
mod choose;
mod flow;
mod prompt;
mod propose;

pub use agents::Agents;
pub use choose::{Choice, choose, matches};
pub use flow::PresetFlow;
pub use prompt::{Filling, Prompts};
pub use propose::{Available, NoAgents, Proposal, propose};

/// The presets that teamster comes with: files like any other.
const BUILTIN: [(&str, &str); 4] = [
    ("bugfix.md", include_str!("../presets/bugfix.md")),
    ("devops.md", include_str!("../presets/devops.md")),
    ("dev-backend.md", include_str!("../presets/dev-backend.md")),
    (
        "dev-frontend.md",
        include_str!("../presets/dev-frontend.md"),
    ),
];

const KEYS: [&str; 6] = [
    "name",
    "description",
    "trigger_keywords",
    "members",
    "flow",
    "verify",
];
const MEMBER_KEYS: [&str; 6] = ["name", "agent", "role", "provider", "model", "capabilities"];
/// The member who plans instead of working.
const LEADER: &str = "leader";

/// A team that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What it is called.
    pub name: String,
    /// What it is for, in the words of its author.
    pub description: Option<String>,
    /// Words of a task that call for it.
    pub keywords: Vec<String>,
    /// Who plans, where the preset says so.
    pub leader: Option<PresetLeader>,
    /// Who works; never empty.
    pub members: Vec<PresetMember>,
    /// The steps that a run takes; the default when it says nothing.
    pub flow: Option<PresetFlow>,
    /// Commands that verify the result.
    pub verify: Vec<String>,
    /// What its members are told.
    pub prompts: Prompts,
}

/// A worker of a preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetMember {
    /// Its name.
    pub name: WorkerName,
    /// The agent, as a role or a provider.
    pub agent: String,
    /// What it is in the team.
    pub role: String,
    /// The provider, instead of the one that its agent stands for.
    pub provider: Option<String>,
    /// The model, instead of the provider's.
    pub model: Option<String>,
    /// What it can do, instead of what its provider can.
    pub capabilities: Vec<String>,
}

/// Who plans.
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
    /// Reads the preset that lies in `file`; everything that is wrong with it is named by line.
    pub fn parse(file: &Path, text: &str, agents: &Agents) -> Result<Self, Faults> {
        Self::read(text, agents).map_err(|list| Faults::new(file, list))
    }

    fn read(text: &str, agents: &Agents) -> Result<Self, Vec<Fault>> {
        let (front, body, body_line) = split(text).map_err(|fault| vec![fault])?;
        // The empty line stands for the one that opens the front matter, so that lines are those of the file.
        let root = parse(Format::Yaml, &format!("\n{front}")).map_err(|fault| vec![fault])?;
        let mut faults = Vec::new();
        let Some(form) = Form::new(&root, "the front matter", &mut faults) else {
            return Err(faults);
        };
        form.known(&KEYS, &mut faults);
        let name = form.needed("name", &mut faults);
        if let Some(name) = &name
            && let Err(why) = check_word(&name.text, "name of a team")
        {
            faults.push(Fault::new(name.line, why));
        }
        let description = form.text("description", &mut faults);
        let keywords = keywords(&form, &mut faults);
        let (leader, members) = members(&form, agents, &mut faults);
        let flow = form
            .get("flow")
            .and_then(|node| PresetFlow::read(node, &mut faults));
        let verify = form.texts("verify", &mut faults);
        let known: BTreeSet<&str> = members
            .iter()
            .flat_map(|member| [member.name.as_str(), member.role.as_str()])
            .chain(leader.as_ref().map(|_| LEADER))
            .collect();
        let prompts = Prompts::read(body, body_line, &known, &mut faults);
        let Some(name) = name.filter(|_| faults.is_empty()) else {
            return Err(faults);
        };
        Ok(Self {
            name: name.text,
            description: description.map(|found| found.text),
            keywords,
            leader,
            members,
            flow,
            verify: verify.into_iter().map(|command| command.text).collect(),
            prompts,
        })
    }
}

/// The front matter, what follows it, and the line in which that begins.
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

fn keywords(form: &Form<'_>, faults: &mut Vec<Fault>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for keyword in form.texts("trigger_keywords", faults) {
        let text = keyword.text.trim().to_owned();
        let lower = text.to_lowercase();
        if found.iter().any(|other| other.to_lowercase() == lower) {
            let message = format!("the keyword {text:?} is there twice, and would count twice");
            faults.push(Fault::new(keyword.line, message));
        } else {
            found.push(text);
        }
    }
    found
}

fn members(
    form: &Form<'_>,
    agents: &Agents,
    faults: &mut Vec<Fault>,
) -> (Option<PresetLeader>, Vec<PresetMember>) {
    if form.get("members").is_none() {
        let message = "the front matter has no `members`";
        faults.push(Fault::new(form.line_of("members"), message));
        return (None, Vec::new());
    }
    let list = form.list("members", faults).unwrap_or_default();
    let (mut leader, mut members, mut names) = (None, Vec::new(), BTreeSet::new());
    for (place, node) in list.iter().enumerate() {
        let Some(read) = member(node, place, agents, faults) else {
            continue;
        };
        if !names.insert(read.name.clone()) {
            let message = format!("two members are called {}", read.name);
            faults.push(Fault::new(read.line, message));
        } else if read.name == LEADER {
            leader = Some(PresetLeader {
                agent: read.agent,
                provider: read.provider,
                model: read.model,
            });
        } else {
            match read.name.parse() {
                Ok(name) => members.push(PresetMember {
                    name,
                    agent: read.agent,
                    role: read.role,
                    provider: read.provider,
                    model: read.model,
                    capabilities: read.capabilities,
                }),
                Err(error) => faults.push(Fault::new(read.line, error.to_string())),
            }
        }
    }
    let most = usize::try_from(MOST_WORKERS).unwrap_or(usize::MAX);
    if members.is_empty() && faults.is_empty() {
        faults.push(Fault::new(form.line_of("members"), "nobody in it works"));
    } else if members.len() > most {
        let message = format!(
            "it has {} members; the limit is {MOST_WORKERS}",
            members.len()
        );
        faults.push(Fault::new(form.line_of("members"), message));
    }
    (leader, members)
}

/// A member as it was written.
struct MemberEntry {
    line: usize,
    name: String,
    agent: String,
    role: String,
    provider: Option<String>,
    model: Option<String>,
    capabilities: Vec<String>,
}

fn member(
    node: &Node,
    place: usize,
    agents: &Agents,
    faults: &mut Vec<Fault>,
) -> Option<MemberEntry> {
    let form = Form::new(node, format!("member {}", place + 1), faults)?;
    form.known(&MEMBER_KEYS, faults);
    let name = form.needed("name", faults);
    let agent = form.needed("agent", faults);
    let role = form.text("role", faults);
    let provider = form.text("provider", faults);
    let model = form.text("model", faults);
    let capabilities = form.texts("capabilities", faults);
    // The leader is seldom one of our own agents: it is only a word for whoever plans.
    let is_leader = name.as_ref().is_some_and(|name| name.text == LEADER);
    if let Some(agent) = &agent
        && !is_leader
        && !agents.has(&agent.text)
    {
        let message = format!(
            "there is no agent {:?}; there are {}",
            agent.text,
            agents.list()
        );
        faults.push(Fault::new(agent.line, message));
    }
    if let Some(provider) = &provider
        && !agents.provides(&provider.text)
    {
        let message = format!(
            "there is no provider {:?}; there are {}",
            provider.text,
            agents.list_providers()
        );
        faults.push(Fault::new(provider.line, message));
    }
    if let Some(role) = &role
        && let Err(why) = check_word(&role.text, "role")
    {
        faults.push(Fault::new(role.line, why));
    }
    let (name, agent) = (name?, agent?);
    Some(MemberEntry {
        line: name.line,
        role: role.map_or_else(|| agent.text.clone(), |role| role.text),
        name: name.text,
        agent: agent.text,
        provider: provider.map(|provider| provider.text),
        model: model.map(|model| model.text),
        capabilities: capabilities.into_iter().map(|line| line.text).collect(),
    })
}

/// Returns the presets that teamster comes with. A test reads each, so none is missing.
pub fn builtin() -> Vec<Preset> {
    let agents = Agents::default();
    BUILTIN
        .iter()
        .filter_map(|(file, text)| Preset::parse(Path::new(file), text, &agents).ok())
        .collect()
}

#[cfg(test)]
mod tests;
