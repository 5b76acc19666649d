//! Checks of a team's work, as real processes.
//!
//! Each check is run by a separate host process, as in a run: so it has its own environment and memory, and
//! everything that it or the check starts inherits a variable by which leftovers are found.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use teamster_fs::Dir;
use teamster_fs::proc::Machine;
use teamster_journal::payload::{Check, CheckVerdict, Checked};
use teamster_run::verify::{CheckPlace, CheckRunner, compare_with_base};
use teamster_testkit::wait::{LONG, wait_until};

use crate::kit::TestProject;

const FOLDER: &str = "VERIFY_TEST_FOLDER";
/// Where the check runs, if not in the project's folder.
const ELSEWHERE: &str = "VERIFY_TEST_ELSEWHERE";
const COMMAND: &str = "VERIFY_TEST_COMMAND";
const LIMIT: &str = "VERIFY_TEST_LIMIT";
const MARK: &str = "VERIFY_TEST_MARK";
/// How many lines the host reports; all of them are counted.
const LINES: usize = 50;

#[test]
#[ignore = "it is started by the tests below"]
fn hosts_one_check() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let limit: u64 = std::env::var(LIMIT).unwrap().parse().unwrap();
    let project = Dir::open_root(&folder).unwrap().unwrap();
    let elsewhere = std::env::var_os(ELSEWHERE).map(PathBuf::from);
    let machine = Machine::read();
    let verifier = CheckRunner {
        machine: &machine,
        project: &project,
        team: &"fix-auth".parse().unwrap(),
        folder: elsewhere.as_ref().unwrap_or(&folder),
        limit: Duration::from_millis(limit),
        launch: &teamster_fs::random_hex(),
    };
    let check = Check::new(std::env::var(COMMAND).unwrap(), "--verify");
    let place = CheckPlace {
        on: "integration",
        round: 0,
        number: 1,
    };
    let (mut lines, mut count, mut times) = (Vec::new(), 0_u64, 0_u64);
    let mut show = |shown: &str| {
        times += 1;
        for line in shown.lines() {
            count += 1;
            if lines.len() < LINES {
                lines.push(line.to_owned());
            }
        }
    };
    let stop = folder.join("stop");
    let checked = verifier
        .check(&check, &place, &mut show, &|| stop.exists())
        .map_err(|error| error.to_string());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak: Option<u64> = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok());
    let told = json!({"checked": checked.as_ref().ok(), "error": checked.as_ref().err(),
        "lines": lines, "count": count, "times": times, "peakKib": peak});
    std::fs::write(folder.join("told.json"), told.to_string()).unwrap();
}

/// A project in which a check is run.
struct Site {
    project: TestProject,
    mark: String,
}

impl Site {
    fn new() -> Self {
        Self {
            project: TestProject::new(),
            mark: teamster_fs::random_hex(),
        }
    }

    fn start(&self, command: &str, limit: Duration, variables: &[(&str, &str)]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "run::verify::hosts_one_check"])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.project.home())
            .env(FOLDER, self.project.folder())
            .env(COMMAND, command)
            .env(LIMIT, limit.as_millis().to_string())
            .env(MARK, &self.mark)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Returns the host's report at its end. No process is left then.
    fn told(&self, mut host: Child) -> CheckReport {
        assert!(host.wait().unwrap().success());
        assert_eq!(self.alive(), Vec::<String>::new(), "somebody is left");
        let told = std::fs::read(self.project.folder().join("told.json")).unwrap();
        CheckReport(serde_json::from_slice(&told).unwrap())
    }

    fn check(&self, command: &str) -> CheckReport {
        self.told(self.start(command, LONG, &[]))
    }

    /// Returns every process with the variable, except zombies.
    fn alive(&self) -> Vec<String> {
        let wanted = format!("{MARK}={}", self.mark);
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let carries = environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == wanted.as_bytes());
            if carries {
                let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                found.push(String::from_utf8_lossy(&line).replace('\0', " "));
            }
        }
        found
    }

    fn wait_for(&self, file: &str) {
        wait_until(file, || self.project.folder().join(file).exists());
    }
}

struct CheckReport(Value);

impl CheckReport {
    fn checked(&self) -> Checked {
        serde_json::from_value(self.0["checked"].clone()).unwrap()
    }

    fn lines(&self) -> Vec<&str> {
        let lines = self.0["lines"].as_array().unwrap();
        lines.iter().map(|line| line.as_str().unwrap()).collect()
    }
}

#[test]
fn a_check_that_passes_is_run_once_and_its_output_is_there_three_times() {
    let site = Site::new();
    let told = site.check("pwd; echo once >>count; echo oops >&2; echo last");
    let checked = told.checked();
    assert_eq!(checked.verdict, CheckVerdict::Passed);
    assert_eq!((checked.exit_code, checked.signal), (Some(0), None));
    assert_eq!(checked.log, ".omc/logs/fix-auth/verify/integration-0-1.log");
    assert_eq!(checked.remarks, Vec::<String>::new());
    let folder = site.project.folder();
    assert_eq!(
        std::fs::read_to_string(folder.join("count")).unwrap(),
        "once\n"
    );
    let log = std::fs::read_to_string(folder.join(&checked.log)).unwrap();
    let mut sorted: Vec<&str> = log.lines().collect();
    sorted.sort_unstable();
    assert_eq!(sorted, [folder.to_str().unwrap(), "last", "oops"]);
    assert_eq!(checked.last, log.trim_end());
    assert_eq!(told.lines().join("\n"), log.trim_end());
}

#[test]
fn a_check_that_fails_twice_has_failed() {
    let site = Site::new();
    let checked = site
        .check("echo run >>count; wc -l <count; exit 3")
        .checked();
    assert_eq!(checked.verdict, CheckVerdict::Failed);
    assert_eq!(checked.exit_code, Some(3));
    assert_eq!(checked.last.trim(), "2", "of the last run");
    let log = std::fs::read_to_string(site.project.folder().join(&checked.log)).unwrap();
    let log: Vec<&str> = log.lines().map(str::trim).collect();
    assert_eq!(log, ["1", "[it failed and is run again]", "2"]);
    let killed = Site::new().check("kill -9 $$").checked();
    assert_eq!(killed.verdict, CheckVerdict::Failed);
    assert_eq!((killed.exit_code, killed.signal), (None, Some(9)));
}

#[test]
fn a_check_that_passes_the_second_time_is_flaky() {
    let site = Site::new();
    let checked = site
        .check("echo run >>count; wc -l <count; test $(wc -l <count) -ge 2")
        .checked();
    assert_eq!(checked.verdict, CheckVerdict::Flaky);
    assert_eq!(checked.exit_code, Some(1));
    assert_eq!(checked.last.trim(), "1", "what the failed run said");
}

#[test]
fn a_team_answers_for_what_it_broke_and_nothing_else() {
    let site = Site::new();
    site.project.write("parser", "good");
    let commands = ["grep -q good parser", "grep -q good printer", "true"];
    let run = || commands.map(|command| site.check(command).checked());
    let base = run();
    site.project.write("parser", "broken");
    let now = run();
    let report = compare_with_base(&[], &base, &now);
    assert_eq!(report.regressions, [&now[0]]);
    assert_eq!(report.failed_before, [&now[1]]);
    assert_eq!(report.passed, [&now[2]]);
    // The logs of both are there.
    assert_ne!(base[0].log, now[0].log);
    for checked in base.iter().chain(&now) {
        assert!(site.project.folder().join(&checked.log).is_file());
    }
}

#[test]
fn a_check_that_takes_too_long_is_ended_with_everyone_who_does_not_want_to_go() {
    let site = Site::new();
    // One ignores the signal, one has its own session, and one has dropped the launch number and its parents, and has
    // left the cgroup where that is allowed.
    let command = "sh -c 'trap \"\" TERM INT HUP; echo stays; while :; do sleep 600; done' &
        setsid sh -c 'trap \"\" TERM; touch apart; while :; do sleep 600; done' &
        export groups=$(sed -n 's/^[^ ]* [^ ]* [^ ]* [^ ]* \\([^ ]*\\) .* - cgroup2 .*/\\1/p' /proc/self/mountinfo | head -n 1)
        env -u TEAMSTER_LAUNCH setsid sh -c '
            test -n \"$groups\" && echo $$ 2>/dev/null >\"$groups/cgroup.procs\"
            trap \"\" TERM; touch nameless; while :; do sleep 600; done' &
        while ! test -e apart || ! test -e nameless; do sleep 0.05; done
        echo waits; sleep 600";
    let began = Instant::now();
    let told = site.told(site.start(command, Duration::from_secs(5), &[]));
    let checked = told.checked();
    assert_eq!(checked.verdict, CheckVerdict::TimedOut);
    assert!(began.elapsed() < Duration::from_secs(60));
    assert!(checked.seconds >= 5.0, "{}", checked.seconds);
    let mut lines = told.lines();
    lines.sort_unstable();
    assert_eq!(lines, ["stays", "waits"], "it is not run again");
}

#[test]
fn what_a_check_leaves_behind_is_ended_and_told() {
    let site = Site::new();
    let checked = site
        .check("setsid sh -c 'touch apart; exec sleep 600' & while ! test -e apart; do sleep 0.05; done")
        .checked();
    assert_eq!(checked.verdict, CheckVerdict::Passed);
    assert_eq!(
        checked.remarks,
        ["it left a process behind, which was ended"]
    );
}

#[test]
fn a_check_is_stopped_from_outside() {
    let site = Site::new();
    let host = site.start("touch begun; sleep 600 & sleep 600", LONG, &[]);
    site.wait_for("begun");
    assert!(!site.alive().is_empty(), "the mark is seen");
    site.project.write("stop", "");
    let checked = site.told(host).checked();
    assert_eq!(checked.verdict, CheckVerdict::Stopped);
    assert_eq!(checked.signal, Some(15));
}

#[test]
fn a_hundred_megabytes_take_little_memory_and_little_disk() {
    let site = Site::new();
    let line = "0123456789".repeat(10);
    let told = site.check(&format!(
        "echo first; yes {line} | head -n 1000000; echo final"
    ));
    let checked = told.checked();
    assert_eq!(checked.verdict, CheckVerdict::Passed);
    assert_eq!(told.0["count"], 1_000_002, "every line is shown");
    let times = told.0["times"].as_u64().unwrap();
    assert!(times < 100_000, "and many at a time: {times}");
    let log = std::fs::read_to_string(site.project.folder().join(&checked.log)).unwrap();
    assert!(log.len() <= 8 * 1024 * 1024, "{}", log.len());
    assert!(log.starts_with("first\n") && log.ends_with("\nfinal\n"));
    assert_eq!(checked.last.lines().count(), 200);
    assert!(checked.last.ends_with("\nfinal"));
    let peak = told.0["peakKib"].as_u64().unwrap();
    assert!(peak < 96 * 1024, "{peak} KiB");
}

#[test]
fn output_that_is_no_text_and_never_ends_its_line_is_kept_as_far_as_it_goes() {
    let site = Site::new();
    let told =
        site.check(r"printf '\377\376 caf\351\n'; head -c 20000000 /dev/zero | tr '\0' '\200'");
    let checked = told.checked();
    assert_eq!(checked.verdict, CheckVerdict::Passed);
    assert_eq!(told.lines()[0], "\u{fffd}\u{fffd} caf\u{fffd}");
    let log = std::fs::metadata(site.project.folder().join(&checked.log)).unwrap();
    assert!(log.len() < 8 * 1024 * 1024, "{}", log.len());
}

#[test]
fn secrets_are_seen_by_nobody() {
    let site = Site::new();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let told = site.check(&format!("echo 'the token is {token}'; false"));
    let checked = told.checked();
    let log = std::fs::read_to_string(site.project.folder().join(&checked.log)).unwrap();
    assert_eq!(told.lines()[0], "the token is [redacted]");
    for text in [told.0["lines"].to_string(), checked.last, log] {
        assert!(!text.contains(&token), "{text}");
        assert!(text.contains("[redacted]"), "{text}");
    }
}

#[test]
fn a_check_gets_no_credentials_of_agents_and_nothing_about_a_team() {
    let site = Site::new();
    let planted = [
        ("ANTHROPIC_API_KEY", "canary"),
        ("OPENAI_API_KEY", "canary"),
        ("TEAMSTER_WORKER", "canary"),
        ("TEAMSTER_TEAM", "canary"),
        ("CLAUDECODE", "canary"),
        ("GIT_DIR", "canary"),
        ("EDITOR", "ed"),
    ];
    let command = "env | grep -c '=canary$'; echo \"$CI $EDITOR\"; env | grep -c '^TEAMSTER_'; cat";
    let told = site.told(site.start(command, LONG, &planted));
    // The launch number is the only variable of teamster.
    assert_eq!(told.lines(), ["0", "1 ed", "1"]);
    assert_eq!(told.checked().verdict, CheckVerdict::Passed);
}

#[test]
fn a_check_that_cannot_be_started_has_no_verdict() {
    let site = Site::new();
    let told = site.told(site.start("true", LONG, &[(ELSEWHERE, "/nowhere/at/all")]));
    assert_eq!(told.0["checked"], Value::Null);
    let error = told.0["error"].as_str().unwrap();
    let expected = "`true` could not be started in /nowhere/at/all: ";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn check_that_fails_on_the_base_is_printed_once() {
    let shop = crate::run::Shop::new();
    let script = "[[step]]\ndo = \"edit\"\npath = \"made.txt\"\ncontent = \"made\\n\"\n";
    let check = "test -e made.txt || { echo it is not made; exit 1; }";
    let more = ["--approve", "auto", "--verify", check];
    let ran = shop.scripted_run(script, &more).run().exits(0);
    let printed = ran.stdout.matches("| it is not made").count();
    assert_eq!(printed, 1, "{}", ran.stdout);
    assert!(
        ran.stdout.contains("| [it failed and is run again]"),
        "{}",
        ran.stdout
    );
}
