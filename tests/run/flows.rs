//! The flows `party` and `pdca`: their phases, what each phase needs, and that a killed host makes no difference.

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};
use teamster_testkit::RunCmd;

use super::Shop;
use crate::kit::Call;

/// The variable with the event at which a test build's host dies.
const DIE_AT: &str = "TEAMSTER_TEST_DIE_AT_EVENT";

const ACCEPT: &str = r#"{"verdict":"accept"}"#;
const BLOCKER: &str = r#"{"verdict":"changes","findings":[{"severity":"blocker","path":"news.txt","line":1,"claim":"the news are wrong","evidence":"it says so","suggestion":"write the right ones"}]}"#;

/// The phases of a party run with one fix round, in order.
const PHASES: [&str; 8] = [
    "ANALYZING",
    "PLANNING",
    "EXECUTING",
    "REVIEWING",
    "EXECUTING",
    "REVIEWING",
    "AWAITING_APPROVAL",
    "APPROVED",
];

/// A shop with a leader that plans two tasks and acts at the end of EXECUTING, a worker that first makes a mistake,
/// and a reviewer that reports it. Each of them waits while there is a file `hold-…`, and shows that in `at-…`.
struct Party {
    shop: Shop,
}

impl Party {
    fn new() -> Self {
        let party = Self { shop: Shop::new() };
        let wait = |name: &str| {
            format!("touch ROOT/at-{name}; while test -e ROOT/hold-{name}; do sleep 0.05; done")
        };
        let plan = json!({
            "analysis": "The news are old.",
            "risks": ["Readers may laugh."],
            "tasks": [
                { "id": "news", "subject": "Write the news", "accept": ["news.txt is new"] },
                { "id": "more", "subject": "Write more", "blockedBy": ["news"] },
            ],
        });
        let note = json!({ "actions": [{ "action": "note", "text": "Both texts are written." }] });
        party.write("plan", &plan.to_string());
        party.write("note", &note.to_string());
        party.write(
            "boss.sh",
            &format!(
                "cat > ROOT/asked\n\
                 if grep -q 'You are asked because' ROOT/asked; then\n\
                 echo x >> ROOT/wakes; cp ROOT/asked ROOT/wake-$(wc -l < ROOT/wakes); cat ROOT/note\n\
                 else {}; cat ROOT/plan; fi\n",
                wait("plan")
            ),
        );
        party.write(
            "agent.sh",
            &format!(
                "cat > /dev/null\n\
                 case \"$TEAMSTER_TASK_SUBJECT\" in\n\
                 Write\\ the\\ news) {}; echo wrong > news.txt; echo wrote ;;\n\
                 Write\\ more) echo more > more.txt; echo wrote more ;;\n\
                 Fix*) echo right > news.txt; echo mended ;;\n\
                 esac\n",
                wait("work")
            ),
        );
        party.write(
            "review.sh",
            &format!(
                "cat > /dev/null\n{}\n\
                 if grep -q wrong news.txt; then echo '{BLOCKER}'; else echo '{ACCEPT}'; fi\n",
                wait("review")
            ),
        );
        party
    }

    fn write(&self, name: &str, text: &str) {
        let aside = self.shop.aside();
        let text = text.replace("ROOT", aside.to_str().unwrap());
        fs::write(aside.join(name), text).unwrap();
    }

    fn call(&self, approve: &str) -> Call {
        let root = self.shop.aside().display().to_string();
        let args = RunCmd::new("shop", "1:w,1:r:reviewer", "write news")
            .provider(&format!("w=command:sh {root}/agent.sh"))
            .provider(&format!("r=command:sh {root}/review.sh"))
            .provider(&format!("boss=command:sh {root}/boss.sh"))
            .leader("boss")
            .verify("true")
            .approve(approve)
            .more(&["--flow", "party"]);
        self.shop.call(args)
    }

    fn findings(&self) -> BTreeMap<String, String> {
        let folder = self.shop.folder().join(".party/findings");
        let files = fs::read_dir(folder).unwrap().map(Result::unwrap);
        let read = |file: fs::DirEntry| {
            let name = file.file_name().into_string().unwrap();
            (name, fs::read_to_string(file.path()).unwrap())
        };
        files.map(read).collect()
    }

    fn tickets(&self) -> Vec<Value> {
        let listed = self.shop.run(["ticket", "list", "--json"]).json();
        listed["tickets"].as_array().unwrap().clone()
    }
}

/// Returns the phases in the journal, in order.
fn phases(shop: &Shop) -> Vec<String> {
    let events = shop.events_of("flow.phase");
    let name = |event: &Value| event["data"]["to"].as_str().unwrap().to_owned();
    events.iter().map(name).collect()
}

/// Returns the outcome of a party run, as far as it must not depend on kills.
fn outcome(party: &Party) -> Value {
    let tickets: Vec<Value> = party
        .tickets()
        .iter()
        .map(|ticket| json!([ticket["task"], ticket["title"], ticket["status"]]))
        .collect();
    let names: Vec<String> = party.findings().into_keys().collect();
    json!({
        "phases": phases(&party.shop),
        "session": party.shop.state_file(".party/session.json")["phase"],
        "tickets": tickets,
        "findings": names,
        "tree": party.shop.git(&["rev-parse", "main^{tree}"]),
    })
}

/// Asserts that each phase has its findings, and that each task is a ticket that is done.
fn has_findings_and_tickets(party: &Party) {
    let findings = party.findings();
    for (name, parts) in [
        ("analyzing-001.md", vec!["write news"]),
        (
            "planning-001.md",
            vec!["- 1: Write the news", "- 2: Write more (after 1)"],
        ),
        (
            "executing-001.md",
            vec!["- 1 (completed): Write the news", "Both texts are written."],
        ),
        (
            "executing-002.md",
            vec!["- 3 (completed): Fix what the review"],
        ),
        (
            "reviewing-001.md",
            vec!["- blocker news.txt:1: the news are wrong"],
        ),
        ("reviewing-002.md", vec!["- true: passed"]),
    ] {
        let text = findings
            .get(name)
            .unwrap_or_else(|| panic!("{name} is missing: {findings:?}"));
        for part in parts {
            assert!(text.contains(part), "{part} is not in {name}:\n{text}");
        }
    }
    assert!(
        findings["executing-001.md"].contains("author: leader"),
        "{}",
        findings["executing-001.md"]
    );
    let tickets = party.tickets();
    let shown: Vec<(&str, &str, &str)> = tickets
        .iter()
        .map(|ticket| {
            let text = |key: &str| ticket[key].as_str().unwrap();
            (text("id"), text("task"), text("status"))
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("TICKET-001", "1", "DONE"),
            ("TICKET-002", "2", "DONE"),
            ("TICKET-003", "3", "DONE"),
        ]
    );
}

#[test]
fn party_run_has_its_phases_findings_and_tickets() {
    let party = Party::new();
    let ran = party.call("never").run().exits(0);
    let shop = &party.shop;
    assert_eq!(phases(shop), PHASES[..7]);
    assert!(
        ran.stdout.contains("phase: PLANNING") || ran.stderr.contains("phase: PLANNING"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    let session = shop.state_file(".party/session.json");
    assert_eq!(session["phase"], "AWAITING_APPROVAL");
    let steps: Vec<&str> = session["phase_history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| step["to"].as_str().unwrap())
        .collect();
    assert_eq!(steps, PHASES[..7]);
    assert_eq!(session["fix_loop"]["attempt"], 1);
    let spawned = |name: &str| {
        let members = session["members"].as_array().unwrap();
        let member = members.iter().find(|member| member["name"] == name);
        member.unwrap()["spawned"].clone()
    };
    assert_eq!(spawned("worker-1"), true);
    assert_eq!(spawned("worker-2"), false, "who only reviews is no worker");
    has_findings_and_tickets(&party);
    // The leader's turn ended EXECUTING, both times, and its prompt had the results of the tasks.
    let woken = shop.events_of("leader.woken");
    let about: Vec<&str> = woken
        .iter()
        .map(|event| &event["data"]["reasons"][0])
        .filter(|reason| reason["kind"] == "phase")
        .map(|reason| reason["about"].as_str().unwrap())
        .collect();
    assert_eq!(about, ["executing@1", "executing@2"]);
    let told = fs::read_to_string(shop.aside().join("wake-1")).unwrap();
    for part in ["the phase EXECUTING ends", "Write more: wrote more"] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    let status = shop.run(["status", "--team", "shop"]).stdout;
    assert!(
        status.contains("AWAITING_APPROVAL of the flow party, round 2"),
        "{status}"
    );
    let json = shop.run(["status", "--team", "shop", "--json"]).json();
    assert_eq!(
        json["teams"][0]["phase"],
        json!({ "flow": "party", "phase": "AWAITING_APPROVAL", "round": 2 })
    );

    let commit = shop.asked();
    shop.run(["approve", "--team", "shop", "--commit", &commit])
        .exits(0);
    assert_eq!(phases(shop)[7..], ["APPROVED", "DONE"]);
    let session = shop.state_file(".party/session.json");
    assert_eq!(session["phase"], "DONE");
    assert_eq!(
        session["artifacts"][0],
        json!({ "kind": "report", "path": ".omc/reports/shop/report.md" })
    );
    let report = shop.report();
    for phase in &PHASES[..7] {
        assert!(report.contains(phase), "{phase} is not in\n{report}");
    }
    shop.is_quiet();
}

/// Two tasks, of which one fails permanently: four earlier failures of it are on record.
#[test]
fn party_run_does_not_enter_a_phase_while_a_ticket_is_open() {
    let shop = Shop::new();
    let home = shop.project.home().display().to_string();
    let agent = format!(
        r#"cat > /dev/null
case "$TEAMSTER_TASK_SUBJECT" in
Break)
  printf '{{"taskId":"%s","lastError":"before","retryCount":4,"lastFailedAt":"2026-01-01T00:00:00.000Z"}}' \
    $TEAMSTER_TASK_ID > {home}/.claude/tasks/shop/$TEAMSTER_TASK_ID.failure.json
  echo 'no way' >&2; exit 3 ;;
*) echo new > news.txt; echo done ;;
esac
"#
    );
    fs::write(shop.aside().join("agent.sh"), agent).unwrap();
    let plan = shop.plan(
        "[[tasks]]\nid = \"a\"\nsubject = \"Mend\"\n[[tasks]]\nid = \"b\"\nsubject = \"Break\"\n",
    );
    let args = RunCmd::new("shop", "1:w", "mend it")
        .provider(&format!("w=command:sh {home}/agent.sh"))
        .plan(&plan)
        .verify("true")
        .approve("never")
        .more(&["--flow", "party"]);
    let ran = shop.call(args).run().exits(14);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    for part in ["REVIEWING", "TICKET-002 (task 2)", "teamster task delete"] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    assert_eq!(
        phases(&shop),
        ["ANALYZING", "PLANNING", "EXECUTING", "FAILED"]
    );
    let stages = shop.events_of("run.stage");
    assert!(
        stages.iter().all(|event| event["data"]["to"] != "verify"),
        "{stages:?}"
    );
    // Without the task the phase has everything it needs.
    shop.run(["task", "delete", "2", "--team", "shop"]).exits(0);
    shop.run(["run", "--resume", "shop"]).exits(0);
    assert_eq!(
        phases(&shop)[4..],
        ["PLANNING", "EXECUTING", "REVIEWING", "AWAITING_APPROVAL"]
    );
    assert_eq!(
        shop.state_file(".party/session.json")["phase"],
        "AWAITING_APPROVAL"
    );
    shop.is_quiet();
}

#[test]
fn party_run_beside_the_session_of_another_team_has_its_own() {
    let shop = Shop::new();
    let begin = ["session", "init", "--team", "other", "--task", "x"];
    shop.run(begin).exits(0);
    shop.run(["state", "transition", "ANALYZING", "go"])
        .exits(0);
    let others = shop.state_file(".party/session.json");
    let script = "[[step]]\ndo = \"edit\"\npath = \"news.txt\"\ncontent = \"new\\n\"\n";
    let more = ["--flow", "party", "--approve", "never", "--verify", "true"];
    shop.scripted_run(script, &more).run().exits(0);
    assert_eq!(shop.state_file(".party/session.json"), others);
    let own = shop.state_file(".party/sessions/shop/session.json");
    assert_eq!(own["phase"], "AWAITING_APPROVAL");
    let tickets = fs::read_dir(shop.folder().join(".party/sessions/shop/tickets")).unwrap();
    assert!(tickets.count() > 0);
}

#[test]
fn party_run_that_is_killed_in_any_phase_comes_to_the_same() {
    let expected = {
        let party = Party::new();
        party.call("auto").run().exits(0);
        let expected = outcome(&party);
        assert_eq!(expected["session"], "DONE");
        expected
    };
    // ANALYZING, EXECUTING and REVIEWING last as long as the test holds them up.
    for (name, phase) in [
        ("plan", "ANALYZING"),
        ("work", "EXECUTING"),
        ("review", "REVIEWING"),
    ] {
        let party = Party::new();
        party.write(&format!("hold-{name}"), "");
        let mut host = party.call("auto").spawn();
        let at = party.shop.aside().join(format!("at-{name}"));
        party.shop.until(phase, || at.exists());
        assert_eq!(phases(&party.shop).last().unwrap(), phase);
        host.kill().unwrap();
        host.wait().unwrap();
        fs::remove_file(party.shop.aside().join(format!("hold-{name}"))).unwrap();
        party.shop.run(["run", "--resume", "shop"]).exits(0);
        assert_eq!(outcome(&party), expected, "killed in {phase}");
        party.shop.is_quiet();
    }
}

/// PLANNING and the way to the gate take only a moment: there the host dies at the event itself.
#[test]
fn party_run_whose_host_dies_as_it_enters_a_phase_comes_to_the_same() {
    let party = Party::new();
    party.call("auto").run().exits(0);
    let expected = outcome(&party);
    let entered = party.shop.events_of("flow.phase");
    let first = entered
        .iter()
        .find(|event| event["data"]["to"] == "PLANNING");
    let at = first.unwrap()["seq"].as_u64().unwrap();
    for event in [at - 1, at, at + 1] {
        let party = Party::new();
        let ran = party.call("auto").env(DIE_AT, event.to_string()).run();
        assert_ne!(ran.code, Some(0), "it did not die");
        party.shop.run(["run", "--resume", "shop"]).exits(0);
        assert_eq!(outcome(&party), expected, "killed at event {event}");
        party.shop.is_quiet();
    }
}

#[test]
fn pdca_run_acts_on_what_the_check_found() {
    let shop = Shop::in_use();
    shop.whole_run(&["--approve", "auto", "--flow", "pdca"])
        .run()
        .exits(0);
    assert_eq!(
        phases(&shop).join(" "),
        "plan design do check act plan design do check act end"
    );
    let entered = shop.events_of("flow.phase");
    let reasons: Vec<&str> = entered
        .iter()
        .filter(|event| event["data"]["to"] == "act")
        .map(|event| event["data"]["reason"].as_str().unwrap())
        .collect();
    assert_eq!(
        reasons[0],
        "another round, 1 of 3 for fixing: verification failed: sh check.sh"
    );
    assert!(reasons[1].starts_with("no other round: "), "{reasons:?}");
    let rounds: Vec<u64> = entered
        .iter()
        .map(|event| event["data"]["round"].as_u64().unwrap())
        .collect();
    assert_eq!(rounds, [1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2]);
    assert_eq!(
        shop.state_file(".bkit/agent-state.json")["pdcaPhase"],
        "act"
    );
    assert!(shop.report().contains("| act "), "{}", shop.report());
    shop.is_quiet();
}

#[test]
fn pdca_run_that_is_killed_in_its_second_round_ends_as_it_would_have() {
    let shop = Shop::new();
    let hold = shop.aside().join("hold");
    fs::write(&hold, "").unwrap();
    let at = shop.aside().join("at");
    let script = "
[[step]]
task = \"mend it\"
do = \"edit\"
path = \"stock.txt\"
content = \"pears\\n\"
[[step]]
task = \"Fix what\"
do = \"run\"
command = \"touch ROOT/at; while test -e ROOT/hold; do sleep 0.05; done; echo apples > stock.txt\"
";
    let more = [
        "--flow",
        "pdca",
        "--approve",
        "auto",
        "--verify",
        "sh check.sh",
    ];
    let mut host = shop.scripted_run(script, &more).spawn();
    shop.until("the second round", || at.exists());
    assert_eq!(
        phases(&shop).join(" "),
        "plan design do check act plan design do"
    );
    host.kill().unwrap();
    host.wait().unwrap();
    fs::remove_file(hold).unwrap();
    shop.run(["run", "--resume", "shop"]).exits(0);
    assert_eq!(
        phases(&shop).join(" "),
        "plan design do check act plan design do check act end"
    );
    shop.is_quiet();
}

#[test]
fn pdca_run_without_another_round_ends_after_it_has_acted() {
    let shop = Shop::new();
    let script = "[[step]]\ndo = \"edit\"\npath = \"stock.txt\"\ncontent = \"pears\\n\"\n";
    let more = [
        "--flow",
        "pdca",
        "--max-fix",
        "0",
        "--approve",
        "auto",
        "--verify",
        "sh check.sh",
    ];
    shop.scripted_run(script, &more).run().exits(11);
    assert_eq!(phases(&shop).join(" "), "plan design do check act end");
    let acted = shop.events_of("flow.phase");
    let reason = acted[4]["data"]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("no other round: verification still fails after 0 rounds"),
        "{reason}"
    );
}

#[test]
fn second_run_beside_one_at_its_gate_has_a_session_of_its_own_that_is_listed() {
    for flow in ["staged", "party"] {
        let shop = Shop::new();
        let made = |name: &str| {
            format!("[[step]]\ndo = \"edit\"\npath = \"{name}.txt\"\ncontent = \"{name}\\n\"\n")
        };
        let script = shop.script(&made("first"));
        let args = |team: &str, script: &str| {
            RunCmd::new(team, "1:w", "make it")
                .provider(script)
                .approve("never")
                .verify("true")
                .more(&["--flow", flow, "--leader", "engine"])
        };
        shop.run(args("shop", &script)).exits(0);
        let first = shop.state_file(".party/session.json");
        assert_eq!(first["phase"], "AWAITING_APPROVAL", "{flow}");
        let script = shop.script(&made("second"));
        let ran = shop.run(args("second", &script)).exits(0);
        assert!(!ran.stdout.contains("not up to date"), "{}", ran.stdout);
        assert_eq!(
            shop.state_file(".party/session.json"),
            first,
            "the first has its own"
        );
        let second = shop.state_file(".party/sessions/second/session.json");
        assert_eq!(
            (&second["team"], &second["phase"]),
            (&json!("second"), &json!("AWAITING_APPROVAL"))
        );
        assert_eq!(second["members"][0]["spawned"], true);
        let findings = fs::read_dir(shop.folder().join(".party/sessions/second/findings")).unwrap();
        assert!(findings.count() > 0);
        let listed = shop.run(["session", "status", "--json"]).succeeds().json();
        assert_eq!(listed["team"], "shop");
        assert_eq!(listed["others"][0]["team"], "second");
        assert_eq!(listed["others"][0]["path"], ".party/sessions/second");
        let shown = shop.run(["session", "status"]).succeeds().stdout;
        assert!(shown.contains(".party/sessions/second"), "{shown}");
        let own = ["session", "status", "--team", "second", "--json"];
        assert_eq!(shop.run(own).succeeds().json()["id"], second["id"]);
        // Each session is decided about separately, and has its own record.
        for (team, place) in [("shop", ".party"), ("second", ".party/sessions/second")] {
            let journal = shop.project.claude(&format!("teams/{team}/events.jsonl"));
            let journal = fs::read_to_string(journal).unwrap();
            let asked = journal
                .lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap())
                .find(|event| event["type"] == "approval.requested");
            let asked = asked.unwrap();
            let commit = asked["data"]["commit"].as_str().unwrap();
            shop.run(["reject", "--team", team, "--commit", commit])
                .exits(10);
            let session = shop.state_file(&format!("{place}/session.json"));
            assert_eq!(session["phase"], "DONE", "{team}");
            let kinds: Vec<&Value> = session["artifacts"]
                .as_array()
                .unwrap()
                .iter()
                .map(|artifact| &artifact["kind"])
                .collect();
            assert_eq!(kinds, ["report", "commit"], "{team}");
            let records = fs::read_dir(shop.folder().join(place).join("approvals")).unwrap();
            assert_eq!(records.count(), 1, "{team}");
        }
        shop.run(["state", "check-lock"]).succeeds();
    }
}
