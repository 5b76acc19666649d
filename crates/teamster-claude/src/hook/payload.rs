//! Parses the client's payload, and determines which agent it is about, which session's state it belongs to, and
//! which teammate has ended.
//!
//! Every field may be missing or have another type than before. The agent is identified by:
//!
//! | agent | how it is identified |
//! |---|---|
//! | the lead | no agent id, no teammate's name |
//! | a teammate in the lead's process | the lead's session; its name is in `agent_type` |
//! | a teammate in a pane | a session of its own; found by the client's arguments, or by pane and role |
//! | a plain subagent | an agent id that belongs to no teammate |

use std::borrow::Cow;

use serde_json::Value;
use teamster_types::end::EndRecord;
use teamster_types::json::{self, Object};

use super::HookContext;
use crate::native::{NativeMember, NativeRegistry, NativeTeam, PaneArguments};
use crate::state::LONGEST_TEXT;
use crate::state::Model;
use teamster_types::text::shown_line;

/// The JSON object that the client sent.
#[derive(Clone, Debug, PartialEq)]
pub struct HookPayload {
    fields: Object,
}

impl HookPayload {
    /// Parses a payload. The error says what is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        json::parse_object(bytes).map(|fields| Self { fields })
    }

    /// Returns the text of a field; an empty text or another type counts as missing.
    pub fn text(&self, key: &str) -> Option<&str> {
        text_of(self.fields.get(key))
    }

    /// Returns the text of a field inside an object such as `tool_input` or `tool_response`.
    pub fn inner(&self, object: &str, key: &str) -> Option<&str> {
        text_of(self.fields.get(object)?.get(key))
    }

    /// Returns any value inside an object such as `tool_input` or `tool_response`.
    pub fn value(&self, object: &str, key: &str) -> Option<&Value> {
        self.fields.get(object)?.get(key)
    }

    /// Returns the id in a field, which some clients write as a number.
    pub fn id(&self, key: &str) -> Option<Cow<'_, str>> {
        id_of(self.fields.get(key)?)
    }

    /// Returns the id in a field inside an object such as `tool_input` or `tool_response`.
    pub fn inner_id(&self, object: &str, key: &str) -> Option<Cow<'_, str>> {
        id_of(self.value(object, key)?)
    }

    /// Returns whether the field exists and is an empty text.
    pub fn is_blank(&self, key: &str) -> bool {
        self.fields.get(key).and_then(Value::as_str) == Some("")
    }

    /// Returns the exit code of an agent; `None` when the payload has none. Clients and scripts write it as a number
    /// with or without a zero fraction, or as digits.
    pub fn exit_code(&self) -> Option<i64> {
        let text = match self.fields.get("exit_code")? {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        let whole = text.strip_suffix(".0").unwrap_or(&text);
        whole.parse().ok()
    }

    /// Returns whether the session has tasks running in the background.
    pub fn has_background_tasks(&self) -> bool {
        let tasks = self.fields.get("background_tasks");
        let tasks = tasks.and_then(Value::as_array).into_iter().flatten();
        let is_over = |task: &Value| {
            let status = task.get("status").and_then(Value::as_str);
            matches!(
                status,
                Some("completed" | "failed" | "killed" | "stopped" | "cancelled")
            )
        };
        tasks.filter(|task| !is_over(task)).count() > 0
    }
}

fn text_of(value: Option<&Value>) -> Option<&str> {
    value?.as_str().filter(|text| !text.is_empty())
}

fn id_of(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) if !text.is_empty() => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}

/// The kind of agent that acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActorKind {
    Lead,
    /// A teammate in the lead's process.
    Teammate,
    /// A teammate in its own process.
    Pane,
    /// A plain subagent.
    Subagent,
}

/// The agent that a payload is about.
#[derive(Clone, Debug)]
pub(super) struct HookActor {
    pub(super) kind: ActorKind,
    /// Its name, cleaned for display.
    pub(super) name: String,
    /// Its role, cleaned for display.
    pub(super) role: String,
    pub(super) model: Model,
    /// The team's name, cleaned for display.
    pub(super) team_name: String,
    /// The team in the client's registry.
    pub(super) team: Option<NativeTeam>,
    /// The lead's session, whose state it belongs to.
    pub(super) session: String,
    /// Whether the client's registry names it as a teammate.
    pub(super) is_registered: bool,
    /// Whether it is one of several teammates, and the payload does not say which.
    pub(super) is_unknown_teammate: bool,
}

impl HookActor {
    /// Determines which agent a payload is about.
    pub(super) fn find(
        event: &str,
        payload: &HookPayload,
        registry: Option<&NativeRegistry>,
        context: &HookContext,
    ) -> Self {
        let session = payload.text("session_id").unwrap_or_default();
        let led = registry.and_then(|registry| registry.led_by(session));
        if let Some(team) = led {
            let is_unnamed = event == "SubagentStop" && names_no_agent(payload);
            let member = if is_unnamed {
                only_teammate(&team)
            } else {
                in_process(payload, &team)
            };
            let member = member.cloned();
            let kind = match &member {
                Some(_) => ActorKind::Teammate,
                None => bare_kind(payload),
            };
            let mut actor = Self::new(payload, kind, member.as_ref(), Some(team), session);
            actor.is_unknown_teammate = is_unnamed && member.is_none();
            return actor;
        }
        if let Some(registry) = registry
            && let Some((team, name)) = pane(payload, registry, context)
        {
            let member = team.teammate(&name).cloned();
            let leader = team.lead_session.clone();
            // The subagents of an agent in a pane belong to the same state, under their own names.
            let kind = match payload.text("agent_id") {
                Some(_) => ActorKind::Subagent,
                None => ActorKind::Pane,
            };
            let member = member.filter(|_| kind == ActorKind::Pane);
            let mut actor = Self::new(payload, kind, member.as_ref(), Some(team), &leader);
            if kind == ActorKind::Pane {
                actor.name = shown(&name, "unknown");
            }
            return actor;
        }
        let named = payload
            .text("team_name")
            .or(payload.inner("tool_input", "team_name"));
        let team = registry.and_then(|registry| registry.named(named?));
        Self::new(payload, bare_kind(payload), None, team, session)
    }

    fn new(
        payload: &HookPayload,
        kind: ActorKind,
        member: Option<&NativeMember>,
        team: Option<NativeTeam>,
        session: &str,
    ) -> Self {
        let named = member.map(|member| member.name.as_str());
        let name = named.or_else(|| name_of(payload)).unwrap_or_default();
        let role = member
            .map(|member| member.role.as_str())
            .or_else(|| payload.text("agent_type"))
            .or_else(|| payload.inner("tool_input", "subagent_type"))
            .unwrap_or_default();
        // Clients since 2.1.178 ignore the team name in a call: the name in the registry is the valid one.
        let team_name = team
            .as_ref()
            .map(|team| team.name.as_str())
            .or_else(|| payload.text("team_name"))
            .or_else(|| payload.inner("tool_input", "team_name"))
            .unwrap_or_default();
        Self {
            kind,
            name: shown(name, "unknown"),
            role: shown(role, "agent"),
            model: model_of(payload, member),
            team_name: shown_line(team_name, LONGEST_TEXT),
            team,
            session: session.to_owned(),
            is_registered: member.is_some(),
            is_unknown_teammate: false,
        }
    }

    /// Returns whether the agent has a row in the state.
    pub(super) fn has_row(&self) -> bool {
        self.kind != ActorKind::Lead
    }

    /// Returns the lead's name in messages.
    pub(super) fn lead_name(&self) -> &str {
        let lead = self.team.as_ref().and_then(NativeTeam::lead_name);
        lead.unwrap_or("team-lead")
    }
}

fn shown(text: &str, default: &str) -> String {
    let text = shown_line(text, LONGEST_TEXT);
    if text.is_empty() {
        default.to_owned()
    } else {
        text
    }
}

/// Returns the name in the payload itself. A real agent id is opaque, so it is the last choice.
fn name_of(payload: &HookPayload) -> Option<&str> {
    // Other tools may have an input field of that name, too.
    let spawns = matches!(payload.text("tool_name"), None | Some("Agent" | "Task"));
    payload
        .text("agent_name")
        .or_else(|| payload.text("teammate_name"))
        .or_else(|| payload.inner("tool_input", "name").filter(|_| spawns))
        .or_else(|| name_in_id(payload))
        .or_else(|| payload.text("agent_id"))
}

/// Returns the name in the id of a teammate in the lead's process. Since 2.1.197 the id is `a{name}-{16 hex digits}`,
/// and the type is the name.
fn name_in_id(payload: &HookPayload) -> Option<&str> {
    let name = payload.text("agent_type")?;
    let rest = payload.text("agent_id")?.strip_prefix('a')?;
    let digits = rest.strip_prefix(name)?.strip_prefix('-')?;
    let is_hex = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then_some(name)
}

/// Returns the kind of agent as far as the payload shows it without the registry.
fn bare_kind(payload: &HookPayload) -> ActorKind {
    let is_named = payload.text("agent_name").is_some() || payload.text("teammate_name").is_some();
    if is_named || name_in_id(payload).is_some() {
        ActorKind::Teammate
    } else if payload.text("agent_id").is_some() {
        ActorKind::Subagent
    } else {
        ActorKind::Lead
    }
}

/// Returns whether a payload identifies nothing but its session.
fn names_no_agent(payload: &HookPayload) -> bool {
    ["agent_id", "agent_name", "teammate_name", "agent_type"]
        .iter()
        .all(|key| payload.text(key).is_none() && !payload.is_blank(key))
}

/// Returns the teammate of a team that has only one.
fn only_teammate(team: &NativeTeam) -> Option<&NativeMember> {
    let mut teammates = team.teammates();
    match (teammates.next(), teammates.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Returns the teammate of a team that runs in the lead's process and that the payload is about.
fn in_process<'a>(payload: &HookPayload, team: &'a NativeTeam) -> Option<&'a NativeMember> {
    let by_id = |id: &str| team.teammates().find(|member| member.agent_id == id);
    let id = payload.text("agent_id");
    let names = [
        payload.text("agent_name"),
        payload.text("teammate_name"),
        // Only an agent's own type can be a teammate's name; without an id it is the lead's type.
        payload.text("agent_type").filter(|_| id.is_some()),
    ];
    id.and_then(by_id).or_else(|| {
        names
            .into_iter()
            .flatten()
            .find_map(|name| team.teammate(name))
    })
}

/// Returns the team and the name of the teammate in whose pane the hook runs.
fn pane(
    payload: &HookPayload,
    registry: &NativeRegistry,
    context: &HookContext,
) -> Option<(NativeTeam, String)> {
    let session = payload.text("session_id");
    if let (Some(name), Some(team)) = (payload.text("teammate_name"), payload.text("team_name"))
        && let Some(team) = registry.named(team)
        && !team.lead_session.is_empty()
    {
        return Some((team, name.to_owned()));
    }
    if let Some(arguments) = context.client.and_then(PaneArguments::of_process)
        && let Some(team) = registry.named(&arguments.team)
        && session != Some(team.lead_session.as_str())
    {
        return Some((team, arguments.name));
    }
    // A pane's number alone proves little: a lead has no role, and an agent with an id is not in a pane.
    let role = payload.text("agent_type")?;
    if payload.text("agent_id").is_some() {
        return None;
    }
    let (team, member) = registry.in_pane(context.pane.as_deref()?, role)?;
    Some((team, member.name))
}

fn model_of(payload: &HookPayload, member: Option<&NativeMember>) -> Model {
    if payload.text("agent_type") == Some("main") {
        return Model::Opus;
    }
    [
        payload.text("model"),
        // The model that the client chose takes precedence over the requested one.
        payload.inner("tool_response", "resolvedModel"),
        payload.inner("tool_response", "model"),
        payload.inner("tool_input", "model"),
        member.map(|member| member.model.as_str()),
    ]
    .into_iter()
    .flatten()
    .find_map(Model::of)
    .unwrap_or_default()
}

/// Returns the teammate whose end a payload reports; `None` when it reports none of a team's members.
pub(super) fn ended_teammate(
    payload: &HookPayload,
    actor: &HookActor,
    registry: &NativeRegistry,
) -> Option<EndRecord> {
    let exit_code = payload.exit_code().unwrap_or(0);
    let of = |team: &NativeTeam, name: &str| EndRecord::new(&team.name, name, exit_code);
    // By the time a teammate ends, its client may have removed it from the registry; then its pane, or an id that only
    // teammates have, still identifies it.
    if let Some(team) = &actor.team {
        let is_it = match actor.kind {
            ActorKind::Pane => true,
            ActorKind::Teammate => {
                team.teammate(&actor.name).is_some() || name_in_id(payload).is_some()
            }
            ActorKind::Lead | ActorKind::Subagent => false,
        };
        if is_it {
            return Some(of(team, &actor.name));
        }
    }
    if let Some(id) = payload.text("agent_id")
        && let Some((team, member)) = registry.with_agent(id)
    {
        return Some(of(&team, &member.name));
    }
    // An agent that has a name or type and is not a teammate is a plain subagent.
    let led = actor.team.as_ref()?;
    let is_led = payload.text("session_id") == Some(led.lead_session.as_str());
    let says_who = ["agent_name", "teammate_name", "agent_type"]
        .iter()
        .any(|key| payload.text(key).is_some());
    if !is_led || says_who {
        return None;
    }
    let mut teammates = led.teammates();
    match (teammates.next(), teammates.next()) {
        (None, _) => None,
        (Some(only), None) => Some(of(led, &only.name)),
        (Some(_), Some(_)) => Some(of(led, "unknown")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_another_type_counts_as_missing() {
        let payload = HookPayload::parse(
            br#"{"session_id":{"a":1},"agent_id":7,"task_id":7,"agent_type":"","exit_code":[1],"tool_input":[]}"#,
        )
        .unwrap();
        assert_eq!(payload.text("session_id"), None);
        assert_eq!(payload.text("agent_id"), None);
        assert_eq!(payload.id("task_id").as_deref(), Some("7"));
        assert_eq!(payload.exit_code(), None);
        assert_eq!(payload.inner("tool_input", "name"), None);
        assert!(payload.is_blank("agent_type"));
        for wrong in ["", "null", "[]", "42", "{", "\"x\"", "{} {}"] {
            assert!(HookPayload::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn exit_code_is_a_whole_number_in_any_form() {
        for (code, expected) in [
            ("1", Some(1)),
            ("\"1\"", Some(1)),
            ("1.0", Some(1)),
            ("\" -9 \"", Some(-9)),
            ("0", Some(0)),
            ("0.0", Some(0)),
            ("0.5", None),
            ("\"\"", None),
            ("\"one\"", None),
            ("null", None),
            ("true", None),
        ] {
            let text = format!("{{\"exit_code\":{code}}}");
            let payload = HookPayload::parse(text.as_bytes()).unwrap();
            assert_eq!(payload.exit_code(), expected, "{code}");
        }
    }

    #[test]
    fn only_what_still_runs_is_in_the_background() {
        let with = |tasks: &str| {
            let text = format!("{{\"background_tasks\":{tasks}}}");
            HookPayload::parse(text.as_bytes())
                .unwrap()
                .has_background_tasks()
        };
        assert!(with(r#"[{"status":"running"}]"#));
        assert!(with(r"[{}]"));
        assert!(!with("[]"));
        assert!(!with(r#"[{"status":"completed"}]"#));
        assert!(!with("null"));
        assert!(!with("{\"a\":1}"));
    }
}
