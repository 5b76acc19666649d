//! Checks, evidence and benchmarks: everything that runs on the product and is not part of it.
//!
//! - `ci` runs everything that a change must pass ([`ci`]);
//! - `evidence` measures the guarantees and writes the results to `docs/evidence.md` ([`evidence`]);
//! - `bench` measures ratios and writes them to `docs/performance.md` ([`bench`]);
//! - `real-clients` runs the real clients with teamster installed and compares the results ([`real_clients`]);
//! - `docs` writes the generated documents ([`docs`]);
//! - `web` builds the page of Studio, tests it in a browser, and makes its screenshots ([`web`]);
//! - `figures` counts lines, files, names and doc comments ([`figures`]).
//!
//! Killing and failing the binary at every system call is in [`inject`], races between processes in [`race`], the
//! commands of the documents in [`documents`].

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this program works on files and processes from the outside, and prints for a person"
)]

mod bench;
mod ci;
mod docs;
mod documents;
mod evidence;
mod figures;
mod fixture;
mod inject;
mod product;
mod race;
mod real_clients;
mod web;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use product::Product;

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    about = "Checks, evidence and benchmarks of teamster"
)]
enum Command {
    /// Run everything that a change must pass
    Ci {
        /// Run only these steps
        #[arg(long, value_name = "STEP", value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Measure the guarantees at nightly size, and write the results to docs/evidence.md
    Evidence {
        /// Use small sizes, to see that it works, and write nothing
        #[arg(long)]
        quick: bool,
        /// Run only these sections: races, kills, errors, workers, suites, run, machines, hostile, corrections
        #[arg(long, value_name = "SECTION", value_delimiter = ',')]
        only: Vec<String>,
    },
    /// Measure performance ratios in one run and write them to docs/performance.md
    Bench {
        /// Take few samples, to see that it works, and write nothing
        #[arg(long)]
        quick: bool,
        /// Exit 1 where a row is beyond 1.5 times its limit
        #[arg(long)]
        check: bool,
        /// Measure only these groups (hooks, commands, store, database, idle, workers, host, briefings, leader, studio, browser)
        #[arg(long, value_name = "GROUP", value_delimiter = ',')]
        only: Vec<String>,
        /// Set another limit for a row, to see that the check can fail, and write nothing
        #[arg(long, value_name = "ROW=VALUE")]
        limit: Vec<String>,
    },
    /// Run real clients with the hooks and as workers, and judge them by their own files; needs the lab folder
    RealClients {
        /// Run only these
        #[arg(long, value_name = "NAME", value_delimiter = ',')]
        only: Vec<String>,
        /// Use this folder with the scripts that install and start the clients [default: beside the project]
        #[arg(long, value_name = "DIR")]
        lab: Option<PathBuf>,
    },
    /// Write the generated documents
    Docs {
        /// Check that they are up to date
        #[arg(long)]
        check: bool,
        /// Draw the picture of a demo from a real run, and nothing else
        #[arg(long, conflicts_with = "check")]
        picture: bool,
    },
    /// Build the page of Studio, which is committed
    Web(web::WebOptions),
    /// Count lines, files, names shared by several types, doc comments that are fragments, and the files of three
    /// journeys
    Figures {
        /// List each place
        #[arg(long)]
        list: bool,
        /// Show the figures of this commit first
        #[arg(long, value_name = "COMMIT")]
        before: Option<String>,
    },
    /// Run real clients as workers, inside the lab
    #[command(hide = true)]
    LabScene(real_clients::LabScene),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Ci { only } => ci::run(&only),
        Command::Evidence { quick, only } => evidence::run(quick, &only),
        Command::Bench {
            quick,
            check,
            only,
            limit,
        } => bench::run(quick, check, &only, &limit),
        Command::RealClients { only, lab } => real_clients::run(&only, lab.as_deref()),
        Command::Docs { check, picture } => Product::build().and_then(|product| {
            if picture {
                docs::draw(&product)
            } else {
                docs::run(&product, check)
            }
        }),
        Command::Web(options) => web::run(options),
        Command::Figures { list, before } => figures::run(list, before.as_deref()),
        Command::LabScene(scene) => scene.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
