//! `teamster studio`

mod acts;
mod changes;
mod findings;
mod log;
mod memory;

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use teamster_store::{Clock, FileStore, SystemClock};
use teamster_studio::api::Log;
use teamster_studio::keys::Keys;
use teamster_studio::server::{self, Studio as Server};
use teamster_studio::watch::{Hub, Settings};
use teamster_types::TeamName;

use super::worker::WorkerArg;
use crate::context::Context;
use crate::env_vars;
use crate::error::{CommandError, ErrorKind, Result};
use crate::trust;
use acts::Acts;

/// The latest log of a worker.
pub fn log_of(context: &Context, team: &TeamName, worker: &str) -> Result<Log> {
    let named = WorkerArg::of(team, worker).find(context)?;
    log::read(&named, None, 0)
}

/// Where Studio listens unless told otherwise: a bookmark stays good.
const PORT: u16 = 7433;
/// A browser that does not come up in this time still may.
const PATIENCE: Duration = Duration::from_secs(5);

/// Show every team live on a page of this machine
///
/// The page is for this machine alone. The address that is printed is good for one browser, once; the browser keeps a
/// cookie from then on, also when Studio is started anew.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  teamster studio   # until Ctrl-C
  teamster studio --port 0 --project . --json   # until Ctrl-C")]
pub struct Studio {
    /// The port; 0 takes any that is free [default: 7433, or another one when that is taken]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    /// Watch this project too, and remember it
    #[arg(long, value_name = "DIR")]
    project: Vec<PathBuf>,
}

impl Studio {
    pub fn run(self, context: &Context) -> Result {
        trust::must_be_a_person(context, "opening Studio")?;
        let named = self.named_projects(context)?;
        context.check_home()?;
        let (key, projects) = memory::remember(&context.layout, &named)?;
        let listener = self.listen()?;
        let port = listener.local_addr().map_err(no_port)?.port();
        let settings = context.config.store_settings();
        let store = FileStore::open(&context.layout, Arc::new(SystemClock), settings)?;
        let hub = Hub::open(
            Arc::new(store),
            Settings {
                layout: context.layout.clone(),
                limits: context.config.limits(),
                projects,
            },
        )?;
        let keys = Keys::new(key);
        let address = format!("http://127.0.0.1:{port}/");
        let url = format!("{address}?token={}", keys.token().unwrap_or_default());
        context.out.answer(
            || json!({ "url": url, "address": address, "port": port, "bearer": keys.bearer() }),
            || format!("Studio is at {url}\nThe address is good for one browser, once. Ctrl-C ends Studio."),
        )?;
        if self.open && !open(&url) {
            context
                .out
                .remark("no browser could be opened; open the address by hand");
        }
        let studio = Server {
            hub,
            hands: Arc::new(Acts),
            keys,
            port,
            version: env!("CARGO_PKG_VERSION"),
            started_at: SystemClock.now(),
        };
        server::serve(studio, listener).map_err(|error| {
            CommandError::new(ErrorKind::Failed, format!("the server ended: {error}"))
        })
    }

    /// The projects that were named, and the one of the current folder.
    fn named_projects(&self, context: &Context) -> Result<Vec<PathBuf>> {
        let mut projects = vec![context.layout.project.clone()];
        for named in &self.project {
            let path = context.absolute(named);
            let real = path.canonicalize().ok().filter(|path| path.is_dir());
            projects.push(real.ok_or_else(|| {
                CommandError::not_found(format!("there is no folder {}", path.display()))
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

#[allow(
    clippy::needless_pass_by_value,
    reason = "it is given to `map_err`, which passes the error on"
)]
fn no_port(error: std::io::Error) -> CommandError {
    CommandError::new(ErrorKind::Conflict, format!("cannot listen: {error}"))
        .hint("another program has the port, perhaps another Studio; `--port 0` takes a free one")
}

/// Asks the desktop to open a page; whether it took the wish.
fn open(url: &str) -> bool {
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let Some(program) = teamster_isolate::find_program(opener, &path) else {
        return false;
    };
    let word = OsString::from(url);
    teamster_isolate::ask(Path::new(&program), [word.as_os_str()], PATIENCE).is_ok()
}
