//! Implements `teamster mcp`: tools for a client that speaks the Model Context Protocol.

use clap::Args;
use teamster_mcp::ToolSource;

use crate::error::Result;

/// Serve tools to a coding agent, over standard input and output (MCP)
///
/// A client starts it: `teamster install claude --mcp` tells yours to, and so does `claude mcp add teamster -- teamster
/// mcp`. Below a worker it serves that worker's tools: see who works on what, write to others, ask, and tell
/// what was found. In a client of your own it serves yours: start a run, see how far it is, add tasks, send messages. No
/// tool approves, rejects, trusts or deletes.
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
