use std::fmt::Write as _;

use proptest::prelude::*;

use std::sync::LazyLock;

use teamster_journal::payload::{Budget, Member};
use teamster_prompts::Prompts;
use teamster_prompts::facts::CheckState;

use super::*;
use crate::leader::RepositoryOverview;

static PROMPTS: LazyLock<Prompts> = LazyLock::new(|| Prompts::new(Vec::new()).unwrap());

/// Reads an answer of a leader of this team, which may or may not ask questions.
fn read_for(said: &str, members: &[Member], may_ask: bool) -> Result<LeaderPlan, Vec<Fault>> {
    read_of_flow(said, members, may_ask, false)
}

fn read_of_flow(
    said: &str,
    members: &[Member],
    may_ask: bool,
    needs_analysis: bool,
) -> Result<LeaderPlan, Vec<Fault>> {
    let checks = ["cargo test", "make lint"].map(|command| CheckState {
        command: command.to_owned(),
        ..CheckState::default()
    });
    let request = PlanRequest {
        task: "mend it",
        members,
        told: "",
        overview: &RepositoryOverview::default(),
        checks: &checks,
        budget: &Budget::default(),
        may_ask,
        requirements: false,
        needs_analysis,
        answers: &[],
        revision: None,
        prompts: &PROMPTS,
    };
    super::read(said, &request)
}

fn read(said: &str, members: &[Member]) -> Result<LeaderPlan, Vec<Fault>> {
    read_for(said, members, true)
}

#[test]
fn plan_without_an_analysis_is_refused_where_the_flow_lives_by_findings() {
    let bare = r#"{"tasks":[{"id":"a","subject":"go"}]}"#;
    assert!(read_of_flow(bare, &team(), true, false).is_ok());
    let faults = read_of_flow(bare, &team(), true, true).unwrap_err();
    assert!(
        faults[0].message.contains("has no `analysis`"),
        "{faults:?}"
    );
    let found = r#"{"analysis":"It is small.","tasks":[{"id":"a","subject":"go"}]}"#;
    assert!(read_of_flow(found, &team(), true, true).is_ok());
}

fn team() -> Vec<Member> {
    vec![
        crate::cast::example("worker-1", None, &["code-edit"]),
        crate::cast::example("worker-2", None, &["testing"]),
    ]
}

fn subjects(said: &str) -> Vec<String> {
    let usable = read(said, &team()).unwrap();
    let tasks = usable.plan.tasks.iter();
    tasks.map(|task| task.task.subject.clone()).collect()
}

fn faults(said: &str) -> String {
    let list = read(said, &team()).unwrap_err();
    let mut text = String::new();
    for fault in list {
        let _ = writeln!(text, "line {}: {}", fault.line, fault.message);
    }
    text
}

#[test]
fn the_last_object_with_tasks_is_the_plan_wherever_it_stands() {
    let plan = |word: &str| format!("{{\"tasks\": [{{\"id\": \"a\", \"subject\": \"{word}\"}}]}}");
    for said in [
        plan("go"),
        format!("Here it is:\n\n```json\n{}\n```\n", plan("go")),
        format!(
            "First I thought {} but then\n{}\nThat is all. {{x}}",
            plan("no"),
            plan("go")
        ),
        format!("fn main() {{ println!(\"{{}}\"); }}\n{}", plan("go")),
        format!("{}\n\n{{\"note\": \"done\"}}", plan("go")),
    ] {
        assert_eq!(subjects(&said), ["go"], "{said}");
    }
    assert_eq!(
        subjects(&plan("로그인 폼을 고친다 { }")),
        ["로그인 폼을 고친다 { }"]
    );
}

#[test]
fn a_thousand_tasks_are_a_plan_and_more_are_none() {
    let many = |count: usize| {
        let tasks: Vec<String> = (0..count)
            .map(|id| format!("{{\"id\":{id},\"subject\":\"일 {id}\",\"description\":\"{{{{{{\"}}"))
            .collect();
        format!("{{\"tasks\":[{}]}}", tasks.join(",\n"))
    };
    assert_eq!(subjects(&many(1_000)).len(), 1_000);
    assert_eq!(
        faults(&many(1_001)),
        "line 1: the plan has 1001 tasks; the limit is 1000\n"
    );
}

#[test]
fn what_is_wrong_is_said_in_words_that_an_agent_understands() {
    let mut said = String::new();
    for answer in [
        "",
        "I would rather not.",
        "{}",
        "{\"tasks\": []}",
        "{\"tasks\": [{\"id\": \"a\", \"subject\": \"A\"},\n  {\"id\": \"b\" \"subject\": \"B\"}]}",
        "```json\n{\n  \"tasks\": [\n    {\"id\": \"a\", \"subject\": \"A\"}\n```\nSorry.",
        "{\"tasks\": [{\"subject\": \"A\"}]}",
        "{\"tasks\": [\n{\"id\": \"a\", \"subject\": \"A\", \"blockedBy\": [\"b\"]},\n{\"id\": \"b\", \"subject\": \"B\", \"blockedBy\": [\"a\"]}]}",
        "{\"tasks\": [{\"id\": \"a\", \"subject\": \"A\", \"blockedBy\": [\"ghost\"], \"after\": 1}]}",
        "{\"tasks\": [\n{\"id\": \"a\", \"subject\": \"A\", \"owner\": \"worker-9\"},\n{\"id\": \"b\", \"subject\": \"B\", \"capabilities\": [\"cooking\"]}]}",
        "[{\"id\": \"a\", \"subject\": \"A\"}]",
    ] {
        let _ = writeln!(said, "{answer}\n=> {}", faults(answer));
    }
    insta::assert_snapshot!(said, @r#"
    => line 1: there is no JSON object in the answer

    I would rather not.
    => line 1: there is no JSON object in the answer

    {}
    => line 1: the plan has no tasks

    {"tasks": []}
    => line 1: the plan has no tasks

    {"tasks": [{"id": "a", "subject": "A"},
      {"id": "b" "subject": "B"}]}
    => line 2: not valid JSON: expected `,` or `}`

    ```json
    {
      "tasks": [
        {"id": "a", "subject": "A"}
    ```
    Sorry.
    => line 3: not valid JSON: EOF while parsing a list

    {"tasks": [{"subject": "A"}]}
    => line 1: task 1 of the list has no `id`

    {"tasks": [
    {"id": "a", "subject": "A", "blockedBy": ["b"]},
    {"id": "b", "subject": "B", "blockedBy": ["a"]}]}
    => line 2: the plan has a cycle: a waits for b waits for a

    {"tasks": [{"id": "a", "subject": "A", "blockedBy": ["ghost"], "after": 1}]}
    => line 1: task "a" has the unknown key `after`; known are id, subject, description, activeForm, blockedBy, owner, role, capabilities, paths, accept, verify
    line 1: task "a" is blocked by "ghost", which is not in the plan

    {"tasks": [
    {"id": "a", "subject": "A", "owner": "worker-9"},
    {"id": "b", "subject": "B", "capabilities": ["cooking"]}]}
    => line 2: task "a" has the owner worker-9, who is not in the team; there are worker-1, worker-2
    line 3: task "b" needs cooking, and no member of the team can do any of it

    [{"id": "a", "subject": "A"}]
    => line 1: the plan has the unknown key `id`; known are analysis, questions, assumptions, risks, tasks, verify, must_pass
    line 1: the plan has the unknown key `subject`; known are analysis, questions, assumptions, risks, tasks, verify, must_pass
    "#);
}

#[test]
fn commands_of_a_leader_are_left_out_and_told() {
    let said = "{\"tasks\":[{\"id\":\"a\",\"subject\":\"A\",\"verify\":[\"curl x | sh\"]}],\"verify\":[\"make\"]}";
    let usable = read(said, &team()).unwrap();
    assert_eq!(usable.left_out, ["make", "curl x | sh"]);
    assert!(usable.plan.verify.is_empty() && usable.plan.tasks[0].task.verify.is_empty());
    assert_eq!(usable.text, said);
}

#[test]
fn questions_without_tasks_are_an_answer_only_when_somebody_can_be_asked() {
    let said = "{\"analysis\": \"It is old.\", \"questions\": [\"Which one?\"]}";
    let asking = read(said, &team()).unwrap().plan;
    assert_eq!(
        (asking.tasks.len(), asking.questions),
        (0, vec!["Which one?".to_owned()])
    );
    assert_eq!(asking.analysis, "It is old.");
    let faults = read_for(said, &team(), false).unwrap_err();
    assert!(
        faults[0].message.contains("nobody can be asked now"),
        "{faults:?}"
    );
    let both = "{\"questions\": [\"Which one?\"], \"assumptions\": [\"The first.\"], \"tasks\": [{\"id\": 1, \"subject\": \"Go\"}]}";
    let plan = read_for(both, &team(), false).unwrap().plan;
    assert!(plan.questions.is_empty());
    assert_eq!(
        plan.assumptions,
        ["The first.", "Nobody was asked: Which one?"]
    );
}

#[test]
fn only_checks_of_the_run_can_be_targets() {
    let said = |command: &str| {
        format!(
            "{{\"must_pass\": [\"{command}\"], \"tasks\": [{{\"id\": 1, \"subject\": \"Go\"}}]}}"
        )
    };
    let plan = read(&said("make lint"), &team()).unwrap().plan;
    assert_eq!(plan.must_pass, ["make lint"]);
    assert_eq!(
        faults(&said("curl x | sh")),
        "line 1: `must_pass` names \"curl x | sh\", which is none of the checks; there are cargo test; make lint\n"
    );
}

#[test]
fn tester_waits_for_those_whose_work_it_tests() {
    let members = [
        crate::cast::example("worker-1", Some("executor"), &["code-edit"]),
        crate::cast::example("worker-2", Some("Tester"), &["testing"]),
    ];
    let test = |who: &str, after: &str| {
        format!(
            "{{\"tasks\": [{{\"id\": \"a\", \"subject\": \"A\"}},\n{{\"id\": \"t\", \"subject\": \"T\", {who}{after}}}]}}"
        )
    };
    for who in ["\"role\": \"tester\"", "\"owner\": \"worker-2\""] {
        let faults = read(&test(who, ""), &members).unwrap_err();
        assert_eq!(faults.len(), 1);
        assert_eq!(faults[0].line, 2);
        assert!(
            faults[0].message.contains("a tester tests what others did"),
            "{faults:?}"
        );
        assert!(read(&test(who, ", \"blockedBy\": [\"a\"]"), &members).is_ok());
    }
    let alone = "{\"tasks\": [{\"id\": \"t\", \"subject\": \"T\", \"role\": \"tester\"}]}";
    let plan = read(alone, &members).unwrap().plan;
    assert_eq!(
        plan.roles,
        [Some("tester".to_owned())],
        "nobody else has work to test"
    );
    let faults = read(&alone.replace("tester", "cook"), &members).unwrap_err();
    assert!(
        faults[0].message.contains(
            "is for the role cook, which no member of the team has; there are Tester, executor"
        ),
        "{faults:?}"
    );
}

proptest! {
    #[test]
    fn no_answer_makes_it_panic(said in "[{}\\[\\]\":,a-b가 \n`]{0,80}(\\{\"tasks\":)?[{}\\[\\]\":,a-b가 \n`]{0,40}") {
        if let Err(found) = read(&said, &team()) {
            prop_assert!(!found.is_empty());
        }
    }
}
