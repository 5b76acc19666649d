//! Unusual repositories and unusual git settings.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use teamster_testkit::RunCmd;

use crate::run::Shop;

/// The kinds of repository, each with the commands that make one at `K` from the ordinary one at `SRC`.
const KINDS: [(&str, &str); 10] = [
    (
        "sha256",
        "git init -q -b main --object-format=sha256 K && cp SRC/*.* K && git -C K add -A && git -C K commit -qm Begin",
    ),
    (
        "reftable",
        "git init -q -b main --ref-format=reftable K && cp SRC/*.* K && git -C K add -A && git -C K commit -qm Begin",
    ),
    ("shallow", "git clone -q --depth 1 file://SRC K"),
    (
        "partial clone",
        "git -C SRC config uploadpack.allowFilter true && git clone -q --filter=blob:none file://SRC K",
    ),
    (
        "linked worktree",
        "git -C SRC worktree add -q \"$PWD/K\" -b side",
    ),
    (
        "submodule",
        "git init -q above && git -C above -c protocol.file.allow=always submodule --quiet add SRC sub && ln -s above/sub K",
    ),
    (
        "core.worktree",
        "git clone -q SRC K && git -C K config core.worktree \"$PWD/K\"",
    ),
    ("alternates", "git clone -q --shared SRC K"),
    (
        "separate git dir",
        "git clone -q --separate-git-dir elsewhere.git SRC K",
    ),
    (
        "bare with a worktree",
        "git clone -q --bare SRC bare.git && git -C bare.git worktree add -q ../K main",
    ),
];

const SCRIPT: &str = r#"
[[step]]
do = "run"
command = "echo mended > news.txt; echo new > 'a new file.txt'"
"#;

/// Runs a shell command in the folder beside the project.
fn shell(shop: &Shop, line: &str) -> String {
    let aside = shop.aside();
    let line = line.replace("SRC", shop.folder().to_str().unwrap());
    let output = Command::new("/bin/sh")
        .args(["-ec", &line])
        .current_dir(&aside)
        .env("HOME", &aside)
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Makes a shop whose user has a name in every repository.
fn shop() -> Shop {
    let shop = Shop::new();
    shop.git(&["config", "--global", "user.name", "Test"]);
    shop.git(&["config", "--global", "user.email", "test@localhost"]);
    shop
}

/// Asserts that a whole run in a repository of this kind lands, and leaves nothing behind.
fn run_lands(kind: &str, make: &str) {
    let shop = shop();
    shell(&shop, make);
    let folder: PathBuf = shop.aside().join("K").canonicalize().unwrap();
    let before = shell(&shop, "git -C K rev-parse HEAD");
    let script = shop.script(SCRIPT);
    let args = RunCmd::new("shop", "1:w", "mend it")
        .provider(&script)
        .approve("auto")
        .verify("grep -qx mended news.txt");
    let ran = shop.call(&args).folder(&folder).run();
    assert_eq!(ran.code, Some(0), "{kind}: {}{}", ran.stdout, ran.stderr);
    let news = std::fs::read_to_string(folder.join("news.txt")).unwrap();
    assert_eq!(news, "mended\n", "{kind}");
    assert_eq!(shell(&shop, "git -C K status --porcelain"), "", "{kind}");
    shell(
        &shop,
        &format!("git -C K merge-base --is-ancestor {before} HEAD"),
    );
    shell(
        &shop,
        "git -C K show 'HEAD:a new file.txt' > /dev/null && git -C K fsck --no-dangling",
    );
    let left = shell(
        &shop,
        "git -C K for-each-ref refs/heads/omc-team; ls K/.omc/worktrees/shop",
    );
    assert_eq!(left, "", "{kind}");
    shop.is_quiet();
}

#[test]
fn runs_in_unusual_kinds_of_repositories_land() {
    let kinds = std::sync::Mutex::new(KINDS.iter());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = kinds.lock().unwrap().next();
                    let Some((kind, make)) = next else { break };
                    run_lands(kind, make);
                }
            });
        }
    });
}

/// Names that could confuse shells, git, terminals and teamster's own formats, as arguments of `printf`.
const NAMES: [&str; 20] = [
    r"with space",
    r" leading",
    r"trailing ",
    r"line\nbreak",
    r"tab\there",
    r"quo\047te",
    r"double\042quote",
    r"back\\slash",
    r"$(touch pwned)",
    r"`touch pwned`",
    r";touch pwned",
    r"-rf",
    r"--force",
    r"*",
    r":(glob)**",
    r"%%s%%n",
    r"escape\033[31m",
    r"bell\007",
    r"not-utf-8-\377\376",
    r"\303\251\342\200\256txt.exe",
];

#[test]
fn files_with_hostile_names_land_byte_for_byte() {
    let shop = shop();
    let mut script = String::from("set -e\nmkdir -p odd\n");
    for (number, name) in NAMES.iter().enumerate() {
        let _ = writeln!(script, "name=$(printf -- '{name}.'); name=${{name%.}}");
        let _ = writeln!(script, "printf '%s' {number} > \"odd/$name\"");
    }
    std::fs::write(shop.aside().join("names.sh"), script).unwrap();
    let steps = "[[step]]\ndo = \"run\"\ncommand = \"sh ROOT/names.sh\"\n";
    let more = ["--approve", "auto", "--verify", "test -e 'odd/with space'"];
    shop.scripted_run(steps, &more).run().exits(0);
    shell(
        &shop,
        "mkdir made && cd made && sh ../names.sh && diff -r odd SRC/odd",
    );
    assert_eq!(shop.git(&["status", "--porcelain"]), "");
    let count = shell(&shop, "ls -1b SRC/odd | wc -l");
    assert_eq!(count, NAMES.len().to_string());
    let ran = shop.run(&["journal", "--team", "shop"]).exits(0);
    assert!(!ran.stdout.contains('\u{1b}') && !ran.stdout.contains('\u{7}'));
    assert!(!shop.folder().join("pwned").exists());
    shop.is_quiet();
}

#[test]
fn links_in_place_of_our_folders_are_not_followed() {
    for link in [
        ".omc",
        ".omc/worktrees",
        ".omc/state",
        ".omc/logs",
        ".omc/reports",
        ".party",
    ] {
        let shop = shop();
        let outside = shop.aside().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("precious"), "precious").unwrap();
        let place = shop.folder().join(link);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&outside, &place).unwrap();
        let ran = shop
            .scripted_run(SCRIPT, &["--approve", "auto", "--verify", "true"])
            .run();
        let names: Vec<_> = std::fs::read_dir(&outside)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["precious"], "{link}: {}{}", ran.stdout, ran.stderr);
        assert!(place.is_symlink(), "{link}");
        shop.is_quiet();
    }
}

/// User settings that change what git prints, asks, writes or refuses.
const SETTINGS: &str = "
[core]
    autocrlf = input
    quotePath = false
    pager = false
    editor = false
    fsmonitor = true
    untrackedCache = true
    abbrev = 4
    safecrlf = true
    precomposeUnicode = true
    commentChar = %
    whitespace = error
    preloadIndex = false
    logAllRefUpdates = always
[color]
    ui = always
    status = always
    diff = always
    branch = always
[status]
    short = true
    branch = true
    showUntrackedFiles = no
    relativePaths = false
    submoduleSummary = true
    renames = copies
[diff]
    noprefix = true
    mnemonicPrefix = true
    renames = copies
    external = false
    algorithm = histogram
    context = 0
    wordRegex = .
    submodule = log
    colorMoved = zebra
    ignoreSubmodules = all
    relative = true
    suppressBlankEmpty = true
[merge]
    ff = only
    conflictStyle = diff3
    renames = false
    verifySignatures = true
    autoStash = true
    log = true
    tool = false
    stat = true
[commit]
    gpgSign = true
    verbose = true
    status = false
    cleanup = scissors
    template = /nowhere
[tag]
    gpgSign = true
    forceSignAnnotated = true
[gpg]
    program = false
[log]
    showSignature = true
    decorate = full
    abbrevCommit = true
    date = relative
    follow = true
[init]
    defaultBranch = strange
    templateDir = /nowhere
[push]
    default = nothing
    gpgSign = true
[pull]
    rebase = true
    ff = only
[rebase]
    autoStash = true
    updateRefs = true
[fetch]
    prune = true
    writeCommitGraph = true
[gc]
    auto = 1
[maintenance]
    auto = true
[submodule]
    recurse = true
[advice]
    detachedHead = true
[checkout]
    defaultRemote = nobody
    guess = false
    workers = 8
[branch]
    autoSetupMerge = always
    autoSetupRebase = always
[worktree]
    guessRemote = true
[index]
    threads = true
    version = 4
[feature]
    manyFiles = true
[rerere]
    enabled = true
    autoUpdate = true
[column]
    ui = always
[help]
    autoCorrect = immediate
[transfer]
    fsckObjects = true
[interactive]
    diffFilter = false
[alias]
    status = !false
    merge = !false
";

#[test]
fn settings_of_the_user_for_git_do_not_change_what_a_run_comes_to() {
    let shop = shop();
    let file = shop.aside().join(".gitconfig");
    let own = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, format!("{own}{SETTINGS}")).unwrap();
    let more = ["--approve", "auto", "--verify", "grep -qx mended news.txt"];
    shop.scripted_run(SCRIPT, &more).run().exits(0);
    std::fs::write(&file, own).unwrap();
    assert_eq!(shop.git(&["show", "main:news.txt"]), "mended");
    assert_eq!(shop.git(&["status", "--porcelain"]), "");
    assert_eq!(shop.left(), [""; 0]);
    shop.is_quiet();
}

#[test]
fn run_lands_without_the_files_that_git_calls_changed_although_nobody_touched_them() {
    let shop = Shop::new();
    shop.project.write("crlf.txt", "one\r\ntwo\r\n");
    shop.git(&["add", "--all"]);
    shop.git(&["commit", "--quiet", "--message", "Ends of lines"]);
    // From now on git would commit a different content than the committed one.
    shop.project.write(".gitattributes", "*.txt text\n");
    shop.git(&["add", ".gitattributes"]);
    shop.git(&["commit", "--quiet", "--message", "Attributes"]);
    let script = "[[step]]\ndo = \"run\"\ncommand = \"echo mended > mended.md\"\n";
    let more = ["--verify", "true", "--approve", "auto"];
    let before = shop.git(&["rev-parse", "HEAD"]);
    shop.scripted_run(script, &more).run().exits(0);
    let landed = shop.git(&["diff", "--name-only", &before, "HEAD"]);
    assert_eq!(landed, "mended.md");
    let on_disk = std::fs::read(shop.project.folder().join("crlf.txt")).unwrap();
    assert_eq!(on_disk, b"one\r\ntwo\r\n");
    let salvaged = shop.git(&["for-each-ref", "refs/heads/omc-team"]);
    assert!(!salvaged.contains("salvaged"), "{salvaged}");
}
