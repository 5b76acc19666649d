//! A team with a leader: the size of its agents' prompts, and the leader's cost in time.
//!
//! The agents are shell commands that save their prompts, or scripts that take no time.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use teamster_testkit::RunCmd;

use super::{Bench, Row, float, median};
use crate::fixture;
use crate::product::{Finished, TEAM, TempProject};

/// The size limit of a typical briefing, in characters.
const TYPICAL_BRIEFING: f64 = 6_000.0;
/// The size limit of the longest briefing, in characters.
const LONGEST_BRIEFING: f64 = 50_000.0;
/// The size limit of a leader's longest digest, in characters.
const LONGEST_DIGEST: f64 = 6_000.0;
/// How many seconds longer a run with a leader may take than one with a plan.
const LEADER_SECONDS: f64 = 2.0;

/// The tasks of the team, by the names that its plan gives them.
const TASKS: [(&str, &str, &[&str]); 5] = [
    ("form", "Refuse an empty password in the login form", &[]),
    (
        "session",
        "End a session after an hour without a request",
        &[],
    ),
    ("hash", "Keep passwords as salted hashes", &[]),
    (
        "test",
        "Test the login from the form to the end of a session",
        &["form", "session", "hash"],
    ),
    (
        "manual",
        "Describe the login in the manual",
        &["form", "session"],
    ),
];
/// The description of a task, as a leader writes it.
const DESCRIPTION: &str = "The code is in src/login; tests are in tests/login, one file for each case. Keep the public \
    names as they are, because the mobile client calls them. Errors are shown by the banner at the top of the page, with a \
    text from texts/en.json and texts/de.json; add your text to both. Do not touch the styles. It is done when the new \
    behaviour has a test of its own and the existing tests pass.";
/// The handover of a worker.
const HANDOVER: &str = "The limit is a constant in src/login/limits.ts, in seconds. `checkLogin` returns a code, and the \
    banner makes the text of it; the codes are listed in src/login/codes.ts. New cases belong into tests/login/cases.";
/// The summary of a worker.
const SUMMARY: &str = "The case is refused with a message, in both languages. A test covers it, and all tests pass. The \
    old check in the page was removed, because it ran before the form was filled.";

/// A worker of the team: it saves its briefing, changes a file, and reports. The worker with the tests asks the
/// leader first.
const WORKER: &str = r#"
cat > "ROOT/briefing-$TEAMSTER_TASK_ID"
case "$TEAMSTER_TASK_SUBJECT" in
  Test*) "PROGRAM" ask "Is the limit counted from the first request or from the last?" ;;
esac
mkdir -p src/login
echo "$TEAMSTER_TASK_SUBJECT" > "src/login/task-$TEAMSTER_TASK_ID.ts"
printf '%s\n' '```teamster'
cat ROOT/report.json
printf '%s\n' '```'
"#;
/// The leader of the team: it saves its prompts, answers questions, and plans.
const LEADER: &str = r#"
cat > ROOT/asked
if grep -q 'You are asked because' ROOT/asked; then
  mv ROOT/asked ROOT/wake
  question=$(grep -o 'Question q[0-9]*' ROOT/wake | head -n 1 | cut -d ' ' -f 2)
  printf '{"actions": [{"action": "answer", "question": "%s", "text": "From the last one."}]}\n' "$question"
else
  cat ROOT/plan.json
fi
"#;

/// Measures the prompts of a team's agents.
pub(super) fn told(bench: &Bench) -> Result<Vec<Row>> {
    let usual = Told::by_run(bench, SUMMARY, HANDOVER, DESCRIPTION)?;
    let much = |text: &str, length: usize| text.chars().cycle().take(length).collect::<String>();
    let longest = Told::by_run(
        bench,
        &much(SUMMARY, 4_000),
        &much(HANDOVER, 8_000),
        &much(DESCRIPTION, 10_000),
    )?;
    let sizes: Vec<f64> = usual.briefings.iter().copied().map(float).collect();
    let most = |told: &Told| float(told.briefings.iter().copied().max().unwrap_or_default());
    let count = TASKS.len();
    let (typical, least) = (
        median(&sizes),
        sizes.iter().copied().fold(f64::NAN, f64::min),
    );
    let (done, longest) = (count - 2, most(&longest));
    let row = |key, what: String, value, limit, times| {
        Row::of_limit(key, &what, (value, limit), "characters", times)
    };
    Ok(vec![
        row(
            "briefing",
            format!("what a worker is told in a team of {count} tasks"),
            typical,
            TYPICAL_BRIEFING,
            format!("{typical} characters, from {least} to {}", most(&usual)),
        ),
        row(
            "briefing-longest",
            "what it is told where everything is as long as can be".to_owned(),
            longest,
            LONGEST_BRIEFING,
            format!("{longest} characters"),
        ),
        row(
            "digest",
            format!("what a leader is told has happened, after {done} of {count} tasks"),
            float(usual.digest),
            LONGEST_DIGEST,
            format!("{} characters of {} in all", usual.digest, usual.wake),
        ),
    ])
}

/// The sizes in characters of the prompts in one run.
struct Told {
    briefings: Vec<usize>,
    digest: usize,
    /// The whole prompt of the leader.
    wake: usize,
}

impl Told {
    /// Lets a team with a leader do its tasks, each with these texts.
    fn by_run(bench: &Bench, summary: &str, handover: &str, description: &str) -> Result<Self> {
        let project = repository()?;
        let root = project.root();
        let report = json!({ "status": "done", "summary": summary, "handover": handover });
        fs::write(root.join("report.json"), format!("{report}\n"))?;
        fs::write(root.join("plan.json"), plan(description).to_string())?;
        let program = bench.product.binary.display().to_string();
        for (name, script) in [("worker.sh", WORKER), ("leader.sh", LEADER)] {
            let script = script.replace("ROOT", &root.display().to_string());
            fs::write(root.join(name), script.replace("PROGRAM", &program))?;
        }
        let provider = |name: &str| format!("{name}=command:sh {}/{name}.sh", root.display());
        let run = RunCmd::new(TEAM, "3:worker", "Make the login safe for the release")
            .provider(&provider("worker"))
            .provider(&provider("leader"))
            .leader("leader")
            .verify("test -d src")
            .verify("ls src/login")
            .approve("auto");
        go(bench, &project, &run)?;
        let length = |name: &str| -> Result<usize> {
            let text = read(root, name)?;
            Ok(text.chars().count())
        };
        let briefings = (1..=TASKS.len()).map(|task| length(&format!("briefing-{task}")));
        Ok(Self {
            briefings: briefings.collect::<Result<_>>()?,
            digest: digest_of(&read(root, "wake")?)?,
            wake: length("wake")?,
        })
    }
}

fn read(root: &Path, name: &str) -> Result<String> {
    fs::read_to_string(root.join(name)).with_context(|| format!("nobody was told {name}"))
}

/// Returns the length of the digest in a leader's prompt, without the quotation marks.
fn digest_of(wake: &str) -> Result<usize> {
    let heading = "## What happened since your last turn\n";
    let (_, digest) = wake
        .split_once(heading)
        .context("the leader got no digest")?;
    let digest = digest.split("\n## ").next().unwrap_or_default();
    let lines = digest.lines().filter_map(|line| line.strip_prefix("> "));
    let length = lines.map(|line| line.chars().count() + 1).sum();
    ensure!(length > 0, "the digest is empty");
    Ok(length)
}

/// Returns a repository with some files.
fn repository() -> Result<TempProject> {
    let project = TempProject::on_disk()?;
    fixture::create_repository(&project)?;
    let folder = project.folder();
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("README.md"), "# A shop\n\nIt sells things.\n")?;
    for number in 1..=60 {
        fs::write(folder.join(format!("src/part-{number}.ts")), "export {};\n")?;
    }
    fixture::git(&project, "add .")?;
    fixture::git(&project, "commit --quiet --message Files")?;
    Ok(project)
}

/// Returns the plan of the team.
fn plan(description: &str) -> Value {
    let task = |(number, (id, subject, after)): (usize, &(&str, &str, &[&str]))| {
        json!({
            "id": id, "subject": subject, "description": description, "blockedBy": after,
            "paths": [format!("src/login/task-{number}.ts"), format!("tests/login/{id}/**")],
        })
    };
    json!({ "tasks": (1..).zip(&TASKS).map(task).collect::<Vec<_>>() })
}

/// Runs a team to its end and returns the seconds that it took.
fn go(bench: &Bench, project: &TempProject, run: &RunCmd) -> Result<f64> {
    let mut command = bench.product.command(project, run);
    command.env_remove("TEAMSTER_TEAM");
    Ok(Finished::checked(&mut command)?.took.as_secs_f64())
}

/// Where the tasks of a run come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// A file.
    Planned,
    /// A leader.
    Led,
    /// A leader, which also answers a question.
    Asked,
}

/// Measures how much longer a run takes with a leader, if no agent takes any time.
pub(super) fn led(bench: &Bench) -> Result<Vec<Row>> {
    let rounds = bench.size(9, 2);
    let courses = [Course::Planned, Course::Led, Course::Asked];
    let mut times = courses.map(|_| Vec::new());
    for _ in 0..rounds {
        for (course, times) in courses.iter().zip(&mut times) {
            times.push(instant_run(bench, *course)?);
        }
    }
    let [planned, led, asked] = times.map(|times| median(&times));
    let count = TASKS.len();
    let row = |key, what: &str, against: &str, took: f64, than: f64| {
        let more = took - than;
        let times = format!("{more:.2} s more: {took:.2} s : {than:.2} s");
        let unit = format!("s more than {against}");
        Row::of_limit(key, what, (more, LEADER_SECONDS), &unit, times)
    };
    let what = format!("a run of {count} instant tasks that a leader plans");
    let with_question = "the same with a question that the leader answers";
    Ok(vec![
        row("led", &what, "with a plan file", led, planned),
        row("led-question", with_question, "without one", asked, led),
    ])
}

fn instant_run(bench: &Bench, course: Course) -> Result<f64> {
    let project = repository()?;
    let root = project.root();
    let plan = plan(DESCRIPTION);
    fs::write(root.join("plan.json"), plan.to_string())?;
    fs::write(root.join("script.toml"), script(&plan, course))?;
    let provider = format!("actor=scripted:{}/script.toml", root.display());
    let run = RunCmd::new(TEAM, "3:actor", "Make the login safe for the release")
        .provider(&provider)
        .verify("true")
        .approve("auto");
    let run = match course {
        Course::Planned => run.plan(&root.join("plan.json").display().to_string()),
        Course::Led | Course::Asked => run.leader("actor"),
    };
    go(bench, &project, &run)
}

/// Returns the script for the agents of an instant run: they take no time, and change a file for each task.
fn script(plan: &Value, course: Course) -> String {
    let answer = r#"{"actions": [{"action": "answer", "question": "{question}", "text": "Yes."}]}"#;
    let asks = match course {
        Course::Asked => {
            "[[step]]\ntask = 'form'\ndo = 'run'\ncommand = '\"$TEAMSTER_PROGRAM\" ask \"May I?\"'\n"
        }
        Course::Planned | Course::Led => "",
    };
    format!(
        "[[step]]\nworker = 'leader'\nprompt = 'You are asked because'\nfill = true\ndo = 'say'\ntext = '{answer}'\n\
         [[step]]\nworker = 'leader'\nprompt = 'You are asked because'\ndo = 'done'\ntext = 'answered'\n\
         [[step]]\nworker = 'leader'\ndo = 'say'\ntext = '{plan}'\n\
         [[step]]\nworker = 'leader'\ndo = 'done'\ntext = 'planned'\n\
         {asks}\
         [[step]]\nfill = true\ndo = 'edit'\npath = 'src/login/task-{{id}}.ts'\ncontent = '{{subject}}'\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_counted_without_what_stands_around_it() {
        let wake = "Why\n\n## What happened since your last turn\n\n> one\n> two\n\n## The tasks\n\n> three\n";
        assert_eq!(digest_of(wake).unwrap(), 8);
        assert!(digest_of("Why\n\n## The tasks\n").is_err());
    }

    #[test]
    fn scripts_of_instant_runs_are_scripts() {
        for course in [Course::Planned, Course::Led, Course::Asked] {
            let text = script(&plan(DESCRIPTION), course);
            let script: toml::Table = text.parse().unwrap();
            let steps = script["step"].as_array().unwrap();
            assert_eq!(steps.len(), if course == Course::Asked { 6 } else { 5 });
        }
    }
}
