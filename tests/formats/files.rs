//! Files of teamster that other programs read: the registry, a claim, its lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{is_millis, is_moment, names_process};
use crate::kit::TestProject;

fn read(project: &TestProject, path: &str) -> Value {
    serde_json::from_str(&project.read(path)).unwrap()
}

#[test]
fn the_registry_has_the_native_fields_and_ours() {
    let project = TestProject::with_team();
    let team = read(&project, "teams/fix-auth/config.json");
    assert_eq!(team["name"], "fix-auth");
    assert!(team["description"].is_string());
    is_millis(&team["createdAt"]);
    assert_eq!(team["leadAgentId"], "lead@fix-auth");
    assert!(team["leadSessionId"].is_string());
    let member = &team["members"][0];
    assert_eq!(member["agentId"], "worker-1@fix-auth");
    assert_eq!(member["name"], "worker-1");
    is_millis(&member["joinedAt"]);
    for key in ["agentType", "model", "tmuxPaneId", "cwd", "backendType"] {
        assert!(member[key].is_string(), "{key} of {member}");
    }
    assert_eq!(member["subscriptions"], json!([]));
    let ours = &team["teamster"];
    assert_eq!(ours["schema"], 1);
    assert_eq!(ours["project"], project.folder().display().to_string());
    assert!(ours.get("base").is_some(), "null without a commit");
    names_process(&ours["host"]);
}

#[test]
fn a_claim_names_its_worker_its_process_and_its_lease() {
    let project = TestProject::with_team();
    project.task("one", &[]);
    let token = project.claim("worker-1", "1");
    let task = read(&project, "tasks/fix-auth/1.json");
    let claim = &task["metadata"]["teamster"]["claim"];
    assert_eq!(claim["token"], token.as_str());
    assert_eq!(claim["worker"], "worker-1");
    assert_eq!(claim["workerName"], "worker-1");
    is_moment(&claim["leasedUntil"]);
    names_process(claim);
    assert!(claim["host"].is_string(), "{claim}");
    let nonce = claim["nonce"].as_str().unwrap();
    assert!(!nonce.is_empty() && !token.contains(nonce), "{claim}");
    // Renewing keeps the claimant.
    project
        .run(["task", "renew", "1", "--token", &token])
        .succeeds();
    let renewed = read(&project, "tasks/fix-auth/1.json");
    let renewed = &renewed["metadata"]["teamster"]["claim"];
    assert_eq!(renewed["nonce"], nonce);
    assert_eq!(renewed["processStartTime"], claim["processStartTime"]);
}

#[test]
fn a_claim_without_what_newer_versions_write_is_still_a_claim() {
    let project = TestProject::with_team();
    project.task("one", &[]);
    let token = project.claim("worker-1", "1");
    let file = project.claude("tasks/fix-auth/1.json");
    let mut task = read(&project, "tasks/fix-auth/1.json");
    let claim = task["metadata"]["teamster"]["claim"]
        .as_object_mut()
        .unwrap();
    claim.remove("workerName");
    claim.remove("nonce");
    std::fs::write(file, serde_json::to_vec_pretty(&task).unwrap()).unwrap();
    project
        .run(["task", "complete", "1", "--token", &token])
        .succeeds();
}

#[test]
fn the_lock_of_a_claim_says_who_makes_it() {
    let project = TestProject::with_team();
    project.task("one", &[]);
    let lock = project.claude("tasks/fix-auth/1.lock");
    let is_over = AtomicBool::new(false);
    // The lock exists only for moments, so this polls without a pause while claims are made.
    let seen = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let bytes = std::fs::read(&lock).unwrap_or_default();
                if let Ok(content) = serde_json::from_slice::<Value>(&bytes) {
                    return Some(content);
                }
            }
            None
        });
        let start = Instant::now();
        while !watcher.is_finished() && start.elapsed() < Duration::from_secs(60) {
            let token = project.claim("worker-1", "1");
            project
                .run(["task", "release", "1", "--token", &token])
                .succeeds();
        }
        is_over.store(true, Ordering::Relaxed);
        watcher.join().unwrap()
    });
    let seen = seen.expect("no lock was ever seen");
    names_process(&seen);
    assert_eq!(seen["workerName"], "worker-1");
    is_millis(&seen["timestamp"]);
    assert!(seen["host"].is_string(), "{seen}");
    assert!(!seen["nonce"].as_str().unwrap().is_empty(), "{seen}");
    assert!(!lock.exists(), "it is gone after the claim");
}
