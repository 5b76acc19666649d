#![allow(
    clippy::disallowed_methods,
    reason = "tests arrange and look at files as any other program would"
)]

use super::*;
use crate::event::{AgentEvent, Usage};
use crate::reader::{AgentEnd, AgentOutcome, AgentVerdict, OutputReader};
use crate::scripted::read::ScriptedReader;

/// A world in which nothing takes time.
pub(in crate::scripted) struct Nowhere;

impl ScriptHost for Nowhere {
    fn pause(&self, _span: Duration) {}

    fn ignore_signals(&self) -> Result<(), String> {
        Ok(())
    }

    fn spawn_orphan(&self, span: Duration) -> Result<String, String> {
        Err(format!("nobody lives for {} s here", span.as_secs()))
    }
}

/// Plays a script in a folder of its own and reads what it prints as the driver does.
fn played(
    script: &str,
    attempt: u32,
    check: impl FnOnce(&Path),
) -> (Vec<AgentEvent>, AgentOutcome, ScriptEnd) {
    let worktree =
        std::env::temp_dir().join(format!("teamster-play-{}", teamster_fs::random_hex()));
    std::fs::create_dir(&worktree).unwrap();
    let script = Script::parse(Path::new("x.toml"), script).unwrap();
    let scene = ScriptContext {
        worktree: &worktree,
        id: "7",
        subject: "Add {id}",
        attempt,
        team: "t",
        worker: "w",
        label: None,
        world: &Nowhere,
    };
    let mut out = Vec::new();
    let played = play(&script, &scene, &mut out).unwrap();
    check(&worktree);
    std::fs::remove_dir_all(&worktree).unwrap();
    let mut reader = Box::<ScriptedReader>::default();
    let mut events = Vec::new();
    for line in out.split_inclusive(|byte| *byte == b'\n') {
        events.extend(reader.line(line).events);
    }
    let ending = match played {
        ScriptEnd::Exit(code) => AgentEnd::code(code.into()),
        ScriptEnd::Crash => AgentEnd::signal(6),
    };
    (events, reader.end(ending, ""), played)
}

fn verdict(script: &str) -> AgentVerdict {
    played(script, 1, |_| {}).1.verdict
}

#[test]
fn files_are_changed_and_told() {
    let script = "steps = [
        { write = 'out/{id}.txt', text = '{subject}, attempt {attempt}' },
        { append = 'out/{id}.txt', text = '!' },
        { edit = 'out/7.txt', find = 'attempt 2', replace = 'again' },
        { write = 'gone', text = '' },
        { delete = 'gone' },
        { commit = 'Task {id}' },
        { usage = { input = 10, output = 2, cost_usd = 0.5 } },
        { usage = { input = 1 } },
        { say = 'all of {id}' },
    ]";
    let (events, outcome, _) = played(script, 2, |worktree| {
        let text = std::fs::read_to_string(worktree.join("out/7.txt")).unwrap();
        assert_eq!(text, "Add {id}, again!");
        assert!(!worktree.join("gone").exists());
    });
    assert!(matches!(
        events[0],
        AgentEvent::Started {
            session: Some(_),
            ..
        }
    ));
    assert!(events.contains(&AgentEvent::CommitAsked {
        message: "Task 7".into()
    }));
    assert_eq!(
        outcome.verdict,
        AgentVerdict::Done {
            summary: "all of 7".into()
        }
    );
    let usage = Usage {
        input: 11,
        output: 2,
        ..Usage::default()
    };
    assert_eq!(outcome.spent.usage, Some(usage));
    assert_eq!(outcome.spent.cost_usd, Some(0.5));
}

#[test]
fn no_step_reaches_out_of_the_worktree() {
    for path in ["../x", "/tmp/x", "a/../../x", ".git/config", ""] {
        let failed = verdict(&format!("steps = [{{ write = '{path}', text = '' }}]"));
        assert!(
            matches!(failed, AgentVerdict::Failed { .. }),
            "{path}: {failed:?}"
        );
    }
    let worktree =
        std::env::temp_dir().join(format!("teamster-play-{}", teamster_fs::random_hex()));
    std::fs::create_dir(&worktree).unwrap();
    std::os::unix::fs::symlink("/", worktree.join("link")).unwrap();
    let tree = ProjectFiles::open(&worktree).unwrap().unwrap();
    let error = tree.write(Path::new("link/tmp/x"), b"").unwrap_err();
    assert!(error.is_unsafe(), "{error}");
    std::fs::remove_dir_all(&worktree).unwrap();
}

#[test]
fn a_play_ends_as_its_script_says() {
    let failed = |reason: &str| AgentVerdict::Failed {
        reason: reason.into(),
    };
    assert_eq!(verdict("steps = [{ fail = 'no' }]"), failed("no"));
    assert_eq!(
        verdict("steps = [{ edit = 'a', find = 'x', replace = 'y' }]"),
        failed("there is no a to edit")
    );
    assert_eq!(
        verdict("steps = [{ run = 'echo so; exit 3' }]"),
        failed("`echo so; exit 3` failed: so")
    );
    assert!(verdict("steps = [{ run = 'exit 3', may_fail = true }]").is_done());
    assert_eq!(
        verdict("steps = [{ pause = 'rate-limit' }]"),
        AgentVerdict::Paused {
            trouble: Trouble::RateLimit,
            reason: "the script says: rate limit".into()
        }
    );
    assert!(matches!(
        verdict("steps = [{ crash = true }]"),
        AgentVerdict::Failed { .. }
    ));
    assert!(matches!(
        verdict("steps = [{ crash = 7 }]"),
        AgentVerdict::Failed { .. }
    ));
    assert_eq!(
        verdict("steps = [{ done = 'early' }, { fail = 'late' }]"),
        AgentVerdict::Done {
            summary: "early".into()
        }
    );
    assert_eq!(
        verdict("steps = [{ wait_for_file = 'never', within = '1s' }]"),
        failed("never did not come within 1 s")
    );
    assert_eq!(
        verdict("[[task]]\nid = 8\nsteps = []"),
        failed("the script has no steps for task 7 (Add {id})")
    );
}

#[test]
fn one_that_does_not_say_that_it_is_there_has_not_started() {
    let (_, outcome, _) = played("starts = false\nsteps = [{ crash = 1 }]", 1, |_| {});
    assert!(!outcome.started);
    let (_, outcome, _) = played("steps = [{ crash = 1 }]", 1, |_| {});
    assert!(outcome.started);
}
