//! What a worker changed is in its commit, or its task fails and says what is missing.

use crate::run::shop::Shop;
use crate::workers::Crew;

const AUTO: [&str; 4] = ["--verify", "true", "--approve", "auto"];

/// A script whose only worker runs this; ROOT is a folder of the test.
fn runs(command: &str) -> String {
    format!("[[step]]\ndo = \"run\"\ncommand = {command:?}\n")
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
    shop.scripted_run(&script, &AUTO).run().exits(0);
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
fn changed_attributes_of_the_repository_fail_the_task_by_name() {
    let shop = Shop::in_use();
    let script = runs(
        "git config filter.hide.clean 'git show HEAD:%f'; mkdir -p $(git rev-parse --git-path info); \
         echo 'news.txt filter=hide' > $(git rev-parse --git-path info/attributes); echo hidden > news.txt",
    );
    let ran = shop.scripted_run(&script, &AUTO).run().exits(14);
    assert!(
        ran.stdout.contains(".git/info/attributes"),
        "{}",
        ran.stdout
    );
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
