//! `teamster demo`, as a new user sees it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::kit::TestProject;

/// The time limit for a demo, even on a busy machine.
const LONGEST: Duration = Duration::from_secs(60);

/// Returns the output of git in a folder.
fn git(folder: &Path, args: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts what every successful demo leaves behind, and what it does not.
fn is_done(project: &Path) {
    assert_eq!(git(project, &["branch", "--show-current"]).trim(), "main");
    assert_eq!(git(project, &["status", "--porcelain"]), "");
    let worktrees = git(project, &["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.matches("worktree ").count(), 1, "{worktrees}");
    for script in ["test.sh", "check.sh"] {
        let ran = std::process::Command::new("sh")
            .arg(project.join(script))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{script}: {ran:?}");
    }
    let left = processes_of(project.parent().unwrap());
    assert_eq!(left, Vec::<String>::new(), "nobody is left");
}

/// Returns the processes that belong to a folder, by their working directory or environment.
fn processes_of(folder: &Path) -> Vec<String> {
    let name = folder.display().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let about = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
        let is_in =
            std::fs::read_link(entry.path().join("cwd")).is_ok_and(|at| at.starts_with(folder));
        let speaks_of = String::from_utf8_lossy(&about("environ")).contains(&name);
        if is_in || speaks_of {
            let words = String::from_utf8_lossy(&about("cmdline")).replace('\0', " ");
            found.push(words);
        }
    }
    found
}

/// Returns the tasks of the only finished run of a project: their subjects, dependencies and results.
fn graph(test: &TestProject, project: &Path, team: &str) -> Vec<(String, Value, Value)> {
    let ran = test
        .call(["task", "list", "--team", team, "--json"])
        .folder(project)
        .env("TEAMSTER_PROJECT", project)
        .env(
            "TEAMSTER_CLAUDE_DIR",
            project.parent().unwrap().join("claude"),
        )
        .run()
        .succeeds();
    let tasks = ran.json()["tasks"].clone();
    let tasks = tasks.as_array().unwrap();
    tasks
        .iter()
        .map(|task| {
            (
                task["subject"].as_str().unwrap().to_owned(),
                task["blockedBy"].clone(),
                task["status"].clone(),
            )
        })
        .collect()
}

fn only_team(project: &Path) -> String {
    let teams = project.parent().unwrap().join("claude/teams");
    let names: Vec<String> = std::fs::read_dir(teams)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 1, "{names:?}");
    names[0].clone()
}

/// Returns the lines of a demo without what differs between demos. Task 1 runs in parallel with task 2, so its lines
/// are put first.
fn story(printed: &str) -> String {
    let lines = printed
        .lines()
        .skip_while(|line| !line.contains("begins"))
        // The order of these lines depends on the machine.
        .filter(|line| !line.ends_with("has ended") && !line.contains(" begins task "));
    let told = lines.filter_map(|line| {
        let is_remark = line.starts_with("          ") && !line.contains('|');
        let line = if is_remark {
            line.trim()
        } else {
            line.get(10..)
                .filter(|_| line.as_bytes().get(2) == Some(&b':'))?
        };
        let line = without_numbers(line);
        // Any idle worker takes the task that is created for a failed check.
        match line.split_once(' ') {
            Some((_, rest)) if line.starts_with("worker-") && line.contains("task 5 (") => {
                Some(format!("worker-… {rest}"))
            }
            _ => Some(line),
        }
    });
    let (of_first, others): (Vec<String>, Vec<String>) =
        told.partition(|line| line.contains("task 1 ("));
    [of_first, others].concat().join("\n")
}

/// Returns a line with `…` for commits and the ids of questions.
fn without_numbers(line: &str) -> String {
    let words = line.split(' ').map(|word| {
        let plain = word.trim_end_matches([',', ':']);
        let is_commit = plain.len() == 12 && plain.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_question = plain.strip_prefix('q').is_some_and(|number| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        if is_commit || is_question {
            word.replace(plain, "…")
        } else {
            word.to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_demo_ends_well_and_keeps_to_its_folder_and_its_command_does_the_same() {
    let test = TestProject::new();
    let temporary = test.home().parent().unwrap().join("내 임시 folder's");
    std::fs::create_dir_all(&temporary).unwrap();
    let begin = Instant::now();
    let ran = test
        .call(["demo", "--no-studio"])
        .env("TMPDIR", &temporary)
        // Variables about other teams and projects have no effect here.
        .env("TEAMSTER_TEAM", "another")
        .env("CLAUDE_PROJECT_DIR", test.folder())
        .run()
        .succeeds();
    assert!(begin.elapsed() < LONGEST, "{:?}", begin.elapsed());
    let made: Vec<PathBuf> = std::fs::read_dir(&temporary)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.display().to_string().contains("teamster-demo-"))
        .collect();
    assert_eq!(made.len(), 1, "{made:?}");
    let project = made[0].join("project");
    is_done(&project);
    let report = project.join(".omc/reports/demo/report.md");
    assert!(
        ran.stdout
            .contains(&format!("The report is {}", report.display())),
        "{}",
        ran.stdout
    );
    let report = std::fs::read_to_string(report).unwrap();
    for part in [
        "**Complete (exit code 0).**",
        "Verified: 2 checks passed.",
        "Task 2 in `CHANGES.md`: task 4 was made to resolve it.",
        "| `sh check.sh` | --verify | 0     | FAILED  |",
        "6 tasks: 6 merged.",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    insta::assert_snapshot!("lines", story(&ran.stdout));
    for begun in [
        "worker-1 begins task 1 (Add the prices up)",
        "worker-2 begins task 2 (Take the discount off)",
        "worker-3 begins task 3 (Print the receipt)",
        "worker-3 begins task 6 (Refuse what lib/discount.sh refuses)",
    ] {
        assert!(ran.stdout.contains(begun), "{begun}: {}", ran.stdout);
    }
    let merges = git(&project, &["log", "--merges", "--format=%s", "main"]);
    assert_eq!(merges.lines().count(), 5, "{merges}");
    assert_eq!(
        test.files(),
        Vec::<String>::new(),
        "nothing of the user's is touched"
    );
    assert!(std::fs::read_dir(test.home()).unwrap().next().is_none());
    let omc = test.folder().join(".omc");
    assert!(!omc.exists(), "nor is another project");

    // The command is between the two empty lines after `cd`. It works in a fresh copy, and again here.
    let mut lines = ran
        .stdout
        .lines()
        .skip_while(|line| !line.starts_with("  cd "));
    assert!(lines.next().unwrap().contains("teamster-demo-"));
    let command = lines.next().unwrap().trim().to_owned();
    let fresh = temporary.join("fresh/project");
    std::fs::create_dir_all(fresh.parent().unwrap()).unwrap();
    let first = git(&project, &["rev-list", "--max-parents=0", "main"]);
    let (from, to) = (project.display().to_string(), fresh.display().to_string());
    git(&temporary, &["clone", "--quiet", &from, &to]);
    git(&fresh, &["reset", "--quiet", "--hard", first.trim()]);
    test.shell(&command).folder(&fresh).run().succeeds();
    is_done(&fresh);
    let wanted = graph(&test, &project, "demo");
    assert_eq!(wanted.len(), 6);
    assert_eq!(graph(&test, &fresh, &only_team(&fresh)), wanted);
    test.shell(&command).folder(&project).run().succeeds();
    is_done(&project);
}

#[test]
fn a_demo_that_was_killed_goes_on_with_the_command_it_has_shown() {
    let test = TestProject::new();
    let mut demo = test.call(["demo", "--json", "--keep-dir", "kept"]).follow();
    let begin = demo.json();
    assert_eq!(begin["type"], "demo");
    let project = PathBuf::from(begin["project"].as_str().unwrap());
    assert_eq!(project.parent().unwrap().file_name().unwrap(), "kept");
    while demo.json()["type"] != "merge.merged" {}
    // Dropping it kills the host; its workers live on.
    drop(demo);
    let resume = begin["resume"].as_str().unwrap();
    let ran = test.shell(resume).folder(&test.home()).run().succeeds();
    assert!(
        ran.stdout.contains("complete: approved and landed on main"),
        "{}",
        ran.stdout
    );
    is_done(&project);
    let merges = git(&project, &["log", "--merges", "--format=%s", "main"]);
    let mut merges: Vec<&str> = merges.lines().collect();
    merges.sort_unstable();
    merges.dedup();
    assert_eq!(merges.len(), 5, "every task was merged once: {merges:?}");
}

#[test]
fn a_demo_for_programs_is_one_object_a_line_and_tells_where_the_report_is() {
    let test = TestProject::new();
    let folder = test.home().join("kept");
    let ran = test
        .call(
            ["demo", "--json", "--keep-dir"]
                .map(std::ffi::OsStr::new)
                .into_iter()
                .chain([folder.as_os_str()]),
        )
        // A machine with nothing but git and a shell.
        .without_env("HOME")
        .run()
        .succeeds();
    let said: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = said.last().unwrap();
    assert_eq!(last["type"], "demo_ended");
    assert!(Path::new(last["report"].as_str().unwrap()).is_file());
    let result = said
        .iter()
        .find(|object| object["type"] == "result")
        .unwrap();
    assert_eq!(
        (&result["outcome"], &result["exitCode"]),
        (&"complete".into(), &0.into())
    );
    is_done(&folder.join("project"));
}

#[test]
fn a_demo_that_cannot_be_says_why_and_leaves_nothing() {
    let test = TestProject::new();
    let ran = test
        .call(["demo", "--keep-dir", "d"])
        .env("PATH", "/nowhere")
        .run()
        .fails(6);
    assert!(
        ran.stderr.contains("there is no git on PATH"),
        "{}",
        ran.stderr
    );
    assert!(!test.folder().join("d").exists());
    let ran = test.run(["demo", "--keep-dir", "."]).fails(6);
    assert!(ran.stderr.contains("is not empty"), "{}", ran.stderr);
    let ran = test
        .call(["demo", "--keep-dir", "d"])
        .env("TEAMSTER_WORKER", "worker-1")
        .run()
        .fails(6);
    assert!(ran.stderr.contains("is for people"), "{}", ran.stderr);
    assert!(!test.folder().join("d").exists());
}

#[test]
fn a_demo_that_is_only_made_starts_nothing() {
    let test = TestProject::new();
    let ran = test
        .run(["demo", "--dry-run", "--keep-dir", "d"])
        .succeeds();
    assert!(ran.stdout.contains(" run --provider "), "{}", ran.stdout);
    let project = test.folder().join("d/project");
    assert_eq!(git(&project, &["status", "--porcelain"]), "");
    assert!(!project.join(".omc").exists());
    assert!(!test.folder().join("d/claude").exists());
}
