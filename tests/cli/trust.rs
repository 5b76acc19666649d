//! `teamster trust`: what is shown, who is asked, and how a damaged record is handled.

use std::os::unix::ffi::OsStrExt as _;

use crate::kit::TestProject;
use crate::studio::terminal::Terminal;

const SETTINGS: &str = "[worktree]\nsetup = [\"npm ci\"]\n[permissions]\nother = \"allow\"\n";

fn project() -> TestProject {
    let project = TestProject::new();
    project.write(".teamster/config.toml", SETTINGS);
    project
}

fn state(project: &TestProject) -> serde_json::Value {
    let shown = project.run(["trust", "--show", "--json"]).succeeds();
    shown.json()["state"].clone()
}

#[test]
fn it_shows_all_that_the_project_asks_for() {
    let project = project();
    insta::assert_snapshot!(project.run(["trust", "--show"]).succeeds().shown(), @r"
    [root]/project comes with settings that run commands or allow agents more:
      worktree.setup: npm ci
        ([root]/project/.teamster/config.toml, line 2)
      permissions.other: allow
        ([root]/project/.teamster/config.toml, line 4)
    ");
    insta::assert_snapshot!(project.run(["trust"]).fails(6).shown(), @r"
    error: cannot ask without a terminal
    hint: `teamster trust --show` shows what the project asks for, `--yes` accepts it
    ");
    project.run(["trust", "--yes"]).succeeds();
    assert_eq!(state(&project), "accepted");
    project.write(".teamster/config.toml", "[claim]\nlease = \"2m\"\n");
    assert_eq!(state(&project), "nothing");
    project.run(["trust"]).succeeds();
    let shown = TestProject::new().run(["trust", "--show"]).succeeds();
    assert_eq!(
        shown.stdout,
        "the project asks for nothing that needs your trust\n"
    );
}

#[test]
fn a_text_that_drives_a_terminal_is_shown_harmless() {
    let project = TestProject::new();
    project.write(
        ".teamster/config.toml",
        "[worktree]\nsetup = [\"rm -rf x \\u001b[2K\\u001b[1Gecho nice\"]\n",
    );
    let shown = project.run(["trust", "--show"]).succeeds().stdout;
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
    assert!(shown.contains("rm -rf x"), "{shown:?}");
}

#[test]
fn at_a_terminal_only_a_yes_is_a_yes() {
    for (answer, expected) in [
        ("n\n", "new"),
        ("\n", "new"),
        ("yep\n", "new"),
        ("y\n", "accepted"),
    ] {
        let project = project();
        let mut terminal = Terminal::start(&project, &["trust"]);
        terminal.wait_for("npm ci");
        terminal.wait_for("Run them? [y/N]");
        terminal.press(answer);
        terminal.exits(if expected == "new" { 6 } else { 0 });
        assert_eq!(state(&project), expected, "{answer:?}");
    }
}

#[test]
fn a_link_or_a_damaged_file_trusts_nothing_and_stays_as_it_is() {
    let project = project();
    let folder = project.home().join(".config/teamster");
    let file = folder.join("trust.json");
    project.run(["trust", "--yes"]).succeeds();
    let whole = std::fs::read_to_string(&file).unwrap();
    for damaged in [
        &whole[..whole.len() / 2],
        "",
        "[]",
        "{}",
        "{\"schema\":2,\"projects\":{}}",
        "{\"schema\":1,\"projects\":[]}",
    ] {
        std::fs::write(&file, damaged).unwrap();
        for words in [["trust", "--yes"], ["trust", "--revoke"]] {
            let refused = project.run(words);
            // Nothing can be found in a damaged list of projects; it is refused as soon as it would be changed.
            let refused = refused.fails(6);
            assert!(refused.stderr.contains("trust.json"), "{}", refused.stderr);
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), damaged);
    }
    let elsewhere = project.home().join("elsewhere.json");
    std::fs::write(&elsewhere, &whole).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
    for words in [
        ["trust", "--show"],
        ["trust", "--yes"],
        ["trust", "--revoke"],
    ] {
        let refused = project.run(words).fails(6);
        assert!(refused.stderr.contains("link"), "{}", refused.stderr);
    }
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), whole);
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    project.run(["trust", "--yes"]).fails(6);
}

#[test]
fn projects_with_odd_names_are_told_apart() {
    let home = TestProject::new();
    let names: [&[u8]; 5] = [
        b"a b",
        b"\xff",
        b"%FF",
        "프로젝트\u{7}".as_bytes(),
        b"new\nline",
    ];
    for name in names {
        let folder = home.home().join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir_all(folder.join(".teamster")).unwrap();
        std::fs::write(folder.join(".teamster/config.toml"), SETTINGS).unwrap();
        let call = |words: [&str; 2]| {
            home.call(words)
                .folder(&folder)
                .env("TEAMSTER_PROJECT", &folder)
        };
        let refused = call(["trust", "--show"]).run().succeeds();
        assert!(
            !refused.stdout.contains("you accepted"),
            "{name:?}: {}",
            refused.stdout
        );
        call(["trust", "--yes"]).run().succeeds();
        let shown = call(["trust", "--show"]).run().succeeds();
        assert!(
            shown.stdout.contains("you accepted"),
            "{name:?}: {}",
            shown.stdout
        );
    }
    let text = std::fs::read_to_string(home.home().join(".config/teamster/trust.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["projects"].as_object().unwrap().len(), names.len());
}

#[test]
fn several_at_once_lose_nothing() {
    let home = TestProject::new();
    let children: Vec<_> = (0..8)
        .map(|number| {
            let folder = home.home().join(format!("p{number}"));
            std::fs::create_dir_all(folder.join(".teamster")).unwrap();
            std::fs::write(folder.join(".teamster/config.toml"), SETTINGS).unwrap();
            let call = home.call(["trust", "--yes"]).folder(&folder);
            call.env("TEAMSTER_PROJECT", &folder).spawn()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let text = std::fs::read_to_string(home.home().join(".config/teamster/trust.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(file["projects"].as_object().unwrap().len(), 8);
}

#[test]
fn roles_and_teams_that_bring_commands_ask_for_trust() {
    let project = TestProject::new();
    project.write(
        ".teamster/config.toml",
        "[roles]\nexecutor = \"command:make fix\"\ntester = \"scripted:play/a.toml\"\nreviewer = \"codex\"\n",
    );
    project.write(
        ".teamster/teams/own.md",
        "---\nname: own\nmembers:\n  - { name: leader, agent: boss, provider: 'command:plan it' }\n  \
         - { name: a, agent: executor, provider: 'command:rm -rf x' }\n  - { name: b, agent: codex }\n\
         verify: ['make test']\n---\n",
    );
    insta::assert_snapshot!(project.run(["trust", "--show"]).succeeds().shown(), @r"
    [root]/project comes with settings that run commands or allow agents more:
      roles.executor: command:make fix
        ([root]/project/.teamster/config.toml, line 2)
      roles.tester: scripted:play/a.toml
        ([root]/project/.teamster/config.toml, line 3)
      teams.own.leader: command:plan it
        ([root]/project/.teamster/teams/own.md)
      teams.own.a: command:rm -rf x
        ([root]/project/.teamster/teams/own.md)
      teams.own.verify: make test
        ([root]/project/.teamster/teams/own.md)
    ");
    project.run(["trust", "--yes"]).succeeds();
    assert_eq!(state(&project), "accepted");
    // A script that appears later at the path that a role plays is a different script.
    project.write("play/a.toml", "[[step]]\ndo = \"say\"\ntext = \"hi\"\n");
    assert_eq!(state(&project), "changed");
    project.run(["trust", "--yes"]).succeeds();
    project.write(".teamster/teams/own.md", "---\nname: own\n---\n");
    assert_eq!(state(&project), "changed");
}
