//! Tests of the guarantees to writers, on a real folder.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::{Dir, Durability, FsProblem, InboxFile, Lock, LockWait, fail, random_hex, remove_tree};

struct TestFolder(PathBuf);

impl TestFolder {
    fn new() -> (Self, Dir) {
        let path = std::env::temp_dir().join(format!("teamster-fs-{}", random_hex()));
        let dir = Dir::open_or_create_root(&path).unwrap();
        (Self(path), dir)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_replaced_file_is_whole_and_leaves_no_temp_file() {
    let (temp, dir) = TestFolder::new();
    for round in 0..3_u8 {
        dir.replace("a.json", &[round; 100], Durability::Durable)
            .unwrap();
        assert_eq!(dir.read("a.json").unwrap().unwrap().0, [round; 100]);
    }
    assert_eq!(temp.names(), ["a.json"]);
}

#[test]
fn a_writer_that_dies_anywhere_leaves_the_old_file_or_the_new_one() {
    let (_temp, dir) = TestFolder::new();
    dir.replace("a", b"old old", Durability::Durable).unwrap();
    let mut deaths = 0;
    for steps in 0.. {
        fail::die_after(steps);
        let written = dir.replace("a", b"new", Durability::Durable);
        let died = fail::revive();
        let content = dir.read("a").unwrap().unwrap().0;
        assert!(content == b"old old" || content == b"new", "{content:?}");
        if written.is_ok() && !died {
            break;
        }
        deaths += 1;
        dir.replace("a", b"old old", Durability::Durable).unwrap();
    }
    assert!(deaths >= 5, "only {deaths} places to die in were found");
}

#[test]
fn an_append_that_dies_is_seen_as_a_torn_tail_at_worst() {
    let (_temp, dir) = TestFolder::new();
    dir.append("log", b"one\n", Durability::Fast).unwrap();
    let mut torn = false;
    for steps in 0..8 {
        fail::die_after(steps);
        let _ = dir.append("log", b"second line\n", Durability::Durable);
        fail::revive();
        let content = dir.read("log").unwrap().unwrap().0;
        assert!(content.starts_with(b"one\n"), "what was there stays");
        torn |= content.len() > 4 && !content.ends_with(b"\n");
        dir.truncate("log", 4).unwrap();
    }
    assert!(torn, "the fail-point tears a write");
}

#[test]
fn path_of_names_leads_below_its_folder_and_nowhere_else() {
    let (temp, dir) = TestFolder::new();
    let outside = TestFolder::new().0;
    std::fs::create_dir(outside.0.join("c")).unwrap();
    assert!(dir.descend(&["a", "b", "c"]).unwrap().is_none());
    assert_eq!(temp.names(), [""; 0], "looking makes nothing");
    let made = dir.descend_or_create(&["a", "b", "c"]).unwrap();
    assert_eq!(made.path(), temp.0.join("a/b/c"));
    made.replace("file", b"x", Durability::Fast).unwrap();
    let found = dir.descend(&["a", "b", "c"]).unwrap().unwrap();
    assert_eq!(found.own_stamp().unwrap(), made.own_stamp().unwrap());
    assert_eq!(found.path(), made.path());
    assert_eq!(dir.descend(&[]).unwrap().unwrap().path(), dir.path());
    std::os::unix::fs::symlink(&outside.0, temp.0.join("a/link")).unwrap();
    std::os::unix::fs::symlink(temp.0.join("nowhere"), temp.0.join("a/dangling")).unwrap();
    for names in [["a", "link", "c"], ["a", "dangling", "c"]] {
        let problem = dir.descend(&names).unwrap_err().problem;
        assert!(matches!(problem, FsProblem::Link), "{names:?}: {problem}");
        let problem = dir.descend_or_create(&names).unwrap_err().problem;
        assert!(matches!(problem, FsProblem::Link), "{names:?}: {problem}");
    }
    for names in [["a", "..", "a"], ["a", "", "b"], ["a", "b/c", "d"]] {
        let problem = dir.descend(&names).unwrap_err().problem;
        assert!(matches!(problem, FsProblem::Name), "{names:?}: {problem}");
    }
    let problem = dir.descend(&["a", "b", "c", "file"]).unwrap_err().problem;
    assert!(matches!(problem, FsProblem::NotA("folder")), "{problem}");
}

#[test]
fn links_pipes_and_folders_are_refused_and_their_targets_untouched() {
    let (temp, dir) = TestFolder::new();
    let outside = TestFolder::new().0;
    let target = outside.0.join("target");
    std::fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, temp.0.join("link")).unwrap();
    std::os::unix::fs::symlink(&outside.0, temp.0.join("linked-folder")).unwrap();
    dir.make_dir("folder").unwrap();
    let is_link = |problem: FsProblem| matches!(problem, FsProblem::Link);
    assert!(is_link(dir.read("link").unwrap_err().problem));
    assert!(is_link(
        dir.append("link", b"x", Durability::Fast)
            .unwrap_err()
            .problem
    ));
    assert!(is_link(
        dir.replace("link", b"x", Durability::Fast)
            .unwrap_err()
            .problem
    ));
    assert!(is_link(dir.truncate("link", 0).unwrap_err().problem));
    assert!(is_link(dir.open_in_place("link").unwrap_err().problem));
    assert!(is_link(dir.child("linked-folder").unwrap_err().problem));
    assert!(is_link(
        dir.child_or_create("linked-folder").unwrap_err().problem
    ));
    assert!(!dir.create_new("link", b"x", Durability::Fast).unwrap());
    assert!(matches!(
        dir.read("folder").unwrap_err().problem,
        FsProblem::NotA(_)
    ));
    assert!(matches!(
        dir.append("folder", b"x", Durability::Fast)
            .unwrap_err()
            .problem,
        FsProblem::NotA(_)
    ));
    assert_eq!(std::fs::read(&target).unwrap(), b"precious");
}

#[test]
fn a_name_cannot_lead_out_of_its_folder() {
    let (_temp, dir) = TestFolder::new();
    let long = "x".repeat(300);
    for name in ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\0b", &long] {
        assert!(
            matches!(dir.read(name).unwrap_err().problem, FsProblem::Name),
            "{name:?}"
        );
        assert!(
            matches!(dir.child(name).unwrap_err().problem, FsProblem::Name),
            "{name:?}"
        );
        assert!(
            matches!(dir.remove(name).unwrap_err().problem, FsProblem::Name),
            "{name:?}"
        );
    }
}

#[test]
fn a_lock_is_held_by_one_and_waiting_ends() {
    let (_temp, dir) = TestFolder::new();
    let LockWait::Held(first) = Lock::wait(&dir, "lock", Duration::ZERO, false).unwrap() else {
        panic!("a free lock is given at once");
    };
    let start = Instant::now();
    let second = Lock::wait(&dir, "lock", Duration::from_millis(50), false).unwrap();
    assert!(matches!(second, LockWait::TimedOut));
    assert!(start.elapsed() >= Duration::from_millis(50));
    drop(first);
    assert!(matches!(
        Lock::wait(&dir, "lock", Duration::ZERO, false).unwrap(),
        LockWait::Held(_)
    ));
}

#[test]
fn whoever_waited_for_a_lock_file_that_was_replaced_gets_the_new_one() {
    let (_temp, dir) = TestFolder::new();
    let LockWait::Held(old) = Lock::wait(&dir, "lock", Duration::ZERO, false).unwrap() else {
        panic!("a free lock is given at once");
    };
    let waiting = std::thread::scope(|scope| {
        let waiter =
            scope.spawn(|| Lock::wait(&dir, "lock", Duration::from_secs(10), false).unwrap());
        dir.remove("lock").unwrap();
        drop(old);
        waiter.join().unwrap()
    });
    let LockWait::Held(lock) = waiting else {
        panic!("it was freed")
    };
    let there = dir.stamp("lock").unwrap().unwrap();
    assert_eq!(
        lock.notes().stamp().inode,
        there.inode,
        "it locks the file that others will open"
    );
}

#[test]
fn a_tree_is_removed_without_following_what_leads_out() {
    let (temp, dir) = TestFolder::new();
    let outside = TestFolder::new().0;
    std::fs::write(outside.0.join("precious"), "x").unwrap();
    std::fs::create_dir_all(temp.0.join("tree/deep/deeper")).unwrap();
    std::fs::write(temp.0.join("tree/deep/file"), "x").unwrap();
    // Names that are not UTF-8 are left out of listings, and must not keep a folder for ever.
    let odd = temp.0.join("tree").join(OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::write(odd.join(OsStr::from_bytes(b"\xfe")), "x").unwrap();
    std::os::unix::fs::symlink(&outside.0, odd.join(OsStr::from_bytes(b"\xfd"))).unwrap();
    std::os::unix::fs::symlink(&outside.0, temp.0.join("tree/deep/out")).unwrap();
    remove_tree(&dir, "tree").unwrap();
    assert_eq!(temp.names(), Vec::<String>::new());
    assert_eq!(outside.names(), ["precious"]);
}

#[test]
fn a_home_that_is_missing_is_not_invented() {
    let (temp, _dir) = TestFolder::new();
    let error = Dir::open_or_create_root(&temp.0.join("missing/.claude")).unwrap_err();
    assert_eq!(error.io_kind(), Some(std::io::ErrorKind::NotFound));
    assert_eq!(temp.names(), Vec::<String>::new());
}

#[test]
fn inbox_that_nobody_reads_is_unread_until_it_is_read_after_the_last_append() {
    let (_temp, dir) = TestFolder::new();
    let mut inbox = InboxFile::create(dir, "inbox.jsonl").unwrap();
    for round in 0..3 {
        inbox.append(format!("{round}\n").as_bytes()).unwrap();
        assert!(!inbox.was_read().unwrap(), "round {round}");
        let text = std::fs::read_to_string(inbox.path()).unwrap();
        assert_eq!(text.lines().count(), round + 1);
        assert!(inbox.was_read().unwrap(), "round {round}");
    }
}

#[test]
fn inbox_that_was_emptied_or_taken_away_was_had() {
    let (_temp, dir) = TestFolder::new();
    let mut inbox = InboxFile::create(dir, "inbox.jsonl").unwrap();
    inbox.append(b"one\n").unwrap();
    std::fs::write(inbox.path(), "").unwrap();
    assert!(inbox.was_read().unwrap());
    inbox.append(b"two\n").unwrap();
    assert!(!inbox.was_read().unwrap());
    std::fs::remove_file(inbox.path()).unwrap();
    assert!(inbox.was_read().unwrap());
    inbox.append(b"three\n").unwrap();
    assert!(!inbox.was_read().unwrap());
}
