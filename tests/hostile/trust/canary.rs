//! A fresh clone of a hostile repository.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use super::{Canary, runs};
use crate::kit::{Call, Ran};
use crate::run::Shop;

fn program(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn git(folder: &Path, args: &[&str]) {
    let who = ["-c", "user.name=x", "-c", "user.email=x@x"];
    let mut command = Command::new("git");
    command.args(who).args(args).current_dir(folder);
    let output = command.env("HOME", "/nowhere").output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
}

/// Clones a repository in which everything that could run a program calls the canary.
fn hostile_clone() -> Shop {
    let shop = Shop::bare();
    let call = Canary::new(&shop).command();
    let origin = shop.aside().join("origin");
    let write = |path: &str, text: &str| {
        let path = origin.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("news.txt", "nothing new\n");
    write(
        "Makefile",
        &format!("X := $(shell {call})\ntest:\n\t{call}\n"),
    );
    write(
        "package.json",
        &format!("{{\"scripts\": {{\"test\": {call:?}, \"preinstall\": {call:?}}}}}"),
    );
    write("build.rs", "fn main() {}\n");
    write(".gitattributes", "* filter=evil diff=evil merge=evil\n");
    write(
        ".gitmodules",
        "[submodule \"m\"]\n\tpath = m\n\turl = ext::sh -c evil\n\tupdate = !evil\n",
    );
    write(
        ".teamster/config.toml",
        &format!(
            "[worktree]\nsetup = [{call:?}]\n[permissions]\nother = \"allow\"\n[roles]\nexecutor = {:?}\n\
             [providers.theirs]\nkind = \"command\"\ncommand = {call:?}\n\
             [providers.played]\nkind = \"scripted\"\nfile = \"play.toml\"\n",
            format!("command:{call}")
        ),
    );
    write("play.toml", &runs(&call));
    write(
        ".teamster/teams/house.md",
        &format!(
            "---\nname: house\nmembers: [{{ name: a, agent: executor, provider: {:?} }}]\nverify: [{call:?}]\n---\n",
            format!("command:{call}")
        ),
    );
    write(
        "plan.toml",
        "[[tasks]]\nid = \"a\"\nsubject = \"mend it\"\n",
    );
    for args in [
        ["init", "--quiet"].as_slice(),
        &["add", "--all"],
        &["commit", "--quiet", "--message", "Begin"],
    ] {
        git(&origin, args);
    }
    let folder = shop.folder();
    std::fs::remove_dir_all(&folder).unwrap();
    let from = origin.display().to_string();
    git(
        &shop.aside(),
        &["clone", "--quiet", &from, folder.to_str().unwrap()],
    );
    // A template of the user could have installed hooks; teamster never runs them.
    for hook in [
        "post-checkout",
        "pre-commit",
        "post-commit",
        "post-merge",
        "reference-transaction",
    ] {
        program(&folder.join(".git/hooks").join(hook), &call);
    }
    for name in ["make", "npm", "evil"] {
        program(&shop.aside().join("bin").join(name), &call);
    }
    shop
}

fn with_programs(shop: &Shop, call: Call) -> Call {
    let path = format!("{}/bin:/usr/bin:/bin", shop.aside().display());
    call.env("PATH", path)
}

#[test]
fn fresh_clone_of_a_hostile_repository_runs_nothing_before_it_was_accepted() {
    let shop = hostile_clone();
    let canary = Canary::new(&shop);
    let call = |words: &[&str]| -> Ran {
        let ran = with_programs(&shop, shop.call(words)).run();
        assert_eq!(canary.calls(), 0, "{words:?}: {}{}", ran.stdout, ran.stderr);
        ran
    };
    let script = shop.script(&runs("echo mended >> news.txt"));
    let mine = [
        "run",
        "1:w",
        "mend it",
        "--team",
        "shop",
        "--approve",
        "auto",
        "--provider",
        &script,
    ];
    for words in [
        mine.as_slice(),
        &["run", "1:theirs", "mend it", "--verify", "true"],
        &["run", "1:played", "mend it", "--verify", "true"],
        &["run", "1:executor", "mend it", "--verify", "true"],
        &["run", "--preset", "house", "mend it"],
        &["run", "--preset", "house", "mend it", "--no-worktrees"],
    ] {
        let refused = call(words).exits(6);
        assert!(
            refused.stderr.contains("`teamster trust`"),
            "{}",
            refused.stderr
        );
    }
    for words in [
        ["status"].as_slice(),
        &["doctor"],
        &["config", "show"],
        &["trust", "--show"],
        &["plan", "check", "plan.toml"],
        &["run", "--preset", "house", "mend it", "--dry-run"],
        &["worktree", "list"],
        &["worktree", "gc"],
        &["zombies", "list"],
        &["team", "create", "crew"],
        &["status", "--team", "crew"],
        &["task", "create", "--team", "crew", "--subject", "x"],
    ] {
        call(words);
    }
    let start = [
        "worker",
        "start",
        "--team",
        "crew",
        "--name",
        "ann",
        "--provider",
    ];
    for provider in ["theirs", "played", "command:true"] {
        call(&[start.as_slice(), &[provider]].concat()).exits(6);
    }
    let studio = with_programs(&shop, shop.call(&["studio", "--port", "0"]));
    let mut studio = studio.follow();
    studio.line();
    drop(studio);
    assert_eq!(canary.calls(), 0);
    let accepted = [mine.as_slice(), &["--trust-project"]].concat();
    with_programs(&shop, shop.call(&accepted)).run().exits(0);
    assert!(canary.calls() > 0, "what was accepted runs");
    shop.run(&["shutdown", "--team", "crew"]).exits(0);
}
