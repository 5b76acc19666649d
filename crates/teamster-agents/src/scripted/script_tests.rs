use super::*;
use crate::scripted::play::tests::Nowhere;

fn parse(text: &str) -> Result<Script, String> {
    Script::parse(Path::new("demo.toml"), text).map_err(|error| error.to_string())
}

fn scene<'a>(id: &'a str, subject: &'a str, attempt: u32) -> ScriptContext<'a> {
    ScriptContext {
        worktree: Path::new("/nowhere"),
        id,
        subject,
        attempt,
        team: "t",
        worker: "worker-1",
        label: None,
        world: &Nowhere,
    }
}

#[test]
fn the_first_section_that_fits_is_played() {
    let script = parse(
        "steps = [{ say = 'default' }]\n\
         [[task]]\nid = 3\nsteps = [{ say = 'three' }]\n\
         [[task]]\nsubject = 'Fix *'\nattempt = 1\nsteps = [{ fail = 'not yet' }]\n\
         [[task]]\nsubject = 'Fix *'\nsteps = [{ say = 'fixed' }]\n\
         [[task]]\nworker = 'other-*'\nsteps = [{ say = 'other' }]",
    )
    .unwrap();
    let first = |scene: ScriptContext<'_>| script.part(&scene).unwrap().steps[0].clone();
    let not_yet = ScriptStep::Fail {
        reason: "not yet".into(),
        code: 1,
    };
    assert_eq!(
        first(scene("3", "Fix it", 1)),
        ScriptStep::Say("three".into())
    );
    assert_eq!(first(scene("4", "Fix it", 1)), not_yet);
    assert_eq!(
        first(scene("4", "Fix it", 2)),
        ScriptStep::Say("fixed".into())
    );
    assert_eq!(
        first(scene("4", "Build", 1)),
        ScriptStep::Say("default".into())
    );
}

#[test]
fn a_star_stands_for_anything() {
    for (pattern, text) in [
        ("*", ""),
        ("a*", "ab"),
        ("*b", "ab"),
        ("a*c*e", "abcde"),
        ("ab", "ab"),
        ("*a*", "bab"),
    ] {
        assert!(matches(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in [
        ("a", "ab"),
        ("a*b", "a"),
        ("*b", "ba"),
        ("a*a", "a"),
        ("", "a"),
    ] {
        assert!(!matches(pattern, text), "{pattern} {text}");
    }
}

#[test]
fn every_mistake_is_told_with_its_line() {
    for (text, says) in [
        (
            "steps = [\n  { say = 'a' },\n  { sya = 'b' },\n]",
            "demo.toml, line 3: nobody knows this step",
        ),
        (
            "steps = [{ say = 'a', run = 'b' }]",
            "line 1: a step is one thing, not say and run at once",
        ),
        (
            "\nsteps = [{ write = 'a' }]",
            "line 2: this step needs `text`",
        ),
        (
            "steps = [{ write = 'a', txt = 'b', text = '' }]",
            "this step has no `txt`; it has write, text",
        ),
        ("steps = [{ sleep = 5 }]", "`sleep` must be a time such as"),
        ("steps = [{ crash = 0 }]", "`crash` must be true"),
        ("steps = [{ pause = 'x' }]", "`pause` must be"),
        ("steps = [{ usage = { in = 1 } }]", "`usage` has no `in`"),
        ("steps = [{ hang = false }]", "write `hang = true`"),
        ("steps = 'x'", "`steps` must be a list of steps"),
        ("steps = ['x']", "a step is { say"),
        ("[[task]]\nid = '1'", "line 1: [[task]] needs `steps`"),
        (
            "[[task]]\nid = '1'\nsteps = []\nname = 'x'",
            "line 4: [[task]] has no `name`",
        ),
        ("[task]\nsteps = []", "write [[task]]"),
        ("x = 1\nsteps = []", "line 1: the script has no `x`"),
        ("", "line 1: a script needs `steps`"),
        ("steps = [\n", "not valid TOML"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(says), "{text:?}: {error}");
    }
}
