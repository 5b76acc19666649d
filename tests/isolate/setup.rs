//! Making a worktree usable.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use teamster_isolate::git::GitProblem;

use super::{GitProject, author, put};

const LONG: Duration = Duration::from_secs(60);

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn folders_are_copied_or_linked_and_never_committed() {
    for writable in [false, true] {
        folders_are_never_committed(writable);
    }
}

fn folders_are_never_committed(writable: bool) {
    let project = GitProject::new();
    put(&project.folder(), ".gitignore", "node_modules/\n");
    project.commit("Ignore");
    put(&project.folder(), "node_modules/x/index.js", "x");
    put(&project.folder(), "src/cache/y", "y");
    let worktree = project.prepare().worktree;
    let links = words(&["node_modules", "src/cache"]);
    let setup = worktree
        .set_up(&links, writable, &[], LONG, &[], &|| false)
        .unwrap();
    assert_eq!(setup.linked.len(), 2);
    let read = |name: &str| std::fs::read_to_string(worktree.path().join(name)).unwrap();
    assert_eq!(
        (read("node_modules/x/index.js"), read("src/cache/y")),
        ("x".into(), "y".into())
    );
    assert!(worktree.is_clean().unwrap());
    assert_eq!(worktree.commit_all("Nothing", &author()).unwrap(), None);
    assert!(
        worktree
            .set_up(&links, writable, &[], LONG, &[], &|| false)
            .unwrap()
            .linked
            .is_empty(),
        "once"
    );
    let is_link = worktree.path().join("node_modules").is_symlink();
    assert_eq!(is_link, writable);
    if writable {
        // A symlink through which agents may no longer write becomes a copy.
        let again = worktree
            .set_up(&links, false, &[], LONG, &[], &|| false)
            .unwrap();
        assert_eq!(again.linked.len(), 2);
        assert!(!worktree.path().join("node_modules").is_symlink());
        assert_eq!(read("node_modules/x/index.js"), "x");
    }
}

#[test]
fn copy_leads_nowhere_back_into_the_main_tree() {
    let project = GitProject::new();
    put(&project.folder(), "deps/x", "x");
    put(&project.folder(), "lib/y", "y");
    symlink(
        project.folder().join("lib"),
        project.folder().join("deps/lib"),
    )
    .unwrap();
    // From the worktree this would lead to the main tree, although from the main tree it leads out of it.
    symlink("../../../../../lib", project.folder().join("deps/above")).unwrap();
    symlink("../../../../../none", project.folder().join("deps/none")).unwrap();
    symlink("../lib", project.folder().join("deps/beside")).unwrap();
    let worktree = project.prepare().worktree;
    // A partial copy that a killed process left does not count as a copy.
    put(worktree.path(), ".teamster-copy/half", "half");
    worktree
        .set_up(&words(&["deps"]), false, &[], LONG, &[], &|| false)
        .unwrap();
    let lib = std::fs::read_link(worktree.path().join("deps/lib")).unwrap();
    assert_eq!(lib, worktree.path().join("lib"));
    let read = |name: &str| std::fs::read_link(worktree.path().join("deps").join(name)).unwrap();
    for name in ["above", "none"] {
        let target = read(name);
        let is_outside = target.is_absolute() && !target.starts_with(project.folder());
        assert!(is_outside, "{}", target.display());
    }
    assert_eq!(read("beside"), Path::new("../lib"));
    assert!(!worktree.path().join("deps/half").exists());
    assert!(!worktree.path().join(".teamster-copy").exists());
    assert!(worktree.is_clean().unwrap());
}

#[test]
fn a_link_that_leads_out_is_refused() {
    let project = GitProject::new();
    let outside = project.project.home().join("outside");
    put(&outside, "secret", "secret");
    symlink(&outside, project.folder().join("way-out")).unwrap();
    let worktree = project.prepare().worktree;
    for link in [
        "..",
        "/etc",
        "../home",
        "src/../..",
        "way-out",
        ".git",
        ".git/hooks",
        "",
        ".",
        "nothing",
        "src",
        ".omc",
    ] {
        let error = worktree
            .set_up(&words(&[link]), false, &[], LONG, &[], &|| false)
            .unwrap_err();
        assert_eq!(error.problem, GitProblem::Refused, "{link}: {error}");
    }
    assert!(worktree.is_clean().unwrap());
}

#[test]
fn commands_run_in_the_worktree_up_to_the_first_that_fails() {
    let project = GitProject::new();
    let worktree = project.prepare().worktree;
    let commands = words(&[
        "pwd; echo made > made",
        "echo no >&2; exit 3",
        "touch never",
    ]);
    let setup = worktree
        .set_up(&[], false, &commands, LONG, &[], &|| false)
        .unwrap();
    assert_eq!(setup.steps.len(), 2);
    assert_eq!(
        setup.steps[0].output.trim(),
        worktree.path().to_str().unwrap()
    );
    let failed = setup.failed().unwrap();
    assert_eq!(
        (failed.status.code(), failed.output.as_str()),
        (Some(3), "no\n")
    );
    assert!(worktree.path().join("made").exists() && !worktree.path().join("never").exists());
}

#[test]
fn a_command_that_does_not_end_is_ended() {
    let project = GitProject::new();
    let worktree = project.prepare().worktree;
    let start = Instant::now();
    let commands = words(&["echo begun; sleep 600"]);
    let setup = worktree
        .set_up(
            &[],
            false,
            &commands,
            Duration::from_millis(300),
            &[],
            &|| false,
        )
        .unwrap();
    assert!(setup.failed().unwrap().timed_out);
    assert_eq!(setup.steps[0].output, "begun\n");
    assert!(start.elapsed() < LONG);
}
