//! `worktree.link`: the user's folders that agents may see.

use super::runs;
use crate::run::Shop;

const AUTO: [&str; 4] = ["--verify", "test -e deps/lib.txt", "--approve", "auto"];

/// Makes a shop with an ignored folder and user settings.
fn shop_with_folder(settings: &str) -> Shop {
    let shop = Shop::new();
    shop.project.write(".gitignore", "deps/\n");
    shop.git(&["add", ".gitignore"]);
    shop.git(&["commit", "--quiet", "--message", "Ignore"]);
    shop.project.write("deps/lib.txt", "good\n");
    let folder = shop.aside().join(".config/teamster");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.toml"), settings).unwrap();
    shop
}

fn in_folder(shop: &Shop, name: &str) -> Option<String> {
    std::fs::read_to_string(shop.folder().join("deps").join(name)).ok()
}

/// Returns a worker that finds the folder and writes into it.
fn writes_into_the_folder() -> String {
    runs(
        "grep -q good deps/lib.txt && echo evil >> deps/lib.txt && echo evil > deps/new.txt && echo mended >> news.txt",
    )
}

#[test]
fn linked_folder_of_the_user_is_not_changed_by_an_agent() {
    let shop = shop_with_folder("[worktree]\nlink = [\"deps\"]\n");
    shop.scripted_run(&writes_into_the_folder(), &AUTO)
        .run()
        .exits(0);
    assert_eq!(in_folder(&shop, "lib.txt").as_deref(), Some("good\n"));
    assert_eq!(in_folder(&shop, "new.txt"), None);
    assert!(shop.git(&["show", "main:news.txt"]).contains("mended"));
    let files = shop.git(&["ls-tree", "-r", "--name-only", "main"]);
    assert!(!files.contains("deps"), "{files}");
}

#[test]
fn linked_folder_is_changed_by_an_agent_where_the_user_allows_it() {
    let shop = shop_with_folder("[worktree]\nlink = [\"deps\"]\nlink_writable = true\n");
    shop.scripted_run(&writes_into_the_folder(), &AUTO)
        .run()
        .exits(0);
    assert_eq!(in_folder(&shop, "lib.txt").as_deref(), Some("good\nevil\n"));
    assert_eq!(in_folder(&shop, "new.txt").as_deref(), Some("evil\n"));
}

#[test]
fn link_of_a_project_is_not_made_before_it_was_accepted() {
    let shop = shop_with_folder("");
    let settings = "[worktree]\nlink = [\"deps\"]\nlink_writable = true\n";
    shop.project.write(".teamster/config.toml", settings);
    let refused = shop
        .scripted_run(&writes_into_the_folder(), &AUTO)
        .run()
        .exits(6);
    for part in ["worktree.link: deps", "worktree.link_writable: true"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert_eq!(in_folder(&shop, "lib.txt").as_deref(), Some("good\n"));
    let more = [AUTO.as_slice(), &["--trust-project"]].concat();
    shop.scripted_run(&writes_into_the_folder(), &more)
        .run()
        .exits(0);
    assert_eq!(in_folder(&shop, "lib.txt").as_deref(), Some("good\nevil\n"));
}

#[test]
fn link_of_a_denied_name_is_refused_wherever_the_setting_stands() {
    let shop = shop_with_folder("");
    shop.project.write("secrets/key", "key\n");
    shop.project.write("conf/.ssh/id", "key\n");
    shop.project.write(".env", "KEY=1\n");
    std::os::unix::fs::symlink("secrets", shop.folder().join("plain")).unwrap();
    for name in [".env", "secrets", "conf/.ssh", "Secrets", ".git", "plain"] {
        let refused = shop
            .scripted_run(&writes_into_the_folder(), &AUTO)
            .env("TEAMSTER_WORKTREE_LINK", format!("[{name:?}]"))
            .run()
            .exits(6);
        let said = &refused.stderr;
        assert!(
            said.contains(name) && said.contains("worktree.link"),
            "{said}"
        );
        assert!(!shop.project.claude("teams/shop").exists(), "{name}");
    }
}
