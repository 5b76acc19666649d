//! The settings of a project, and what git should ignore in it.

use serde_json::Value;

use super::{backups, last_lines, names, shown};
use crate::kit::TestProject;

const HEADING: &str = "# teamster (added by `teamster install claude`)";

fn read(project: &TestProject, path: &str) -> String {
    std::fs::read_to_string(project.folder().join(path)).unwrap()
}

#[test]
fn each_scope_has_its_own_file() {
    for (scope, file) in [
        ("project", "settings.json"),
        ("local", "settings.local.json"),
    ] {
        let project = TestProject::new();
        let made = project
            .run(["install", "claude", "--scope", scope, "--json"])
            .succeeds()
            .json();
        let path = project.folder().join(".claude").join(file);
        assert_eq!(made["settings"], path.display().to_string());
        assert_eq!(made["scope"], scope);
        assert_eq!(project.files(), [] as [&str; 0], "the user's are untouched");
        serde_json::from_str::<Value>(&std::fs::read_to_string(&path).unwrap()).unwrap();
        project
            .run(["uninstall", "claude", "--scope", scope])
            .succeeds();
        assert_eq!(names(&project.folder()), [".git"], "no clutter");
    }
    let project = TestProject::new();
    project
        .run(["install", "claude", "--scope", "nonsense"])
        .fails(2);
    project
        .run(["install", "claude", "--scope", "user"])
        .succeeds();
    assert_eq!(
        names(&project.folder()),
        [".git"],
        "no .gitignore for the user's"
    );
}

#[test]
fn the_folders_of_our_state_are_ignored_once_and_in_the_files_own_style() {
    for old in [
        "target\n",
        "target",
        "a\r\nb\r\n",
        "a\r\nb",
        "\n\n# x\n",
        "",
    ] {
        let project = TestProject::new();
        project.write(".gitignore", old);
        project
            .run(["install", "claude", "--scope", "local"])
            .succeeds();
        let new = read(&project, ".gitignore");
        for folder in [".bkit/", ".omc/", ".party/"] {
            assert_eq!(
                new.lines().filter(|line| *line == folder).count(),
                1,
                "{new:?}"
            );
        }
        assert!(new.starts_with(old), "{new:?}");
        assert_eq!(new.ends_with('\n'), old.ends_with('\n'));
        assert_eq!(new.contains("\r\n"), old.contains("\r\n"));
        project
            .run(["install", "claude", "--scope", "project"])
            .succeeds();
        assert_eq!(read(&project, ".gitignore"), new, "once");
        project
            .run(["uninstall", "claude", "--scope", "local"])
            .succeeds();
        assert_eq!(
            read(&project, ".gitignore"),
            new,
            "the project's hooks are still there"
        );
        project
            .run(["uninstall", "claude", "--scope", "project"])
            .succeeds();
        assert_eq!(read(&project, ".gitignore"), old);
    }
}

#[test]
fn lines_that_were_there_before_stay() {
    let project = TestProject::new();
    project.write(".gitignore", "/.omc\n.bkit/\n");
    project
        .run(["install", "claude", "--scope", "local"])
        .succeeds();
    assert_eq!(
        read(&project, ".gitignore"),
        format!("/.omc\n.bkit/\n{HEADING}\n.party/\n")
    );
    project
        .run(["uninstall", "claude", "--scope", "local"])
        .succeeds();
    assert_eq!(read(&project, ".gitignore"), "/.omc\n.bkit/\n");
}

#[test]
fn outside_a_work_tree_there_is_no_gitignore() {
    let project = TestProject::new();
    std::fs::remove_dir(project.folder().join(".git")).unwrap();
    project
        .run(["install", "claude", "--scope", "local"])
        .succeeds();
    assert_eq!(names(&project.folder()), [".claude"]);
}

#[test]
fn a_gitignore_that_cannot_be_written_is_mentioned_and_no_failure() {
    let project = TestProject::new();
    let precious = project.home().join("precious");
    std::fs::write(&precious, "precious\n").unwrap();
    std::os::unix::fs::symlink(&precious, project.folder().join(".gitignore")).unwrap();
    let ran = project
        .run(["install", "claude", "--scope", "local", "--light"])
        .succeeds();
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious\n");
    let said = shown(&ran);
    insta::assert_snapshot!(last_lines(&said, 2), @r"
    [root]/project/.gitignore stays as it is: it is a link
    teamster's hooks are in [root]/project/.claude/settings.local.json; the next session of Claude Code calls them
    ");
}

#[test]
fn a_backup_in_a_project_does_not_show_up_in_git() {
    let project = TestProject::new();
    std::fs::remove_dir(project.folder().join(".git")).unwrap();
    let git = |line: &str| project.shell(line).run().exits(0).stdout;
    git("git init -q . 2>&1");
    let exclude = read(&project, ".git/info/exclude");
    project.write(
        ".claude/settings.local.json",
        "{\"env\": {\"TOKEN\": \"secret\"}}\n",
    );
    git("git add -A && git -c user.name=a -c user.email=a@b commit -qm a");
    project
        .run(["install", "claude", "--scope", "local"])
        .succeeds();
    assert_eq!(backups(&project.folder().join(".claude")).len(), 1);
    let status = git("git status --porcelain");
    assert_eq!(status, " M .claude/settings.local.json\n?? .gitignore\n");
    project
        .run(["uninstall", "claude", "--scope", "local"])
        .succeeds();
    assert_eq!(git("git status --porcelain"), "");
    assert_eq!(read(&project, ".git/info/exclude"), exclude);

    // The same from a linked worktree.
    git("git worktree add -q ../tree 2>&1");
    let tree = project.folder().join("../tree").canonicalize().unwrap();
    let call = |args: &[&str]| project.call(args).folder(&tree).run();
    call(&["install", "claude", "--scope", "local"]).succeeds();
    let status = git("git -C ../tree status --porcelain");
    assert_eq!(status, " M .claude/settings.local.json\n?? .gitignore\n");
    call(&["uninstall", "claude", "--scope", "local"]).succeeds();
    assert_eq!(git("git -C ../tree status --porcelain"), "");
    assert_eq!(read(&project, ".git/info/exclude"), exclude);
}
