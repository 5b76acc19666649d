//! The gate: the page gets everything that the terminal shows, from the same source.

use serde_json::{Value, json};
use teamster_store::Store as _;
use teamster_testkit::{RunCmd, recorded};

use super::{Studio, wait_for};
use crate::run::Shop;

/// Of two tasks, one stays within its reservation and the other does not; a third fails permanently, and a fourth waits
/// for it.
const PLAN: &str = r#"
verify = ["test -e never.txt"]

[[tasks]]
id = "news"
subject = "Write news"
paths = ["news.txt"]

[[tasks]]
id = "more"
subject = "Write more"
paths = ["more.txt"]

[[tasks]]
id = "never"
subject = "Do what cannot be done"

[[tasks]]
id = "after"
subject = "Go on from there"
blockedBy = ["never"]
"#;

const SCRIPT: &str = r#"
[[step]]
task = "news"
do = "run"
command = "mkdir -p ROOT/../project/.party/findings; cp ROOT/review.md ROOT/../project/.party/findings/reviewing-900.md"
[[step]]
task = "news"
do = "edit"
path = "news.txt"
content = "one\ntwo\n"
[[step]]
task = "news"
do = "usage"
tokens_in = 1000
tokens_out = 200
usd = 0.25

[[step]]
task = "more"
do = "edit"
path = "more.txt"
content = "more\n"
[[step]]
task = "more"
do = "edit"
path = "readme.txt"
content = "A shop with more.\n"

[[step]]
task = "never"
do = "run"
command = "git init --quiet sub && git -C sub -c user.name=n -c user.email=e commit --quiet --allow-empty --message Sub"
"#;

fn at_gate(shop: &Shop) -> String {
    let secret = format!("sk-ant-api03-{}", "a1B2".repeat(24));
    let review = format!(
        "---\nphase: reviewing\nauthor: critic\n---\n# Review\n\nThe news \u{1b}[31mare <b>old</b>. Key: {secret}\n{}",
        "A long line of a careful reviewer.\n".repeat(300)
    );
    std::fs::write(shop.aside().join("review.md"), review).unwrap();
    let script = shop.script(SCRIPT);
    let plan = shop.plan(PLAN);
    let args = RunCmd::new("shop", "2:w", "write news")
        .provider(&script)
        .plan(&plan)
        .verify("true")
        .approve("never");
    let ran = shop.run(&args);
    ran.stdout + &ran.stderr
}

fn names<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    let items = list.as_array().unwrap().iter();
    items.map(|item| item[key].as_str().unwrap()).collect()
}

#[test]
fn all_that_the_terminal_shows_at_the_gate_is_in_the_model() {
    let shop = Shop::new();
    // Uncommitted, and the work overwrites it.
    shop.project.write("news.txt", "my own news\n");
    let text = at_gate(&shop);
    let studio = Studio::start(&shop.project);
    let view = studio.json("/api/v1/teams/shop");
    let gate = &view["approval"];
    let shown = &gate["shown"];
    assert_eq!(gate["waits"], true, "{text}");
    assert_eq!(gate["base"], shop.git(&["rev-parse", "main"]));
    assert_eq!(gate["branch"], "main");
    assert_eq!(gate["refused"], Value::Null);
    assert_eq!(names(&shown["failed"], "taskId"), ["3", "4"], "{shown}");
    let why = names(&shown["failed"], "why")[0];
    assert!(why.contains("a nested repository"), "{why}");
    assert_eq!(names(&shown["failed"], "why")[1], "it waits for 3");
    assert_eq!(
        shown["outside"],
        json!([{ "taskId": "2", "files": ["readme.txt"] }])
    );
    assert_eq!(shown["inTheWay"], json!(["news.txt"]));
    assert_eq!(shown["fileCount"], 3);
    assert_eq!(
        names(&shown["files"], "path"),
        ["more.txt", "news.txt", "readme.txt"]
    );
    assert_eq!(shown["files"][1]["added"], 2);
    let unverified = json!([{ "command": "test -e never.txt", "why": "failed as before the work began",
        "whyCodes": [{ "code": "check-failed-before", "params": {} }] }]);
    assert_eq!(shown["unverified"], unverified);
    let findings = names(&shown["findings"], "name");
    assert!(findings.contains(&"reviewing-900.md"), "{findings:?}");
    let review = shown["findings"].as_array().unwrap().iter();
    let review = review
        .clone()
        .find(|one| one["name"] == "reviewing-900.md")
        .unwrap();
    let review = review["text"].as_str().unwrap();
    assert!(
        review.contains("are <b>old</b>") && review.len() > 9_000,
        "{review}"
    );
    // The terminal shows the same texts, without secrets or control sequences.
    let mut words: Vec<&str> = findings;
    words.extend(names(&shown["failed"], "subject"));
    words.extend(["it added a nested repository", "it waits for 3"]);
    words.extend(names(&shown["files"], "path"));
    words.push(shown["verification"].as_str().unwrap());
    words.extend([
        "Uncommitted files in the way\n",
        "Changed outside reserved paths\n  task 2: readme.txt",
        "are <b>old</b>",
    ]);
    for word in words {
        assert!(text.contains(word), "{word:?} is not in:\n{text}");
    }
    let told = view.to_string();
    for forbidden in ["sk-ant", "a1B2", "\u{1b}", "\\u001b"] {
        assert!(
            !text.contains(forbidden) && !told.contains(forbidden),
            "{forbidden:?}"
        );
    }
    assert_eq!(view["cost"]["total"]["tokens"], 1_200);
    assert!(text.contains("1,200"), "{text}");
    // A replay of the journal gives the same, at that moment and not before.
    let at = gate["seq"].as_u64().unwrap();
    let past = studio.json(&format!("/api/v1/teams/shop?at={at}"));
    assert_eq!(past["approval"]["shown"], *shown);
    let before = studio.json(&format!("/api/v1/teams/shop?at={}", at - 1));
    assert_eq!(before["approval"], Value::Null);
}

#[test]
fn what_could_not_land_says_why_and_what_is_in_the_way_now() {
    let shop = Shop::new();
    at_gate(&shop);
    let studio = Studio::start(&shop.project);
    let gate = || studio.json("/api/v1/teams/shop")["approval"].clone();
    assert_eq!(gate()["shown"]["inTheWay"], json!([]));
    // Untracked, and the work has a file of that name.
    shop.project.write("more.txt", "mine\n");
    let commit = shop.asked();
    let approve = ["approve", "--team", "shop", "--commit", &commit];
    let told = shop.run(&approve).exits(4);
    let now = wait_for("the gate that is open again", || {
        Some(gate()).filter(|gate| !gate["refused"].is_null())
    });
    assert_eq!(now["waits"], true);
    assert_eq!(now["shown"]["inTheWay"], json!(["more.txt"]));
    let refused = now["refused"].as_str().unwrap();
    assert!(refused.contains("more.txt"), "{refused}");
    assert!(told.stderr.contains("more.txt"), "{}", told.stderr);
}

#[test]
fn what_workers_and_the_reviewer_say_is_at_the_gate_on_the_page_and_in_the_report() {
    let shop = Shop::new();
    let root = shop.aside().display().to_string();
    let worker = format!(
        "cat > /dev/null\ntouch {root}/started\nuntil test -e {root}/go; do sleep 0.02; done\necho new > news.txt\n\
         printf '%s\\n' '```teamster' '{{\"summary\": \"The news are written anew.\", \"handover\": \"Read them first.\", \
         \"problems\": [\"Nobody has read them yet.\"]}}' '```'\n"
    );
    std::fs::write(shop.aside().join("worker.sh"), worker).unwrap();
    let review = r#"{"verdict":"accept","findings":[{"severity":"minor","path":"news.txt","line":1,"claim":"The news are short.","evidence":"One word.","suggestion":"Write two."}]}"#;
    let reviewer = format!("cat > /dev/null\necho '{review}'\n");
    std::fs::write(shop.aside().join("review.sh"), reviewer).unwrap();
    let args = RunCmd::new("shop", "1:w,1:r:reviewer", "write news")
        .provider(&format!("w=command:sh {root}/worker.sh"))
        .provider(&format!("r=command:sh {root}/review.sh"))
        .verify("true")
        .approve("never");
    let text = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let ran = shop.run(&args);
            ran.stdout + &ran.stderr
        });
        wait_for("the worker", || {
            shop.aside().join("started").exists().then_some(())
        });
        let found = json!({ "severity": "major", "path": "readme.txt", "line": 1, "claim": "The readme is older than the news.",
            "evidence": "It names none.", "suggestion": "Name them." });
        let store = shop.project.store(std::time::Duration::ZERO);
        let team = "shop".parse().unwrap();
        store
            .record(&team, recorded("finding.added", "worker-1", &found))
            .unwrap();
        std::fs::write(shop.aside().join("go"), "").unwrap();
        run.join().unwrap()
    });
    let words = [
        "The news are written anew.",
        "Nobody has read them yet.",
        "The news are short.",
        "The readme is older than the news.",
    ];
    let says_all = |what: &str, text: &str| {
        // Long lines are wrapped.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in words {
            assert!(text.contains(part), "{part} is not {what}:\n{text}");
        }
    };
    says_all("at the gate", &text);
    let studio = Studio::start(&shop.project);
    let view = studio.json("/api/v1/teams/shop");
    let said = &view["approval"]["shown"]["said"][0];
    assert_eq!(said["summary"], words[0]);
    assert_eq!(said["problems"][0], words[1]);
    assert_eq!(view["reviews"][0]["findings"][0]["claim"], words[2]);
    assert_eq!(view["findings"][0]["claim"], words[3]);
    let task = studio.json("/api/v1/teams/shop/tasks/1");
    assert_eq!(task["handover"], "Read them first.");
    let commit = view["approval"]["commit"].as_str().unwrap();
    shop.run(&["approve", "--team", "shop", "--commit", commit])
        .succeeds();
    says_all("in the report", &shop.report());
}

#[test]
fn message_that_no_worker_took_is_told_at_the_gate_on_the_page_and_in_the_report() {
    let shop = Shop::new();
    let root = shop.aside().display().to_string();
    // It never reads its inbox, and there is no task after this one.
    let worker = format!(
        "cat > /dev/null; touch {root}/started; until test -e {root}/go; do sleep 0.02; done; echo new > news.txt"
    );
    let args = RunCmd::new("shop", "1:w", "write news")
        .provider(&format!("w=command:{worker}"))
        .approve("never");
    let text = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let ran = shop.run(&args);
            ran.stdout + &ran.stderr
        });
        wait_for("the worker", || {
            shop.aside().join("started").exists().then_some(())
        });
        let send = ["message", "send", "--to", "worker-1", "name the editor"];
        shop.run(&send).succeeds();
        std::fs::write(shop.aside().join("go"), "").unwrap();
        run.join().unwrap()
    });
    assert!(text.contains("Undelivered messages"), "{text}");
    let told = "lead to worker-1: name the editor";
    assert!(text.contains(told), "{text}");
    let studio = Studio::start(&shop.project);
    let view = studio.json("/api/v1/teams/shop");
    assert_eq!(view["approval"]["shown"]["untaken"], json!([told]));
    let commit = view["approval"]["commit"].as_str().unwrap();
    shop.run(&["approve", "--team", "shop", "--commit", commit])
        .succeeds();
    let report = shop.report();
    assert!(report.contains("## Undelivered messages"), "{report}");
    assert!(report.contains(told), "{report}");
}
