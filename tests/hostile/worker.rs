//! A worker whose agent tries everything within its reach: every tool with forged arguments, and every command of
//! `teamster`, in its own environment, without it, and in the name of others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use teamster_testkit::RunCmd;
use teamster_testkit::wait::poll;

use crate::run::Shop;
use crate::workers::Crew;

/// A text that only the other team contains.
const SECRET: &str = "secret-of-the-other-team";
/// The time limit for an attack of hundreds of commands on a busy machine.
const ATTACK: Duration = Duration::from_secs(400);

/// Runs commands in several environments, speaks MCP, and writes the results to a file. It prints its progress,
/// because a silent agent would be ended.
const AGENT: &str = r#"
import json, os, subprocess, sys, time
folder = sys.argv[1]
orders = json.load(open(folder + "/orders.json"))
teamster = orders["teamster"]
bare = {name: value for name, value in os.environ.items() if not name.startswith("TEAMSTER_")}
environments = {
    "plain": dict(os.environ),
    "nameless": bare,
    "as ben": dict(os.environ, TEAMSTER_WORKER="ben"),
    "foreign": dict(os.environ, TEAMSTER_SOCKET=orders["foreign"]),
    "other team": dict(bare, TEAMSTER_WORKER="ann", TEAMSTER_TEAM="other"),
}

def run(words, environment, before=()):
    ran = subprocess.run([*before, teamster, *words], env=environment, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    return {"code": ran.returncode, "said": ran.stdout.decode(errors="replace")[:20000]}

def tries(name, words):
    if name == "orphan":
        # Nobody of its line is left but whoever adopts it.
        out = folder + "/orphan"
        line = 'setsid sh -c \'"$@" > %s.said 2>&1; echo $? > %s.new; mv %s.new %s.code\' x "$@" &' % (out, out, out, out)
        subprocess.run(["sh", "-c", line, "x", teamster, *words], env=bare, stdin=subprocess.DEVNULL)
        while not os.path.exists(out + ".code"):
            time.sleep(0.02)
        result = {"code": int(open(out + ".code").read()), "said": open(out + ".said").read()}
        os.remove(out + ".code")
        return result
    return run(words, environments[name])

def speak(environment, calls):
    server = subprocess.Popen([teamster, "mcp"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    count = 0
    def say(message):
        server.stdin.write((json.dumps(message) + "\n").encode())
        server.stdin.flush()
    def ask(method, params):
        nonlocal count
        count += 1
        say({"jsonrpc": "2.0", "id": count, "method": method, "params": params})
        while True:
            line = server.stdout.readline()
            if not line:
                return {"ended": server.stderr.read().decode()}
            reply = json.loads(line)
            if reply.get("id") == count:
                return reply
    client = {"name": "hostile", "version": "1"}
    ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
    say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    tools = ask("tools/list", {})
    replies = []
    for call in calls:
        arguments = call["arguments"]
        for name, value in arguments.items():
            if value == "10 MB":
                arguments[name] = "x" * 10_000_000
        replies.append(ask("tools/call", call))
    server.stdin.close()
    server.wait()
    return {"tools": tools, "replies": replies}

results = {"commands": [], "tools": {}}
for order in orders["commands"]:
    for name in order["environments"]:
        print(name, order["words"], flush=True)
        results["commands"].append({"words": order["words"], "environment": name, **tries(name, order["words"])})
for name in ["plain", "nameless", "foreign"]:
    print("tools", name, flush=True)
    results["tools"][name] = speak(environments[name], json.loads(json.dumps(orders["calls"])))
json.dump(results, open(folder + "/results.new", "w"))
os.rename(folder + "/results.new", folder + "/results.json")
"#;

/// A team with an attacking and a peaceful worker, and a second team in another project of the same home.
struct Attack {
    crew: Crew,
    /// The socket of the peaceful worker.
    foreign: String,
}

impl Attack {
    fn prepare() -> Self {
        let crew = Crew::new();
        let other = crew.project.home().join("other");
        std::fs::create_dir_all(other.join(".git")).unwrap();
        let team = ["team", "create", "other", "--members", "carl"];
        crew.project.call(team).folder(&other).run().succeeds();
        let mail = ["message", "send", "--team", "other", "--to", "carl", SECRET];
        crew.project.run(mail).succeeds();
        let subject = format!("Keep {SECRET}");
        let task = ["task", "create", "--team", "other", "--subject", &subject];
        crew.project.run(task).succeeds();
        for worker in ["ann", "ben"] {
            crew.project
                .run(["team", "join", "crew", worker])
                .succeeds();
        }
        crew.project.task("attack", &["--owner", "ann"]);
        crew.project.task("be at peace", &["--owner", "ben"]);
        let file = crew.project.folder().join(".omc/ben-socket");
        crew.start(
            "ben",
            "echo $TEAMSTER_SOCKET > ../../../ben-socket; until test -e ../../../over; do sleep 0.1; done",
        );
        crew.until("the socket of ben", || {
            std::fs::read_to_string(&file).is_ok_and(|path| path.ends_with('\n'))
        });
        let foreign = std::fs::read_to_string(&file).unwrap().trim().to_owned();
        Self { crew, foreign }
    }

    /// Lets the worker ann try these commands and tool calls; returns the result of each.
    fn run(&self, commands: &[Value], calls: &[Value]) -> Value {
        let orders = json!({
            "teamster": env!("CARGO_BIN_EXE_teamster"),
            "foreign": self.foreign,
            "commands": commands,
            "calls": calls,
        });
        let project = &self.crew.project;
        project.write(".omc/attack/orders.json", &orders.to_string());
        project.write(".omc/attack/agent.py", AGENT);
        let folder = project.folder().join(".omc/attack");
        let script = folder.join("agent.py");
        self.crew.start(
            "ann",
            &format!(
                "test $TEAMSTER_TASK_ID = 1 || exit 0; python3 {} {} 2> {}/log",
                script.display(),
                folder.display(),
                folder.display()
            ),
        );
        let results = folder.join("results.json");
        let ended = poll(ATTACK, || results.exists().then_some(()));
        let log = || std::fs::read_to_string(folder.join("log")).unwrap_or_default();
        let text =
            std::fs::read_to_string(results).unwrap_or_else(|_| panic!("{ended:?} {}", log()));
        serde_json::from_str(&text).unwrap()
    }

    /// Returns everything that the attack must not change.
    fn of_others(&self) -> Value {
        let project = &self.crew.project;
        let read = |words: &[&str]| project.run(words).succeeds().json();
        let home =
            ["settings.json", "settings.local.json"].map(|file| project.claude(file).exists());
        let config = [".codex", ".gemini", ".config", ".claude.json"]
            .map(|file| project.home().join(file).exists());
        let crew = read(&["team", "show", "crew", "--json"]);
        let members = crew["team"]["members"].as_array().unwrap();
        let members: Vec<&Value> = members.iter().map(|member| &member["name"]).collect();
        let task = self.crew.shown("2");
        let parts = ["subject", "description", "owner", "status", "blockedBy"]
            .map(|part| task[part].clone());
        let files = ["teams", "tasks"].map(|folder| {
            let entries = std::fs::read_dir(project.claude(folder)).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.collect::<BTreeSet<String>>()
        });
        json!({
            "journal": read(&["journal", "--team", "other", "--json"]),
            "mail": read(&["message", "list", "--team", "other", "--json"]),
            "members": members,
            "ben": parts,
            "home": home,
            "config": config,
            "files": files,
        })
    }
}

/// Commands for people only. Words are separated by spaces; `_` stands for a space.
const FOR_PEOPLE: &str = "
run 1:command:true do_it --approve auto
run --resume crew
demo
merge crew
cancel crew
approve --team crew --commit 0123456789
reject --team crew
revise --team crew do_more
studio
team create mine
team join crew eve
team join other ann
team delete other --force
team delete crew --force
task answer 2 yes
task delete 2
answer q1 yes
worker start --name eve --provider command:true
worker join --team crew --repo file:///anywhere --provider command:true
worker stop ben
worker restart ben
worker resume ben
worker attach ben
worker answer ben x allow
worker supervise
worker bridge --team crew --name ben --provider command:true
shutdown --team crew
shutdown --team other --force
worktree salvage ben
worktree gc
worktree list
store init
store status
store grant eve --team crew
store revoke eve --team crew
store export --team other
store import other.jsonl
zombies scan
zombies reap
zombies restore other
install claude
install claude --mcp
install codex --mcp
install gemini --mcp
uninstall claude
uninstall codex --mcp
uninstall gemini --mcp
plugin export ../plugin
state-file init --team t --feature f
state-file add x
state-file status x working
state-file remove x
state-file progress --total 3
state-file message y
state-file cleanup
session init --team crew --task x
state transition APPROVED yes
state transition PLANNING yes
plan accept --team crew --revision 1
plan edit /dev/null --team crew --revision 1
plan revise x --team crew --revision 1
plan reject --team crew --revision 1
trust --yes
trust --revoke
";

/// Commands that a worker may call, here in the name of others or for another team: each must be refused.
const FOR_OTHERS: &str = "
task list --team other
task show 1 --team other
task graph --team other
task route 1 --team other
task create --team other --subject forged
task update 1 --team other --subject forged
task update 2 --description forged
task update 2 --owner ann
task claim 1 --team other
task claim --worker ben
task retry 1 --team other
task release 2 --force
task release 1 --team other --force
message list --team other
message tail --team other
message read --team other
message read --team other --as carl
message read --as ben
message read --as lead
message ack --as ben 1
message ack --team other --as carl 1
message send --to ben --from lead forged
message send --to ben --from user forged
message send --to lead --from ben forged
message send --team other --to carl forged
message broadcast --from lead forged
message broadcast --team other forged
journal --team other
status --team other
team show other
top --team other --once
replay other
plan show --team other
replay ../../../../../home/.claude/teams/other
worker list --team other
worker show carl --team other
worker logs carl --team other
";

/// Commands that a worker may call for itself.
const OWN: &str = "
status
task list
task show 1
task graph
task route 1
task create --subject more
task update 1 --description mine
task claim 2
task renew 2 --token forged
task complete 2 --token forged
task fail 2 --token forged --error forged
task release 2 --token forged
task retry 2
task import /dev/null
message send --to lead hello
message broadcast hello
message read
message ack 12345
message list
message tail
ask --help
worker list
worker show ben
worker logs ben
journal
team list
team show
top --once
replay crew
plan check /dev/null
plan show
session status
state status
state check-lock
state-file path
state-file read
ticket create --title mine
ticket list
ticket update 1 --status done
finding add analyzing /dev/null
flow show staged
doctor
config show
trust --show
mcp
hook Stop
completions bash
man
";

fn lines(table: &str) -> impl Iterator<Item = Vec<String>> + '_ {
    let lines = table.lines().filter(|line| !line.is_empty());
    lines.map(|line| line.split(' ').map(|word| word.replace('_', " ")).collect())
}

fn orders(table: &str, environments: &[&str]) -> Vec<Value> {
    lines(table)
        .map(|words| json!({ "words": words, "environments": environments }))
        .collect()
}

#[test]
fn hostile_worker_gets_nothing_but_its_own_rights_from_any_command() {
    let attack = Attack::prepare();
    let before = attack.of_others();
    let begun = attack.crew.events("team.created").len();
    assert_eq!(begun, 1);
    let everywhere = ["plain", "nameless", "as ben"];
    let mut commands = orders(FOR_PEOPLE, &everywhere[..2]);
    commands.extend(orders(FOR_OTHERS, &everywhere));
    commands.extend(orders(OWN, &["plain", "other team"]));
    let trust = "approve --team crew --commit 0123456789\ntrust --yes\nteam delete other --force\nmessage broadcast --from lead forged\n";
    commands.extend(orders(trust, &["orphan", "foreign"]));
    let results = attack.run(&commands, &[]);
    let mut refused: BTreeMap<&str, usize> = BTreeMap::new();
    let must_be_refused: BTreeSet<Vec<String>> =
        lines(FOR_PEOPLE).chain(lines(FOR_OTHERS)).collect();
    for result in results["commands"].as_array().unwrap() {
        let words: Vec<String> = serde_json::from_value(result["words"].clone()).unwrap();
        let said = result["said"].as_str().unwrap();
        assert!(
            !said.contains(SECRET),
            "it reads of the other team: {result}"
        );
        if !must_be_refused.contains(&words) {
            continue;
        }
        assert_eq!(result["code"], 6, "{result}");
        let reasons = [
            "is for people",
            "cannot act as",
            "cannot act on team",
            "for what its worker started",
        ];
        let reason = reasons.iter().find(|reason| said.contains(**reason));
        *refused
            .entry(reason.unwrap_or_else(|| panic!("no reason: {result}")))
            .or_default() += 1;
    }
    assert!(refused.len() >= 3, "{refused:?}");
    assert_eq!(attack.of_others(), before);
    assert_eq!(by_person(&attack), 0);
    let forged = attack.crew.events("message.sent");
    assert!(
        forged
            .iter()
            .all(|event| !event.to_string().contains("forged")),
        "{forged:?}"
    );
}

/// Returns how many events since the beginning of the attack are by a person.
fn by_person(attack: &Attack) -> usize {
    let ran = attack
        .crew
        .project
        .run(["journal", "--team", "crew", "--json"]);
    let events = ran.succeeds().json()["events"].as_array().unwrap().clone();
    let claimed = events
        .iter()
        .position(|event| event["type"] == "task.claimed" && event["actor"] == "ann");
    let since = &events[claimed.unwrap()..];
    since
        .iter()
        .filter(|event| event["actor"] == "user" || event["actor"] == "lead")
        .count()
}

#[test]
fn every_command_of_the_help_is_tried_by_the_hostile_worker() {
    let document = include_str!("../../docs/cli.md");
    let names: Vec<&str> = document
        .lines()
        .filter_map(|line| {
            line.trim_start_matches('#')
                .trim()
                .strip_prefix("`teamster ")?
                .strip_suffix('`')
        })
        .collect();
    let is_leaf = |name: &&&str| {
        !names
            .iter()
            .any(|other| other.starts_with(&format!("{name} ")))
    };
    let tried: Vec<String> = [FOR_PEOPLE, FOR_OTHERS, OWN]
        .iter()
        .flat_map(|table| table.lines().map(|line| format!("{line} ")))
        .collect();
    let missing: Vec<&&str> = names
        .iter()
        .filter(is_leaf)
        .filter(|name| {
            !tried
                .iter()
                .any(|line| line.starts_with(&format!("{name} ")))
        })
        .collect();
    assert!(names.len() > 80, "{names:?}");
    assert_eq!(missing, [&""; 0]);
}

/// Returns calls whose texts are far too long, empty or of a wrong type.
fn calls_beyond_limits() -> Vec<(&'static str, Value)> {
    vec![
        ("message_send", json!({ "to": "lead", "text": "10 MB" })),
        ("message_send", json!({ "to": "10 MB", "text": "forged" })),
        ("ask", json!({ "question": "10 MB" })),
        ("report_progress", json!({ "text": "10 MB" })),
        (
            "add_finding",
            json!({ "severity": "nit", "claim": "10 MB" }),
        ),
        (
            "add_finding",
            json!({ "severity": "nit", "claim": "forged", "path": "10 MB" }),
        ),
        (
            "add_finding",
            json!({ "severity": "fatal", "claim": "forged" }),
        ),
        ("propose_task", json!({ "subject": "10 MB" })),
        (
            "propose_task",
            json!({ "subject": "forged", "description": "10 MB" }),
        ),
        (
            "report_progress",
            json!({ "text": "forged", "percent": 101 }),
        ),
        (
            "report_progress",
            json!({ "text": "forged", "percent": -1 }),
        ),
        ("ask", json!({ "question": " \n\t" })),
    ]
}

/// Returns calls with arguments that name another worker, point elsewhere, or exceed a limit, and calls of tools that
/// no worker has.
fn forged_calls() -> Vec<(&'static str, Value)> {
    let examples = [
        ("team_status", json!({})),
        ("task_get", json!({ "id": "1" })),
        ("message_send", json!({ "to": "lead", "text": "forged" })),
        ("inbox_read", json!({})),
        ("ask", json!({ "question": "forged" })),
        ("report_progress", json!({ "text": "forged" })),
        (
            "add_finding",
            json!({ "severity": "nit", "claim": "forged" }),
        ),
        ("propose_task", json!({ "subject": "forged" })),
    ];
    let mut calls = Vec::new();
    for (tool, example) in &examples {
        for field in [
            "from", "sender", "actor", "worker", "as", "team", "token", "socket", "user",
        ] {
            let mut arguments = example.clone();
            arguments[field] = json!("lead");
            calls.push((*tool, arguments));
        }
    }
    for id in [
        "../../other/1",
        "1/../2",
        "/etc/passwd",
        "1\u{0}",
        "999",
        "",
        "-1",
        "1.json",
    ] {
        calls.push(("task_get", json!({ "id": id })));
        calls.push((
            "propose_task",
            json!({ "subject": "forged", "blockedBy": [id] }),
        ));
    }
    for to in [
        "carl",
        "other/carl",
        "../other/inbox/carl",
        "ann",
        "",
        "lead\nuser",
        "\u{1b}[2J",
        "ALL",
    ] {
        calls.push(("message_send", json!({ "to": to, "text": "forged" })));
    }
    calls.extend(calls_beyond_limits());
    let others = [
        "approve",
        "reject",
        "revise",
        "trust",
        "answer",
        "run_start",
        "run_status",
        "task_create",
        "task_list",
    ];
    let more = [
        "journal_read",
        "team_delete",
        "task_delete",
        "worker_stop",
        "shutdown",
        "config_set",
        "../task_get",
    ];
    for tool in others.into_iter().chain(more) {
        calls.push((tool, json!({})));
    }
    calls
}

#[test]
fn hostile_worker_gets_nothing_but_its_own_rights_from_any_tool() {
    let attack = Attack::prepare();
    let before = attack.of_others();
    let forged = forged_calls();
    // The allowed calls come last: they must work although everything before was refused.
    let allowed = [
        (
            "message_send",
            json!({ "to": "ben", "text": "a\u{1b}[2Jb\u{202e}c" }),
        ),
        (
            "add_finding",
            json!({ "severity": "nit", "claim": "a\u{1b}[2Jb\u{202e}c", "path": "../../etc/passwd" }),
        ),
        ("team_status", json!({})),
    ];
    let all = forged.iter().chain(&allowed);
    let calls: Vec<Value> = all
        .map(|(name, arguments)| json!({ "name": name, "arguments": arguments }))
        .collect();
    let results = attack.run(&[], &calls);
    for environment in ["plain", "nameless", "foreign"] {
        let spoken = &results["tools"][environment];
        let tools = spoken["tools"]["result"]["tools"].as_array().unwrap();
        let names: Vec<&str> = tools
            .iter()
            .filter_map(|tool| tool["name"].as_str())
            .collect();
        let expected = "team_status task_get message_send inbox_read ask report_progress add_finding propose_task";
        assert_eq!(names.join(" "), expected, "{environment}");
        let replies = spoken["replies"].as_array().unwrap();
        for (call, reply) in calls.iter().zip(replies) {
            let is_forged = forged
                .iter()
                .any(|(name, arguments)| call["name"] == *name && call["arguments"] == *arguments);
            let is_error = reply["result"]["isError"] == true || reply["error"].is_object();
            let is_refused = is_forged || environment == "foreign";
            let shown: String = reply.to_string().chars().take(400).collect();
            assert_eq!(is_error, is_refused, "{environment}: {call}: {shown}");
            assert!(!shown.contains(SECRET), "{shown}");
            if environment == "foreign" && !is_forged {
                assert!(shown.contains("for what its worker started"), "{shown}");
            }
        }
    }
    assert_eq!(attack.of_others(), before);
    assert_eq!(by_person(&attack), 0);
    for kind in [
        "message.sent",
        "finding.added",
        "question.asked",
        "worker.progress",
    ] {
        for event in attack.crew.events(kind) {
            assert!(!event.to_string().contains("forged"), "{event}");
        }
    }
    // The two allowed messages came from ann, and contain no control sequences.
    let sent = attack.crew.events("message.sent");
    let of_ann = sent
        .iter()
        .filter(|event| event["actor"] == "ann" && event["data"]["to"] == "ben");
    assert_eq!(of_ann.count(), 2, "{sent:?}");
    let shown = attack
        .crew
        .project
        .run(["message", "list"])
        .succeeds()
        .stdout;
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
}

#[test]
fn check_of_a_run_may_look_and_changes_nothing() {
    let shop = Shop::in_use();
    let root = shop.aside().display().to_string();
    let tries = [
        "message send --to all --team shop hello",
        "task create --subject more --team shop",
        "task claim --worker worker-1 --team shop",
        "message read --as worker-1 --ack --team shop",
        "message read --as lead --team shop",
        "team delete shop --force",
        "shutdown --team shop",
        "approve --team shop --commit 0123456789",
    ];
    // A check that claims to be a worker is not one.
    let names = ["", "TEAMSTER_WORKER=worker-1 "];
    let tries = names.map(|name| tries.map(|words| (name, words))).concat();
    let mut lines: Vec<String> = (0..)
        .zip(&tries)
        .map(|(place, (name, words))| {
            let file = format!("{root}/said-{place}");
            format!("{name}teamster {words} > {file} 2>&1; echo $? >> {file}")
        })
        .collect();
    lines.push(format!("teamster task list --team shop > {root}/list"));
    let check = lines.join("; ");
    let script = "[[step]]\ndo = \"run\"\ncommand = \"echo mended >> news.txt\"\n";
    let more = ["--verify", &check, "--approve", "never"];
    shop.scripted_run(script, &more).run().exits(0);
    for (place, (name, words)) in (0..).zip(tries) {
        let file = shop.aside().join(format!("said-{place}"));
        let said = std::fs::read_to_string(file).unwrap();
        assert!(said.contains("below a worker"), "{name}{words}: {said}");
        assert!(said.ends_with("\n6\n"), "{name}{words}: {said}");
    }
    let list = std::fs::read_to_string(shop.aside().join("list")).unwrap();
    assert!(list.contains("mend it"), "{list}");
    assert_eq!(shop.tasks().len(), 1);
}

/// Runs an agent that calls these at the first of two tasks, and returns the output and exit code of each.
fn said_by_agent(
    crew: &str,
    calls: &[&str],
    more: &[&str],
) -> (Shop, Vec<String>, crate::kit::Ran) {
    let shop = Shop::in_use();
    let root = shop.aside().display().to_string();
    let mut script = String::from("cat > /dev/null\nif test $TEAMSTER_TASK_ID = 1; then\n");
    for (place, call) in calls.iter().enumerate() {
        let file = format!("{root}/said-{place}");
        let _ = writeln!(script, "{call} > {file} 2>&1; echo $? >> {file}");
    }
    script += "fi\necho $TEAMSTER_TASK_ID > done-$TEAMSTER_TASK_ID.txt; echo done\n";
    std::fs::write(shop.aside().join("agent.sh"), script).unwrap();
    let plan = shop.aside().join("two.toml");
    let tasks = "[[tasks]]\nid = 'a'\nsubject = 'A'\n[[tasks]]\nid = 'b'\nsubject = 'B'\n";
    std::fs::write(&plan, tasks).unwrap();
    let args = RunCmd::new("shop", crew, "do both")
        .provider(&format!("w=command:sh {root}/agent.sh"))
        .verify("true")
        .more(&["--plan", plan.to_str().unwrap()])
        .more(more);
    let ran = shop.call(args).run();
    let said = (0..calls.len()).map(|place| {
        let file = shop.aside().join(format!("said-{place}"));
        std::fs::read_to_string(file).unwrap_or_default()
    });
    let said = said.collect();
    (shop, said, ran)
}

#[test]
fn agent_of_a_run_claims_and_ends_no_task_itself() {
    let calls = [
        "teamster task claim 2",
        "teamster task claim",
        "teamster task complete 1 --token x",
        "teamster task fail 1 --token x --error no",
        "teamster task release 1 --token x",
        "teamster task renew 1 --token x",
        "TEAMSTER_WORKER= teamster task claim 2",
    ];
    let (shop, said, ran) = said_by_agent("1:w", &calls, &["--approve", "auto"]);
    for (call, said) in calls.iter().zip(said) {
        assert!(said.ends_with("\n6\n"), "{call}: {said}");
    }
    ran.exits(0);
    for id in ["1", "2"] {
        assert_eq!(shop.git(&["show", &format!("main:done-{id}.txt")]), id);
    }
}

#[test]
fn agent_cannot_stop_the_phases_of_its_run_by_a_ticket() {
    let calls = [
        "teamster ticket create --title more",
        "teamster ticket update TICKET-001 --status DONE",
    ];
    let (shop, said, ran) = said_by_agent("1:w", &calls, &["--approve", "auto", "--flow", "party"]);
    for (call, said) in calls.iter().zip(said) {
        assert!(said.ends_with("\n6\n"), "{call}: {said}");
    }
    ran.exits(0);
    assert_eq!(shop.git(&["show", "main:done-2.txt"]), "2");
}

#[test]
fn broadcasts_of_an_agent_count_as_its_messages() {
    let call = "n=0; while teamster message broadcast hello > /dev/null 2>&1; do n=$((n + 1)); test $n -lt 200 || break; done; echo $n";
    let (_, said, ran) = said_by_agent("2:w", &[call], &["--approve", "never"]);
    ran.exits(0);
    // A task may send a hundred messages, and each broadcast goes to the other worker and to the lead.
    assert_eq!(said[0], "50\n0\n");
}

#[test]
fn blocker_that_a_worker_found_needs_a_person() {
    let say = |message: Value| format!("echo '{message}'");
    let client = json!({ "name": "agent", "version": "1" });
    let hello =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let finding = json!({ "severity": "blocker", "claim": "All data is deleted at start." });
    let tool = json!({ "name": "add_finding", "arguments": finding });
    let call = format!(
        "{{ {}; {}; {}; until grep -q '\"id\":2' replies; do sleep 0.02; done; }} | teamster mcp > replies; cat replies; rm replies",
        say(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello })),
        say(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })),
        say(json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": tool })),
    );
    let call = call.as_str();
    let (shop, said, ran) = said_by_agent("1:w", &[call], &["--approve", "auto"]);
    assert!(!said[0].contains("isError\":true"), "{said:?}");
    let ran = ran.exits(11);
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(said.contains("All data is deleted at start."), "{said}");
    let landed = shop.git(&["ls-tree", "--name-only", "main"]);
    assert!(!landed.contains("done-1.txt"), "{landed}");
}
