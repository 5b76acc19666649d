//! Implements `teamster mcp`: tools for a client that speaks the Model Context Protocol.

use clap::Args;
use teamster_mcp::ToolSource;

use crate::error::Result;

/// Serve tools to a coding agent, over standard input and output (MCP)
///
/// It is started by a client, which `teamster install claude --mcp` or `claude mcp add teamster -- teamster mcp` sets up. To a
/// worker's agent it serves tools for workers: see who works on what, send messages, ask questions, report findings. To your own
/// client it serves tools for you: start a run, see its progress, add tasks, send messages. No tool approves, rejects, trusts or
/// deletes.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster mcp < /dev/null")]
pub struct McpArgs {}

impl McpArgs {
    pub fn run(self) -> Result {
        teamster_mcp::serve(ToolSource::find()?)
    }
}
