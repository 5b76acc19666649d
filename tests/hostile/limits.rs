//! Few open files, little memory, many files, many teams.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use crate::kit::TestProject;
use crate::run::Shop;

/// The time limit: only an operation that grows faster than its input takes longer.
const LONG: Duration = Duration::from_secs(240);

const SCRIPT: &str = "[[step]]\ndo = \"run\"\ncommand = \"echo mended > news.txt\"\n";

/// Asserts that a run lands in a shell with a resource limit.
#[track_caller]
fn run_lands_under(limit: &str) {
    let shop = Shop::in_use();
    let script = shop.script(SCRIPT);
    let plan = shop.parts(1);
    let line = format!(
        "{limit} && exec teamster run 2:w parts --team shop --provider {script} --plan {plan} --verify 'grep -q mended news.txt' --approve auto"
    );
    let ran = shop.project.shell(&line).run();
    assert_eq!(ran.code, Some(0), "{limit}: {}{}", ran.stdout, ran.stderr);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "mended");
    shop.has_drafts();
    shop.is_quiet();
}

#[test]
fn run_with_64_open_files_lands() {
    run_lands_under("ulimit -n 64");
}

#[test]
fn run_with_50_megabytes_of_memory_lands() {
    run_lands_under("ulimit -d 51200");
}

#[test]
fn run_in_a_repository_of_20000_files_lands() {
    let shop = Shop::new();
    let mut stream = String::from(
        "blob\nmark :1\ndata 2\nx\n\ncommit refs/heads/many\ncommitter t <t@t> 0 +0000\ndata 4\nmany\n",
    );
    for number in 0..20_000 {
        let _ = writeln!(stream, "M 100644 :1 folder-{}/{number}.txt", number / 500);
    }
    std::fs::write(shop.aside().join("stream"), stream).unwrap();
    let import = format!(
        "git fast-import --quiet < {}",
        shop.aside().join("stream").display()
    );
    shop.project.shell(&import).run().exits(0);
    let merge = [
        "merge",
        "--quiet",
        "--allow-unrelated-histories",
        "--message",
        "Many",
        "many",
    ];
    shop.git(&merge);
    let begun = Instant::now();
    let more = [
        "--verify",
        "test -e folder-39/19999.txt",
        "--approve",
        "auto",
    ];
    shop.scripted_run(SCRIPT, &more).run().exits(0);
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    assert_eq!(shop.git(&["show", "main:news.txt"]), "mended");
    assert_eq!(shop.git(&["status", "--porcelain"]), "");
    shop.is_quiet();
}

#[test]
fn twenty_thousand_teams_are_listed_in_little_memory_and_time() {
    let project = TestProject::with_team();
    let config = project.read("teams/fix-auth/config.json");
    for number in 0..20_000 {
        let name = format!("team-{number}");
        let folder = project.claude(&format!("teams/{name}"));
        std::fs::create_dir(&folder).unwrap();
        let other = config
            .replace("fix-auth", &name)
            .replace(project.folder().to_str().unwrap(), "/elsewhere");
        std::fs::write(folder.join("config.json"), other).unwrap();
    }
    for line in ["teamster team list --json", "teamster status --json"] {
        let begun = Instant::now();
        let ran = project.shell(&format!("ulimit -d 300000; {line}")).run();
        assert_eq!(ran.code, Some(0), "{line}: {}", ran.stderr);
        assert!(begun.elapsed() < LONG, "{line}: {:?}", begun.elapsed());
        let named = ran.stdout.matches("\"fix-auth\"").count();
        assert!(named > 0, "{line}");
    }
}
