//! Invalid settings: a clear error with a hint, and nothing is changed.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::{backups, last_lines, names, shown, with_settings};
use crate::kit::TestProject;

#[test]
fn what_is_not_plain_json_is_not_edited_and_what_to_paste_is_shown() {
    let commented = "{\n  // my settings\n  \"model\": \"opus\",\n}\n";
    let project = with_settings(commented);
    let ran = project.run(["install", "claude", "--light"]).fails(6);
    insta::assert_snapshot!(shown(&ran), @r#"
    error: [root]/home/.claude/settings.json is not plain JSON (line 2, column 3: a comment), so it is not edited
    hint: correct that and try again, or add this to it by hand:

      "hooks": {
        "SubagentStart": [{"hooks": [{"type": "command", "command": "[teamster] hook SubagentStart", "timeout": 5}]}],
        "SubagentStop": [{"hooks": [{"type": "command", "command": "[teamster] hook SubagentStop", "timeout": 5}]}],
        "TeammateIdle": [{"hooks": [{"type": "command", "command": "[teamster] hook TeammateIdle", "timeout": 5}]}],
        "TaskCreated": [{"hooks": [{"type": "command", "command": "[teamster] hook TaskCreated", "timeout": 5}]}],
        "TaskCompleted": [{"hooks": [{"type": "command", "command": "[teamster] hook TaskCompleted", "timeout": 5}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "[teamster] hook Stop", "timeout": 5}]}],
        "StopFailure": [{"hooks": [{"type": "command", "command": "[teamster] hook StopFailure", "timeout": 5}]}],
        "SessionStart": [{"hooks": [{"type": "command", "command": "[teamster] hook SessionStart", "timeout": 5}]}],
        "SessionEnd": [{"hooks": [{"type": "command", "command": "[teamster] hook SessionEnd", "timeout": 5}]}],
        "Notification": [{"hooks": [{"type": "command", "command": "[teamster] hook Notification", "timeout": 5}]}]
      }
    "#);
    assert_eq!(project.read("settings.json"), commented);
    // The snippet in the error can be pasted.
    let (_, snippet) = ran.stderr.split_once("\n\n").unwrap();
    let pasted: serde_json::Value = serde_json::from_str(&format!("{{{snippet}}}")).unwrap();
    assert_eq!(pasted["hooks"]["Stop"][0]["hooks"][0]["timeout"], 5);
    let ran = project.run(["uninstall", "claude"]).fails(6);
    insta::assert_snapshot!(shown(&ran), @r"
    error: [root]/home/.claude/settings.json is not plain JSON (line 2, column 3: a comment), so it is not edited
    hint: correct that and try again, or take out every hook whose command is `teamster hook …` by hand
    ");

    for text in [
        "{\"a\": 1,}",
        "{'a': 1}",
        "{\"a\": 1",
        "{\"a\": 1} x",
        "{\"a\": NaN}",
        "{\"a\": \"\n\"}",
        "# yaml\na: 1\n",
        &"[".repeat(100_000),
    ] {
        let project = with_settings(text);
        project.run(["install", "claude"]).fails(6);
        assert_eq!(project.read("settings.json"), text);
        assert_eq!(names(&project.claude("")), ["settings.json"]);
    }
}

#[test]
fn what_has_the_wrong_type_is_not_edited() {
    for (text, place) in [
        ("[]", "the whole of it is an array"),
        ("null", "the whole of it is null"),
        ("{\"hooks\": []}", "`hooks` is an array"),
        ("{\"hooks\": \"x\"}", "`hooks` is a string"),
        ("{\"hooks\": null}", "`hooks` is null"),
        ("{\"hooks\": {\"Stop\": {}}}", "`hooks.Stop` is an object"),
        (
            "{\"hooks\": {\"Stop\": [], \"PreToolUse\": true}}",
            "`hooks.PreToolUse` is a boolean",
        ),
    ] {
        let project = with_settings(text);
        let ran = project.run(["install", "claude"]).fails(6);
        assert!(ran.stderr.contains(place), "{}", ran.stderr);
        assert_eq!(project.read("settings.json"), text);
        // The file contains no hooks of teamster, so there is nothing to remove either.
        project.run(["uninstall", "claude"]).succeeds();
    }
}

#[test]
fn odd_entries_of_others_are_left_alone() {
    let odd = "{\"hooks\": {\"Stop\": [1, null, {}, {\"hooks\": {}}, {\"hooks\": [2, {\"type\": 3}]}], \"Odd\": 4}}";
    let project = with_settings(odd);
    project.run(["install", "claude"]).succeeds();
    project.run(["uninstall", "claude"]).succeeds();
    assert_eq!(project.read("settings.json"), odd);
}

#[test]
fn what_is_not_utf_8_is_not_edited() {
    let project = with_settings("");
    let bytes = b"{\"a\": \"\xff\"}";
    std::fs::write(project.claude("settings.json"), bytes).unwrap();
    project.run(["install", "claude"]).fails(6);
    project.run(["uninstall", "claude"]).fails(6);
    assert_eq!(
        std::fs::read(project.claude("settings.json")).unwrap(),
        bytes
    );
}

#[test]
fn read_only_settings_are_meant_to_stay() {
    let project = with_settings("{}\n");
    let path = project.claude("settings.json");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    let ran = project.run(["install", "claude", "--light"]).fails(7);
    let said = shown(&ran);
    let said: Vec<&str> = said.lines().take(3).collect();
    insta::assert_snapshot!(said.join("\n"), @r"
    error: [root]/home/.claude/settings.json is read-only
    hint: `chmod u+w [root]/home/.claude/settings.json` lets it be written, or add this by hand where it is generated:
    ");
    assert_eq!(project.read("settings.json"), "{}\n");
    assert_eq!(names(&project.claude("")), ["settings.json"]);
}

#[test]
fn a_folder_or_a_pipe_is_not_settings() {
    let project = TestProject::new();
    std::fs::create_dir_all(project.claude("settings.json")).unwrap();
    project.run(["install", "claude"]).fails(6);
    project.run(["uninstall", "claude"]).fails(6);
    std::fs::remove_dir(project.claude("settings.json")).unwrap();
    let made = project.shell("mkfifo ~/.claude/settings.json").run();
    made.succeeds();
    project.run(["install", "claude"]).fails(6);
    project.run(["install", "claude", "--dry-run"]).fails(6);
    project.run(["uninstall", "claude"]).fails(6);
}

#[test]
fn without_a_home_there_are_no_settings() {
    let project = TestProject::new();
    let ran = project
        .call(["install", "claude"])
        .without_env("HOME")
        .run();
    ran.fails(7);
    let ran = project
        .call(["install", "claude"])
        .env("HOME", "/nowhere/at/all")
        .run();
    ran.fails(7);
}

#[test]
fn a_link_to_ones_own_settings_is_written_through() {
    let project = TestProject::new();
    let dotfiles = project.home().join("dotfiles");
    std::fs::create_dir_all(&dotfiles).unwrap();
    std::fs::create_dir_all(project.claude("")).unwrap();
    let real = dotfiles.join("claude.json");
    std::fs::write(&real, "{\n  \"model\": \"opus\"\n}\n").unwrap();
    let link = project.claude("settings.json");
    symlink("../dotfiles/claude.json", &link).unwrap();

    let ran = project.run(["install", "claude", "--light"]).succeeds();
    assert!(link.is_symlink());
    assert!(
        std::fs::read_to_string(&real)
            .unwrap()
            .contains(" hook Stop")
    );
    assert_eq!(names(&dotfiles), ["claude.json"], "the backup is elsewhere");
    assert_eq!(backups(&project.claude("")).len(), 1);
    let said = shown(&ran);
    insta::assert_snapshot!(last_lines(&said, 3), @r"
    [root]/home/.claude/settings.json is a link; the real file is [root]/home/dotfiles/claude.json
    a backup is kept in [root]/home/.claude/settings.json.teamster-backup-[time]
    teamster's hooks are in [root]/home/.claude/settings.json; the next session of Claude Code calls them
    ");
    let again = project
        .run(["install", "claude", "--light", "--json"])
        .json();
    assert_eq!(again["link"], real.display().to_string());

    project.run(["uninstall", "claude"]).succeeds();
    assert!(link.is_symlink());
    let left = std::fs::read_to_string(&real).unwrap();
    assert_eq!(left, "{\n  \"model\": \"opus\"\n}\n");

    // A symlink must never be left dangling.
    std::fs::write(&real, "").unwrap();
    project.run(["install", "claude"]).succeeds();
    std::fs::remove_file(&backups(&project.claude(""))[0]).unwrap();
    project.run(["uninstall", "claude"]).succeeds();
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "{}\n");
}

#[test]
fn a_link_that_leads_nowhere_or_in_circles_is_refused() {
    let project = TestProject::new();
    std::fs::create_dir_all(project.claude("")).unwrap();
    let link = project.claude("settings.json");
    symlink("nowhere.json", &link).unwrap();
    let ran = project.run(["install", "claude"]).fails(6);
    insta::assert_snapshot!(shown(&ran), @r"
    error: [root]/home/.claude/settings.json is a link that leads to no file
    hint: make the file it should lead to (`{}` is enough), or remove the link
    ");
    assert_eq!(names(&project.claude("")), ["settings.json"]);
    std::fs::remove_file(&link).unwrap();
    symlink("settings.json", &link).unwrap();
    project.run(["install", "claude"]).fails(6);
    project.run(["uninstall", "claude"]).fails(6);
}

#[test]
fn a_project_does_not_lead_out_of_itself() {
    let project = with_settings("{}\n");
    std::fs::create_dir_all(project.folder().join(".claude")).unwrap();
    let link = project.folder().join(".claude/settings.json");
    symlink(project.claude("settings.json"), &link).unwrap();
    let ran = project
        .run(["install", "claude", "--scope", "project"])
        .fails(6);
    insta::assert_snapshot!(shown(&ran), @r"
    error: [root]/project/.claude/settings.json leads out of the project, to [root]/home/.claude/settings.json
    hint: `--scope user` is for the settings of all your projects; for this one, remove the link
    ");
    std::fs::remove_file(&link).unwrap();
    std::fs::remove_dir(project.folder().join(".claude")).unwrap();
    symlink(project.claude(""), project.folder().join(".claude")).unwrap();
    project
        .run(["install", "claude", "--scope", "project"])
        .fails(6);
    project
        .run(["install", "claude", "--scope", "local"])
        .fails(6);
    assert_eq!(project.read("settings.json"), "{}\n");
}

#[test]
fn hooks_that_are_turned_off_are_mentioned() {
    let project = with_settings("{\"disableAllHooks\": true}");
    let ran = project
        .run(["install", "claude", "--json"])
        .succeeds()
        .json();
    let remark = ran["remarks"][0].as_str().unwrap();
    assert!(remark.contains("disableAllHooks"), "{remark}");
}
