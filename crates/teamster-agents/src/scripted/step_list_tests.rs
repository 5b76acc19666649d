use std::path::Path;
use std::time::Duration;

use super::*;
use crate::scripted::Script;
use crate::scripted::play::tests::Nowhere;

fn parsed(text: &str) -> Result<Script, String> {
    Script::parse(Path::new("demo.toml"), text).map_err(|error| error.to_string())
}

/// What is played for a task.
fn part(script: &str, label: Option<&str>, subject: &str, attempt: u32) -> Vec<ScriptStep> {
    let scene = ScriptContext {
        worktree: Path::new("/nowhere"),
        id: "7",
        subject,
        attempt,
        team: "t",
        worker: "w",
        label,
        world: &Nowhere,
    };
    let script = parsed(script).unwrap();
    let part = script.part(&scene).unwrap();
    assert!(part.starts && !part.fills);
    part.steps.into_iter().cloned().collect()
}

fn says(words: &[&str]) -> Vec<ScriptStep> {
    let say = |word: &&str| ScriptStep::Say((*word).to_owned());
    words.iter().map(say).collect()
}

#[test]
fn steps_are_for_every_task_or_for_the_one_they_name() {
    let script = "
        [[step]]\ndo = 'say'\ntext = 'all'\n\
        [[step]]\ntask = '1'\ndo = 'say'\ntext = 'one'\n\
        [[step]]\ntask = 'Fix'\ndo = 'say'\ntext = 'fix'\n\
        [[step]]\ntask = 7\nattempt = 2\ndo = 'say'\ntext = 'again'\n\
        [[step]]\ndo = 'say'\ntext = 'end'";
    assert_eq!(
        part(script, Some("1"), "Build", 1),
        says(&["all", "one", "end"])
    );
    assert_eq!(
        part(script, Some("x"), "Fix it", 1),
        says(&["all", "fix", "end"])
    );
    // The number of a task is not what its plan calls it.
    assert_eq!(part(script, Some("x"), "Build", 2), says(&["all", "end"]));
    assert_eq!(
        part(script, None, "Build", 2),
        says(&["all", "again", "end"])
    );
    assert_eq!(part("step = []", None, "Build", 1), []);
}

#[test]
fn every_deed_has_its_keys() {
    let script = "
        [[step]]\ndo = 'edit'\npath = 'a/b'\ncontent = 'c'\n\
        [[step]]\ndo = 'edit'\npath = 'a'\nfind = 'x'\nreplace = ''\n\
        [[step]]\ndo = 'run'\ncommand = 'true'\n\
        [[step]]\ndo = 'commit'\n\
        [[step]]\ndo = 'sleep'\nseconds = 0.25\n\
        [[step]]\ndo = 'usage'\ntokens_in = 1_000\ntokens_out = 5\n\
        [[step]]\ndo = 'fail'\ncode = 3\ntext = 'no'\n\
        [[step]]\ndo = 'hang'\n\
        [[step]]\ndo = 'crash'\n\
        [[step]]\ndo = 'ignore-signals'\n\
        [[step]]\ndo = 'spawn-orphan'\nseconds = 60";
    let usage = Usage {
        input: 1_000,
        output: 5,
        ..Usage::default()
    };
    let expected = vec![
        ScriptStep::Write {
            path: "a/b".into(),
            text: "c".into(),
        },
        ScriptStep::Edit {
            path: "a".into(),
            find: "x".into(),
            replace: String::new(),
        },
        ScriptStep::Run {
            command: "true".into(),
            within: RUN_WITHIN,
            may_fail: false,
        },
        ScriptStep::Commit("Work in progress".into()),
        ScriptStep::Sleep(Duration::from_millis(250)),
        ScriptStep::Used {
            usage,
            cost_usd: None,
        },
        ScriptStep::Fail {
            reason: "no".into(),
            code: 3,
        },
        ScriptStep::Hang,
        ScriptStep::Crash(None),
        ScriptStep::IgnoreSignals,
        ScriptStep::SpawnOrphan(Duration::from_secs(60)),
    ];
    assert_eq!(part(script, None, "", 1), expected);
}

#[test]
fn every_mistake_is_told_with_its_line() {
    for (text, says) in [
        ("[[step]]\ntext = 'a'", "line 1: [[step]] needs `do`"),
        (
            "[[step]]\ndo = 'dance'",
            "line 1: nobody can do \"dance\"; there are say, edit, run",
        ),
        (
            "[[step]]\ndo = 'say'\ntext = 'a'\ntxt = 'b'",
            "line 4: [[step]] has no `txt`",
        ),
        (
            "\n[[step]]\ndo = 'edit'\npath = 'a'\ncontent = 'x'\nfind = 'y'",
            "line 2: an edit needs `content`, or `find` and `replace`",
        ),
        ("[[step]]\ndo = 'edit'\ncontent = 'a'", "needs `path`"),
        ("[[step]]\ndo = 'sleep'", "needs `seconds`"),
        (
            "[[step]]\ndo = 'sleep'\nseconds = -1",
            "line 3: `seconds` must be a number of seconds",
        ),
        ("[[step]]\ndo = 'fail'\ncode = 0", "must be 1 to 255"),
        (
            "[[step]]\ndo = 'fail'\ncode = 256",
            "must be a whole number",
        ),
        ("[[step]]\ndo = 'say'\ntext = 'a'\ntask = ''", "`task` must"),
        ("step = 3", "write [[step]]"),
        ("step = [3]", "a step is a table"),
        (
            "[[step]]\ndo = 'hang'\n\n[[task]]\nsteps = []",
            "demo.toml, line 4: a script is written either with [[step]] or with [[task]]",
        ),
        (
            "steps = []\n[[step]]\ndo = 'hang'",
            "line 1: a script is written either",
        ),
        (
            "x = 1\n[[step]]\ndo = 'hang'",
            "line 1: the script has no `x`",
        ),
    ] {
        let error = parsed(text).unwrap_err();
        assert!(error.contains(says), "{text:?}: {error}");
    }
}
