//! A team's registry, `config.json`, which Claude Code writes for its own teams in the same shape.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::json::{self, Object};
use crate::process::ProcessId;
use crate::routing::default_capabilities;
use crate::{TeamName, Time, WorkerName};

/// Whose team it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TeamOrigin {
    /// Made by teamster.
    Teamster,
    /// Made by Claude Code; read-only for us but for tasks and plain messages.
    Claude,
}

impl TeamOrigin {
    /// Returns the word in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Teamster => "teamster",
            Self::Claude => "claude",
        }
    }
}

/// Holds what a new team is made of.
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
    /// The order of the run it is made for, if it is made for one. It lies with the team from the first moment, so that
    /// whoever comes after a crash knows what was wanted.
    pub run: Option<Value>,
}

/// Somebody who joins.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMember {
    /// The worker's name.
    pub name: WorkerName,
    /// Which client it drives; empty when that is not known yet.
    pub provider: String,
    /// What it can do, where somebody says so; else what is known of the provider counts.
    pub capabilities: Option<Vec<String>>,
}

/// A member as the registry lists it. Names of foreign teams are data, not paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TeamMember {
    /// Its name.
    pub name: String,
    /// Which client it drives, or the agent type of a native teammate.
    pub provider: String,
    /// How it runs: `process`, `tmux`, `in-process`, `claude-native`.
    pub backend: String,
    /// Its pane of tmux, `in-process`, or nothing.
    pub pane: String,
    /// Whether Claude Code calls it active; `None` where it does not say.
    pub is_active: Option<bool>,
    /// What it can do, where the registry overrides the provider's table.
    pub capabilities: Option<Vec<String>>,
}

/// The name and the agent type that Claude Code gives to the lead of a team.
pub const CLIENT_LEAD: &str = "team-lead";
/// How a worker of ours runs, in the words of the registry. No teammate of Claude Code runs so.
const OUR_BACKEND: &str = "process";
/// The pane that Claude Code writes for the lead of a team.
const LEADER_PANE: &str = "leader";

/// The registry of one team.
#[derive(Clone, Debug, PartialEq)]
pub struct TeamConfig {
    raw: Object,
}

/// The format of our part of the registry, and of everything else that a team is kept in. It grows only when an older
/// teamster would damage what a newer one has written; keys that are only added do not change it.
pub const SCHEMA: u64 = 1;

impl TeamMember {
    /// Returns whether its client is a teammate of Claude Code, which reads its own inbox, and no worker of ours.
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
            teamster: Ours,
        }
        #[derive(Deserialize)]
        struct Ours {
            schema: u64,
        }
        let registry: Registry = serde_json::from_slice(bytes).ok()?;
        Some(registry.teamster.schema)
    }

    /// Returns the registry of a new team of ours.
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

    /// Reads `config.json`. The error says what is wrong with it.
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

    /// Ours or Claude Code's.
    pub fn kind(&self) -> TeamOrigin {
        match self.raw.get("teamster") {
            Some(Value::Object(_)) => TeamOrigin::Teamster,
            _ => TeamOrigin::Claude,
        }
    }

    /// Returns what it is for.
    pub fn description(&self) -> &str {
        self.text("description")
    }

    /// Returns the project it works on: ours names it, of a native team it is its lead's folder.
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

    /// Returns when it was made, in whatever form its maker wrote: two that differ are two teams.
    pub fn created_at(&self) -> Option<&Value> {
        self.raw.get("createdAt")
    }

    /// Returns the process that created it or runs it.
    pub fn host(&self) -> Option<ProcessId> {
        use serde::Deserialize;
        ProcessId::deserialize(self.raw.get("teamster")?.get("host")?).ok()
    }

    /// Another process runs it from now on.
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

    /// Returns the order of the run it was made for.
    pub fn run(&self) -> Option<&Value> {
        self.raw.get("teamster")?.get("run")
    }

    /// Another order takes the place of the one it was made for.
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

    /// Returns every entry of `members`, the lead's included, as it was written.
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

    /// Returns every entry of `members` but the lead's, as it was written.
    pub fn other_entries(&self) -> impl Iterator<Item = &Value> {
        let lead = self.lead_entry();
        let is_lead = move |entry: &Value| lead.is_some_and(|lead| std::ptr::eq(lead, entry));
        self.entries().iter().filter(move |entry| !is_lead(entry))
    }

    /// Returns the name of the lead: as the registry says it, else the one that its client gives to every lead.
    pub fn lead_name(&self) -> &str {
        match self.lead_entry().map(|lead| text(lead, "name")) {
            Some(name) if !name.is_empty() => name,
            _ => CLIENT_LEAD,
        }
    }

    /// Returns everyone but the lead.
    pub fn members(&self) -> Vec<TeamMember> {
        let named = self.other_entries();
        named
            .filter(|entry| !text(entry, "name").is_empty())
            .map(|entry| self.member_of(entry))
            .collect()
    }

    /// Returns the member of this name, who is not the lead.
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
                // Claude Code knows no provider; what its teammate is for tells most.
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

    /// Adds a member, or changes the provider and the capabilities of one that is there; false when nothing changed.
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

/// Writes what a member can do, unless that is what anybody knows of its provider; whether something changed. What was
/// said about an earlier provider (`is_other`) says nothing about a new one.
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
