//! Damaged and forged journals: every command ends with a message, and nothing intact is lost.

use std::path::Path;

use crate::kit::TestProject;

/// The name of a kind of damage, and the function that applies it to a good journal.
type Damage = (&'static str, fn(&str) -> Vec<u8>);

fn with_line(journal: &str, line: &str) -> Vec<u8> {
    format!("{journal}{line}\n").into_bytes()
}

/// Appends the first line with a part of it replaced.
fn forged(journal: &str, what: &str, by: &str) -> Vec<u8> {
    let last = journal.lines().last().unwrap();
    assert!(last.contains(what), "{last}");
    with_line(journal, &last.replacen(what, by, 1))
}

const DAMAGES: [Damage; 22] = [
    ("empty", |_| Vec::new()),
    ("one newline", |_| b"\n".to_vec()),
    ("zeros", |journal| [journal.as_bytes(), &[0; 4096]].concat()),
    ("zeros alone", |_| vec![0; 4096]),
    ("torn last line", |journal| {
        journal.as_bytes()[..journal.len() - 20].to_vec()
    }),
    ("no last newline", |journal| {
        journal.trim_end().as_bytes().to_vec()
    }),
    ("carriage returns", |journal| {
        journal.replace('\n', "\r\n").into_bytes()
    }),
    ("byte order mark", |journal| {
        format!("\u{feff}{journal}").into_bytes()
    }),
    ("not UTF-8", |journal| {
        [journal.as_bytes(), b"{\"seq\":\xff\xfe}\n"].concat()
    }),
    ("no JSON", |journal| with_line(journal, "this is no JSON")),
    ("an array", |journal| with_line(journal, "[1,2,3]")),
    ("a bare number", |journal| with_line(journal, "17")),
    ("deep nesting", |journal| {
        with_line(journal, &"[".repeat(100_000))
    }),
    ("a megabyte", |journal| {
        with_line(journal, &"x".repeat(1 << 20))
    }),
    ("seq twice", |journal| {
        with_line(journal, journal.lines().last().unwrap())
    }),
    ("seq of zero", |journal| {
        forged(journal, "\"seq\":3", "\"seq\":0")
    }),
    ("negative seq", |journal| {
        forged(journal, "\"seq\":3", "\"seq\":-3")
    }),
    ("huge seq", |journal| {
        forged(journal, "\"seq\":3", "\"seq\":18446744073709551615")
    }),
    ("seq as text", |journal| {
        forged(journal, "\"seq\":3", "\"seq\":\"4\"")
    }),
    ("another team", |journal| {
        forged(journal, "fix-auth", "somebody-else")
    }),
    ("no time", |journal| {
        forged(journal, "\"ts\":\"2", "\"ts\":\"x")
    }),
    ("lines in reverse", |journal| {
        let mut lines: Vec<&str> = journal.lines().collect();
        lines.reverse();
        (lines.join("\n") + "\n").into_bytes()
    }),
];

fn survives(name: &str, damage: fn(&str) -> Vec<u8>) {
    let project = TestProject::with_team();
    project.task("first", &[]);
    project.task("second", &[]);
    let journal = project.claude("teams/fix-auth/events.jsonl");
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, damage(&text)).unwrap();
    let calls: [&[&str]; 7] = [
        &["status", "--json"],
        &["journal", "--json"],
        &["task", "list", "--json"],
        &["replay", "fix-auth", "--json"],
        &["doctor", "--json"],
        &["task", "create", "--subject", "third"],
        &["task", "claim", "--worker", "worker-1", "--json"],
    ];
    for call in calls {
        let ran = project.run(call);
        let code = ran.code.unwrap_or(-1);
        assert!(
            (0..=20).contains(&code),
            "{name}: {call:?} ended with {code}: {}",
            ran.stderr
        );
        assert!(
            !ran.stderr.contains("panicked"),
            "{name}: {call:?}: {}",
            ran.stderr
        );
    }
    for id in ["1", "2"] {
        let task = project.claude(&format!("tasks/fix-auth/{id}.json"));
        assert!(is_whole(&task), "{name}: task {id}");
    }
    let listed = project.run(["task", "list", "--json"]).exits(0).json();
    assert!(
        listed["tasks"].as_array().unwrap().len() >= 2,
        "{name}: {listed}"
    );
}

fn is_whole(file: &Path) -> bool {
    let text = std::fs::read_to_string(file).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).is_ok()
}

#[test]
fn hostile_journals_of_22_kinds_stop_no_command_and_lose_no_task() {
    let damages = std::sync::Mutex::new(DAMAGES.iter());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = damages.lock().unwrap().next();
                    let Some((name, damage)) = next else { break };
                    survives(name, *damage);
                }
            });
        }
    });
}
