//! The guard of a bridge: a `teamster worker bridge` process, started by `worker start`, that supervises a second
//! process of the same command, which is the worker.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use teamster_app::env_vars;
use teamster_workers::{guard, launch};

use crate::exit_codes;

/// A bridge to be guarded.
pub struct GuardedBridge {
    /// The id of its launch.
    launch: String,
    /// Its team and its worker, joined by a slash.
    guarded: OsString,
    /// The arguments of the bridge, which are those of this call.
    args: Vec<OsString>,
}

impl GuardedBridge {
    /// Returns the bridge that this call is to guard; `None` for every other call. A guard lives as long as its
    /// worker, so it is recognised before anything is read or parsed.
    pub fn from_args(args: impl Iterator<Item = OsString>) -> Option<Self> {
        let launch = env_vars::text(env_vars::GUARD)?;
        let guarded = env_vars::get(env_vars::GUARDED)?;
        let args: Vec<OsString> = args.skip(1).collect();
        let is_bridge = args.first()? == "worker" && args.get(1)? == "bridge";
        // In a pane the environment comes from a file, and the command re-executes itself with it first.
        let is_anew = args.iter().all(|arg| arg != "--environment");
        (is_bridge && is_anew).then_some(Self {
            launch,
            guarded,
            args,
        })
    }

    /// Runs the bridge, ends the processes that it leaves running, and exits with its code.
    pub fn run(&self) -> ExitCode {
        let program = launch::own_program();
        match guard::guard(&self.launch, &self.guarded, &program, &self.args) {
            Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(exit_codes::FAILED)),
            Err(error) => {
                let line = format!("error: the worker could not start: {error}\n");
                let _ = std::io::stderr().lock().write_all(line.as_bytes());
                ExitCode::from(exit_codes::FAILED)
            }
        }
    }
}
