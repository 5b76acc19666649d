//! The agent that plays a script, tested as a process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use teamster_agents::scripted::Script;
use teamster_agents::{
    AgentEnd, AgentEvent, AgentInput, AgentOutcome, AgentVerdict, Exit, Job, JobTask, Permissions,
};

use super::{driver, job};
use crate::kit::TestProject;

/// Launches a script as a bridge would, in the project's folder, and reads it to its end.
fn play(
    project: &TestProject,
    script: &str,
    subject: &str,
    attempt: u32,
) -> (Vec<AgentEvent>, AgentOutcome) {
    let file = project.home().join("script.toml");
    std::fs::write(&file, script).unwrap();
    let driver = driver(&format!("scripted:{}", file.display()));
    let permissions = Permissions::default();
    let (worktree, task_file) = (project.folder(), project.home().join("task.json"));
    let job = Job {
        task: Some(JobTask {
            id: "3",
            subject,
            file: &task_file,
            attempt,
        }),
        ..job(&worktree, &permissions)
    };
    let launch = driver.launch(&job).unwrap();
    let mut child = Command::new(&launch.program)
        .args(&launch.args)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(launch.set)
        .current_dir(&worktree)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let AgentInput::Text(script) = &launch.input else {
        panic!("{:?}", launch.input);
    };
    child.stdin.take().unwrap().write_all(script).unwrap();
    let mut reader = driver.reader(&job);
    let mut events = Vec::new();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line).unwrap() > 0 {
        events.extend(reader.line(&line).events);
        line.clear();
    }
    let ended = child.wait_with_output().unwrap();
    let exit = match (ended.status.code(), ended.status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    };
    let ending = AgentEnd {
        exit,
        stopped: None,
    };
    (
        events,
        reader.end(ending, &String::from_utf8_lossy(&ended.stderr)),
    )
}

#[test]
fn a_script_works_in_the_worktree_and_ends_as_it_says() {
    let project = TestProject::new();
    project.write("src/main.rs", "fn main() {}\n");
    let script = "
        [[step]]
        task = 'Fix'
        attempt = 1
        do = 'edit'
        path = 'half.txt'
        content = ''
        [[step]]
        task = 'Fix'
        attempt = 1
        do = 'fail'
        text = 'not yet'
        [[step]]
        task = 'Fix'
        do = 'edit'
        path = 'src/main.rs'
        find = '{}'
        replace = '{ run() }'
        [[step]]
        task = 'Fix'
        do = 'run'
        command = 'test -f half.txt && pwd && cat src/main.rs'
        [[step]]
        task = 'Fix'
        fill = true
        do = 'say'
        text = '{worker} did {id} at attempt {attempt}'";
    let (_, first) = play(&project, script, "Fix it", 1);
    assert_eq!(
        first.verdict,
        AgentVerdict::Failed {
            reason: "not yet".into()
        }
    );
    let (events, second) = play(&project, script, "Fix it", 2);
    assert_eq!(
        second.verdict,
        AgentVerdict::Done {
            summary: "worker-1 did 3 at attempt 2".into()
        }
    );
    assert!(second.started && second.session.is_some());
    assert!(events.contains(&AgentEvent::FileChange {
        paths: vec!["src/main.rs".into()]
    }));
    let ran = events.iter().any(|event| {
        matches!(event,
        AgentEvent::ToolResult { failed: false, detail, .. } if detail.contains("run()"))
    });
    assert!(ran, "{events:?}");
}

#[test]
fn a_crash_is_a_death_by_signal_and_leaves_nothing() {
    let project = TestProject::new();
    let (_, outcome) = play(&project, "[[step]]\ndo = 'crash'", "x", 1);
    assert_eq!(
        outcome.verdict,
        AgentVerdict::Failed {
            reason: "it ended without a result (killed by signal 9)".into()
        }
    );
    let left = std::fs::read_dir(project.folder()).unwrap().count();
    assert_eq!(left, 1, "only .git, and no core file");
}

#[test]
fn a_script_with_a_mistake_is_not_launched() {
    let project = TestProject::new();
    let file = project.home().join("script.toml");
    std::fs::write(&file, "[[step]]\ndo = 'say'\ntxet = 'a'\ntext = 'b'").unwrap();
    let permissions = Permissions::default();
    let folder = project.folder();
    let job = job(&folder, &permissions);
    let error = driver(&format!("scripted:{}", file.display()))
        .launch(&job)
        .unwrap_err();
    let says = format!(
        "{}, line 3: item 1 of `step` has the unknown key `txet`",
        file.display()
    );
    assert!(error.to_string().starts_with(&says), "{error}");
    let error = driver("scripted:/nowhere.toml").launch(&job).unwrap_err();
    assert_eq!(error.to_string(), "/nowhere.toml: there is no such script");
    // A call by hand gives the same error.
    let ran = project.run([Path::new("play"), &file]).exits(2);
    assert!(ran.stderr.contains("line 3"), "{}", ran.stderr);
}

/// Plays each task of the example in the documentation.
#[test]
fn the_documented_script_does_what_the_document_says() {
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scripted.md");
    let document = std::fs::read_to_string(document).unwrap();
    let scripts: Vec<&str> = document
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split_once("```").unwrap().0)
        .collect();
    let [list, script, leader] = scripts.as_slice() else {
        panic!(
            "there is a short example, a long one and a leader, not {}",
            scripts.len()
        );
    };
    Script::parse(Path::new("leader.toml"), leader).unwrap();
    let project = TestProject::new();
    project.write("src/lib.rs", "a - b");
    let failed = play(&project, list, "parser: add, not subtract", 1)
        .1
        .verdict;
    let red = AgentVerdict::Failed {
        reason: "the tests are red".into(),
    };
    assert_eq!(failed, red);
    let edited = std::fs::read_to_string(project.folder().join("src/lib.rs")).unwrap();
    assert_eq!(edited, "a + b");
    assert!(play(&project, list, "parser: again", 2).1.verdict.is_done());
    project.write("src/greeting.txt", "hello\n");
    let verdict = |subject: &str, attempt| play(&project, script, subject, attempt).1.verdict;
    let greeting = || std::fs::read_to_string(project.folder().join("src/greeting.txt")).unwrap();

    let failed = verdict("Test the greeting", 1);
    assert!(matches!(failed, AgentVerdict::Failed { .. }), "{failed:?}");
    assert!(verdict("Fix the greeting", 1).is_done());
    assert_eq!(greeting(), "good morning\n");
    assert!(verdict("Test the greeting", 2).is_done());
    assert!(matches!(
        verdict("Ask the model", 1),
        AgentVerdict::Paused { .. }
    ));
    assert!(verdict("Ask the model", 2).is_done());
    let done = verdict("Write the manual", 1);
    assert_eq!(
        done,
        AgentVerdict::Done {
            summary: "task 3 is done".into()
        }
    );
    assert!(project.folder().join("notes/3.md").exists());
}
