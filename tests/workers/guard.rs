//! What a worker may change, and when.

use super::Crew;

#[test]
fn a_change_in_a_denied_path_fails_the_attempt_and_one_outside_is_sent_to_review() {
    let crew = Crew::new();
    let denied = crew.project.task("denied", &["--owner", "ann"]);
    let outside = crew
        .project
        .task("outside", &["--owner", "ben", "--path", "src/**"]);
    crew.project.run(["team", "join", "crew", "ben"]).exits(0);
    crew.start("ann", "mkdir -p conf; echo SECRET=1 > conf/.env; echo fine");
    crew.start(
        "ben",
        "mkdir src; echo 1 > src/in.txt; echo 2 > out.txt; echo fine",
    );
    crew.until("a failure", || !crew.events("task.failed").is_empty());
    let failed = &crew.events("task.failed")[0];
    assert_eq!(failed["taskId"], denied.as_str());
    let error = failed["data"]["failure"]["lastError"].as_str().unwrap();
    assert!(error.contains("conf/.env"), "{error}");
    let task = crew.until_status(&outside, "completed");
    let result = &task["metadata"]["teamster"]["result"];
    assert_eq!(result["review"], true);
    assert_eq!(result["outsideReservation"], serde_json::json!(["out.txt"]));
}

#[test]
fn tasks_whose_paths_overlap_are_not_at_work_at_once() {
    let crew = Crew::new();
    let marks = crew.project.folder().join(".omc");
    let ids: Vec<String> = ["src/**", "src/a/*", "{src,lib}/a/b.rs", "docs/**"]
        .iter()
        .map(|path| crew.project.task("change", &["--path", path]))
        .collect();
    // Whoever changes src leaves a mark while at it; two marks at once would be two at work at once.
    let command = format!(
        r#"echo up; case "$TEAMSTER_TASK_ID" in 4) ;; *) mkdir {0}/busy || {{ echo clash > {0}/clash; exit 1; }}; sleep 1; rmdir {0}/busy ;; esac; echo ok"#,
        marks.display()
    );
    for name in ["ann", "ben", "cyn"] {
        crew.start(name, &command);
    }
    for id in &ids {
        crew.until_status(id, "completed");
    }
    assert!(!marks.join("clash").exists(), "two worked on src at once");
}
