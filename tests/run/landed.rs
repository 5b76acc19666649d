//! Checks at the end of every test with a shop that a clone of the branch on which the work landed equals what the
//! gate showed.

use std::path::Path;

use serde_json::Value;
use teamster_isolate::git::{Git, Repo};

use super::Shop;

/// Printed for each comparison; the evidence counts these lines.
const COMPARED: &str = "a clone of what landed is what the gate showed";

/// Options under which a diff shows every possible byte, whatever the repository's settings are.
const EXACTLY: [&str; 5] = [
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-renames",
    "--ignore-submodules=none",
];

/// Compares the last landing of a shop, if there was one, with what the gate showed before it.
///
/// The clone gets its objects over a pipe, like a clone from a server: replaced objects, grafts and alternates of
/// this repository do not come with it.
#[expect(clippy::print_stdout, reason = "the evidence reads what tests print")]
pub fn compare_with_gate(shop: &Shop) -> Result<(), String> {
    let Some(landing) = Landing::last_of(&shop.events())? else {
        return Ok(());
    };
    let shown = shown_diff(&landing)?;
    let clone = shop.aside().join("clone-of-what-landed");
    let at = clone.to_str().unwrap();
    let top = ["-C", &landing.project, "rev-parse", "--show-toplevel"];
    let source = format!("file://{}", shop.try_git(&top)?.trim_end());
    let clone_all = [
        "-c",
        "protocol.file.allow=always",
        "clone",
        "--quiet",
        "--recurse-submodules",
        "--branch",
        &landing.branch,
        &source,
        at,
    ];
    let compared = shop
        .try_git(&clone_all)
        .and_then(|_| compare(shop, &landing, &shown, at));
    let _ = std::fs::remove_dir_all(&clone);
    compared.map_err(|why| {
        format!(
            "{} landed on {}, and a clone of it is not what the gate showed: {why}",
            landing.commit, landing.branch
        )
    })?;
    println!("{COMPARED}: {} files", landing.file_count());
    Ok(())
}

/// The end of a run that landed something.
struct Landing {
    /// The folder of the project.
    project: String,
    branch: String,
    commit: String,
    base: String,
    /// What a person was shown before.
    shown: Value,
}

impl Landing {
    /// Returns the last landing in the journal, with what was shown before it.
    fn last_of(events: &[Value]) -> Result<Option<Self>, String> {
        let last = |kind: &str, key: &str, value: Option<&Value>| {
            let is_meant = |event: &&Value| {
                event["type"] == kind && value.is_none_or(|value| event["data"][key] == *value)
            };
            events.iter().rfind(is_meant).map(|event| &event["data"])
        };
        let Some(finished) = last("run.finished", "", None) else {
            return Ok(None);
        };
        let words = finished["reason"].as_str().unwrap_or_default();
        let (Some((_, branch)), Some(commit)) =
            (words.split_once("landed on "), finished["commit"].as_str())
        else {
            return Ok(None);
        };
        let asked = last("approval.requested", "commit", Some(&finished["commit"]));
        let asked = asked.ok_or_else(|| format!("{commit} landed, and nobody was asked"))?;
        let shown = last("approval.shown", "gate", Some(&asked["gate"]));
        let base = asked["base"]["commit"].as_str();
        let (Some(shown), Some(base)) = (shown, base) else {
            return Err(format!("{commit} landed, and nobody was shown it"));
        };
        let created = last("team.created", "", None).ok_or("the team was never made")?;
        let branch = branch.split([' ', ',', ';']).next().unwrap_or_default();
        Ok(Some(Self {
            project: created["project"].as_str().unwrap_or_default().to_owned(),
            branch: branch.to_owned(),
            commit: commit.to_owned(),
            base: base.to_owned(),
            shown: shown.clone(),
        }))
    }

    fn file_count(&self) -> u64 {
        self.shown["fileCount"].as_u64().unwrap_or_default()
    }
}

/// Returns the diff as the product shows it, from the repository in which an agent may have done anything.
fn shown_diff(landing: &Landing) -> Result<String, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let git = Git::find(&path).map_err(|error| text(&error))?;
    let found = Repo::find(&git, Path::new(&landing.project)).map_err(|error| text(&error))?;
    let [base, commit] = [&landing.base, &landing.commit].map(|id| id.parse());
    let (Ok(base), Ok(commit)) = (base, commit) else {
        return Err(format!("{} is no commit", landing.base));
    };
    let diff = found.repo.diff(&base, &commit, None);
    Ok(String::from_utf8_lossy(&diff.map_err(|error| text(&error))?).into_owned())
}

fn compare(shop: &Shop, landing: &Landing, shown: &str, clone: &str) -> Result<(), String> {
    // Without the user's settings, which may be anything: only the clone's content counts.
    let git = |args: &[&str]| shop.try_plain_git(&[&["-C", clone], args].concat());
    // A repository's entries about submodules may be hostile, and are then in the clone as well.
    git(&[
        "-c",
        "fsck.gitmodulesUpdate=ignore",
        "fsck",
        "--no-dangling",
    ])?;
    git(&["merge-base", "--is-ancestor", &landing.commit, "HEAD"])?;
    let range = [landing.base.as_str(), landing.commit.as_str(), "--"];
    let diff = git(&[&["diff"], &EXACTLY[..], &range].concat())?;
    if diff.trim_end() != shown.trim_end() {
        return Err(format!("shown:\n{shown}\nin the clone:\n{diff}"));
    }
    let counts = git(&[&["diff", "--numstat", "-z"], &EXACTLY[..], &range].concat())?;
    let counts: Vec<&str> = counts.split('\0').filter(|line| !line.is_empty()).collect();
    let listed = landing.shown["files"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let is_whole = listed.len() == counts.len() || listed.len() == 200;
    if !is_whole || counts.len() as u64 != landing.file_count() {
        return Err(format!("shown: {listed:?}\nin the clone: {counts:?}"));
    }
    for (file, count) in listed.iter().zip(&counts) {
        let number = |value: &Value| value.as_u64().map_or("-".to_owned(), |it| it.to_string());
        let path = file["path"].as_str().unwrap_or_default();
        let line = format!(
            "{}\t{}\t{path}",
            number(&file["added"]),
            number(&file["removed"])
        );
        if line != *count {
            return Err(format!("shown: {line:?}\nin the clone: {count:?}"));
        }
    }
    // Files that are already changed at the base are so because of the repository's attributes.
    let before = changed_files(shop, clone, &landing.base)?;
    let after = changed_files(shop, clone, &landing.commit)?;
    match after.lines().find(|line| !before.contains(line)) {
        Some(file) => Err(format!("the clone's {file:?} differs from its commit")),
        None => Ok(()),
    }
}

/// Returns files and submodules of the clone that differ from a checked-out commit. Every file is read.
fn changed_files(shop: &Shop, clone: &str, commit: &str) -> Result<String, String> {
    let git = |args: &[&str]| {
        let local = ["-C", clone, "-c", "protocol.file.allow=always"];
        shop.try_git(&[&local, args].concat())
    };
    git(&["checkout", "--quiet", "--force", "--detach", commit])?;
    git(&["submodule", "--quiet", "update", "--init", "--checkout"])?;
    // Without an index git has no cached times and reads every file.
    let _ = std::fs::remove_file(Path::new(clone).join(".git/index"));
    git(&["read-tree", commit])?;
    git(&["status", "--porcelain", "--ignore-submodules=none"])
}

#[test]
fn landing_that_differs_from_what_was_shown_is_found() {
    let shop = Shop::new();
    let script =
        "[[step]]\ntask = \"mend it\"\ndo = \"run\"\ncommand = \"echo mended > news.txt\"\n";
    let more = ["--approve", "auto", "--verify", "true"];
    shop.scripted_run(script, &more).run().exits(0);
    compare_with_gate(&shop).unwrap();

    let landed = shop.git(&["rev-parse", "main"]);
    shop.git(&["update-ref", "refs/heads/main", "main~1"]);
    assert!(compare_with_gate(&shop).is_err(), "the branch lacks it");
    shop.git(&["update-ref", "refs/heads/main", &landed]);

    let journal = shop.project.claude("teams/shop/events.jsonl");
    let told = std::fs::read_to_string(&journal).unwrap();
    for (shown, instead) in [
        ("\"path\":\"news.txt\"", "\"path\":\"other.txt\""),
        ("\"added\":1", "\"added\":2"),
        ("\"fileCount\":1", "\"fileCount\":2"),
        ("\"type\":\"approval.shown\"", "\"type\":\"approval.other\""),
    ] {
        assert!(told.contains(shown), "{shown}: {told}");
        std::fs::write(&journal, told.replace(shown, instead)).unwrap();
        assert!(compare_with_gate(&shop).is_err(), "{instead}");
    }
    std::fs::write(&journal, told).unwrap();
}
