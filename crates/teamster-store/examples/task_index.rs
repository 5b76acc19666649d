//! Measures what the task index saves: finding work and counting in a team of 10,000 tasks, against reading every file.
//!
//! ```text
//! cargo run --profile evidence -p teamster-store --example task_index [TASKS]
//! ```
//!
//! All but the last hundred tasks are completed, as in a run that is nearly over. Times are medians. The files are in the
//! system's folder for temporary files, and nothing waits for the disk.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "it makes and removes its own files, and prints for a person"
)]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use teamster_fs::Durability;
use teamster_fs::layout::Layout;
use teamster_journal::EventActor;
use teamster_store::{
    ClaimRequest, FileStore, FileStoreSettings, PlannedTask, ReadStore, Result, Store, SystemClock,
};
use teamster_types::TeamName;
use teamster_types::task::{NewTask, Status, Task};
use teamster_types::team::NewTeam;

const SAMPLES: usize = 21;
const OPEN: usize = 100;

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let count = std::env::args().nth(1).map_or(Ok(10_000), |n| n.parse())?;
    let root = std::env::temp_dir().join(format!("task-index-{}", teamster_fs::random_hex()));
    std::fs::create_dir_all(root.join("project"))?;
    let layout = Layout {
        claude: root.join("claude"),
        project: root.join("project"),
        user_config: root.join("none.toml"),
        project_config: root.join("none.toml"),
        database: None,
    };
    let settings = FileStoreSettings {
        sync: Durability::Fast,
        ..FileStoreSettings::default()
    };
    let store = FileStore::open(&layout, Arc::new(SystemClock), settings)?;
    let team: TeamName = "large".parse()?;
    let measured = measure(&store, &team, count);
    std::fs::remove_dir_all(&root)?;
    Ok(measured?)
}

fn measure(store: &FileStore, team: &TeamName, count: usize) -> Result<()> {
    fill(store, team, count)?;
    let request = ClaimRequest {
        worker: "ada".parse()?,
        id: None,
        lease: None,
    };
    let claim = || {
        let claimed = store.claim(team, &request)?;
        claimed.ok_or_else(|| teamster_store::StoreError::not_found("nothing is claimable"))
    };
    let mut claims = Vec::new();
    for _ in 0..SAMPLES {
        let start = Instant::now();
        let claimed = claim()?;
        claims.push(start.elapsed());
        store.release(
            team,
            &EventActor::Person,
            claimed.task.id(),
            Some(&claimed.token),
        )?;
    }
    let scan = median(SAMPLES, || {
        let list = store.tasks(team)?;
        let is_free = |task: &&Task| task.status() == Status::Pending && task.owner().is_none();
        assert!(list.tasks.iter().any(|task| is_free(&task)));
        Ok(())
    })?;
    let progress = median(SAMPLES, || store.progress(team).map(drop))?;
    claims.sort();
    println!("{count} tasks, {OPEN} of them open");
    println!(
        "claim the next task, by the index    {:>12.2?}",
        claims[SAMPLES / 2]
    );
    println!("read every task, as a scan would     {scan:>12.2?}");
    println!("count the tasks, by the index        {progress:>12.2?}");
    Ok(())
}

fn median(samples: usize, mut act: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..samples {
        let start = Instant::now();
        act()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[samples / 2])
}

fn fill(store: &FileStore, team: &TeamName, count: usize) -> Result<()> {
    let new = NewTeam {
        name: team.clone(),
        description: String::new(),
        project: "project".to_owned(),
        members: Vec::new(),
        run: None,
    };
    store.create_team(&new, None)?;
    let plan: Vec<PlannedTask> = (1..=count)
        .map(|number| PlannedTask {
            task: NewTask {
                subject: format!("task {number}"),
                description: "It says what is to be done, and how to check it.".repeat(4),
                ..NewTask::default()
            },
            after: Vec::new(),
        })
        .collect();
    for chunk in plan.chunks(250) {
        store.import_tasks(team, &EventActor::Person, chunk)?;
    }
    let request = ClaimRequest {
        worker: "ada".parse()?,
        id: None,
        lease: None,
    };
    for _ in OPEN..count {
        if let Some(claimed) = store.claim(team, &request)? {
            store.complete(team, claimed.task.id(), &claimed.token, None)?;
        }
    }
    Ok(())
}
