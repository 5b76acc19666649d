//! Tests with real processes that try to escape.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use teamster_types::process::ProcessState;

use super::*;

const LONG: Duration = Duration::from_secs(60);

/// Ignores the soft signal, forks twice, creates its own session, and leaves three generations.
const RUNAWAY: &str = r#"
trap '' TERM INT HUP
setsid sh -c 'trap "" TERM INT HUP; (sh -c "trap \"\" TERM; (trap \"\" TERM; sleep 600) & sleep 600" & ) ; sleep 600' &
env -u TEAMSTER_LAUNCH setsid sleep 600 &
wait; sleep 600
"#;

fn start(number: &str, script: &str) -> Child {
    Command::new("sh")
        .args(["-c", script])
        .env(LAUNCH, number)
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn nobody_of_a_runaway_tree_is_left_and_nobody_else_is_touched() {
    let machine = Machine::read();
    let number = teamster_fs::random_hex();
    let mut stranger = start(&teamster_fs::random_hex(), "exec sleep 600");
    let mut child = start(&number, RUNAWAY);
    let root = machine.process(child.id()).unwrap();
    let tree = ProcessTree::of_launch(&machine, &number, Some(&root));
    until("the tree did not grow", || tree.members().len() >= 7);
    let all = tree.members();
    assert!(!all.iter().any(|member| member.pid == machine.me().pid));
    assert!(!all.iter().any(|member| member.pid == stranger.id()));
    tree.end(Duration::from_millis(200)).unwrap();
    child.wait().unwrap();
    for member in all {
        assert_eq!(
            machine.process_state(&member),
            ProcessState::Gone,
            "{member:?}"
        );
    }
    assert_eq!(tree.members(), []);
    assert!(
        stranger.try_wait().unwrap().is_none(),
        "a stranger was ended"
    );
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// A root that ends its child itself, and one that ignores the request, with a descendant that hides from everything but
/// its descent.
#[test]
fn several_trees_are_ended_together_and_a_root_that_reacts_ends_its_own() {
    let machine = Machine::read();
    let numbers = [(); 3].map(|()| teamster_fs::random_hex());
    let folder = std::env::temp_dir().join(format!("teamster-roots-{}", numbers[0]));
    let orderly = format!(
        "trap 'kill -USR1 $child; wait $child; echo by the root >> {0}; exit' TERM; \
         sh -c \"trap 'echo alone >> {0}; exit' TERM; while :; do sleep 0.05; done\" & child=$!; wait",
        folder.display()
    );
    let deaf =
        "trap '' TERM; env -u TEAMSTER_LAUNCH setsid sh -c \"trap '' TERM; sleep 600\" & wait";
    let mut children = [orderly.as_str(), deaf, deaf];
    let mut children: Vec<Child> = children
        .iter_mut()
        .zip(&numbers)
        .map(|(script, number)| start(number, script))
        .collect();
    let roots: Vec<ProcessId> = children
        .iter()
        .map(|child| machine.process(child.id()).unwrap())
        .collect();
    let trees: Vec<ProcessTree<'_>> = roots
        .iter()
        .zip(&numbers)
        .map(|(root, number)| ProcessTree::of_launch(&machine, number, Some(root)))
        .collect();
    let members = || -> Vec<ProcessId> { trees.iter().flat_map(ProcessTree::members).collect() };
    until("the trees did not grow", || members().len() >= 8);
    let all = members();
    let reaping: Vec<_> = children
        .drain(..)
        .map(|mut child| std::thread::spawn(move || child.wait()))
        .collect();
    let grace = Duration::from_secs(2);
    let begin = Instant::now();
    let ends = ProcessTree::end_from_roots(&trees, Signal::TERM, grace);
    let took = begin.elapsed();
    assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 3, "{ends:?}");
    assert!(took < grace * 4, "one after the other: {took:?}");
    for thread in reaping {
        thread.join().unwrap().unwrap();
    }
    for member in all {
        let state = machine.process_state(&member);
        assert_eq!(state, ProcessState::Gone, "{member:?}");
    }
    let told = Command::new("cat").arg(&folder).output().unwrap().stdout;
    assert_eq!(String::from_utf8_lossy(&told), "by the root\n");
    assert!(Command::new("rm").arg(&folder).status().unwrap().success());
}

#[test]
fn an_orphan_is_found_by_the_number_alone() {
    let machine = Machine::read();
    let number = teamster_fs::random_hex();
    let mut child = start(&number, "setsid sleep 600 & exit 0");
    child.wait().unwrap();
    let tree = ProcessTree::of_launch(&machine, &number, None);
    until("the orphan was not found", || tree.members().len() == 1);
    tree.end(Duration::from_secs(5)).unwrap();
    assert_eq!(tree.members(), []);
}

#[test]
fn a_process_that_got_the_pid_of_a_dead_one_is_left_alone() {
    let machine = Machine::read();
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    let mut record = machine.process(stranger.id()).unwrap();
    record.process_start_time -= 1;
    let tree = ProcessTree::of_launch(&machine, "feed", Some(&record));
    assert_eq!(tree.members(), []);
    tree.end(Duration::ZERO).unwrap();
    assert!(stranger.try_wait().unwrap().is_none());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// Runs only where a control group can be created; elsewhere only the other criteria apply, which are tested above.
#[test]
fn a_group_of_the_kernels_catches_who_hides_from_the_rest() {
    let machine = Machine::read();
    let number = teamster_fs::random_hex();
    let Some(group) = Cgroup::make(&group_name(&number)) else {
        assert!(
            !Path::new("/sys/fs/cgroup/cgroup.procs").exists()
                || !rustix::process::geteuid().is_root()
        );
        return;
    };
    let mut child = Command::new("sleep")
        .arg("600")
        .env_remove(LAUNCH)
        .spawn()
        .unwrap();
    assert!(group.add(child.id()));
    let tree = ProcessTree::of_launch(&machine, &number, None);
    assert_eq!(
        tree.members().len(),
        1,
        "a member of the group is one of ours"
    );
    tree.kill().unwrap();
    child.wait().unwrap();
    assert!(
        Cgroup::find(&group_name(&number)).is_none(),
        "the group is left"
    );
}
