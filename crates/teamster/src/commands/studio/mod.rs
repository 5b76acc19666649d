//! Implements `teamster studio`.

mod memory;
mod opened;

use std::net::TcpListener;
use std::path::PathBuf;

use clap::Args;
use teamster_app::{logs, trace_log, workers};
use teamster_studio::api::Log;
use teamster_studio::server;
use teamster_types::TeamName;

use crate::context::Context;
use crate::error::{AppError, Result};
pub use opened::{OpenedStudio, in_browser, no_port};

/// Returns the latest log of a worker.
pub fn log_of(context: &Context, team: &TeamName, worker: &str) -> Result<Log> {
    let named = workers::find(context, team.clone(), worker)?;
    logs::page(context, named, None, 0)
}

/// The default port; it is fixed so that bookmarks keep working.
const PORT: u16 = 7433;

/// Watch all teams live on a local web page
///
/// The page is served to this machine only. The printed address works once, in one browser; from then on the browser keeps a
/// cookie, even when Studio is restarted.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster studio   # until Ctrl-C
  teamster studio --port 0 --project . --json   # until Ctrl-C")]
pub struct StudioArgs {
    /// The port; 0 picks any free port [default: 7433, or another one if that is taken]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    /// Also watch this project, and remember it
    #[arg(long, value_name = "DIR")]
    project: Vec<PathBuf>,
}

impl StudioArgs {
    pub fn run(self, context: &Context) -> Result {
        context.must_be_a_person("opening Studio")?;
        let named = self.named_projects(context)?;
        let studio = OpenedStudio::at(context, self.listen()?, &named)?;
        trace_log::begin_studio(&context.layout);
        context.out.answer(
            || studio.json(),
            || {
                format!(
                    "Studio is at {}\nThis link works once. Press Ctrl-C to stop Studio.",
                    studio.url
                )
            },
        )?;
        if self.open && !in_browser(&studio.url) {
            context
                .out
                .remark("no browser could be opened; open the address by hand");
        }
        studio.serve()
    }

    /// Returns the named projects, and the one of the current folder.
    fn named_projects(&self, context: &Context) -> Result<Vec<PathBuf>> {
        let mut projects = vec![context.layout.project.clone()];
        for named in &self.project {
            let path = context.absolute(named);
            let real = path.canonicalize().ok().filter(|path| path.is_dir());
            projects.push(real.ok_or_else(|| {
                AppError::not_found(format!("there is no folder {}", path.display()))
                    .hint("name the folder of a project: --project ../other")
            })?);
        }
        Ok(projects)
    }

    fn listen(&self) -> Result<TcpListener> {
        match self.port {
            Some(port) => server::listen(port).map_err(no_port),
            None => server::listen(PORT)
                .or_else(|_| server::listen(0))
                .map_err(no_port),
        }
    }
}
