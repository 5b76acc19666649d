//! The table of all routes: the documents are generated from it, and the server is tested against it.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use teamster_view::model::{Patch, TeamView, TeamsOverview, Timeline};

use super::{
    Answered, ApprovalAnswer, Changes, ChannelEnd, ChannelRefused, Diff, FollowBody, Following,
    Gone, Hello, Journal, Lagging, Log, LogPart, Messages, NewMessage, PermissionBody, PlanBody,
    PlanReplied, QuestionBody, QuestionReplied, ReapBody, Reaped, RequestReplied, Sent, Server,
    SharedHello, StopBody, Stopping, TaskDetail, Zombies,
};

/// The HTTP method of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The route only reads.
    Get,
    /// The route changes something.
    Post,
}

impl Method {
    /// Returns the name in an `OpenAPI` document.
    pub fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
        }
    }
}

/// A query parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// `integer` or `string`.
    pub kind: &'static str,
    /// What it means.
    pub about: &'static str,
}

/// A function that describes a type.
pub type Describe = fn(&mut SchemaGenerator) -> Schema;

/// One route.
#[derive(Clone, Copy, Debug)]
pub struct ApiRoute {
    /// The HTTP method.
    pub method: Method,
    /// The path, with `{names}` for variable parts.
    pub path: &'static str,
    /// The operation id, for programs.
    pub id: &'static str,
    /// What it does.
    pub about: &'static str,
    /// The query parameters.
    pub query: &'static [Parameter],
    /// The type of the request body.
    pub body: Option<Describe>,
    /// The type of the response; `None` for a text or a stream.
    pub answer: Option<Describe>,
    /// The media type of a response that is not JSON.
    pub media: &'static str,
}

fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const AT: Parameter = Parameter {
    name: "at",
    kind: "integer",
    about: "a position of the journal: the team as it was right after that event, from the journal alone",
};

const fn get(
    path: &'static str,
    id: &'static str,
    about: &'static str,
    query: &'static [Parameter],
    answer: Describe,
) -> ApiRoute {
    ApiRoute {
        method: Method::Get,
        path,
        id,
        about,
        query,
        body: None,
        answer: Some(answer),
        media: "application/json",
    }
}

const fn post(
    path: &'static str,
    id: &'static str,
    about: &'static str,
    body: Describe,
    answer: Describe,
) -> ApiRoute {
    ApiRoute {
        method: Method::Post,
        path,
        id,
        about,
        query: &[],
        body: Some(body),
        answer: Some(answer),
        media: "application/json",
    }
}

/// Every route that is part of the contract.
pub const ROUTES: &[ApiRoute] = &[
    get(
        "/api/v1/server",
        "server",
        "The server itself",
        &[],
        of::<Server>,
    ),
    get(
        "/api/v1/teams",
        "teams",
        "Every team and every watched project, in short",
        &[],
        of::<TeamsOverview>,
    ),
    get(
        "/api/v1/teams/{team}",
        "team",
        "One team, now or at a past moment",
        &[AT],
        of::<TeamView>,
    ),
    get(
        "/api/v1/teams/{team}/timeline",
        "timeline",
        "What happened when, a lane for each worker",
        &[AT],
        of::<Timeline>,
    ),
    get(
        "/api/v1/teams/{team}/tasks/{task}",
        "task",
        "Everything about one task",
        &[AT],
        of::<TaskDetail>,
    ),
    get(
        "/api/v1/teams/{team}/tasks/{task}/diff",
        "taskDiff",
        "What one task changed, as text, also when its worker and its branch are gone: what came of it, else its last \
         attempt, else what its worker has committed so far",
        &[Parameter {
            name: "path",
            kind: "string",
            about: "only of this file",
        }],
        of::<Diff>,
    ),
    get(
        "/api/v1/teams/{team}/messages",
        "messages",
        "Messages from the journal, newest page first",
        &[
            Parameter {
                name: "before",
                kind: "integer",
                about: "only messages before this position of the journal",
            },
            Parameter {
                name: "limit",
                kind: "integer",
                about: "the number of messages: 50 by default, at most 500",
            },
        ],
        of::<Messages>,
    ),
    get(
        "/api/v1/teams/{team}/journal",
        "journal",
        "A part of the journal",
        &[
            Parameter {
                name: "from",
                kind: "integer",
                about: "from this position on; without it, the last events",
            },
            Parameter {
                name: "limit",
                kind: "integer",
                about: "the number of events: 200 by default, at most 1,000",
            },
        ],
        of::<Journal>,
    ),
    get(
        "/api/v1/teams/{team}/workers/{worker}/log",
        "log",
        "What a worker's agent sent while it worked on a task",
        &[
            Parameter {
                name: "task",
                kind: "string",
                about: "of this task; by default the latest",
            },
            Parameter {
                name: "after",
                kind: "integer",
                about: "what came after `next` of an earlier answer",
            },
        ],
        of::<Log>,
    ),
    ApiRoute {
        method: Method::Get,
        path: "/api/v1/teams/{team}/workers/{worker}/log/stream",
        id: "logStream",
        about: "The same as it is written, as server-sent events: `lines` (a LogPart, with the place where it ends as the \
                id, resumed by Last-Event-ID). Also `hello`, `lagging` and `gone`.",
        query: &[Parameter {
            name: "task",
            kind: "string",
            about: "of this task; by default the latest, and then the next",
        }],
        body: None,
        answer: None,
        media: "text/event-stream",
    },
    get(
        "/api/v1/teams/{team}/changes",
        "changes",
        "What the branches of a team changed",
        &[],
        of::<Changes>,
    ),
    get(
        "/api/v1/teams/{team}/changes/{branch}",
        "diff",
        "What one branch changed, as text; `branch` is a worker or `integration`",
        &[Parameter {
            name: "path",
            kind: "string",
            about: "only of this file",
        }],
        of::<Diff>,
    ),
    get(
        "/api/v1/zombies",
        "zombies",
        "Teams, workers, worktrees, locks and panes left behind",
        &[],
        of::<Zombies>,
    ),
    ApiRoute {
        method: Method::Get,
        path: "/api/v1/events",
        id: "events",
        about: "Changes as they happen, as server-sent events. With `team`: `journal` (an Event, with its position as the id: each \
                once and in order, resumed by Last-Event-ID), `view` (a TeamView, at the beginning) and `patch` (a Patch to it). \
                Without: `overview` (an Overview, at the beginning and whenever it changed). Also `hello`, `lagging` and `gone`.",
        query: &[
            Parameter {
                name: "team",
                kind: "string",
                about: "the team to hear about; without it, all teams in short",
            },
            Parameter {
                name: "after",
                kind: "integer",
                about: "journal events after this position; Last-Event-ID counts more; without both, only new ones",
            },
            Parameter {
                name: "overview",
                kind: "boolean",
                about: "with `team`: `overview` events of all teams on the same stream",
            },
        ],
        body: None,
        answer: None,
        media: "text/event-stream",
    },
    ApiRoute {
        method: Method::Get,
        path: "/api/v1/stream",
        id: "sharedStream",
        about: "Several streams on one connection, for all pages of a browser, as server-sent events: first `hello` (a \
                SharedHello), then the events of every channel that was opened by `follow`, each with the field `channel`. A \
                channel that cannot be opened ends with `refused` (a ChannelRefused), every other one with `end` (a ChannelEnd).",
        query: &[],
        body: None,
        answer: None,
        media: "text/event-stream",
    },
    post(
        "/api/v1/stream/{stream}",
        "follow",
        "Open and close channels of a shared stream. What a channel tells is what `events` or `logStream` tell",
        of::<FollowBody>,
        of::<Following>,
    ),
    post(
        "/api/v1/teams/{team}/messages",
        "send",
        "Send a message, as `teamster message send` does",
        of::<NewMessage>,
        of::<Sent>,
    ),
    post(
        "/api/v1/teams/{team}/workers/{worker}/stop",
        "stop",
        "Stop a worker, as `teamster worker stop` does",
        of::<StopBody>,
        of::<Stopping>,
    ),
    post(
        "/api/v1/teams/{team}/drain",
        "drain",
        "Let everyone finish the current task and stop, as `teamster shutdown --drain` does",
        of::<StopBody>,
        of::<Stopping>,
    ),
    post(
        "/api/v1/teams/{team}/approval",
        "approval",
        "Answer at the gate, as `teamster approve`, `reject` and `revise` do",
        of::<ApprovalAnswer>,
        of::<Answered>,
    ),
    post(
        "/api/v1/teams/{team}/plan",
        "plan",
        "Decide about a proposed plan, as `teamster plan accept`, `reject`, `revise` and `edit` do. Only the first answer to a \
         revision counts",
        of::<PlanBody>,
        of::<PlanReplied>,
    ),
    post(
        "/api/v1/teams/{team}/questions/{question}",
        "answerQuestion",
        "Answer a question of an agent, as `teamster answer` does. Only the first answer counts",
        of::<QuestionBody>,
        of::<QuestionReplied>,
    ),
    post(
        "/api/v1/teams/{team}/workers/{worker}/permission",
        "answerRequest",
        "Allow or deny what an agent wants to do, as `teamster worker answer` does. Only the first answer counts",
        of::<PermissionBody>,
        of::<RequestReplied>,
    ),
    post(
        "/api/v1/zombies/reap",
        "reap",
        "Remove what was left behind, as `teamster zombies reap` does",
        of::<ReapBody>,
        of::<Reaped>,
    ),
    ApiRoute {
        method: Method::Get,
        path: "/api/v1/openapi.json",
        id: "openapi",
        about: "This document",
        query: &[],
        body: None,
        answer: None,
        media: "application/json",
    },
    ApiRoute {
        method: Method::Get,
        path: "/metrics",
        id: "metrics",
        about: "Figures of every team for Prometheus",
        query: &[],
        body: None,
        answer: None,
        media: "text/plain",
    },
];

/// The types that only occur in event streams.
pub(super) const STREAMED: &[Describe] = &[
    of::<Patch>,
    of::<LogPart>,
    of::<Hello>,
    of::<SharedHello>,
    of::<ChannelRefused>,
    of::<ChannelEnd>,
    of::<Lagging>,
    of::<Gone>,
];
