//! Programs that are named in a repository's settings are never run.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use teamster_isolate::git::{BranchUpdate, CommitId, Removal, list};

use super::{GitProject, author, put, team};

const HOOKS: [&str; 12] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-checkout",
    "pre-merge-commit",
    "post-merge",
    "post-rewrite",
    "post-index-change",
    "reference-transaction",
    "pre-auto-gc",
    "fsmonitor-watchman",
];

struct TrapProgram {
    program: PathBuf,
    mark: PathBuf,
}

impl TrapProgram {
    /// Plants a program that leaves a mark, wherever git can be made to run one.
    fn plant(project: &GitProject) -> Self {
        let home = project.project.home();
        let trap = Self {
            program: home.join("trap"),
            mark: home.join("mark"),
        };
        let script = format!("#!/bin/sh\necho \"$0 $*\" >> '{}'\n", trap.mark.display());
        let plant = |path: &PathBuf| {
            std::fs::write(path, &script).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        plant(&trap.program);
        let hooks = project.folder().join(".git/hooks");
        let elsewhere = home.join("hooks");
        for folder in [&hooks, &elsewhere] {
            std::fs::create_dir_all(folder).unwrap();
            for name in HOOKS {
                plant(&folder.join(name));
            }
        }
        let program = trap.program.to_str().unwrap();
        for (key, value) in [
            ("core.hooksPath", elsewhere.to_str().unwrap()),
            ("core.fsmonitor", program),
            ("diff.external", program),
            ("diff.trap.textconv", program),
            ("diff.trap.command", program),
            ("core.pager", program),
            ("core.editor", program),
            ("commit.gpgSign", "true"),
            ("gpg.program", program),
            ("credential.helper", program),
        ] {
            project.git(&["config", key, value]);
        }
        put(&project.folder(), ".git/info/attributes", "* diff=trap\n");
        trap
    }

    fn has_sprung(&self) -> Option<String> {
        std::fs::read_to_string(&self.mark).ok()
    }
}

#[test]
fn nothing_that_is_planted_in_a_repository_runs_through_us() {
    let project = GitProject::new();
    let trap = TrapProgram::plant(&project);
    // It would run if a person called git there.
    project.try_git(&project.folder(), &["status"]);
    assert!(trap.has_sprung().is_some(), "the trap does not work");
    std::fs::remove_file(&trap.mark).unwrap();

    let untouched = |what: &str| assert_eq!(trap.has_sprung(), None, "{what}");
    let found = project.found();
    found.repo.exclude_ours().unwrap();
    untouched("find");
    let worktree = project.prepare().worktree;
    untouched("worktree add");
    put(worktree.path(), "README.md", "changed\n");
    put(worktree.path(), "new", "new\n");
    assert!(!worktree.is_clean().unwrap());
    assert_eq!(worktree.changes(&found.head).unwrap().len(), 2);
    untouched("status and diff");
    worktree.salvage().unwrap();
    untouched("salvage");
    let work = worktree.commit_all("Work", &author()).unwrap().unwrap();
    untouched("commit");
    assert_eq!(worktree.changes(&found.head).unwrap().len(), 2);
    found
        .repo
        .pin(&team(), &"1".parse().unwrap(), &work)
        .unwrap();
    untouched("log and update-ref");

    // Another branch to merge, made where nothing is planted.
    let tree = project.git_in(
        &project.folder(),
        &["-c", "core.fsmonitor=false", "rev-parse", "HEAD^{tree}"],
    );
    let side = [
        "-c",
        "commit.gpgSign=false",
        "commit-tree",
        "-p",
        found.head.as_str(),
        "-m",
        "Side",
        &tree,
    ];
    let side: CommitId = project.git(&side).parse().unwrap();
    let _ = std::fs::remove_file(&trap.mark);
    put(worktree.path(), "third", "third\n");
    worktree.commit_all("More", &author()).unwrap().unwrap();
    assert!(matches!(
        worktree.move_to(&side).unwrap(),
        BranchUpdate::Merged(_)
    ));
    untouched("merge");
    put(worktree.path(), "fourth", "fourth\n");
    let again = project.prepare();
    untouched("worktree move and branch -m");
    assert_eq!(again.kept.len(), 1);
    assert_eq!(list(&found.repo, &team()).unwrap().len(), 3);
    assert_eq!(
        again.worktree.move_to(&side).unwrap(),
        BranchUpdate::To(side.clone())
    );
    assert!(matches!(
        again.worktree.remove_if_safe().unwrap(),
        Removal::Kept { .. }
    ));
    project.git(&[
        "-c",
        "core.fsmonitor=false",
        "update-ref",
        "refs/heads/side",
        side.as_str(),
    ]);
    let _ = std::fs::remove_file(&trap.mark);
    assert_eq!(again.worktree.remove_if_safe().unwrap(), Removal::Removed);
    untouched("checkout and worktree remove");
}
