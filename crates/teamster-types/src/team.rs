//! A team's registry, `config.json`. Claude Code writes the registries of its own teams in the same format.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::json::{self, Object};
use crate::process::ProcessId;
use crate::routing::default_capabilities;
use crate::{TeamName, Time, WorkerName};

/// The program that created a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TeamOrigin {
    /// Created by teamster.
    Teamster,
    /// Created by Claude Code; teamster changes only its tasks, its messages and the entries of teamster workers.
    Claude,
}

impl TeamOrigin {
    /// Returns the name used in `--json` output.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Teamster => "teamster",
            Self::Claude => "claude",
        }
    }
}

/// The contents of a new team.
#[derive(Clone, Debug, PartialEq)]
pub struct NewTeam {
    /// Its name.
    pub name: TeamName,
    /// What it is for.
    pub description: String,
    /// The project it works on, as an absolute path.
    pub project: String,
    /// Its first workers.
    pub members: Vec<NewMember>,
    /// The specification of the run it is created for, if any. It is stored with the team from the start, so that a run
    /// can be resumed after a crash.
    pub run: Option<Value>,
}

/// A new member of a team.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMember {
    /// The worker's name.
    pub name: WorkerName,
    /// The provider of its agent; empty when it is not known yet.
    pub provider: String,
    /// Its capabilities, if given; otherwise the defaults of its provider apply.
    pub capabilities: Option<Vec<String>>,
}

/// A member as listed in the registry. Names in foreign teams are data and must not be used as paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamMember {
    /// Its name.
    pub name: String,
    /// The provider of its agent, or the agent type of a Claude Code teammate.
    pub provider: String,
    /// How it runs: `process`, `tmux`, `in-process`, `claude-native`.
    pub backend: String,
    /// Its tmux pane, `in-process`, or empty.
    pub pane: String,
    /// Whether Claude Code marks it as active; `None` if it does not say.
    pub is_active: Option<bool>,
    /// Its capabilities, if the registry overrides the provider's defaults.
    pub capabilities: Option<Vec<String>>,
}

/// The name and the agent type that Claude Code gives the lead of a team.
pub const CLIENT_LEAD: &str = "team-lead";
/// The backend type of a teamster worker in the registry. No teammate of Claude Code has it.
const OUR_BACKEND: &str = "process";
/// The pane that Claude Code records for the lead of a team.
const LEADER_PANE: &str = "leader";

/// The registry of one team.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamConfig {
    raw: Object,
}

/// The version of teamster's part of the registry, and of everything else stored for a team. It increases only when an
/// older teamster would damage what a newer one has written; added keys do not change it.
pub const SCHEMA: u64 = 1;

impl TeamMember {
    /// Returns whether it is a teammate of Claude Code, which reads its own inbox, and not a teamster worker.
    pub fn is_clients(&self, team: TeamOrigin) -> bool {
        match team {
            TeamOrigin::Claude => self.backend != OUR_BACKEND,
            TeamOrigin::Teamster => self.backend == "claude-native",
        }
    }
}

impl TeamConfig {
    /// Returns the schema that a registry names, or `None` when it names none or cannot be read.
    pub fn schema_of(bytes: &[u8]) -> Option<u64> {
        #[derive(Deserialize)]
        struct Registry {
            teamster: TeamsterSection,
        }
        #[derive(Deserialize)]
        struct TeamsterSection {
            schema: u64,
        }
        let registry: Registry = serde_json::from_slice(bytes).ok()?;
        Some(registry.teamster.schema)
    }

    /// Returns the registry of a new teamster team.
    pub fn new(team: &NewTeam, base: Option<&str>, host: &ProcessId, now: Time) -> Self {
        let mut raw = Object::new();
        let lead = format!("lead@{}", team.name);
        raw.insert("name".into(), json!(team.name));
        raw.insert("description".into(), json!(team.description));
        raw.insert("createdAt".into(), json!(now.as_millis()));
        raw.insert("leadAgentId".into(), json!(lead));
        raw.insert("leadSessionId".into(), json!(""));
        raw.insert("members".into(), json!([]));
        raw.insert(
            "teamster".into(),
            json!({
                "schema": SCHEMA,
                "project": team.project,
                "base": base,
                "host": {
                    "pid": host.pid,
                    "processStartTime": host.process_start_time,
                    "bootId": host.boot_id,
                    "pidNs": host.pid_ns,
                },
            }),
        );
        if let (Some(run), Some(Value::Object(ours))) = (&team.run, raw.get_mut("teamster")) {
            ours.insert("run".into(), run.clone());
        }
        let mut config = Self { raw };
        for member in &team.members {
            config.join(&team.name, member, &team.project, now);
        }
        config
    }

    /// Parses `config.json`. The error says what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let raw = json::parse_object(bytes)?;
        match raw.get("members") {
            None | Some(Value::Array(_)) => Ok(Self { raw }),
            Some(other) => Err(format!("`members` is {}, not a list", json::kind(other))),
        }
    }

    /// Returns the bytes of the file.
    pub fn to_file(&self) -> Vec<u8> {
        json::to_file(&self.raw)
    }

    /// Returns the whole object.
    pub fn as_object(&self) -> &Object {
        &self.raw
    }

    /// Returns the program that created the team.
    pub fn kind(&self) -> TeamOrigin {
        match self.raw.get("teamster") {
            Some(Value::Object(_)) => TeamOrigin::Teamster,
            _ => TeamOrigin::Claude,
        }
    }

    /// Returns its description.
    pub fn description(&self) -> &str {
        self.text("description")
    }

    /// Returns the project it works on: a teamster team records it; for a Claude Code team it is the lead's folder.
    pub fn project(&self) -> Option<&str> {
        if let Some(Value::String(project)) = self
            .raw
            .get("teamster")
            .and_then(|ours| ours.get("project"))
        {
            return Some(project);
        }
        let first = || self.entries().first();
        self.lead_entry().or_else(first)?.get("cwd")?.as_str()
    }

    /// Returns when it was created, in the form that the creating program wrote: different values mean different teams.
    pub fn created_at(&self) -> Option<&Value> {
        self.raw.get("createdAt")
    }

    /// Returns the process that created it or runs it.
    pub fn host(&self) -> Option<ProcessId> {
        use serde::Deserialize;
        ProcessId::deserialize(self.raw.get("teamster")?.get("host")?).ok()
    }

    /// Sets the process that runs it from now on.
    pub fn set_host(&mut self, host: &ProcessId) {
        if let Some(Value::Object(ours)) = self.raw.get_mut("teamster") {
            ours.insert(
                "host".into(),
                json!({
                    "pid": host.pid,
                    "processStartTime": host.process_start_time,
                    "bootId": host.boot_id,
                    "pidNs": host.pid_ns,
                }),
            );
        }
    }

    /// Returns the specification of the run it was created for.
    pub fn run(&self) -> Option<&Value> {
        self.raw.get("teamster")?.get("run")
    }

    /// Replaces the specification of its run.
    pub fn set_run(&mut self, run: Value) {
        if let Some(Value::Object(ours)) = self.raw.get_mut("teamster") {
            ours.insert("run".into(), run);
        }
    }

    /// Returns the session of its lead; empty when there is none.
    pub fn lead_session(&self) -> &str {
        self.text("leadSessionId")
    }

    /// Returns the lead's process, as newer Claude Code clients record it: `pid`, `procStart`, `pidSpace` as
    /// `host#pid:[…]`.
    pub fn lead_process(&self) -> Option<ProcessId> {
        let lead = self.raw.get("leadProcess")?;
        let number = |key: &str| match lead.get(key)? {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        let space = lead.get("pidSpace").and_then(Value::as_str);
        let (host, pid_ns) = space
            .unwrap_or_default()
            .split_once('#')
            .unwrap_or_default();
        Some(ProcessId {
            pid: number("pid")?.try_into().ok().filter(|pid| *pid != 0)?,
            process_start_time: number("procStart").unwrap_or(0),
            boot_id: String::new(),
            pid_ns: pid_ns.to_owned(),
            host: host.to_owned(),
        })
    }

    /// Returns every entry of `members` unchanged, including the lead's.
    pub fn entries(&self) -> &[Value] {
        let list = self.raw.get("members").and_then(Value::as_array);
        list.map_or(&[], Vec::as_slice)
    }

    /// Returns the lead's entry of `members`: the one that `leadAgentId` names, else the one that Claude Code marks as
    /// its lead.
    pub fn lead_entry(&self) -> Option<&Value> {
        let lead = self.text("leadAgentId");
        let named = |entry: &&Value| !lead.is_empty() && text(entry, "agentId") == lead;
        let marked = |entry: &&Value| {
            self.kind() == TeamOrigin::Claude
                && (text(entry, "agentType") == CLIENT_LEAD
                    || text(entry, "tmuxPaneId") == LEADER_PANE)
        };
        let entries = self.entries();
        let found = entries.iter().find(named);
        found.or_else(|| entries.iter().find(marked))
    }

    /// Returns every entry of `members` unchanged, except the lead's.
    pub fn other_entries(&self) -> impl Iterator<Item = &Value> {
        let lead = self.lead_entry();
        let is_lead = move |entry: &Value| lead.is_some_and(|lead| std::ptr::eq(lead, entry));
        self.entries().iter().filter(move |entry| !is_lead(entry))
    }

    /// Returns the name of the lead: the one in the registry, else the default of Claude Code.
    pub fn lead_name(&self) -> &str {
        match self.lead_entry().map(|lead| text(lead, "name")) {
            Some(name) if !name.is_empty() => name,
            _ => CLIENT_LEAD,
        }
    }

    /// Returns all members except the lead.
    pub fn members(&self) -> Vec<TeamMember> {
        let named = self.other_entries();
        named
            .filter(|entry| !text(entry, "name").is_empty())
            .map(|entry| self.member_of(entry))
            .collect()
    }

    /// Returns the member with this name, unless it is the lead.
    pub fn member(&self, name: &str) -> Option<TeamMember> {
        let mut entries = self.other_entries();
        let entry = entries.find(|entry| text(entry, "name") == name)?;
        Some(self.member_of(entry))
    }

    fn member_of(&self, entry: &Value) -> TeamMember {
        let capabilities = entry.get("capabilities").and_then(Value::as_array);
        TeamMember {
            name: text(entry, "name").to_owned(),
            provider: match text(entry, "provider") {
                // Claude Code records no provider; the agent type of a teammate is the closest.
                "" if self.kind() == TeamOrigin::Claude => text(entry, "agentType").to_owned(),
                provider => provider.to_owned(),
            },
            backend: text(entry, "backendType").to_owned(),
            pane: text(entry, "tmuxPaneId").to_owned(),
            is_active: entry.get("isActive").and_then(Value::as_bool),
            capabilities: capabilities.map(|list| {
                list.iter()
                    .filter_map(|c| c.as_str().map(str::to_owned))
                    .collect()
            }),
        }
    }

    /// Adds a member, or changes the provider and the capabilities of an existing one; returns false when nothing
    /// changed.
    pub fn join(&mut self, team: &TeamName, new: &NewMember, cwd: &str, now: Time) -> bool {
        let is_clients = self.kind() == TeamOrigin::Claude;
        let members = self.raw.entry("members").or_insert_with(|| json!([]));
        let Value::Array(members) = members else {
            return false;
        };
        let known = members
            .iter_mut()
            .find(|member| text(member, "name") == new.name.as_str());
        if let Some(Value::Object(member)) = known {
            let same = member
                .get("provider")
                .and_then(Value::as_str)
                .unwrap_or_default()
                == new.provider;
            let changes = !same && !new.provider.is_empty();
            if changes {
                member.insert("provider".into(), json!(new.provider));
            }
            return put_capabilities(member, new, changes) || changes;
        }
        let agent_type = match new.provider.split(':').next() {
            None | Some("") => "general-purpose",
            Some(provider) => provider,
        };
        let mut member = Object::new();
        member.insert("agentId".into(), json!(format!("{}@{team}", new.name)));
        member.insert("name".into(), json!(new.name));
        member.insert("agentType".into(), json!(agent_type));
        member.insert("model".into(), json!(""));
        member.insert("joinedAt".into(), json!(now.as_millis()));
        member.insert("tmuxPaneId".into(), json!(""));
        member.insert("cwd".into(), json!(cwd));
        member.insert("subscriptions".into(), json!([]));
        member.insert("backendType".into(), json!(OUR_BACKEND));
        if is_clients {
            member.insert("isActive".into(), json!(true));
        }
        if !new.provider.is_empty() {
            member.insert("provider".into(), json!(new.provider));
        }
        put_capabilities(&mut member, new, false);
        members.push(Value::Object(member));
        true
    }

    /// Removes a member, and returns whether it was there.
    pub fn leave(&mut self, name: &str) -> bool {
        let Some(Value::Array(members)) = self.raw.get_mut("members") else {
            return false;
        };
        let before = members.len();
        members.retain(|member| text(member, "name") != name);
        members.len() < before
    }

    fn text(&self, key: &str) -> &str {
        self.raw
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Records the capabilities of a member, unless they are the provider's defaults; returns whether something changed.
/// Capabilities recorded for an earlier provider (`is_other`) do not apply to a new one.
fn put_capabilities(member: &mut Object, new: &NewMember, is_other: bool) -> bool {
    let own = match &new.capabilities {
        Some(capabilities) if capabilities != default_capabilities(&new.provider) => capabilities,
        None if !is_other => return false,
        _ => return member.shift_remove("capabilities").is_some(),
    };
    let own = json!(own);
    if member.get("capabilities") == Some(&own) {
        return false;
    }
    member.insert("capabilities".into(), own);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lead_is_named_by_its_id_or_else_marked_by_its_client() {
        let members = r#"[{"agentId": "team-lead@t", "name": "team-lead", "agentType": "team-lead", "cwd": "/lead"},
            {"agentId": "w@t", "name": "w", "agentType": "general-purpose", "cwd": "/w"}]"#;
        let named = r#""leadAgentId": "w@t","#;
        for (said, lead, other) in [("", "team-lead", "w"), (named, "w", "team-lead")] {
            let text = format!("{{{said} \"members\": {members}}}");
            let config = TeamConfig::parse(text.as_bytes()).unwrap();
            assert_eq!(config.lead_name(), lead);
            let others: Vec<String> = config.members().into_iter().map(|one| one.name).collect();
            assert_eq!(others, [other]);
        }
        let nobody = TeamConfig::parse(b"{}").unwrap();
        assert_eq!(nobody.lead_name(), "team-lead");
    }

    fn config() -> TeamConfig {
        let text = br#"{"teamster": {}, "members": []}"#;
        TeamConfig::parse(text).unwrap()
    }

    fn join(config: &mut TeamConfig, provider: &str, capabilities: Option<&[&str]>) -> bool {
        let new = NewMember {
            name: "ann".parse().unwrap(),
            provider: provider.to_owned(),
            capabilities: capabilities.map(|list| list.iter().map(|&c| c.to_owned()).collect()),
        };
        config.join(&"crew".parse().unwrap(), &new, "/p", Time::from_millis(0))
    }

    #[test]
    fn capabilities_follow_the_provider_and_are_written_only_where_they_differ() {
        let mut config = config();
        let can = |config: &TeamConfig| config.members()[0].capabilities.clone();
        assert!(join(&mut config, "mine", Some(&["testing"])));
        assert_eq!(can(&config), Some(vec!["testing".to_owned()]));
        assert!(
            !join(&mut config, "mine", Some(&["testing"])),
            "nothing new"
        );
        assert!(
            !join(&mut config, "mine", None),
            "nothing said, nothing changed"
        );
        assert!(!join(&mut config, "", None));
        assert!(join(&mut config, "mine", Some(&["general"])));
        assert_eq!(can(&config), None, "that is what anybody takes it for");
        join(&mut config, "mine", Some(&["testing"]));
        assert!(join(&mut config, "codex", None));
        assert_eq!(can(&config), None, "of another provider");
    }
}
