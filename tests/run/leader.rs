//! A leader as a real process: its prompt, the handling of its answer, and that nothing of it is left behind.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use teamster_agents::{
    AgentEvent, AgentSpending, CodexDriver, CommandDriver, Driver, ScriptedDriver,
};
use teamster_fs::proc::Machine;
use teamster_fs::processes;
use teamster_isolate::detached::DetachedProgram;
use teamster_journal::payload::Member;
use teamster_run::leader::{
    LeaderAgent, LeaderPlan, LeaderProblem, PlanRequest, RepositoryOverview, TurnResult, TurnWatch,
};
use teamster_workers::limits::WorkerLimits;

use crate::kit::TestProject;

const MARK: &str = "TEAMSTER_TEST_MARK";

/// Set in a process that runs a single test.
const ALONE: &str = "TEAMSTER_TEST_ALONE";

/// Returns whether this process runs only this test. If not, runs it in a separate process and waits for that.
///
/// While a leader is started, its parent is briefly inside the launch's cgroup. Children that other tests of the same
/// process start in that moment would be taken for the leader's, and end with it.
fn is_alone() -> bool {
    let thread = std::thread::current();
    // Tests that run one after the other are on the main thread, and disturb no other.
    let Some(name) = thread.name().filter(|name| name.contains("::")) else {
        return true;
    };
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let ran = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{words}");
    assert!(words.contains("1 passed"), "{words}");
    false
}

/// A folder for a leader, and its time limit.
struct Desk {
    project: TestProject,
    /// Whether the leader gets the project's folder, or a temporary one.
    is_in_project: bool,
    rules: WorkerLimits,
    mark: String,
}

impl Desk {
    fn new() -> Self {
        let project = TestProject::new();
        let mark = project.folder().display().to_string();
        Self {
            project,
            is_in_project: true,
            rules: WorkerLimits {
                start: Duration::from_secs(20),
                idle: Duration::from_secs(20),
                task: Duration::from_secs(40),
                grace: Duration::from_millis(300),
                ..WorkerLimits::default()
            },
            mark,
        }
    }

    fn folder(&self) -> PathBuf {
        self.project.folder().canonicalize().unwrap()
    }

    fn script(&self, text: &str) -> ScriptedDriver {
        self.project.write("leader.toml", text);
        ScriptedDriver::new(&self.folder().join("leader.toml"))
    }

    fn lead(&self, driver: &dyn Driver) -> TurnResult<LeaderPlan> {
        self.lead_until(driver, &|| false, &mut |_| {})
    }

    fn lead_until(
        &self,
        driver: &dyn Driver,
        stop: &dyn Fn() -> bool,
        hear: &mut dyn FnMut(&AgentEvent),
    ) -> TurnResult<LeaderPlan> {
        let member = |name: &str| Member {
            name: name.parse().unwrap(),
            provider: "claude".to_owned(),
            role: Some("executor".to_owned()),
            model: None,
            capabilities: None,
            can: vec!["general".to_owned()],
            prompt: String::new(),
        };
        let exported: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), self.project.home().into()),
            (MARK.into(), self.mark.clone().into()),
        ];
        let folder = self.folder();
        let agent = LeaderAgent {
            driver,
            provider: "boss",
            name: teamster_run::leader::LEADER,
            permissions: teamster_run::leader::leader_permissions(),
            model: None,
            team: "crew",
            folder: self.is_in_project.then_some(folder.as_path()),
            limits: &self.rules,
            exported: &exported,
            path: std::ffi::OsStr::new("/nowhere"),
            teamster: Path::new(env!("CARGO_BIN_EXE_teamster")),
            launch: &teamster_fs::random_hex(),
        };
        let request = PlanRequest {
            task: "로그인 폼을 고쳐줘",
            members: &[member("worker-1"), member("worker-2")],
            told: "",
            overview: &RepositoryOverview::new(&["src/lib.rs"], "A project."),
            checks: &[],
            budget: &teamster_journal::payload::Budget::default(),
            may_ask: true,
            requirements: false,
            needs_analysis: false,
            answers: &[],
            revision: None,
            prompts: &teamster_prompts::Prompts::new(Vec::new()).unwrap(),
        };
        agent.plan(&request, &mut TurnWatch { stop, hear })
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder().join(name)).unwrap_or_default()
    }

    /// Returns the living processes of this test.
    fn alive(&self) -> Vec<u32> {
        let all = processes::all(&Machine::read());
        all.iter()
            .filter(|seen| !seen.over && processes::carries(seen.id.pid, MARK, &self.mark))
            .map(|seen| seen.id.pid)
            .collect()
    }
}

fn command(line: &str) -> CommandDriver {
    CommandDriver::new(line, Vec::new())
}

fn subjects(led: &LeaderPlan) -> Vec<&str> {
    let tasks = led.plan.tasks.iter();
    tasks.map(|task| task.task.subject.as_str()).collect()
}

#[test]
fn a_script_says_a_plan_and_what_it_cost() {
    if !is_alone() {
        return;
    }
    let desk = Desk::new();
    let script = desk.script(
        "[[step]]\ndo = 'usage'\ntokens_in = 10\ntokens_out = 5\nusd = 0.25\n[[step]]\ndo = 'say'\ntext = '''I looked around. The plan:\n\n```json\n\
         {\"tasks\": [{\"id\": \"form\", \"subject\": \"폼을 고친다\", \"owner\": \"worker-1\"},\n\
         {\"id\": \"test\", \"subject\": \"Test it\", \"blockedBy\": [\"form\"], \"verify\": [\"make\"]}]}\n```\n'''\n",
    );
    let mut heard = Vec::new();
    let led = desk.lead_until(&script, &|| false, &mut |event| heard.push(event.clone()));
    let plan = led.answer.unwrap();
    assert_eq!(subjects(&plan), ["폼을 고친다", "Test it"]);
    assert_eq!(plan.plan.tasks[1].after, [0]);
    assert_eq!(plan.left_out, ["make"]);
    let [spent] = led.spent.as_slice() else {
        panic!("it is asked once: {:?}", led.spent)
    };
    assert_eq!(spent.cost_usd, Some(0.25));
    assert_eq!(spent.usage.unwrap().total(), 15);
    assert!(matches!(heard[0], AgentEvent::Started { .. }), "{heard:?}");
    assert!(desk.alive().is_empty());
}

#[test]
fn it_is_asked_once_more_with_its_answer_and_what_was_wrong() {
    if !is_alone() {
        return;
    }
    let desk = Desk::new();
    let led = desk
        .lead(&command(
            "if [ -e prompt-1 ]; then cat > prompt-2; echo '{\"tasks\":[{\"id\":1,\"subject\":\"go\"}]}'; \
             else cat > prompt-1; echo 'I would say:'; echo '{\"tasks\":[{\"id\":1,\"subject\":\"go\",\"owner\":\"ann\"}]}'; fi",
        ));
    assert_eq!(subjects(&led.answer.unwrap()), ["go"]);
    assert_eq!(
        led.spent,
        [AgentSpending::default(), AgentSpending::default()]
    );
    let (first, second) = (desk.read("prompt-1"), desk.read("prompt-2"));
    assert!(first.contains("로그인 폼을 고쳐줘"), "{first}");
    for part in [
        first.as_str(),
        "- line 1: task \"1\" has the owner ann, who is not in the team; there are worker-1, worker-2",
        "> {\"tasks\":[{\"id\":1,\"subject\":\"go\",\"owner\":\"ann\"}]}",
    ] {
        assert!(second.contains(part), "{part}\nis missing in\n{second}");
    }
}

#[test]
fn two_bad_answers_are_an_error_that_shows_them() {
    if !is_alone() {
        return;
    }
    let desk = Desk::new();
    let led = desk.lead(&command(
        "cat > /dev/null; echo x >> asked; echo 'Let me think about it.'",
    ));
    let error = led.answer.unwrap_err();
    insta::assert_snapshot!(error.to_string(), @r"
    the leader boss was asked twice and made no plan that can be used:
      line 1: there is no JSON object in the answer
    it said: Let me think about it.
    write the plan yourself and give it with `--plan FILE`, or do without a leader: `--leader engine`
    ");
    assert_eq!(
        (desk.read("asked").lines().count(), led.spent.len()),
        (2, 2)
    );
}

#[test]
fn one_that_fails_is_asked_again_and_then_given_up() {
    if !is_alone() {
        return;
    }
    let desk = Desk::new();
    let error = desk
        .lead(&command("cat > prompt; echo x >> asked; echo '{\"tasks\":[{\"id\":1,\"subject\":\"go\"}]}'; echo no model >&2; exit 3"))
        .answer
        .unwrap_err();
    assert_eq!(
        error.problem,
        LeaderProblem::Failed("exit code 3: no model".to_owned())
    );
    assert_eq!(desk.read("asked").lines().count(), 2);
    assert!(desk.read("prompt").contains("exit code 3: no model"));

    let missing = desk.lead(&CodexDriver::default()).answer.unwrap_err();
    assert!(
        matches!(missing.problem, LeaderProblem::NotStarted(_)),
        "{missing}"
    );
    assert!(
        missing.to_string().contains("`codex` is not on PATH"),
        "{missing}"
    );
}

#[test]
fn it_runs_as_an_agent_of_ours_and_its_temp_folder_goes_with_it() {
    if !is_alone() {
        return;
    }
    let desk = Desk::new();
    desk.lead(&command(
        "cat > /dev/null; { pwd; echo $TEAMSTER_WORKER; echo $TEAMSTER_TEAM; echo ${#TEAMSTER_LAUNCH}; echo $TMPDIR; } > seen; \
         touch $TMPDIR/left; echo '{\"tasks\":[{\"id\":1,\"subject\":\"go\"}]}'",
    ))
    .answer
    .unwrap();
    let seen = desk.read("seen");
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(
        lines[..3],
        [desk.folder().to_str().unwrap(), "leader", "crew"]
    );
    assert_ne!(lines[3], "0", "it carries the number of its launch");
    assert!(
        lines[4].contains("teamster-") && !Path::new(lines[4]).exists(),
        "{seen}"
    );
}

#[test]
fn without_a_folder_it_gets_one_that_goes_with_it() {
    if !is_alone() {
        return;
    }
    let mut desk = Desk::new();
    desk.is_in_project = false;
    let note = desk.folder().join("seen");
    desk.lead(&command(&format!(
        "cat > /dev/null; touch left; pwd > '{}'; echo '{{\"tasks\":[{{\"id\":1,\"subject\":\"go\"}}]}}'",
        note.display()
    )))
    .answer
    .unwrap();
    let seen = desk.read("seen");
    assert!(seen.contains("/teamster-"), "{seen}");
    assert!(!Path::new(seen.trim()).exists(), "{seen}");
}

#[test]
fn a_silent_one_is_ended_with_all_it_started() {
    if !is_alone() {
        return;
    }
    let mut desk = Desk::new();
    desk.rules.idle = Duration::from_millis(400);
    let began = Instant::now();
    let led = desk
        .lead(&command(
            "trap '' TERM INT; setsid sh -c 'trap \"\" TERM; sleep 600' & echo thinking; sleep 600; sleep 600",
        ));
    let error = led.answer.unwrap_err();
    assert!(
        matches!(&error.problem, LeaderProblem::Failed(why) if why.contains("too long")),
        "{error}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        led.spent.len(),
        1,
        "one that takes too long is not asked again"
    );
    assert_eq!(desk.alive(), Vec::<u32>::new());
}

#[test]
fn it_can_be_stopped_and_nobody_else_is() {
    if !is_alone() {
        return;
    }
    let desk = Desk::new();
    let script = desk.script(
        "[[step]]\ndo = 'run'\ncommand = 'setsid sleep 600 > /dev/null 2>&1 &'\n\
         [[step]]\ndo = 'say'\ntext = 'hm'\n[[step]]\ndo = 'hang'\n",
    );
    let mut other = DetachedProgram {
        program: Path::new("/bin/sleep"),
        args: &["600".into()],
        folder: Path::new("/"),
        set: &[],
        unset: &[],
    }
    .start(std::fs::File::create("/dev/null").unwrap())
    .unwrap();
    let spoke = Cell::new(false);
    let error = desk
        .lead_until(&script, &|| spoke.get(), &mut |event| {
            spoke.set(spoke.get() || matches!(event, AgentEvent::Text(_)));
        })
        .answer
        .unwrap_err();
    let other_lives = other.try_wait().unwrap().is_none();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(
        other_lives,
        "a child of ours that is none of the leader's was ended"
    );
    assert_eq!(error.problem, LeaderProblem::Stopped);
    assert_eq!(desk.alive(), Vec::<u32>::new());
}

#[test]
fn a_thousand_tasks_are_taken_whole() {
    if !is_alone() {
        return;
    }
    let desk = Desk::new();
    let tasks: Vec<String> = (0..1_000)
        .map(|id| {
            let about = "모든 것을 적는다 ".repeat(20);
            format!("{{\"id\":\"t{id}\",\"subject\":\"일 {id}\",\"description\":\"{about}\"}}")
        })
        .collect();
    let plan = format!("{{\"tasks\":[{}]}}", tasks.join(","));
    assert!(plan.len() > 400_000);
    desk.project.write("plan.json", &plan);
    let led = desk
        .lead(&command("cat > /dev/null; cat plan.json"))
        .answer
        .unwrap();
    assert_eq!((led.plan.tasks.len(), led.text.len()), (1_000, plan.len()));
    let script = desk.script(&format!("[[step]]\ndo = 'say'\ntext = '''{plan}'''\n"));
    assert_eq!(desk.lead(&script).answer.unwrap().plan.tasks.len(), 1_000);
}
