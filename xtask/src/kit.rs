//! Teams, tasks and messages for the checks, made through the library.

use std::process::Command;

use anyhow::{Context, Result, bail};
use teamster_fs::Sync;
use teamster_store::{
    ClaimRequest, Claimed, FileStore, Outgoing, PlannedTask, Reader, Recipient, Store,
};
use teamster_types::task::NewTask;
use teamster_types::team::{NewMember, NewTeam};
use teamster_types::{TeamName, WorkerName};

use crate::product::{Answer, Place, TEAM};

/// Tasks that one import makes at once.
const CHUNK: usize = 250;

/// The team's name as the store wants it.
pub(crate) fn team() -> Result<TeamName> {
    Ok(TEAM.parse()?)
}

/// A place with a team of `workers` in it, and its store.
pub(crate) fn team_of(place: &Place, workers: usize) -> Result<FileStore> {
    let store = place.store(Sync::Fast)?;
    let member = |number: usize| -> Result<NewMember> {
        Ok(NewMember {
            name: worker(number)?,
            provider: String::new(),
            capabilities: None,
        })
    };
    let new = NewTeam {
        name: team()?,
        description: String::new(),
        project: place.project().display().to_string(),
        members: (1..=workers).map(member).collect::<Result<_>>()?,
        run: None,
    };
    store.create_team(&new, None)?;
    Ok(store)
}

/// Makes a place's project a repository with one commit.
pub(crate) fn repository(place: &Place) -> Result<()> {
    for words in [
        &["init", "--quiet", "--initial-branch", "main"][..],
        &["config", "user.name", "Check"],
        &["config", "user.email", "check@localhost"],
        &["commit", "--quiet", "--allow-empty", "--message", "Begin"],
    ] {
        let mut git = Command::new("git");
        place.dress(&mut git);
        let answer = Answer::of(git.args(words))?;
        if !answer.status.success() {
            bail!("git {words:?} failed: {}", answer.said());
        }
    }
    Ok(())
}

/// The time now.
pub(crate) fn now() -> teamster_types::Time {
    teamster_store::Clock::now(&teamster_store::SystemClock)
}

/// The worker with this number.
pub(crate) fn worker(number: usize) -> Result<WorkerName> {
    Ok(format!("w{number}").parse()?)
}

/// Makes `count` tasks that wait for nothing.
pub(crate) fn free_tasks(store: &FileStore, count: usize) -> Result<()> {
    let plan: Vec<PlannedTask> = (1..=count)
        .map(|number| planned(&format!("task {number}"), &[]))
        .collect();
    for chunk in plan.chunks(CHUNK) {
        store.import_tasks(&team()?, "user", chunk)?;
    }
    Ok(())
}

/// A task of a plan that waits for those at `after`.
pub(crate) fn planned(subject: &str, after: &[usize]) -> PlannedTask {
    PlannedTask {
        task: NewTask {
            subject: subject.to_owned(),
            description: "made by a check".to_owned(),
            ..NewTask::default()
        },
        after: after.to_vec(),
    }
}

/// Claims the next task for a worker.
pub(crate) fn claim(store: &FileStore, number: usize) -> Result<Claimed> {
    let request = ClaimRequest {
        worker: worker(number)?,
        id: None,
        lease: None,
    };
    store
        .claim(&team()?, &request)?
        .context("nothing is claimable")
}

/// Sends a plain message from one worker to another.
pub(crate) fn send(store: &FileStore, from: usize, to: usize, content: &str) -> Result<()> {
    let outgoing = Outgoing {
        from: worker(from)?.to_string(),
        to: Recipient::Worker(worker(to)?.to_string()),
        kind: "message".to_owned(),
        content: content.to_owned(),
        extra: teamster_types::json::Object::new(),
    };
    store.send(&team()?, &outgoing)?;
    Ok(())
}

/// Reads messages of a worker, and acknowledges them if asked; how many they were.
pub(crate) fn receive(store: &FileStore, number: usize, limit: usize, ack: bool) -> Result<usize> {
    let reader = Reader::Worker(worker(number)?);
    let delivery = store.receive(&team()?, &reader, limit, ack)?;
    Ok(delivery.messages.len())
}
