//! The MCP server: tools over standard input and output, for a client that runs an agent.
//!
//! # What it owns
//!
//! The tools that an agent, or a person's own client, can call over MCP.
//!
//! # How it works
//!
//! ```text
//! client ──JSON-RPC──▶ ToolServer ─┬─▶ worker: the socket of its bridge    tools of a worker, in its name
//!                                  └─▶ person: use cases of teamster-app   tools of a person's own client
//! ```
//!
//! The set of tools is decided once, by where the server runs ([`ToolSource::find`]): below a worker's bridge it acts for
//! that worker only, whatever a request says. Each call runs on its own blocking thread, so an agent that waits for an
//! answer can call other tools in the meantime.
//!
//! # What it refuses
//!
//! No tool approves, rejects, trusts or deletes. Below a worker without a socket the server does not start, and when
//! the bridge cannot be reached every call fails, so an agent never acts as the person. Only the protocol goes to
//! standard output, and every answer is redacted.

mod person;
mod worker;

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use teamster_app::error::{AppError, ErrorKind, Result};
use teamster_app::{App, questions};
use teamster_types::json::Object;
use teamster_workers::tools::ToolFailure;

/// The user of the tools.
#[derive(Clone, Debug)]
pub enum ToolSource {
    /// The worker whose bridge listens at this socket.
    Worker(PathBuf),
    /// A person, in a client of their own.
    Person,
}

impl ToolSource {
    /// Determines the user of the tools from where this process runs.
    pub fn find() -> Result<Self> {
        if let Some(socket) = questions::socket_of_caller() {
            return Ok(Self::Worker(socket));
        }
        App::find()?.must_be_a_person("serving a person's tools")?;
        Ok(Self::Person)
    }
}

/// A tool as clients see it.
struct ToolEntry {
    name: &'static str,
    description: String,
    schema: Object,
    /// Whether the tool changes nothing.
    is_read_only: bool,
}

/// Serves tools over standard input and output until the client ends.
pub fn serve(source: ToolSource) -> Result {
    let failed = |what: String| {
        AppError::new(
            ErrorKind::Failed,
            format!("the MCP server cannot continue: {what}"),
        )
        .hint("a client starts it; `teamster mcp --help` shows how")
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let server = ToolServer { source };
    let outcome = runtime.block_on(async {
        let running = match server.serve(rmcp::transport::stdio()).await {
            Ok(running) => running,
            // A client may disconnect before it has sent anything.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(failed(error.to_string())),
        };
        let ended = running.waiting().await;
        ended.map(drop).map_err(|error| failed(error.to_string()))
    });
    // A thread may still wait for an answer that is no longer needed.
    runtime.shutdown_background();
    outcome
}

/// Answers the requests of one client.
#[derive(Clone, Debug)]
struct ToolServer {
    source: ToolSource,
}

impl ToolServer {
    fn entries(&self) -> Vec<ToolEntry> {
        match self.source {
            ToolSource::Worker(_) => worker::entries(),
            ToolSource::Person => person::entries(),
        }
    }

    fn instructions(&self) -> &'static str {
        match self.source {
            ToolSource::Worker(_) => worker::INSTRUCTIONS,
            ToolSource::Person => person::INSTRUCTIONS,
        }
    }
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("teamster", env!("CARGO_PKG_VERSION")))
            .with_instructions(self.instructions())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> std::result::Result<ListToolsResult, ErrorData> {
        let tools = self.entries().into_iter().map(|entry| {
            let hints = ToolAnnotations::new()
                .read_only(entry.is_read_only)
                .destructive(false)
                .open_world(false);
            Tool::new(entry.name, entry.description, Arc::new(entry.schema)).with_annotations(hints)
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> std::result::Result<CallToolResponse, ErrorData> {
        let name = request.name.into_owned();
        let arguments = request.arguments.map_or_else(|| json!({}), Value::Object);
        let outcome = match &self.source {
            ToolSource::Worker(socket) => {
                worker::call(socket.clone(), name, arguments, &context).await
            }
            ToolSource::Person => person::call(name, arguments).await,
        };
        let result = match outcome {
            Ok(value) => CallToolResult::success(vec![ContentBlock::text(in_words(&value))]),
            Err(failure) => CallToolResult::error(vec![ContentBlock::text(failure.in_words())]),
        };
        Ok(result.into())
    }
}

/// Returns an answer as the text that a model reads.
fn in_words(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// Returns the failure of a thread that ended without an answer.
fn lost() -> ToolFailure {
    ToolFailure::new("the tool ended without an answer", "try again")
}
