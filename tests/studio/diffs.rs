//! The diff of one task, without the changes of others, even when its worker and its branch are gone.

use serde_json::Value;

use super::{Studio, wait_for};
use crate::kit::TestProject;
use crate::run::Shop;

fn of_task(studio: &Studio, team: &str, id: &str) -> Value {
    studio.json(&format!("/api/v1/teams/{team}/tasks/{id}/diff"))
}

/// Returns the files of a diff, each with its added and removed lines.
fn files(diff: &Value) -> Vec<String> {
    let files = diff["files"].as_array().unwrap().iter();
    files
        .map(|file| {
            let path = file["path"].as_str().unwrap();
            format!("{path} +{} -{}", file["added"], file["removed"])
        })
        .collect()
}

fn text(diff: &Value) -> &str {
    diff["text"].as_str().unwrap()
}

#[test]
fn every_task_of_a_run_shows_its_own_work_before_and_after_it_has_landed() {
    let shop = Shop::new();
    shop.whole_run(&["--approve", "never"]).run().exits(0);
    let studio = Studio::start(&shop.project);
    let shown = |id: &str| {
        let diff = of_task(&studio, "shop", id);
        assert_eq!(diff["name"], format!("task-{id}"));
        assert_eq!(diff["cut"], false);
        (files(&diff), text(&diff).to_owned())
    };
    // The second task to merge gets the conflict, so the numbers of the fixing tasks and the total vary.
    let tasks = shop.tasks();
    let named = |begin: &str| -> String {
        let is_it = |task: &&Value| task["subject"].as_str().unwrap().starts_with(begin);
        let found = tasks
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("{begin}"));
        found["id"].as_str().unwrap().to_owned()
    };
    let all: Vec<String> = [
        "Mend adding",
        "Mend multiplying",
        "Mend the total",
        "Resolve",
        "Fix what",
    ]
    .map(named)
    .into();
    let at_gate: Vec<_> = all.iter().map(|id| shown(id)).collect();
    let expected = [
        vec!["add.sh +1 -1", "news.txt +1 -1"],
        vec!["mul.sh +1 -1", "news.txt +1 -1"],
        vec!["stock.txt +1 -1", "total.sh +1 -1"],
        vec!["mul.sh +1 -1", "news.txt +1 -1"],
        vec!["stock.txt +1 -0"],
    ];
    for (number, (files, text)) in at_gate.iter().enumerate() {
        assert_eq!(*files, expected[number], "{}: {text}", all[number]);
    }
    assert!(
        at_gate[1].1.contains("+multiplying is mended"),
        "{}",
        at_gate[1].1
    );
    assert!(at_gate[3].1.contains("+adding and multiplying are mended"));
    let commit = shop.asked();
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(0);
    assert_eq!(shop.left(), [""; 0], "no branch and no worktree is left");
    let landed: Vec<_> = all.iter().map(|id| shown(id)).collect();
    assert_eq!(landed, at_gate);
    let one = format!("/api/v1/teams/shop/tasks/{}/diff?path=add.sh", all[0]);
    let one = studio.json(&one);
    assert!(text(&one).contains("add.sh") && !text(&one).contains("news.txt"));
}

/// Makes a repository with a team of one worker, which does every task with this command.
fn working(command: &str) -> TestProject {
    let project = TestProject::with_team();
    begin_work(&project, command);
    project
}

fn begin_work(project: &TestProject, command: &str) {
    let begin = "git init --quiet . && git config user.name n && git config user.email e && \
                 git commit --quiet --allow-empty -m Begin";
    project.shell(begin).run().succeeds();
    project.task("Write a file", &[]);
    let provider = format!("command:{command}");
    let words = ["worker", "start", "--name", "worker-1", "--provider"];
    project
        .run(words.iter().chain(&[provider.as_str()]))
        .succeeds();
}

fn until_state(studio: &Studio, state: &str) {
    wait_for(state, || {
        let view = studio.json("/api/v1/teams/fix-auth");
        (view["tasks"][0]["state"] == state).then_some(())
    });
}

#[test]
fn work_that_the_user_has_taken_over_is_still_shown_whole() {
    let project = working(
        "echo one > one.txt && git add . && git commit --quiet -m One && echo two > two.txt",
    );
    let studio = Studio::start(&project);
    until_state(&studio, "completed");
    project.run(["shutdown", "--force", "--json"]).succeeds();
    let before = of_task(&studio, "fix-auth", "1");
    assert_eq!(files(&before), ["one.txt +1 -0", "two.txt +1 -0"]);
    // Now the commit is part of everything that it could be compared with.
    let take = "git merge --quiet omc-team/fix-auth/worker-1 && git worktree remove --force .omc/worktrees/fix-auth/worker-1 \
                && git branch -D omc-team/fix-auth/worker-1";
    project.shell(take).run().succeeds();
    assert_eq!(of_task(&studio, "fix-auth", "1"), before);
}

#[test]
fn an_attempt_that_failed_shows_what_it_left_and_a_task_without_a_commit_says_so() {
    let project = working("echo half > half.txt; false");
    project.task("Wait", &["--blocked-by", "1"]);
    let studio = Studio::start(&project);
    let diff = wait_for("what the first attempt left", || {
        let answer = studio.get("/api/v1/teams/fix-auth/tasks/1/diff");
        let is_attempt = |diff: &Value| {
            diff["name"]
                .as_str()
                .unwrap()
                .starts_with("task-1.attempt-")
        };
        (answer.status == 200)
            .then(|| answer.json())
            .filter(is_attempt)
    });
    assert_eq!(files(&diff), ["half.txt +1 -0"]);
    let none = studio.get("/api/v1/teams/fix-auth/tasks/2/diff");
    assert_eq!(none.status, 404);
    assert!(none.text().contains("no commit yet"), "{}", none.text());
    assert_eq!(
        studio.get("/api/v1/teams/fix-auth/tasks/99/diff").status,
        404
    );
    assert_eq!(
        studio.get("/api/v1/teams/fix-auth/tasks/x/diff").status,
        400
    );
    project.run(["shutdown", "--force", "--json"]).succeeds();
}

#[test]
fn a_long_diff_is_cut_at_a_line_and_says_so_and_tells_no_secret_there() {
    // The secret lies across the cut, in a line that is longer than the limit. A key of a well-known form would not
    // get into a commit.
    let secret = format!("PASSWORD={}", "a1B2".repeat(24));
    let project = TestProject::with_team();
    let home = project.home();
    let lines = "l".repeat(63) + "\n";
    std::fs::write(home.join("long.txt"), lines.repeat(1_024 * 24)).unwrap();
    let wide = "w ".repeat(512 * 1_024 - 400) + &secret + " " + &"v ".repeat(1_000) + "\n";
    std::fs::write(home.join("wide.txt"), wide).unwrap();
    let home = home.display();
    begin_work(&project, &format!("cp {home}/long.txt {home}/wide.txt ."));
    let studio = Studio::start(&project);
    until_state(&studio, "completed");
    project.run(["shutdown", "--force", "--json"]).succeeds();
    for path in ["tasks/1/diff", "changes/worker-1"] {
        let long = studio.json(&format!("/api/v1/teams/fix-auth/{path}?path=long.txt"));
        assert_eq!(long["cut"], true);
        let shown = text(&long);
        assert!(
            shown.len() > 1_000_000 && shown.len() <= 1_048_576,
            "{}",
            shown.len()
        );
        assert!(
            shown.ends_with(&format!("+{lines}")),
            "a line is whole or not there"
        );
        let wide = studio.get(&format!("/api/v1/teams/fix-auth/{path}?path=wide.txt"));
        let wide = wide.text();
        assert!(wide.len() > 1_000_000, "{}", wide.len());
        assert!(!wide.contains("a1B2"), "{}", &wide[wide.len() - 500..]);
    }
}
