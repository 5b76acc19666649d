//! A worker's changes are in its commit, or its task fails with the reason.

use crate::isolate::GitProject;
use crate::run::Shop;
use crate::workers::Crew;

const AUTO: [&str; 4] = ["--verify", "true", "--approve", "auto"];

/// Returns a script whose only worker runs this command; ROOT is a folder of the test.
fn runs(command: &str) -> String {
    format!("[[step]]\ndo = \"run\"\ncommand = {command:?}\n")
}

/// Returns why the first attempt of a run failed. The run would retry for a while; it ends with the shop.
fn first_failure(shop: &Shop, script: &str) -> String {
    let mut run = shop.scripted_run(script, &AUTO).spawn();
    shop.until("the failure", || !shop.events_of("task.failed").is_empty());
    assert!(shop.events_of("merge.merged").is_empty());
    shop.run(&["shutdown", "--team", "shop", "--force", "--json"]);
    run.kill().unwrap();
    run.wait().unwrap();
    let failed = shop.events_of("task.failed").remove(0);
    failed["data"]["failure"]["lastError"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn work_hidden_by_flags_rules_and_filters_is_in_what_lands() {
    let shop = Shop::in_use();
    let script = runs(
        "git update-index --skip-worktree add.sh; echo skipped > add.sh; \
         git update-index --assume-unchanged mul.sh; echo assumed > mul.sh; \
         git config core.fileMode false; chmod +x test.sh; \
         git config core.untrackedCache true; git update-index --untracked-cache; git status > /dev/null; \
         echo excluded > excluded.txt; echo excluded.txt >> $(git rev-parse --git-path info/exclude); \
         echo ignored > ignored.txt; echo ignored.txt > ROOT/ignore; git config core.excludesFile ROOT/ignore; \
         git config filter.hide.clean 'git show HEAD:%f'; \
         echo 'stock.txt filter=hide' > .gitattributes; echo filtered > stock.txt; \
         git rm -q --cached news.txt; echo unstaged > news.txt",
    );
    let ran = shop.scripted_run(&script, &AUTO).run().exits(11);
    let told = "filter.hide.clean of git changed during the run";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    let commit = shop.asked();
    shop.git(&["config", "--unset", "filter.hide.clean"]);
    shop.run(&["approve", "--team", "shop", "--commit", &commit])
        .exits(0);
    for (file, content) in [
        ("add.sh", "skipped"),
        ("mul.sh", "assumed"),
        ("excluded.txt", "excluded"),
        ("ignored.txt", "ignored"),
        ("stock.txt", "filtered"),
        ("news.txt", "unstaged"),
    ] {
        let landed = shop.git(&["show", &format!("main:{file}")]);
        assert_eq!(landed, content, "{file} is not what the worker left");
    }
    let mode = shop.git(&["ls-tree", "main", "test.sh"]);
    assert!(mode.starts_with("100755"), "{mode}");
}

#[test]
fn ignore_rule_that_an_earlier_worker_added_hides_nothing_of_a_later_one() {
    let shop = Shop::new();
    let script = "[[step]]\ntask = \"mend it\"\ndo = \"run\"\n\
         command = \"echo x > x.txt; echo notes/ >> $(git rev-parse --git-common-dir)/info/exclude\"\n\
         [[step]]\ntask = \"Revis\"\ndo = \"run\"\ncommand = \"mkdir -p notes; echo important > notes/result.txt\"\n";
    let more = ["--verify", "true", "--approve", "never"];
    shop.scripted_run(script, &more).run().exits(0);
    let commit = shop.asked();
    let revise = ["revise", "--team", "shop", "Write notes/result.txt"];
    shop.run(&[&revise[..], &["--commit", &commit]].concat())
        .exits(0);
    let result = shop.git(&["show", "omc-team/shop/integration:notes/result.txt"]);
    assert_eq!(result, "important");
}

#[test]
fn changed_attributes_of_the_repository_fail_the_task_by_name() {
    let shop = Shop::in_use();
    let script = runs(
        "git config filter.hide.clean 'git show HEAD:%f'; mkdir -p $(git rev-parse --git-path info); \
         echo 'news.txt filter=hide' > $(git rev-parse --git-path info/attributes); echo hidden > news.txt",
    );
    let why = first_failure(&shop, &script);
    assert!(why.contains(".git/info/attributes"), "{why}");
}

#[test]
fn worktree_with_hidden_work_is_kept_by_gc() {
    let crew = Crew::new();
    let id = crew.task("begin");
    crew.start("ann", "echo ok");
    crew.until_status(&id, "completed");
    crew.project.run(["worker", "stop", "ann"]).exits(0);
    let tree = crew.project.folder().join(".omc/worktrees/crew/ann");
    let path = tree.to_str().unwrap();
    crew.git(&["-C", path, "update-index", "--skip-worktree", "a.txt"]);
    std::fs::write(tree.join("a.txt"), "hidden\n").unwrap();
    let told = crew.project.run(["worktree", "gc", "--team", "crew"]);
    let text = std::fs::read_to_string(tree.join("a.txt")).unwrap_or_default();
    assert_eq!(text, "hidden\n", "{}", told.stdout);
    assert!(told.stdout.contains("not to look"), "{}", told.stdout);
}

/// Makes a shop with a submodule `lib`, whose own repository lies beside it.
fn with_submodule() -> Shop {
    let shop = Shop::new();
    let library = shop.aside().join("library");
    let library = library.to_str().unwrap();
    shop.git(&["init", "--quiet", "--initial-branch=main", library]);
    std::fs::write(format!("{library}/readme.txt"), "a library\n").unwrap();
    shop.git(&["-C", library, "add", "--all"]);
    let commit = ["-C", library, "commit", "--quiet", "--message", "Begin"];
    shop.git(&[&NAMED, commit.as_slice()].concat());
    shop.git(
        &[
            &LOCAL,
            ["submodule", "--quiet", "add", library, "lib"].as_slice(),
        ]
        .concat(),
    );
    shop.git(&["commit", "--quiet", "--message", "Use a library"]);
    shop
}

const NAMED: [&str; 4] = ["-c", "user.name=x", "-c", "user.email=x@x"];
const LOCAL: [&str; 2] = ["-c", "protocol.file.allow=always"];
const CHECK_OUT: &str = "git -c protocol.file.allow=always submodule --quiet update --init";
const COMMIT: &str =
    "git -C lib -c user.name=x -c user.email=x@x commit --quiet --all --message More";

/// Returns the content of a file in the first worktree that was kept.
fn kept(shop: &Shop, file: &str) -> String {
    let path = format!(".omc/worktrees/shop/worker-1.kept-1/{file}");
    std::fs::read_to_string(shop.folder().join(path)).unwrap_or_default()
}

#[test]
fn change_inside_a_submodule_fails_the_task_by_name_and_is_kept() {
    let hidden = format!(
        "{CHECK_OUT}; echo new > lib/new.txt; echo new.txt >> $(git -C lib rev-parse --git-path info/exclude)"
    );
    for (command, what, file) in [
        (
            "echo new > lib/new.txt",
            "lib (files in the folder of a submodule that is not checked out)",
            "lib/new.txt",
        ),
        (hidden.as_str(), "lib (changes inside", "lib/new.txt"),
        (
            "git init --quiet own; echo new > own/new.txt",
            "own/",
            "own/new.txt",
        ),
    ] {
        let shop = with_submodule();
        let before = shop.of_user();
        let script = runs(&format!("{command}; echo mended >> news.txt"));
        let why = first_failure(&shop, &script);
        assert_eq!(shop.of_user(), before, "{command}");
        for part in [what, "worker-1.kept-1"] {
            assert!(why.contains(part), "{part}: {why}");
        }
        assert_eq!(kept(&shop, file), "new\n");
        assert_eq!(kept(&shop, "news.txt"), "nothing new\nmended\n");
    }
}

#[test]
fn commit_of_a_submodule_that_no_remote_has_is_refused_and_kept() {
    for command in [
        format!("{CHECK_OUT}; echo new > lib/readme.txt; {COMMIT}"),
        "git init --quiet own; echo new > own/readme.txt; git -C own add readme.txt; \
         git -C own -c user.name=x -c user.email=x@x commit --quiet --message Own; \
         git config --file .gitmodules submodule.own.path own; git config --file .gitmodules submodule.own.url ./own"
            .to_owned(),
    ] {
        let shop = with_submodule();
        let before = shop.of_user();
        let why = first_failure(&shop, &runs(&command));
        assert_eq!(shop.of_user(), before, "{command}");
        assert!(why.contains("others cannot fetch"), "{why}");
        let own = kept(&shop, "lib/readme.txt") + &kept(&shop, "own/readme.txt");
        assert_eq!(own, "new\n", "{command}");
    }
}

#[test]
fn commit_of_a_submodule_that_its_remote_has_lands() {
    let shop = with_submodule();
    let script = runs(&format!(
        "{CHECK_OUT}; echo new > lib/readme.txt; {COMMIT}; git -C lib push --quiet origin HEAD:refs/heads/next"
    ));
    shop.scripted_run(&script, &AUTO).run().exits(0);
    let library = shop.aside().join("library");
    let next = shop.git(&["-C", library.to_str().unwrap(), "rev-parse", "next"]);
    assert_eq!(shop.git(&["rev-parse", "main:lib"]), next);
}

#[test]
fn change_outside_a_sparse_checkout_is_in_what_lands() {
    let cone: &[&str] = &["sparse-checkout", "set", "--cone", "src"];
    let patterns: &[&str] = &["sparse-checkout", "set", "--no-cone", "/*", "!/docs/"];
    for sparse in [cone, patterns] {
        let shop = Shop::new();
        for file in [
            "src/a.txt",
            "docs/guide.txt",
            "docs/other.txt",
            "docs/old.txt",
        ] {
            shop.project.write(file, "one\n");
        }
        shop.git(&["add", "--all"]);
        shop.git(&["commit", "--quiet", "--message", "With folders"]);
        shop.git(sparse);
        assert!(!shop.folder().join("docs/guide.txt").exists());
        let script = runs(
            "test ! -e docs/guide.txt && mkdir -p docs && echo two > docs/guide.txt && echo two > docs/new.txt && \
             echo two > src/a.txt && rm news.txt",
        );
        shop.scripted_run(&script, &AUTO).run().exits(0);
        let changed = shop.git(&["diff", "--name-status", "main~1", "main"]);
        let expected = "M\tdocs/guide.txt\nA\tdocs/new.txt\nD\tnews.txt\nM\tsrc/a.txt";
        assert_eq!(changed, expected, "{sparse:?}");
    }
}

#[test]
fn link_to_a_commit_that_nobody_has_is_found_before_it_is_merged() {
    let project = GitProject::new();
    let base = project.found().head;
    let ghost = format!("160000,{base},ghost");
    project.git(&["update-index", "--add", "--cacheinfo", &ghost]);
    project.git(&[
        "config",
        "--file",
        ".gitmodules",
        "submodule.ghost.path",
        "ghost",
    ]);
    project.git(&["add", ".gitmodules"]);
    project.git(&["commit", "--quiet", "--message", "A submodule of nobody"]);
    let head = project.found().head;
    let found = project.repo().unfetchable_since_fork(&base, &head);
    assert_eq!(found.unwrap(), ["ghost"]);
}
