//! The client's own files, which are only read: its teams, tasks, inboxes and sessions.
//!
//! The client rewrites them in place, so a read may be torn; it is then retried. An unreadable file does not hide the
//! others. Nothing in them is trusted: a name is compared, and used in a path only as one plain component.

mod inboxes;
mod tasks;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use teamster_fs::Dir;
use teamster_fs::layout::{self, Layout};
use teamster_fs::proc::Machine;
use teamster_types::process::{ProcessId, ProcessState};
use teamster_types::session::ClientSession;
use teamster_types::team::{TeamConfig, TeamOrigin};

use crate::state::Phase;

pub use inboxes::InboxMessage;
pub(crate) use inboxes::structured_text;
pub use tasks::TaskFolder;

/// How often a read is retried while the client is writing the file.
const TRIES: usize = 3;
const PAUSE: Duration = Duration::from_millis(2);

/// A team of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeTeam {
    /// Its folder name, which is also that of its task folder.
    pub folder: String,
    /// Its name according to the client.
    pub name: String,
    /// The session that leads it.
    pub lead_session: String,
    /// All members, including the lead.
    pub members: Vec<NativeMember>,
    /// Whether teamster created it.
    pub is_ours: bool,
}

/// A member of a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeMember {
    /// The id of the agent, `name@team`.
    pub agent_id: String,
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: String,
    /// Its model, as the client names it.
    pub model: String,
    /// Its pane, `in-process`, `leader` or nothing.
    pub pane: String,
    /// Whether it is the lead.
    pub is_lead: bool,
}

impl NativeTeam {
    fn parse(folder: &str, bytes: &[u8]) -> Option<Self> {
        let config = TeamConfig::parse(bytes).ok()?;
        let text = |value: Option<&Value>| -> String {
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let lead = config.lead_entry();
        let members = config.entries().iter().map(|member| NativeMember {
            is_lead: lead.is_some_and(|lead| std::ptr::eq(lead, member)),
            agent_id: text(member.get("agentId")),
            name: text(member.get("name")),
            role: text(member.get("agentType")),
            model: text(member.get("model")),
            pane: text(member.get("tmuxPaneId")),
        });
        Some(Self {
            folder: folder.to_owned(),
            name: match text(config.as_object().get("name")) {
                name if name.is_empty() => folder.to_owned(),
                name => name,
            },
            lead_session: config.lead_session().to_owned(),
            members: members.collect(),
            is_ours: config.kind() == TeamOrigin::Teamster,
        })
    }

    /// Returns all members but the lead.
    pub fn teammates(&self) -> impl Iterator<Item = &NativeMember> {
        self.members.iter().filter(|member| !member.is_lead)
    }

    /// Returns a teammate by its name.
    pub fn teammate(&self, name: &str) -> Option<&NativeMember> {
        self.teammates()
            .find(|member| !name.is_empty() && member.name == name)
    }

    /// Returns the lead's name.
    pub fn lead_name(&self) -> Option<&str> {
        let lead = self.members.iter().find(|member| member.is_lead)?;
        Some(&lead.name)
    }
}

/// All teams below the Claude folder.
#[derive(Debug)]
pub struct NativeRegistry {
    claude: Dir,
    teams: Option<Dir>,
}

impl NativeRegistry {
    /// Opens the registry; `None` when there is no Claude folder. A symbolic link in place of the teams folder is not
    /// followed.
    pub fn open(claude: &Path) -> Option<Self> {
        let claude = Dir::open_root(claude).ok()??;
        let teams = claude.child(layout::TEAMS).ok().flatten();
        Some(Self { claude, teams })
    }

    /// Returns the Claude folder.
    pub fn claude(&self) -> &Dir {
        &self.claude
    }

    /// Opens a team's own folder.
    fn folder(&self, team: &NativeTeam) -> Option<Dir> {
        self.teams.as_ref()?.child(&team.folder).ok()?
    }

    /// Returns the team in a folder.
    pub fn team(&self, folder: &str) -> Option<NativeTeam> {
        self.read(folder, "")
    }

    /// Returns the team in a folder, if its file contains `needle`, which is searched before the file is parsed.
    fn read(&self, folder: &str, needle: &str) -> Option<NativeTeam> {
        let dir = self.teams.as_ref()?.child(folder).ok()??;
        for turn in 0..TRIES {
            if turn > 0 {
                std::thread::sleep(PAUSE);
            }
            let (bytes, _) = dir.read(layout::CONFIG).ok()??;
            let whole = bytes.trim_ascii_end().ends_with(b"}");
            if whole && !std::str::from_utf8(&bytes).ok()?.contains(needle) {
                return None;
            }
            if let Some(team) = NativeTeam::parse(folder, &bytes) {
                return Some(team);
            }
        }
        None
    }

    /// Returns every team whose file contains `needle`.
    fn teams_containing(&self, needle: &str) -> impl Iterator<Item = NativeTeam> {
        let entries = self.teams.as_ref().and_then(|teams| teams.entries().ok());
        let mut folders: Vec<String> = entries
            .into_iter()
            .flatten()
            .map(|entry| entry.name)
            // The client gives a team such a name before it deletes it.
            .filter(|name| !name.starts_with('.') && !name.contains(".deleted-"))
            .collect();
        folders.sort_unstable();
        folders
            .into_iter()
            .filter_map(move |folder| self.read(&folder, needle))
    }

    /// Returns the team that a session leads. The complete id must match.
    pub fn led_by(&self, session: &str) -> Option<NativeTeam> {
        self.teams.as_ref()?;
        if session.is_empty() {
            return None;
        }
        let implicit = layout::implicit_team(session).and_then(|folder| self.team(&folder));
        if let Some(team) = implicit
            && team.lead_session == session
        {
            return Some(team);
        }
        self.teams_containing(session)
            .find(|team| team.lead_session == session)
    }

    /// Returns the team of this name.
    pub fn named(&self, name: &str) -> Option<NativeTeam> {
        if name.is_empty() || self.teams.is_none() {
            return None;
        }
        if let Some(team) = self.team(name)
            && team.name == name
        {
            return Some(team);
        }
        self.teams_containing(name).find(|team| team.name == name)
    }

    /// Returns the team that has a teammate with this agent id, and that teammate.
    pub fn with_agent(&self, id: &str) -> Option<(NativeTeam, NativeMember)> {
        if id.is_empty() {
            return None;
        }
        self.teams_containing(id).find_map(|team| {
            let member = team.teammates().find(|member| member.agent_id == id)?;
            let member = member.clone();
            Some((team, member))
        })
    }

    /// Returns the teamster team that works on a project: the only one, or the only one whose host runs.
    pub fn working_on(&self, project: &Path, machine: &Machine) -> Option<String> {
        let project = project.to_str()?;
        let here: Vec<(String, Option<ProcessId>)> = self
            .teams_containing("\"teamster\"")
            .filter(|team| team.is_ours)
            .filter_map(|team| {
                let (bytes, _) = self.folder(&team)?.read(layout::CONFIG).ok()??;
                let config = TeamConfig::parse(&bytes).ok()?;
                (config.project() == Some(project)).then(|| (team.folder, config.host()))
            })
            .collect();
        let runs = |host: &ProcessId| machine.process_state(host) == ProcessState::Alive;
        let mut hosted = here
            .iter()
            .filter(|(_, host)| host.as_ref().is_some_and(runs));
        match (here.as_slice(), hosted.next(), hosted.next()) {
            ([(only, _)], ..) | (_, Some((only, _)), None) => Some(only.clone()),
            _ => None,
        }
    }

    /// Returns the teammate in a pane. Another tmux server may have a pane with the same number, so its role must
    /// match, too.
    pub fn in_pane(&self, pane: &str, role: &str) -> Option<(NativeTeam, NativeMember)> {
        if !pane.starts_with('%') {
            return None;
        }
        self.teams_containing(pane).find_map(|team| {
            let is_it = |member: &&NativeMember| member.pane == pane && member.role == role;
            let member = team.teammates().find(is_it)?.clone();
            Some((team, member))
        })
    }

    /// Returns the registry of a team as the client wrote it.
    pub(crate) fn config(&self, team: &NativeTeam) -> Option<TeamConfig> {
        let (bytes, _) = self.folder(team)?.read(layout::CONFIG).ok()??;
        TeamConfig::parse(&bytes).ok()
    }

    /// Returns the status of each process that the client recorded for a session. A session without a record proves
    /// nothing.
    pub(crate) fn recorded_lives(&self, session: &str, machine: &Machine) -> Vec<ProcessState> {
        let recorded = self.sessions().into_iter();
        let its = recorded.filter(|recorded| recorded.id == session);
        its.map(|recorded| machine.process_state(&recorded.process))
            .collect()
    }

    /// Returns the sessions that the client recorded. The `.key` files beside the records are secrets and not opened.
    pub(crate) fn sessions(&self) -> Vec<ClientSession> {
        let Ok(Some(folder)) = self.claude.child(layout::NATIVE_SESSIONS) else {
            return Vec::new();
        };
        let entries = folder.entries().into_iter().flatten();
        let recorded = entries.filter_map(|entry| {
            let pid = layout::pid_of_session_file(&entry.name)?;
            let (bytes, _) = folder.read(&entry.name).ok()??;
            let record: Value = serde_json::from_slice(&bytes).ok()?;
            ClientSession::parse(pid, &record)
        });
        recorded.collect()
    }
}

/// The arguments that a teammate in its own pane was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaneArguments {
    /// The value of `--agent-name`.
    pub name: String,
    /// The value of `--team-name`.
    pub team: String,
    /// `--parent-session-id`: the lead's session.
    pub lead_session: String,
}

impl PaneArguments {
    /// Reads them from the command line of the client's process.
    pub fn of_process(pid: u32) -> Option<Self> {
        Self::of_words(&teamster_fs::proc::arguments(pid)?)
    }

    fn of_words(words: &[String]) -> Option<Self> {
        let value = |option: &str| -> Option<String> {
            let mut rest = words.iter().skip_while(|word| {
                *word != option
                    && !word
                        .strip_prefix(option)
                        .is_some_and(|rest| rest.starts_with('='))
            });
            let found = rest.next()?;
            match found.strip_prefix(option)?.strip_prefix('=') {
                Some(value) => Some(value.to_owned()),
                None => rest.next().cloned(),
            }
        };
        let id = value("--agent-id").unwrap_or_default();
        let (name_of_id, team_of_id) = id.split_once('@').unwrap_or_default();
        let or = |option: &str, other: &str| {
            value(option)
                .or_else(|| Some(other.to_owned()))
                .filter(|value| !value.is_empty())
        };
        Some(Self {
            name: or("--agent-name", name_of_id)?,
            team: or("--team-name", team_of_id)?,
            lead_session: value("--parent-session-id").unwrap_or_default(),
        })
    }
}

/// The feature and its phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdca {
    /// The value of `primaryFeature`.
    pub feature: String,
    /// Its phase; `None` when the file has none.
    pub phase: Option<Phase>,
}

/// Reads the PDCA status of the project; `None` when it has none.
pub fn pdca(layout: &Layout) -> Option<Pdca> {
    let project = Dir::open_root(&layout.project).ok()??;
    let (bytes, _) = layout::PDCA_STATUS
        .iter()
        .find_map(|(folders, name)| match folders {
            [] => project.read(name).ok()?,
            folders => project.descend(folders).ok()??.read(name).ok()?,
        })?;
    let status: Value = serde_json::from_slice(&bytes).ok()?;
    let feature = status.get("primaryFeature")?.as_str()?.to_owned();
    let phase = status
        .get("features")
        .and_then(|features| features.get(&feature)?.get("phase")?.as_str())
        .map(Phase::nearest);
    Some(Pdca { feature, phase })
}

/// Returns whether `bkit.config.json` allows state files. A project without that file does.
pub fn team_is_enabled(layout: &Layout) -> bool {
    let says = || -> Option<bool> {
        let project = Dir::open_root(&layout.project).ok()??;
        let (bytes, _) = project.read(layout::BKIT_CONFIG).ok()??;
        let config: Value = serde_json::from_slice(&bytes).ok()?;
        config.get("team")?.get("enabled")?.as_bool()
    };
    says() != Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pane_is_known_by_how_it_was_started() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let line = "claude --agent-id w1@t --agent-name w1 --team-name t --parent-session-id s";
        let expected = PaneArguments {
            name: "w1".to_owned(),
            team: "t".to_owned(),
            lead_session: "s".to_owned(),
        };
        assert_eq!(
            PaneArguments::of_words(&words(line)),
            Some(expected.clone())
        );
        let line = "claude --agent-id=w1@t --parent-session-id=s";
        assert_eq!(PaneArguments::of_words(&words(line)), Some(expected));
        assert_eq!(PaneArguments::of_words(&words("claude --resume x")), None);
    }
}
