//! Checks, evidence and benchmarks: everything that is run on the product and is no part of it.
//!
//! - `ci` is what a change must pass ([`ci`]);
//! - `evidence` makes the figures behind the guarantees and writes them to `docs/evidence.md` ([`evidence`]);
//! - `bench` measures ratios and writes them to `docs/performance.md` ([`bench`]);
//! - `real-clients` runs the real clients with our part installed and compares ([`real_clients`]);
//! - `docs` writes what is generated from the command line ([`docs`]);
//! - `web` builds the page of Studio, tries it in a browser, and makes its screenshots ([`web`]);
//! - `drive` runs a real client once, as its driver says ([`drive`]).
//!
//! Killing and failing the binary at every system call is in [`inject`], processes that race in [`race`], the larger
//! sizes of the test suites in [`suites`].

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this program works on files and processes from the outside, and talks to a person"
)]

mod bench;
mod ci;
mod crew;
mod docs;
mod drain;
mod drive;
mod evidence;
mod inject;
mod kit;
mod product;
mod race;
mod real_clients;
mod suites;
mod web;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use product::Product;

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    about = "Checks, evidence and benchmarks of teamster"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Everything a change must pass
    Ci {
        /// Only these steps, by their names
        #[arg(long, value_name = "STEP", value_delimiter = ',')]
        only: Vec<String>,
    },
    /// The figures behind the guarantees, at nightly size, into a document
    Evidence {
        /// Small sizes, to see that it works
        #[arg(long)]
        quick: bool,
        /// Only these sections (races, kills, errors, suites, workers, run, hostile); writes nothing
        #[arg(long, value_name = "SECTION", value_delimiter = ',')]
        only: Vec<String>,
        /// Where the figures go; `-` prints them
        #[arg(long, value_name = "FILE", default_value = "docs/evidence.md")]
        out: PathBuf,
    },
    /// Ratios of speed, measured in one run, into docs/performance.md
    Bench {
        /// Few samples, to see that it works; writes nothing
        #[arg(long)]
        quick: bool,
        /// Exit 1 where a row is beyond 1.5 times its limit
        #[arg(long)]
        check: bool,
        /// Only these groups of rows (hooks, commands, store, workers, host, studio, browser); writes nothing
        #[arg(long, value_name = "GROUP", value_delimiter = ',')]
        only: Vec<String>,
        /// Another limit for a row, to see that the check can fail; writes nothing
        #[arg(long, value_name = "ROW=VALUE")]
        limit: Vec<String>,
    },
    /// Real clients with our hooks and as our workers, judged by their own files; needs the lab folder
    RealClients {
        /// Only these runs, by their names
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        only: Vec<String>,
        /// The folder with the scripts that install and start the clients [default: beside the project]
        #[arg(long, value_name = "DIR")]
        lab: Option<PathBuf>,
    },
    /// The documents that are generated from the command line
    Docs {
        /// Only say whether they are fresh
        #[arg(long)]
        check: bool,
        /// Only draw the picture of a demo anew, from a real run
        #[arg(long, conflicts_with = "check")]
        picture: bool,
    },
    /// The page of Studio: its build, which is committed
    Web(web::Wish),
    /// One run of a real client by its driver
    Drive(drive::Drive),
    /// A real client as our worker, inside the lab's surroundings
    #[command(hide = true)]
    WorkerScenes(real_clients::WorkerScenes),
    /// A run with two real clients, inside the lab's surroundings
    #[command(hide = true)]
    RunScene(real_clients::RunScene),
    /// One side of a benchmark, in a process of its own
    #[command(hide = true)]
    Workload(workload::Workload),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Ci { only } => ci::run(&only),
        Command::Evidence { quick, only, out } => evidence::run(quick, &only, &out),
        Command::Bench {
            quick,
            check,
            only,
            limit,
        } => bench::run(quick, check, &only, &limit),
        Command::RealClients { only, lab } => real_clients::run(&only, lab.as_deref()),
        Command::Docs { check, picture } => Product::build().and_then(|product| {
            if picture {
                let file = docs::draw(&product)?;
                println!("drew {}", file.display());
                return Ok(());
            }
            docs::run(&product, check)
        }),
        Command::Web(wish) => web::run(wish),
        Command::Drive(drive) => drive.run(),
        Command::WorkerScenes(scenes) => scenes.run(),
        Command::RunScene(scene) => scene.run(),
        Command::Workload(workload) => workload.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
