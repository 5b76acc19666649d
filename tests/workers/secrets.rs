//! Files that must not be in any commit or under any ref, whatever happens to the attempt that left them.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::Crew;

/// A text that no commit may contain.
const CANARY: &str = "canary-7c1f";

/// Returns a key of a well-known form.
fn key() -> String {
    format!("ghp_{}", "a1B2".repeat(9))
}

/// Returns shell commands of an agent that leaves secrets beside files that may be committed.
fn leave_secrets() -> String {
    format!(
        "mkdir -p conf secrets; echo SECRET={CANARY} > conf/.env; echo {CANARY} > secrets/k; \
         printf 'one\\ntoken {}\\n' > src.txt; echo mended > kept.txt",
        key()
    )
}

/// Searches every object that is reachable from a ref.
fn refs_are_clean(crew: &Crew) {
    let listed = crew.git(&["rev-list", "--all", "--objects"]);
    for line in listed.lines() {
        let (object, path) = line.split_once(' ').unwrap_or((line, ""));
        assert!(!path.contains(".env"), "{line}");
        assert!(!path.contains("secrets"), "{line}");
        let content = crew.git(&["cat-file", "-p", object]);
        assert!(!content.contains(CANARY), "{line}: {content}");
        assert!(!content.contains(&key()), "{line}: {content}");
    }
}

/// Searches every object in the repository, reachable or not.
fn repository_is_clean(crew: &Crew) {
    let all = crew.git(&["cat-file", "--batch-all-objects", "--batch-check"]);
    for line in all.lines() {
        let object = line.split(' ').next().unwrap();
        let content = crew.git(&["cat-file", "-p", object]);
        assert!(!content.contains(CANARY), "{line}: {content}");
        assert!(!content.contains(&key()), "{line}: {content}");
    }
}

fn private(crew: &Crew, path: &str) -> PathBuf {
    let folder = crew.project.folder().join(".omc/private/crew");
    folder.join(path)
}

fn is_private(crew: &Crew, path: &str, content: &str) {
    let file = private(crew, path);
    let about = std::fs::metadata(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(about.permissions().mode() & 0o777, 0o600, "{path}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(content), "{path}: {text}");
}

#[test]
fn attempt_that_leaves_secrets_fails_and_no_object_of_git_has_them() {
    let crew = Crew::new();
    crew.task("mend it");
    crew.start("ann", &format!("{}; echo fine", leave_secrets()));
    crew.until("a failure", || !crew.events("task.failed").is_empty());
    let failed = &crew.events("task.failed")[0];
    let error = failed["data"]["failure"]["lastError"].as_str().unwrap();
    for part in [
        "conf/.env",
        "secrets/k",
        "src.txt:2",
        ".omc/private/crew/ann-1",
    ] {
        assert!(error.contains(part), "{part} is missing in {error}");
    }
    assert!(
        !error.contains(&key()) && !error.contains(CANARY),
        "{error}"
    );
    is_private(&crew, "ann-1/conf/.env", CANARY);
    is_private(&crew, "ann-1/secrets/k", CANARY);
    is_private(&crew, "ann-1/src.txt", &key());
    let attempts = crew.git(&["for-each-ref", "--format=%(refname)", "refs/teamster/"]);
    let attempt = attempts.lines().next().unwrap();
    let kept = crew.git(&["show", &format!("{attempt}:kept.txt")]);
    assert_eq!(kept, "mended", "the rest of the work is kept");
    let told = &crew.events("worker.secrets_kept")[0]["data"]["files"];
    assert_eq!(told[2]["path"], "src.txt");
    assert_eq!(told[2]["line"], 2);
    repository_is_clean(&crew);
}

/// Moving an ignore file away makes the files that it hid visible to git.
#[test]
fn secrets_that_an_ignore_file_among_them_hid_are_in_no_object_of_git() {
    for levels in [3, 15] {
        let crew = Crew::new();
        leave_hidden_secrets(&crew, levels);
        let attempts = crew.git(&["for-each-ref", "--format=%(refname)", "refs/teamster/"]);
        let attempt = attempts.lines().next().unwrap();
        let kept = crew.git(&["ls-tree", "-r", "--name-only", attempt]);
        assert!(kept.lines().any(|path| path == "kept.txt"), "{kept}");
        assert!(!kept.contains("secrets"), "{kept}");
        repository_is_clean(&crew);
        assert_eq!(moved_keys(&crew), levels);
    }
}

/// The worktree is not searched without end, and what was moved before the search is given up is reported.
#[test]
fn secrets_that_are_hidden_too_deep_are_reported_and_nothing_is_committed() {
    let crew = Crew::new();
    leave_hidden_secrets(&crew, 16);
    let failed = &crew.events("task.failed")[0];
    let error = failed["data"]["failure"]["lastError"].as_str().unwrap();
    assert!(error.contains("others appeared"), "{error}");
    assert_eq!(moved_keys(&crew), 15);
    repository_is_clean(&crew);
}

/// Runs an agent that leaves keys in nested folders, each with an ignore file that hides what is in it: the ignore file
/// of a level is found by one search, and what it hid by the next.
fn leave_hidden_secrets(crew: &Crew, levels: usize) {
    crew.task("mend it");
    let command = format!(
        "folder=secrets; for level in $(seq {levels}); do mkdir -p $folder; \
         printf '*\\n!.gitignore\\n' > $folder/.gitignore; echo {CANARY} > $folder/dev.key; \
         folder=$folder/deep; done; echo mended > kept.txt; echo fine"
    );
    crew.start("ann", &command);
    crew.until("a failure", || !crew.events("task.failed").is_empty());
}

/// Returns the number of keys that were reported as moved away.
fn moved_keys(crew: &Crew) -> usize {
    let told = &crew.events("worker.secrets_kept")[0]["data"]["files"];
    let paths = told.as_array().unwrap().iter();
    paths
        .filter(|file| file["path"].as_str().unwrap().ends_with("dev.key"))
        .count()
}

/// The user's key is known while its file is gone, and new again when the file is restored.
#[test]
fn denied_file_that_was_renamed_is_restored_and_its_copy_is_not_committed() {
    let crew = Crew::with_file(".env", &format!("{}\n", key()));
    crew.task("move it");
    crew.start(
        "ann",
        "set -e; mv .env settings.txt; echo mended > kept.txt; echo fine",
    );
    crew.until("a failure", || !crew.events("task.failed").is_empty());
    let attempts = crew.git(&["for-each-ref", "--format=%(refname)", "refs/teamster/"]);
    let attempt = attempts.lines().next().unwrap();
    let kept = crew.git(&["ls-tree", "-r", "--name-only", attempt]);
    let has = |name: &str| kept.lines().any(|path| path == name);
    assert!(has("kept.txt") && has(".env"), "{kept}");
    assert!(!has("settings.txt"), "{kept}");
}

#[test]
fn secrets_that_an_agent_committed_itself_are_in_no_ref() {
    let crew = Crew::new();
    let before = crew.git(&["rev-parse", "main"]);
    crew.task("mend it");
    let command = format!(
        "{}; git add -f -A; git commit -qm own; git rm -rq --cached conf secrets; git commit -qm gone; \
         echo more > more.txt; echo fine",
        leave_secrets()
    );
    crew.start("ann", &command);
    crew.until("a failure", || !crew.events("task.failed").is_empty());
    refs_are_clean(&crew);
    is_private(&crew, "ann-1/conf/.env", CANARY);
    let attempts = crew.git(&["for-each-ref", "--format=%(refname)", "refs/teamster/"]);
    let attempt = attempts.lines().next().unwrap();
    assert_eq!(
        crew.git(&["show", &format!("{attempt}:kept.txt")]),
        "mended"
    );
    assert_eq!(crew.git(&["show", &format!("{attempt}:more.txt")]), "more");
    assert_eq!(crew.git(&["rev-parse", "main"]), before);
}

#[test]
fn key_that_the_project_has_already_is_none_of_the_workers() {
    let crew = Crew::with_file("fixture.txt", &format!("{}\n", key()));
    let id = crew.task("move it");
    crew.start(
        "ann",
        "set -e; mv fixture.txt moved.txt; echo more >> moved.txt; echo fine",
    );
    crew.until_status(&id, "completed");
    assert_eq!(crew.events("worker.secrets_kept").len(), 0);
}

#[test]
fn shutdown_commits_the_work_without_secrets() {
    let crew = Crew::new();
    crew.task("mend it");
    crew.start("ann", &format!("{}; echo up; sleep 600", leave_secrets()));
    crew.until("work is there", || {
        crew.worktree("ann").join("kept.txt").exists()
    });
    crew.until("ann executing", || {
        crew.worker("ann")["status"] == "executing"
    });
    crew.project.run(["worker", "stop", "ann"]).exits(0);
    is_private(&crew, "ann-1/conf/.env", CANARY);
    let attempts = crew.git(&["for-each-ref", "--format=%(refname)", "refs/teamster/"]);
    let attempt = attempts.lines().next().unwrap();
    assert_eq!(
        crew.git(&["show", &format!("{attempt}:kept.txt")]),
        "mended"
    );
    repository_is_clean(&crew);
}

#[test]
fn secrets_of_a_killed_worker_are_neither_salvaged_nor_moved_aside_with_its_work() {
    let crew = Crew::new();
    crew.task("mend it");
    crew.start("ann", &format!("{}; echo up; sleep 600", leave_secrets()));
    crew.until("work is there", || {
        crew.worktree("ann").join("kept.txt").exists()
    });
    crew.kill_all_of("ann");
    let salvaged = crew
        .project
        .run(["worktree", "salvage", "ann", "--json"])
        .exits(0);
    assert_eq!(salvaged.json()["private"][0]["path"], "conf/.env");
    let branch = salvaged.json()["branch"].as_str().unwrap().to_owned();
    assert_eq!(crew.git(&["show", &format!("{branch}:kept.txt")]), "mended");
    is_private(&crew, "ann-1/conf/.env", CANARY);
    assert!(
        crew.worktree("ann").join("conf/.env").exists(),
        "a salvage leaves the worktree as it is"
    );
    repository_is_clean(&crew);
    // A new worker of the same name starts.
    crew.start("ann", "echo ok");
    is_private(&crew, "ann-2/conf/.env", CANARY);
    let aside = crew.worktree("ann.kept-1");
    assert!(aside.join("kept.txt").exists());
    assert!(!aside.join("conf/.env").exists());
    repository_is_clean(&crew);
}
