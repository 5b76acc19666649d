//! References, reports and logs that accumulate, leak or conflict.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use teamster_isolate::git::{Author, Integration, Landed, MergeOutcome, Worktree};

use crate::isolate::{GitProject, put, team, worker};
use crate::kit::TestProject;
use crate::run::Shop;

const MENDS: &str =
    "[[step]]\ntask = \"mend it\"\ndo = \"edit\"\npath = \"mended.txt\"\ncontent = \"mended\\n\"\n";
const AUTO: [&str; 4] = ["--verify", "test -e mended.txt", "--approve", "auto"];

/// Makes a shop with branch and tag names that are ambiguous in git.
fn with_ambiguous_names() -> Shop {
    let shop = Shop::new();
    shop.project.write("HEAD", "a file of the project\n");
    shop.git(&["add", "--all"]);
    shop.git(&["commit", "--quiet", "--message", "Add a file named HEAD"]);
    let head = shop.git(&["rev-parse", "--verify", "HEAD"]);
    let first = shop.git(&["rev-parse", "--verify", "HEAD~1"]);
    let blob = shop.git(&["rev-parse", "HEAD:news.txt"]);
    shop.git(&["update-ref", "refs/tags/main", &first]);
    for name in ["integration", "worker-1"] {
        shop.git(&[
            "update-ref",
            &format!("refs/tags/omc-team/shop/{name}"),
            &blob,
        ]);
        let remote = format!("refs/remotes/omc-team/shop/{name}");
        shop.git(&["update-ref", &remote, &first]);
    }
    for kind in ["heads", "tags"] {
        shop.git(&["update-ref", &format!("refs/{kind}/{head}"), &first]);
    }
    shop.git(&["update-ref", "refs/tags/refs/heads/main", &first]);
    shop.project.write(&head, "a file named like a commit\n");
    shop
}

#[test]
fn run_with_ambiguous_names_lands_on_the_branch() {
    let shop = with_ambiguous_names();
    let before = shop.git(&["rev-parse", "refs/heads/main"]);
    shop.scripted_run(MENDS, &AUTO).run().exits(0);
    assert_eq!(shop.git(&["show", "refs/heads/main:mended.txt"]), "mended");
    assert_eq!(
        shop.git(&["symbolic-ref", "HEAD"]),
        "refs/heads/main",
        "the user's checkout stays on its branch"
    );
    let range = format!("{before}..refs/heads/main");
    let count = shop.git(&["rev-list", "--count", "--first-parent", &range, "--"]);
    assert_eq!(count, "1", "the branch went forward from where it was");
    assert!(shop.folder().join("mended.txt").exists());
    assert!(shop.left().is_empty(), "{:?}", shop.left());
}

#[test]
fn run_with_a_base_named_like_a_tag_begins_at_the_branch() {
    let shop = with_ambiguous_names();
    let head = shop.git(&["rev-parse", "refs/heads/main"]);
    let more = [&AUTO[..], &["--base", "main"]].concat();
    shop.scripted_run(MENDS, &more).run().exits(0);
    let begun = shop.events_of("run.started").remove(0);
    assert_eq!(begun["data"]["base"]["commit"], head.as_str());
    assert_eq!(shop.git(&["show", "refs/heads/main:mended.txt"]), "mended");
}

#[test]
fn run_with_a_base_that_is_no_branch_lands_on_the_branch_that_is_checked_out() {
    let shop = with_ambiguous_names();
    shop.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let more = [&AUTO[..], &["--base", "main~0"]].concat();
    shop.scripted_run(MENDS, &more).run().exits(0);
    assert_eq!(shop.git(&["show", "refs/heads/main:mended.txt"]), "mended");
}

#[test]
fn commands_that_are_printed_for_kept_work_name_the_branch_exactly() {
    let shop = with_ambiguous_names();
    shop.scripted_run(MENDS, &["--approve", "never"])
        .run()
        .exits(0);
    shop.run(&["reject", "--team", "shop", "--commit", &shop.asked()])
        .exits(10);
    let report = shop.report();
    assert!(
        report.contains("refs/heads/omc-team/shop/integration"),
        "{report}"
    );
    let printed = report
        .lines()
        .find_map(|line| Some(line.split_once("`git log")?.1.split_once('`')?.0))
        .unwrap();
    let shown = shop
        .project
        .shell(&format!("git log {printed}"))
        .run()
        .exits(0);
    assert!(shown.stdout.contains("mended.txt"), "{}", shown.stdout);
    let kept = shop.run(&["worktree", "gc", "--json"]).exits(0).json();
    let command = kept["kept"][0]["command"].as_str().unwrap();
    shop.project.shell(command).run().exits(0);
    assert!(shop.left().is_empty(), "{:?}", shop.left());
}

/// User settings that must not change what a run does. `feature.manyFiles` is left out: together with
/// `core.splitIndex` git 2.47 itself breaks the index. NOWHERE is a path that does not exist, FOLDER is a folder.
const SETTINGS: &[(&str, &str)] = &[
    ("branch.main.mergeOptions", "--no-ff --squash"),
    ("branch.sort", "-committerdate"),
    ("clean.requireForce", "true"),
    ("color.diff", "always"),
    ("color.status", "always"),
    ("color.ui", "always"),
    ("column.ui", "always"),
    ("commit.cleanup", "scissors"),
    ("commit.gpgSign", "true"),
    ("commit.status", "true"),
    ("commit.template", "NOWHERE"),
    ("commit.verbose", "2"),
    ("core.abbrev", "5"),
    ("core.attributesFile", "FOLDER"),
    ("core.commitGraph", "true"),
    ("core.editor", "false"),
    ("core.excludesFile", "NOWHERE"),
    ("core.fsmonitor", "NOWHERE"),
    ("core.hooksPath", "NOWHERE"),
    ("core.logAllRefUpdates", "always"),
    ("core.pager", "false"),
    ("core.quotePath", "false"),
    ("core.safecrlf", "true"),
    ("core.autocrlf", "input"),
    ("core.splitIndex", "true"),
    ("core.untrackedCache", "true"),
    ("core.warnAmbiguousRefs", "false"),
    ("diff.algorithm", "patience"),
    ("diff.colorMoved", "zebra"),
    ("diff.context", "0"),
    ("diff.dstPrefix", "there/"),
    ("diff.external", "false"),
    ("diff.ignoreSubmodules", "all"),
    ("diff.interHunkContext", "9"),
    ("diff.mnemonicPrefix", "true"),
    ("diff.noprefix", "true"),
    ("diff.orderFile", "NOWHERE"),
    ("diff.relative", "true"),
    ("diff.renames", "copies"),
    ("diff.srcPrefix", "here/"),
    ("diff.statGraphWidth", "3"),
    ("diff.statNameWidth", "5"),
    ("diff.submodule", "diff"),
    ("diff.suppressBlankEmpty", "true"),
    ("diff.wsErrorHighlight", "all"),
    ("feature.experimental", "true"),
    ("gpg.program", "false"),
    ("i18n.commitEncoding", "ISO-8859-1"),
    ("index.threads", "1"),
    ("index.version", "4"),
    ("init.defaultBranch", "other"),
    ("init.templateDir", "NOWHERE"),
    ("log.decorate", "full"),
    ("log.diffMerges", "off"),
    ("log.follow", "true"),
    ("log.showRoot", "false"),
    ("log.showSignature", "true"),
    ("merge.autoStash", "true"),
    ("merge.conflictStyle", "zdiff3"),
    ("merge.ff", "only"),
    ("merge.log", "true"),
    ("merge.stat", "true"),
    ("merge.verifySignatures", "true"),
    ("notes.displayRef", "refs/notes/*"),
    ("pull.ff", "only"),
    ("rerere.enabled", "true"),
    ("safe.bareRepository", "explicit"),
    ("status.branch", "true"),
    ("status.relativePaths", "true"),
    ("status.showStash", "true"),
    ("status.showUntrackedFiles", "no"),
    ("status.submoduleSummary", "true"),
    ("submodule.recurse", "true"),
    ("tag.gpgSign", "true"),
    ("transfer.hideRefs", "refs/teamster"),
    ("user.useConfigOnly", "true"),
    ("worktree.guessRemote", "true"),
];

/// Writes the settings as the user's own, in `home`.
fn write_settings(home: &Path, folder: &Path) {
    let mut text = String::new();
    for (key, value) in SETTINGS {
        let (section, name) = key.rsplit_once('.').unwrap();
        let section = match section.split_once('.') {
            Some((section, part)) => format!("{section} \"{part}\""),
            None => section.to_owned(),
        };
        let value = value
            .replace("NOWHERE", "/nowhere/at-all")
            .replace("FOLDER", folder.to_str().unwrap());
        let _ = writeln!(text, "[{section}]\n\t{name} = {value}");
    }
    std::fs::write(home.join(".gitconfig"), text).unwrap();
}

/// Returns the result of a team's work, as it is shown and as it lands.
fn work(project: &GitProject) -> Vec<String> {
    let found = project.found();
    let (repo, base) = (&found.repo, &found.head);
    repo.exclude_ours().unwrap();
    let tree = project.prepare().worktree;
    let integration = Integration::prepare(repo, &team(), base)
        .unwrap()
        .integration;
    let folder = tree.path();
    put(folder, "README.md", "one\n\ntwo\n");
    put(folder, "a/\u{e4} b.txt", "new\r\nlines\n");
    std::fs::rename(folder.join("src/main.rs"), folder.join("src/other.rs")).unwrap();
    let message = "Work \u{e4}\n# no comment\n";
    let commit = tree
        .commit_all(message, &Author::default())
        .unwrap()
        .unwrap();
    let changes = format!("{:?}", tree.changes(base).unwrap());
    let task = "1".parse().unwrap();
    let MergeOutcome::Made(merged) = integration
        .merge(&integration.head().unwrap(), &commit, &task, &worker())
        .unwrap()
    else {
        panic!("not merged");
    };
    // The worker continues with its own commit, and gets what was merged.
    put(folder, "own.txt", "own\n");
    tree.commit_all("Own", &Author::default()).unwrap();
    let moved = format!("{:?}", tree.move_to(&merged).unwrap());
    let shown = [
        changes,
        moved.split('(').next().unwrap().to_owned(),
        String::from_utf8(repo.diff(base, &merged, None).unwrap()).unwrap(),
        format!("{:?}", repo.line_counts(base, &merged).unwrap()),
        format!("{:?}", repo.changed_files(base, &merged).unwrap()),
        format!("{:?}", repo.changed_since_fork(base, &commit).unwrap()),
        format!("{:?}", repo.uncommitted().unwrap()),
        tree.salvage().unwrap(),
    ];
    let landed = integration.land("main", &merged).unwrap();
    assert!(matches!(landed, Landed::Done { .. }), "{landed:?}");
    let plain = |args: &[&str]| {
        let mut command = project.git_command(&project.folder(), args);
        let output = command.env("HOME", "/nowhere").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let kept = [
        plain(&["rev-parse", "main^{tree}"]),
        plain(&["log", "-1", "--format=%B%e", commit.as_str()]),
        plain(&["log", "-1", "--format=%B%e", "main"]),
    ];
    shown.into_iter().chain(kept).collect()
}

#[test]
fn settings_of_the_user_change_nothing_that_git_does_for_a_team() {
    let plain = GitProject::new();
    // The form of files in the work tree remains the user's choice.
    plain.git(&["config", "core.autocrlf", "input"]);
    let expected = work(&plain);
    let project = GitProject::new();
    write_settings(&project.project.home(), &project.project.home());
    for (expected, found) in expected.into_iter().zip(work(&project)) {
        assert_eq!(found, expected);
    }
}

#[test]
fn run_lands_whatever_the_user_has_set_for_git() {
    let shop = Shop::in_use();
    write_settings(&shop.project.home(), &shop.project.home());
    shop.scripted_run(MENDS, &AUTO).run().exits(0);
    let plain = ["-c", "color.ui=false", "show", "main:mended.txt"];
    assert_eq!(shop.git(&plain), "mended");
    shop.is_quiet();
}

/// A worker that waits until it is released.
const WAITS: &str = "[[step]]\ntask = \"mend it\"\ndo = \"run\"\ncommand = \"touch ROOT/at-work; until test -e ROOT/go; do \
    sleep 0.02; done; echo mended > mended.txt\"\n";

/// Cleans up by every command from another home; returns what was removed or ended.
fn cleared_from_another_home(shop: &Shop) -> Vec<String> {
    let home = shop.aside().join("other");
    std::fs::create_dir_all(home.join(".claude/teams")).unwrap();
    let call = |args: &[&str]| shop.call(args).env("HOME", &home).run().exits(0).json();
    let mut cleared = Vec::new();
    let reaped = call(&["zombies", "reap", "--kill", "--ttl", "1s", "--json"]);
    for zombie in reaped["zombies"].as_array().unwrap() {
        if zombie["reaped"] == true {
            cleared.push(format!("{} {}", zombie["kind"], zombie["name"]));
        }
    }
    assert_eq!(
        reaped["killed"].as_array().map_or(0, Vec::len),
        0,
        "{reaped}"
    );
    let gc = call(&["worktree", "gc", "--json"]);
    for removed in gc["removed"].as_array().unwrap() {
        cleared.push(removed["name"].to_string());
    }
    for kept in gc["kept"].as_array().unwrap() {
        let home = shop.project.home();
        let why = kept["kept"].as_str().unwrap();
        assert!(
            why.contains("run") || why.contains(home.to_str().unwrap()),
            "{kept}"
        );
    }
    cleared
}

#[test]
fn run_that_goes_on_is_safe_from_another_home() {
    let shop = Shop::new();
    let mut run = shop.scripted_run(WAITS, &AUTO).spawn();
    shop.until("the worker", || shop.aside().join("at-work").exists());
    assert_eq!(cleared_from_another_home(&shop), [""; 0]);
    std::fs::write(shop.aside().join("go"), "").unwrap();
    assert!(run.wait().unwrap().success());
    assert_eq!(shop.git(&["show", "main:mended.txt"]), "mended");
}

#[test]
fn run_whose_host_was_killed_is_safe_from_another_home() {
    let shop = Shop::new();
    let mut run = shop.scripted_run(WAITS, &AUTO).spawn();
    shop.until("the worker", || shop.aside().join("at-work").exists());
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(cleared_from_another_home(&shop), [""; 0]);
    std::fs::write(shop.aside().join("go"), "").unwrap();
    shop.run(&["run", "--resume", "shop"]).exits(0);
    assert_eq!(shop.git(&["show", "main:mended.txt"]), "mended");
}

#[test]
fn integration_worktree_stays_while_anybody_runs_something_in_the_project() {
    let project = GitProject::new();
    let found = project.found();
    found.repo.exclude_ours().unwrap();
    Integration::prepare(&found.repo, &team(), &found.head).unwrap();
    put(&project.folder(), ".omc/state/run.lock", "");
    let lock = std::fs::File::open(project.folder().join(".omc/state/run.lock")).unwrap();
    lock.lock().unwrap();
    let gc = || {
        let ran = project.project.run(["worktree", "gc", "--json"]);
        ran.succeeds().json()
    };
    let kept = gc();
    assert_eq!(kept["removed"].as_array().unwrap().len(), 0, "{kept}");
    let why = kept["kept"][0]["kept"].as_str().unwrap();
    assert_eq!(why, "a run is going on in this project");
    drop(lock);
    assert_eq!(gc()["removed"][0]["name"], "integration");
}

#[test]
fn project_whose_path_is_not_utf8_is_refused_before_anything_is_made() {
    let shop = Shop::new();
    let root = shop.folder().parent().unwrap().join("roots");
    let odd = root.join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir_all(&root).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(shop.folder())
        .arg(&odd)
        .status();
    assert!(copied.unwrap().success());
    let plan = root.join(OsStr::from_bytes(b"pl\xe4n.toml"));
    std::fs::write(&plan, "[[tasks]]\nid = \"a\"\nsubject = \"a\"\n").unwrap();
    let script = shop.script(MENDS);
    let run = [
        "run",
        "1:w",
        "mend it",
        "--team",
        "shop",
        "--provider",
        &script,
    ];
    let odd_text = odd.as_os_str();
    let folder = |args: &[&OsStr], at: &Path| shop.project.call(args).folder(at).run().fails(6);
    for args in [&run[..], &["team", "create", "shop"]] {
        let args: Vec<&OsStr> = args.iter().map(AsRef::as_ref).collect();
        let said = folder(&args, &odd).stderr;
        assert!(said.contains("is not UTF-8"), "{said}");
    }
    let create = [
        "team".as_ref(),
        "create".as_ref(),
        "shop".as_ref(),
        "--project".as_ref(),
        odd_text,
    ];
    folder(&create, &root);
    shop.project.call(["studio"]).folder(&odd).run().fails(6);
    let names = |folder: &Path| {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(
        names(&root),
        [odd.file_name().unwrap(), plan.file_name().unwrap()]
    );
    assert!(!odd.join(".omc").exists());
    assert!(!shop.project.claude("teams/shop").exists());

    // A resumed run reads its plan again by its path.
    let mut args: Vec<&OsStr> = run.iter().map(AsRef::as_ref).collect();
    args.extend(["--plan".as_ref(), plan.as_os_str()]);
    let said = folder(&args, &shop.folder()).stderr;
    assert!(said.contains("is not UTF-8"), "{said}");
}

/// Makes a project in which the run of team `old` ended some days ago, with its references, report and logs.
fn with_an_old_run(days: u64) -> GitProject {
    let project = GitProject::new();
    let ago = Duration::from_secs(days * 24 * 60 * 60);
    let then = SystemTime::now() - ago;
    let seconds = then.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let date = format!("{seconds} +0000");
    for (branch, reference) in [("main", "task-1"), ("elsewhere", "task-2")] {
        let args = ["commit-tree", "-p", "main", "-m", "Work", "main^{tree}"];
        let mut command = project.git_command(&project.folder(), &args);
        let made = command
            .env("GIT_COMMITTER_DATE", &date)
            .env("GIT_AUTHOR_DATE", &date)
            .output()
            .unwrap();
        let commit = String::from_utf8(made.stdout).unwrap();
        let commit = commit.trim_end();
        project.git(&["update-ref", &format!("refs/heads/{branch}"), commit]);
        let name = format!("refs/teamster/old/{reference}");
        project.git(&["update-ref", &name, commit]);
    }
    for file in OLD_FILES {
        put(&project.folder(), file, "x");
        set_modified(&project.folder().join(file), then);
    }
    project
}

/// What a run leaves in a project, for the team `old`.
const OLD_FILES: [&str; 6] = [
    ".omc/reports/old/report.md",
    ".omc/logs/old/worker-1/1.jsonl",
    ".omc/state/agents/old/worker-1/task.json",
    ".omc/state/team-bridge/old/store",
    ".omc/worktrees/old/.integration.lock",
    ".party/archive/party-old-20260101000000-aaaa/session.json",
];

fn set_modified(file: &Path, time: SystemTime) {
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.set_modified(time).unwrap();
}

fn gc(project: &GitProject, more: &[&str]) -> serde_json::Value {
    let args = [&["worktree", "gc", "--json"], more].concat();
    project.project.run(args).succeeds().json()
}

/// Returns the files of the old run that still exist.
fn old_files(project: &GitProject) -> Vec<&'static str> {
    let mut files = OLD_FILES.to_vec();
    files.retain(|file| project.folder().join(file).exists());
    files
}

fn old_refs(project: &GitProject) -> String {
    project.git(&["for-each-ref", "--format=%(refname)", "refs/teamster"])
}

#[test]
fn run_that_landed_and_is_older_than_the_setting_is_collected() {
    let project = with_an_old_run(40);
    let would = gc(&project, &["--dry-run"]);
    assert_eq!(would["runs"][0]["team"], "old", "{would}");
    assert_eq!(would["runs"][0]["references"].as_array().unwrap().len(), 2);
    assert_eq!(would["runs"][0]["folders"].as_array().unwrap().len(), 6);
    assert_eq!(old_files(&project).len(), 6, "nothing was removed");
    let said = project.project.run(["worktree", "gc", "--dry-run"]);
    let said = said.succeeds().stdout;
    assert!(
        said.contains("would remove leftovers of the run of old"),
        "{said}"
    );

    gc(&project, &[]);
    assert_eq!(old_refs(&project), "");
    assert_eq!(old_files(&project), [""; 0]);
    assert_eq!(gc(&project, &[])["runs"], serde_json::json!([]));
    let empty = project.project.run(["worktree", "gc"]).succeeds().stdout;
    assert_eq!(empty, "no worker has a worktree here\n");
}

#[test]
fn run_younger_than_the_setting_is_not_collected() {
    let project = with_an_old_run(20);
    assert_eq!(gc(&project, &[])["runs"], serde_json::json!([]));
    assert_eq!(old_files(&project).len(), 6);
    project
        .project
        .write(".teamster/config.toml", "[gc]\nkeep = \"10d\"\n");
    gc(&project, &[]);
    assert_eq!(old_files(&project), [""; 0]);
}

#[test]
fn work_that_is_in_no_branch_of_the_user_is_not_collected() {
    let project = with_an_old_run(40);
    project.git(&["branch", "--quiet", "-D", "elsewhere"]);
    // A branch of a team is not a branch of the user.
    let commit = project.git(&["rev-parse", "refs/teamster/old/task-2"]);
    project.git(&["update-ref", "refs/heads/omc-team/other/worker-1", &commit]);
    let collected = gc(&project, &["--team", "old"]);
    assert_eq!(old_refs(&project), "refs/teamster/old/task-2");
    assert_eq!(
        old_files(&project).len(),
        6,
        "what tells about it stays, too"
    );
    let run = &collected["runs"][0];
    assert_eq!(
        run["keptReferences"][0], "refs/teamster/old/task-2",
        "{run}"
    );
    let command = run["command"].as_str().unwrap();
    project.project.shell(command).run().succeeds();
    gc(&project, &["--team", "old"]);
    assert_eq!(old_files(&project), [""; 0]);
}

#[test]
fn clock_that_was_set_back_does_not_make_a_run_old() {
    let project = with_an_old_run(40);
    let report = project.folder().join(OLD_FILES[0]);
    let to_come = SystemTime::now() + Duration::from_secs(400 * 24 * 60 * 60);
    set_modified(&report, to_come);
    assert_eq!(gc(&project, &[])["runs"], serde_json::json!([]));
    assert_eq!(old_files(&project).len(), 6);
}

#[test]
fn run_that_can_go_on_is_not_collected_however_old() {
    for (name, state) in [
        (
            "a heartbeat",
            "state/team-bridge/old/worker-1.heartbeat.json",
        ),
        ("a run", "state/run.lock"),
    ] {
        let project = with_an_old_run(40);
        let file = project.folder().join(".omc").join(state);
        std::fs::write(&file, "{}").unwrap();
        set_modified(&file, UNIX_EPOCH);
        let lock = std::fs::File::open(&file).unwrap();
        lock.lock().unwrap();
        gc(&project, &[]);
        assert_eq!(old_files(&project).len(), 6, "{name}");
    }
}

#[test]
fn nothing_of_a_run_is_left_once_it_was_collected() {
    let shop = Shop::new();
    let before = files_below(&shop.folder());
    for _ in 0..2 {
        shop.scripted_run(MENDS, &AUTO).run().exits(0);
        shop.run(&["team", "delete", "shop"]).exits(0);
        shop.git(&["rm", "--quiet", "mended.txt"]);
        shop.git(&["commit", "--quiet", "--message", "Again"]);
    }
    let gc = || {
        let call = shop.call(["worktree", "gc", "--json"].iter());
        call.env("TEAMSTER_GC_KEEP", "1s").run().exits(0).json()
    };
    shop.until("a second has passed", || {
        gc()["runs"] != serde_json::json!([])
    });
    let mut left = files_below(&shop.folder());
    left.retain(|file| !before.contains(file));
    // One of each per project, however many runs it had; the session is that of the last run.
    left.retain(|file| !file.starts_with(".party/") || file.contains("archive"));
    assert_eq!(
        left,
        [
            ".bkit/.agent-state.lock",
            ".bkit/agent-state.json",
            ".omc/state/run.lock"
        ]
    );
    assert_eq!(shop.git(&["for-each-ref", "refs/teamster"]), "");
}

/// Returns every file of a project except git's own, by path.
fn files_below(folder: &Path) -> Vec<String> {
    let listed = Command::new("find")
        .args([".", "-name", ".git", "-prune", "-o", "-type", "f", "-print"])
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8(listed.stdout).unwrap();
    let mut files: Vec<String> = text
        .lines()
        .map(|line| line.trim_start_matches("./").to_owned())
        .collect();
    files.sort();
    files
}

#[test]
fn leftover_of_a_removed_team_goes_although_another_run_goes_on() {
    let project = GitProject::new();
    let found = project.found();
    found.repo.exclude_ours().unwrap();
    Worktree::prepare(&found.repo, &team(), &worker(), &found.head).unwrap();
    let store = project.project.claude("");
    let note = ".omc/state/team-bridge/fix-auth/store";
    put(&project.folder(), note, store.to_str().unwrap());
    put(&project.folder(), ".omc/state/run.lock", "");
    let lock = std::fs::File::open(project.folder().join(".omc/state/run.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(gc(&project, &[])["removed"][0]["name"], "worker-1");
}

#[test]
fn story_of_sessions_that_grew_too_large_goes_on_in_a_new_file() {
    let project = TestProject::new();
    let long = "{}\n".repeat(1024 * 1024 / 3 + 1);
    project.write(".party/events.ndjson", &long);
    let init = ["session", "init", "--team", "crew", "--task", "Fix it"];
    project.run(init).succeeds();
    let read = |name: &str| {
        let file = project.folder().join(".party").join(name);
        std::fs::read_to_string(file).unwrap()
    };
    assert_eq!(read("events.old.ndjson"), long);
    assert!(read("events.ndjson").contains("crew"));
}
