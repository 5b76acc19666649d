//! Landing: the user's branch is fast-forwarded, or nothing of the user changes.

use std::collections::BTreeMap;
use std::path::Path;

use teamster_isolate::git::{CommitId, GitProblem, Integration, Landed, MergeOutcome};

use super::integration::merge;
use super::{GitProject, put};

/// Everything that belongs to the user, byte for byte.
#[derive(PartialEq)]
pub struct UserState(pub BTreeMap<String, Vec<u8>>);

impl std::fmt::Debug for UserState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = self
            .0
            .iter()
            .map(|(name, bytes)| (name, String::from_utf8_lossy(bytes)));
        f.debug_map().entries(shown).finish()
    }
}

impl GitProject {
    /// Returns the files of the work tree, the index, the stash, HEAD and all branches except the team's, and git's
    /// other state beside them, so that not even a note is lost.
    pub fn user_state(&self) -> UserState {
        let mut state = BTreeMap::new();
        collect(&self.folder(), &self.folder(), &mut state);
        for refs in [
            "for-each-ref",
            "stash list",
            "status --porcelain=v2 --branch",
        ] {
            let args: Vec<&str> = refs.split(' ').collect();
            // Reading must not write: `status` would refresh the index that is compared.
            let mut look = self.git_command(&self.folder(), &args);
            let said = look.env("GIT_OPTIONAL_LOCKS", "0").output().unwrap();
            assert!(said.status.success(), "git {refs}");
            let said = String::from_utf8(said.stdout).unwrap();
            let own: Vec<&str> = said
                .lines()
                .filter(|line| !line.contains("omc-team/") && !line.contains("refs/teamster/"))
                .collect();
            state.insert(format!("git {refs}"), own.join("\n").into_bytes());
        }
        UserState(state)
    }
}

fn collect(root: &Path, folder: &Path, state: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.strip_prefix(root).unwrap().display().to_string();
        // Objects are only ever added; worktrees and branches of the team do not belong to the user.
        let others = [
            ".omc",
            ".git/objects",
            ".git/worktrees",
            ".git/hooks",
            ".git/logs/refs/heads",
        ];
        if others.contains(&name.as_str()) || name.contains("omc-team") {
            continue;
        }
        let kind = std::fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            collect(root, &path, state);
        } else {
            let mode = std::os::unix::fs::PermissionsExt::mode(&kind.permissions());
            let mut bytes = std::fs::read(&path).unwrap();
            bytes.extend(format!("\nmode {mode:o}").into_bytes());
            state.insert(name, bytes);
        }
    }
}

/// Makes a project whose team has changed `README.md`, added `new` and `ignored`, and removed nothing.
fn verified() -> (GitProject, Integration, CommitId) {
    let project = GitProject::new();
    project.project.write("other", "other\n");
    project.project.write(".gitignore", "ignored\n");
    let base = project.commit("More");
    let integration = project.integration();
    let place = project.project.home().join("made");
    project.git(&[
        "worktree",
        "add",
        "--quiet",
        "--detach",
        place.to_str().unwrap(),
    ]);
    put(&place, "README.md", "two\n");
    put(&place, "new", "new\n");
    put(&place, "ignored", "from the team\n");
    project.git_in(&place, &["add", "--force", "ignored"]);
    let commit = project.commit_in(&place, "Work");
    let made = merge(&integration, &commit, "1");
    assert_eq!(project.found().head, base);
    project.git(&["worktree", "remove", place.to_str().unwrap()]);
    (project, integration, made)
}

#[test]
fn a_branch_that_is_checked_out_goes_forward_with_its_files() {
    let (project, integration, made) = verified();
    let from = project.found().head;
    assert_eq!(
        integration.land("main", &made).unwrap(),
        Landed::Done {
            from,
            folder: Some(project.found().repo.root().to_owned())
        }
    );
    assert_eq!(project.found().head, made);
    assert_eq!(
        project.git(&["status", "--porcelain", "--untracked-files=no"]),
        ""
    );
    assert!(project.folder().join("new").exists());
    let state = project.user_state();
    assert_eq!(integration.land("main", &made).unwrap(), Landed::Already);
    assert_eq!(project.user_state(), state);
}

#[test]
fn what_the_user_has_elsewhere_stays_as_it_is() {
    let (project, integration, made) = verified();
    project.project.write("other", "mine\n");
    project
        .project
        .write("src/main.rs", "fn main() { staged() }\n");
    project.git(&["add", "src/main.rs"]);
    project.project.write("untracked", "mine\n");
    let landed = integration.land("main", &made).unwrap();
    assert!(matches!(landed, Landed::Done { .. }), "{landed:?}");
    assert_eq!(
        project.git(&[
            "status",
            "--porcelain",
            "--untracked-files=all",
            "--",
            ":!.omc"
        ]),
        " M other\nM  src/main.rs\n?? untracked"
    );
}

#[test]
fn whatever_stands_in_the_way_nothing_changes_and_the_command_is_told() {
    type Arrange = fn(&GitProject);
    let cases: [(&str, Arrange); 9] = [
        ("changed", |project| {
            project.project.write("README.md", "mine\n");
        }),
        ("staged", |project| {
            project.project.write("README.md", "mine\n");
            project.git(&["add", "README.md"]);
        }),
        ("staged and changed again, with more beside it", |project| {
            project.project.write("README.md", "staged\n");
            project.project.write("other", "staged\n");
            project.git(&["add", "README.md", "other"]);
            project.project.write("README.md", "mine\n");
            project.project.write("untracked", "mine\n");
        }),
        ("deleted", |project| {
            project.git(&["rm", "--quiet", "--cached", "README.md"]);
        }),
        ("untracked", |project| {
            project.project.write("new", "mine\n");
        }),
        ("ignored", |project| {
            project.project.write("ignored", "mine\n");
        }),
        ("a merge that is not finished", |project| {
            project.git(&["branch", "side", "HEAD^"]);
            project.git(&["config", "merge.ff", "false"]);
            let tip = project.git(&["commit-tree", "-p", "side", "-m", "Side", "HEAD^{tree}"]);
            project.git(&["update-ref", "refs/heads/side", &tip]);
            project.git(&["merge", "--quiet", "--no-commit", "--no-ff", "side"]);
        }),
        ("a setting that would stash it", |project| {
            project.git(&["config", "merge.autoStash", "true"]);
            project.git(&["config", "rebase.autoStash", "true"]);
            project.project.write("README.md", "mine\n");
        }),
        ("a stash and an older note of git's", |project| {
            project.project.write("other", "stashed\n");
            project.git(&["stash", "push", "--quiet"]);
            project.git(&["update-ref", "ORIG_HEAD", "HEAD^"]);
            project.project.write("README.md", "mine\n");
        }),
    ];
    for (what, arrange) in cases {
        let (project, integration, made) = verified();
        arrange(&project);
        let before = project.user_state();
        let landed = integration.land("main", &made).unwrap();
        let Landed::Refused {
            why,
            command,
            changed: None,
        } = landed
        else {
            panic!("{what}: {landed:?}");
        };
        assert_eq!(project.user_state(), before, "{what}");
        assert!(!why.is_empty(), "{what}");
        let root = project.found().repo.root().display().to_string();
        assert_eq!(
            command,
            format!("git -C {root} merge --ff-only {made}"),
            "{what}"
        );
        assert!(integration.is_clean().unwrap(), "{what}");
    }
}

#[test]
fn the_command_that_is_told_does_it_once_the_way_is_free() {
    let (project, integration, made) = verified();
    project.project.write("README.md", "mine\n");
    let Landed::Refused { command, .. } = integration.land("main", &made).unwrap() else {
        panic!("not refused");
    };
    project.git(&["stash", "push", "--quiet"]);
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    project.git(&words);
    assert_eq!(project.found().head, made);
    assert_eq!(integration.land("main", &made).unwrap(), Landed::Already);
}

#[test]
fn a_branch_that_nobody_looks_at_is_moved_with_its_old_value() {
    let (project, integration, made) = verified();
    let base = project.found().head;
    project.git(&["checkout", "--quiet", "-b", "elsewhere"]);
    project.project.write("README.md", "mine\n");
    project.project.write("new", "mine\n");
    let mut before = project.user_state();
    let landed = integration.land("main", &made).unwrap();
    assert_eq!(
        landed,
        Landed::Done {
            from: base.clone(),
            folder: None
        }
    );
    assert_eq!(project.git(&["rev-parse", "main"]), made.as_str());
    let mut after = project.user_state();
    for key in ["git for-each-ref", ".git/refs/heads/main"] {
        assert_ne!(before.0.remove(key), after.0.remove(key), "{key}");
    }
    assert_eq!(after, before, "only that branch has moved");

    // A rebase that will return to this branch.
    let (project, integration, made) = verified();
    project.git(&["checkout", "--quiet", "--detach"]);
    put(
        &project.folder(),
        ".git/rebase-merge/head-name",
        "refs/heads/main\n",
    );
    let before = project.user_state();
    let landed = integration.land("main", &made).unwrap();
    assert!(
        matches!(&landed, Landed::Refused { why, .. } if why.contains("a rebase")),
        "{landed:?}"
    );
    assert_eq!(project.user_state(), before);
}

#[test]
fn a_branch_in_another_work_tree_of_the_users_lands_there() {
    let (project, integration, made) = verified();
    project.git(&["checkout", "--quiet", "--detach"]);
    let there = project.project.home().join("there");
    project.git(&[
        "worktree",
        "add",
        "--quiet",
        there.to_str().unwrap(),
        "main",
    ]);
    put(&there, "README.md", "mine\n");
    let before = project.user_state();
    let landed = integration.land("main", &made).unwrap();
    assert!(matches!(landed, Landed::Refused { .. }), "{landed:?}");
    assert_eq!(
        std::fs::read_to_string(there.join("README.md")).unwrap(),
        "mine\n"
    );
    assert_eq!(project.user_state(), before);
    project.git_in(&there, &["checkout", "--quiet", "README.md"]);
    let landed = integration.land("main", &made).unwrap();
    assert!(
        matches!(
            landed,
            Landed::Done {
                folder: Some(_),
                ..
            }
        ),
        "{landed:?}"
    );
    assert_eq!(project.head_of(&there), made);
    assert!(there.join("new").exists());
}

#[test]
fn a_branch_that_has_moved_is_told_and_can_be_caught_up_with() {
    let (project, integration, made) = verified();
    project.project.write("later", "later\n");
    let later = project.commit("Later");
    project.project.write("other", "mine\n");
    let before = project.user_state();
    assert_eq!(
        integration.land("main", &made).unwrap(),
        Landed::Moved { now: later.clone() }
    );
    assert_eq!(project.user_state(), before);
    let MergeOutcome::Made(caught_up) = integration
        .bring_up_to_date(&integration.head().unwrap(), "main")
        .unwrap()
    else {
        panic!("not merged");
    };
    assert_eq!(project.user_state(), before);
    assert_eq!(
        integration.land("main", &caught_up).unwrap(),
        Landed::Done {
            from: later,
            folder: Some(project.found().repo.root().to_owned())
        }
    );
    assert_eq!(project.git(&["diff", "--name-only"]), "other");
}

#[test]
fn only_what_the_team_has_merged_lands_and_only_on_a_branch_of_the_users() {
    let (project, integration, made) = verified();
    let stray = project.work(&project.found().head, &[("stray", "stray")]);
    let before = project.user_state();
    let refused = |branch: &str, commit: &CommitId| {
        let error = integration.land(branch, commit).unwrap_err();
        assert_eq!(error.problem, GitProblem::Refused, "{branch}: {error}");
    };
    refused("main", &stray);
    refused("omc-team/fix-auth/integration", &made);
    refused("main@{0}", &made);
    refused("", &made);
    assert_eq!(integration.land("nowhere", &made).unwrap(), Landed::Gone);
    assert_eq!(project.user_state(), before);
}

#[test]
fn settings_for_merges_do_not_make_another_commit_of_it() {
    let (project, integration, made) = verified();
    project.git(&["config", "branch.main.mergeOptions", "--squash --no-commit"]);
    project.git(&["config", "merge.ff", "false"]);
    project.git(&["config", "merge.verifySignatures", "true"]);
    let landed = integration.land("main", &made).unwrap();
    assert!(matches!(landed, Landed::Done { .. }), "{landed:?}");
    assert_eq!(project.found().head, made);
}
