//! Tests with real programs.

use std::sync::mpsc::channel;
use std::time::Duration;

use super::*;

const LONG: Duration = Duration::from_secs(60);

fn run(script: &str, has_input: bool) -> (RunningChild, std::sync::mpsc::Receiver<ChildEvent>) {
    let machine = Machine::read();
    let (say, said) = channel();
    let args = ["-c".into(), script.into()];
    let start = ChildSpec {
        program: Path::new("/bin/sh"),
        args: &args,
        folder: Path::new("/"),
        set: &[("GIVEN".into(), "a b".into())],
        unset: &["HOME".into()],
        number: "0123abcd",
        has_input,
    };
    let running = RunningChild::start(&machine, &start, &say, |said| said).unwrap();
    (running, said)
}

/// Collects all output until the program has ended and both streams are closed.
fn all(said: &std::sync::mpsc::Receiver<ChildEvent>) -> (Vec<String>, Vec<String>, ChildExit) {
    let (mut output, mut errors, mut ending, mut open) = (Vec::new(), Vec::new(), None, 2);
    while ending.is_none() || open > 0 {
        match said.recv_timeout(LONG).unwrap() {
            ChildEvent::Line(OutputStream::Output, line) => {
                output.push(String::from_utf8(line.to_vec()).unwrap());
            }
            ChildEvent::Line(OutputStream::Error, line) => {
                errors.push(String::from_utf8(line.to_vec()).unwrap());
            }
            ChildEvent::Closed(_) => open -= 1,
            ChildEvent::Ended(how) => ending = Some(how),
        }
    }
    (output, errors, ending.unwrap())
}

#[test]
fn what_a_program_says_comes_line_by_line_with_its_ending() {
    let (running, said) = run(
        "pwd; echo \"$GIVEN|$HOME|$TEAMSTER_LAUNCH\"; printf end; echo oops >&2; exit 3",
        false,
    );
    let (output, errors, ending) = all(&said);
    assert_eq!(output, ["/", "a b||0123abcd", "end"]);
    assert_eq!(errors, ["oops"]);
    assert_eq!(ending, ChildExit::Code(3));
    assert!(
        running.command().starts_with("/bin/sh -c 'pwd; "),
        "{}",
        running.command()
    );
}

#[test]
fn a_program_that_prints_faster_than_it_is_heard_waits() {
    let (_running, said) = run("yes 0123456789 | head -n 300000; echo over", false);
    let mut heard: Vec<ChildEvent> = Vec::new();
    // As long as no line is dropped, no more than the budget is buffered.
    while let Ok(next) = said.recv_timeout(Duration::from_secs(2)) {
        heard.push(next);
    }
    let bytes: usize = heard
        .iter()
        .map(|said| match said {
            ChildEvent::Line(_, line) => line.len(),
            _ => 0,
        })
        .sum();
    assert!(bytes > 0 && bytes < ON_THE_WAY, "{bytes}");
    let count = heard.len();
    drop(heard);
    let (output, _, ending) = all(&said);
    assert_eq!(output.len() + count, 300_001, "nothing is lost");
    assert_eq!(output.last().unwrap(), "over");
    assert_eq!(ending, ChildExit::Code(0));
}

#[test]
fn a_signal_is_told_as_one() {
    let (running, said) = run("echo up; exec sleep 600", false);
    assert_eq!(
        said.recv_timeout(LONG).unwrap(),
        ChildEvent::Line(
            OutputStream::Output,
            OutputLine::new(b"up".to_vec(), &Arc::new(BufferBudget::default()))
        )
    );
    running.signal(Signal::TERM);
    assert_eq!(all(&said).2, ChildExit::Signal(15));
}

#[test]
fn a_program_that_is_not_fed_gets_no_input_and_one_that_is_gets_all_of_it() {
    let (_running, said) = run("cat; echo over", false);
    assert_eq!(all(&said).0, ["over"]);
    let (mut running, said) = run("wc -c", true);
    let (texts, received) = channel();
    feed(running.take_input().unwrap(), received);
    // More than the capacity of a pipe.
    texts.send(vec![b'x'; 300_000]).unwrap();
    texts.send(b"\n".to_vec()).unwrap();
    drop(texts);
    assert_eq!(all(&said).0, ["300001"]);
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let machine = Machine::read();
    let (say, _said) = channel::<ChildEvent>();
    let start = ChildSpec {
        program: Path::new("/nowhere/at/all"),
        args: &[],
        folder: Path::new("/"),
        set: &[],
        unset: &[],
        number: "1",
        has_input: false,
    };
    let error = RunningChild::start(&machine, &start, &say, |said| said).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_command_line_can_be_pasted() {
    let args = ["-p".into(), "it's \"so\"".into(), String::new().into()];
    assert_eq!(
        say(Path::new("/bin/x"), &args),
        r#"/bin/x -p 'it'\''s "so"' ''"#
    );
}

/// This process enters a group to start a program there; a program started by another thread must not end up in it.
#[test]
fn programs_that_are_started_at_the_same_time_are_each_in_a_group_of_their_own() {
    let machine = Machine::read();
    let begin = |_: usize| {
        let number = teamster_fs::random_hex();
        let (say, _said) = channel();
        let start = ChildSpec {
            program: Path::new("/bin/sleep"),
            args: &["600".into()],
            folder: Path::new("/"),
            set: &[],
            unset: &[],
            number: &number,
            has_input: false,
        };
        let running = RunningChild::start(&machine, &start, &say, |said| said).unwrap();
        (number, running)
    };
    let started: Vec<(String, RunningChild)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..10).map(begin).collect::<Vec<_>>()))
            .collect();
        let all = threads.into_iter().map(|thread| thread.join().unwrap());
        all.flatten().collect()
    });
    let mut strangers = Vec::new();
    for (number, running) in &started {
        let members = Cgroup::find(&group_name(number)).map(|group| group.members());
        let own = vec![running.id().pid];
        // Without permission to create groups there is none to check.
        if running.is_in_group() && members.as_ref() != Some(&own) {
            strangers.push((own, members));
        }
    }
    let in_groups = started.iter().filter(|(_, one)| one.is_in_group()).count();
    for (number, running) in &started {
        crate::process_tree::ProcessTree::of_launch(&machine, number, Some(running.id()))
            .kill()
            .unwrap();
    }
    assert!(strangers.is_empty(), "{strangers:?}");
    assert!(
        in_groups == 0 || in_groups == started.len(),
        "{in_groups} of {} got into their group",
        started.len()
    );
}

#[test]
fn what_is_started_meanwhile_is_in_nobody_elses_group() {
    let in_groups: Vec<_> = (0..4)
        .map(|thread| {
            std::thread::spawn(move || {
                let machine = Machine::read();
                let args = ["-c".into(), "exit 0".into()];
                for round in 0..25 {
                    let number = format!("{}-{thread}-{round}", teamster_fs::random_hex());
                    let start = ChildSpec {
                        program: Path::new("/bin/sh"),
                        args: &args,
                        folder: Path::new("/"),
                        set: &[],
                        unset: &[],
                        number: &number,
                        has_input: false,
                    };
                    let (say, said) = channel();
                    let _running =
                        RunningChild::start(&machine, &start, &say, |said| said).unwrap();
                    all(&said);
                    crate::process_tree::ProcessTree::of_launch(&machine, &number, None).forget();
                }
            })
        })
        .collect();
    for _ in 0..200 {
        let mut command = Command::new("/bin/cat");
        command.arg("/proc/self/cgroup").stdout(Stdio::piped());
        let child = crate::spawn::spawn(&mut command).unwrap();
        let output = child.wait_with_output().unwrap();
        let groups = String::from_utf8_lossy(&output.stdout);
        assert!(!groups.contains("teamster-"), "{groups}");
    }
    for thread in in_groups {
        thread.join().unwrap();
    }
}
