//! Objects that an agent replaced: what was shown and checked is what lands.

use crate::isolate::GitProject;
use crate::run::Shop;

/// A worker that commits a harmful file, and makes git show another one in its place.
const REPLACES_A_BLOB: &str = r#"
[[step]]
task = "mend it"
do = "run"
command = """
printf 'rm -rf data\necho gone\n' > tool.sh && git add tool.sh && git commit -qm tool
git replace $(git rev-parse HEAD:tool.sh) $(echo 'echo harmless' | git hash-object -w --stdin)
"""
"#;

#[test]
fn blob_that_a_worker_replaced_is_checked_as_it_would_land() {
    let shop = Shop::new();
    let before = shop.of_user();
    let verify = ["--verify", "! grep -q rm tool.sh", "--approve", "auto"];
    let more = [&verify[..], &["--max-fix", "0"]].concat();
    shop.scripted_run(REPLACES_A_BLOB, &more).run().exits(11);
    assert_eq!(shop.of_user(), before, "nothing landed");
}

#[test]
fn replacement_made_during_a_run_is_told_and_what_was_shown_is_what_a_clone_gets() {
    let shop = Shop::new();
    // A replacement that existed before belongs to the user.
    let mine = shop.git(&["rev-parse", "HEAD:readme.txt"]);
    let other = shop.git(&["rev-parse", "HEAD:news.txt"]);
    shop.git(&["replace", &mine, &other]);
    shop.scripted_run(REPLACES_A_BLOB, &["--approve", "never"])
        .run()
        .exits(0);
    let commit = shop.asked();
    let shown = shop.events_of("approval.shown").pop().unwrap()["data"].clone();
    let tool = shown["files"]
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["path"] == "tool.sh")
        .unwrap()
        .clone();
    assert_eq!(tool["added"], 2, "the gate counts the lines that land");

    let base = shop.git(&["rev-parse", "main"]);
    let repo = teamster_isolate::git::Git::find("/usr/local/bin:/usr/bin:/bin".as_ref())
        .and_then(|git| teamster_isolate::git::Repo::find(&git, &shop.folder()))
        .unwrap()
        .repo;
    let diff = repo
        .diff(&base.parse().unwrap(), &commit.parse().unwrap(), None)
        .unwrap();
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(0);
    let clone = shop.aside().join("clone");
    let clone = clone.to_str().unwrap();
    shop.git(&["clone", "--quiet", "--branch", "main", ".", clone]);
    let landed = shop.git(&["-C", clone, "diff", "--no-renames", &base, &commit]);
    assert_eq!(String::from_utf8(diff).unwrap().trim_end(), landed);
    let tool = std::fs::read_to_string(shop.aside().join("clone/tool.sh")).unwrap();
    assert_eq!(tool, "rm -rf data\necho gone\n");
    let here = std::fs::read_to_string(shop.folder().join("tool.sh")).unwrap();
    assert_eq!(here, tool, "the user's own files are the same");

    let evil = shop.git(&["-C", clone, "rev-parse", "main:tool.sh"]);
    let told = shown["findings"].to_string();
    for text in [&told, &shop.report()] {
        assert!(text.contains(&format!("refs/replace/{evil}")), "{text}");
        assert!(text.contains("git replace -d"), "{text}");
        assert!(!text.contains(&format!("refs/replace/{mine}")), "{text}");
    }
}

#[test]
fn replacement_made_during_a_run_is_not_approved_without_a_person() {
    let shop = Shop::new();
    let before = shop.of_user();
    let verify = ["--verify", "grep -q rm tool.sh", "--approve", "auto"];
    let ran = shop.scripted_run(REPLACES_A_BLOB, &verify).run().exits(11);
    assert!(ran.stdout.contains("refs/replace/"), "{}", ran.stdout);
    assert_eq!(shop.of_user().files, before.files, "nothing landed");
}

#[test]
fn graft_and_forged_commit_graph_change_nothing_that_git_tells_us() {
    let project = GitProject::new();
    let base = project.head_of(&project.folder());
    project.project.write("README.md", "harmless\n");
    let harmless = project.commit("Harmless");
    project.git(&["reset", "--quiet", "--hard", base.as_str()]);
    project.project.write("README.md", "evil\n");
    let evil = project.commit("Evil");
    let repo = project.repo();
    let started_with = repo.replacements().unwrap();
    assert!(started_with.is_empty(), "{started_with:?}");

    // The commit graph gives one commit the tree of the other.
    project.git(&["commit-graph", "write", "--reachable"]);
    let graph = project.folder().join(".git/objects/info/commit-graph");
    let tree = |commit: &str| {
        let text = project.git(&["rev-parse", &format!("{commit}^{{tree}}")]);
        let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(digit).collect::<Vec<u8>>()
    };
    let (from, to) = (tree(evil.as_str()), tree(harmless.as_str()));
    let mut bytes = std::fs::read(&graph).unwrap();
    let at = bytes
        .windows(from.len())
        .position(|part| part == from)
        .unwrap();
    bytes[at..at + to.len()].copy_from_slice(&to);
    std::fs::remove_file(&graph).unwrap();
    std::fs::write(&graph, bytes).unwrap();
    let fooled = project.git(&["diff", base.as_str(), evil.as_str()]);
    assert!(fooled.contains("harmless"), "the attack works on git");
    let diff = repo.diff(&base, &evil, None).unwrap();
    assert!(String::from_utf8(diff).unwrap().contains("evil"));

    // A graft removes the commit's parents.
    let grafts = project.folder().join(".git/info/grafts");
    std::fs::write(grafts, format!("{evil}\n")).unwrap();
    assert!(repo.is_ancestor(&base, &evil).unwrap());
    assert_eq!(repo.replacements().unwrap(), [format!("graft {evil}")]);
}
