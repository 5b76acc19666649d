//! The prompts of the agents in a real run: each agent gets what it needs.

use std::collections::BTreeSet;

use teamster_testkit::RunCmd;

use super::Shop;

/// Returns agents that save their prompts beside the project, run `agent.sh`, and report.
fn agent(shop: &Shop, work: &str) -> String {
    let aside = shop.aside();
    let root = aside.to_str().unwrap();
    let script = format!(
        "cat > ROOT/prompt-$TEAMSTER_TASK_ID\n\
         report() {{ printf '%s\\n' '```teamster' \"$1\" '```'; }}\n\
         case \"$TEAMSTER_TASK_SUBJECT\" in\n{work}\nesac\n"
    );
    std::fs::write(aside.join("agent.sh"), script.replace("ROOT", root)).unwrap();
    format!("w=command:sh {root}/agent.sh")
}

fn told(shop: &Shop, id: u32) -> String {
    std::fs::read_to_string(shop.aside().join(format!("prompt-{id}"))).unwrap_or_default()
}

/// Asserts that a prompt contains all of these parts, in this order.
#[track_caller]
fn says(prompt: &str, parts: &[&str]) {
    let mut rest = prompt;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("{part:?} is missing, or in the wrong place, in\n{prompt}");
        };
        rest = after;
    }
}

const PLAN: &str = r#"
[[tasks]]
id = "tokens"
subject = "Make tokens"
owner = "worker-1"
paths = ["tokens.txt"]

[[tasks]]
id = "manual"
subject = "Write the manual"
owner = "worker-2"
paths = ["manual.txt"]

[[tasks]]
id = "page"
subject = "Make the page"
description = "It shows a token."
blockedBy = ["tokens"]
"#;

#[test]
fn no_two_workers_are_told_the_same_and_a_handover_reaches_whoever_waited_for_it() {
    let shop = Shop::new();
    let plan = shop.plan(PLAN);
    let worker = agent(
        &shop,
        r#"
Make\ tokens)
  until test -e ROOT/prompt-2; do sleep 0.02; done
  echo t > tokens.txt
  echo 'I made them.'
  report '{"status": "done", "summary": "Tokens are there.", "handover": "Call `issue()`.\nNever twice.", "problems": ["They never expire."]}' ;;
Write\ the\ manual)
  until test -e ROOT/prompt-3; do sleep 0.02; done
  echo m > manual.txt; echo written ;;
Make\ the\ page) echo p > page.txt; echo n > never.txt; echo shown ;;
"#,
    );
    let args = RunCmd::new("shop", "2:w", "Let users reset their password")
        .provider(&worker)
        .plan(&plan)
        .verify("test -e add.sh")
        .verify("test -e never.txt")
        .approve("never");
    shop.run(&args).exits(0);
    let prompts: Vec<String> = (1..=3).map(|id| told(&shop, id)).collect();
    let different: BTreeSet<&String> = prompts.iter().collect();
    assert_eq!(different.len(), 3, "{prompts:?}");
    for (prompt, name) in prompts.iter().zip(["worker-1", "worker-2", "worker-1"]) {
        says(
            prompt,
            &[
                &format!("You are {name}, a worker of the team shop."),
                "## The goal of the run",
                "> Let users reset their password",
                "## Your task",
                "## How your work is judged",
                "must pass on it",
                "> test -e add.sh",
                "its work is to make them pass",
                "> test -e never.txt",
                "## How to reach others",
                env!("CARGO_BIN_EXE_teamster"),
                "## Rules",
                "## How to end",
                "```teamster",
            ],
        );
    }
    says(
        &prompts[2],
        &[
            "This is task 3:",
            "> Make the page\n>\n> It shows a token.",
            "## What you build on",
            "Task 1, done by worker-1:",
            "> Make tokens",
            "> Tokens are there.",
            "> Call `issue()`.\n> Never twice.",
            "> - They never expire.",
            "> tokens.txt",
            "## Who else is working now",
            "worker-2 has task 2:",
            "> Write the manual",
            "> manual.txt",
        ],
    );
    says(&prompts[0], &["Change only files", "> tokens.txt"]);
    assert!(!prompts[0].contains("## What you build on"));
    let task = shop.run(&["task", "show", "1", "--team", "shop"]);
    let task = task.succeeds().stdout;
    for part in [
        "summary     Tokens are there.",
        "hands over  Call `issue()`. Never twice.",
        "left open   They never expire.",
    ] {
        assert!(task.contains(part), "{part} is not in\n{task}");
    }
    let json = shop.run(&["task", "show", "1", "--team", "shop", "--json"]);
    let result = json.json()["task"]["metadata"]["teamster"]["result"].clone();
    assert_eq!(result["handover"], "Call `issue()`.\nNever twice.");
    assert_eq!(
        result["problems"],
        serde_json::json!(["They never expire."])
    );
}

#[test]
fn resolver_is_told_what_both_sides_wanted_and_given_the_other_work_as_a_patch() {
    let shop = Shop::new();
    let plan = shop.plan(
        "[[tasks]]\nid = 'a'\nsubject = 'Say one'\nowner = 'worker-1'\n\
         [[tasks]]\nid = 'b'\nsubject = 'Say two'\ndescription = 'Two is the better number.'\nowner = 'worker-2'\n",
    );
    let merged =
        "until git show omc-team/shop/integration:news.txt | grep -q one; do sleep 0.02; done";
    let worker = agent(
        &shop,
        &format!(
            r#"
Say\ one)
  until test -e ROOT/prompt-2; do sleep 0.02; done
  echo one > news.txt
  report '{{"summary": "It says one."}}' ;;
Say\ two)
  {merged}
  echo two > news.txt; echo more > more.txt
  report '{{"summary": "It says two, and there is more."}}' ;;
Resolve*)
  patch=$(grep -o '`git apply --reject [^`]*`' ROOT/prompt-$TEAMSTER_TASK_ID | tr -d '`' | sed 's/.* //')
  cp "$patch" ROOT/incoming.patch
  git apply --reject "$patch"
  rm news.txt.rej
  printf 'one\ntwo\n' > news.txt
  echo resolved ;;
"#
        ),
    );
    let args = RunCmd::new("shop", "2:w", "Say more")
        .provider(&worker)
        .plan(&plan)
        .verify("true")
        .approve("auto");
    shop.run(&args).exits(0);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "one\ntwo");
    assert_eq!(shop.git(&["show", "main:more.txt"]), "more");
    let prompt = told(&shop, 3);
    says(
        &prompt,
        &[
            "## The goal of the run",
            "> Say more",
            "bring the work of task 2 together",
            "> news.txt",
            "## The work to bring in",
            "Task 2, done by worker-2:",
            "> Say two",
            "> It says two, and there is more.",
            "> Two is the better number.",
            "git apply --reject",
            "> +two",
            "## What was merged meanwhile",
            "Task 1, done by worker-1:",
            "> Say one",
            "> It says one.",
            "> +one",
            "## How your work is judged",
            "a conflict marker",
        ],
    );
    assert!(!prompt.contains("cherry-pick"), "{prompt}");
    let patch = std::fs::read_to_string(shop.aside().join("incoming.patch")).unwrap();
    assert!(patch.contains("+two") && patch.contains("+more"), "{patch}");
}

/// Starts a run whose second task conflicts; its resolver runs `resolve`, and `sandboxed` runs a command that cannot
/// write to the repository's own `.git`, as in the sandbox of Codex.
fn resolved_in_a_sandbox(shop: &Shop, resolve: &str) -> crate::kit::Ran {
    let plan = shop.plan(
        "[[tasks]]\nid = 'a'\nsubject = 'Say one'\nowner = 'worker-1'\n\
         [[tasks]]\nid = 'b'\nsubject = 'Say two'\nowner = 'worker-2'\n",
    );
    let git = shop.folder().canonicalize().unwrap().join(".git");
    let git = git.display();
    let worker = agent(
        shop,
        &format!(
            r#"
Say\ one) until test -e ROOT/prompt-2; do sleep 0.02; done; echo one > news.txt; echo done ;;
Say\ two)
  until git show omc-team/shop/integration:news.txt | grep -q one; do sleep 0.02; done
  echo two > news.txt; echo more > more.txt; echo done ;;
Resolve*)
  sandboxed() {{
    unshare --mount sh -c 'mount --bind {git} {git} && mount -o remount,bind,ro {git} && exec "$@"' sh "$@"
  }}
  {resolve}
  echo done ;;
"#
        ),
    );
    let args = RunCmd::new("shop", "2:w", "Say more")
        .provider(&worker)
        .plan(&plan)
        .verify("true")
        .approve("auto");
    shop.run(&args)
}

fn can_be_sandboxed() -> bool {
    let tried = std::process::Command::new("unshare")
        .args(["--mount", "true"])
        .status();
    let can = tried.is_ok_and(|status| status.success());
    if !can {
        crate::kit::skip("mounts of one's own are not allowed here");
    }
    can
}

#[test]
fn resolver_that_cannot_write_to_git_and_knows_no_other_way_fails_and_its_work_is_named() {
    if !can_be_sandboxed() {
        return;
    }
    let shop = Shop::new();
    let pick = "sandboxed git cherry-pick refs/teamster/shop/task-2 2> ROOT/why || true";
    let ran = resolved_in_a_sandbox(&shop, pick).exits(14);
    let why = std::fs::read_to_string(shop.aside().join("why")).unwrap();
    assert!(why.contains("Read-only file system"), "{why}");
    let said = format!("{}{}", ran.stdout, ran.stderr);
    for part in ["NOT merged", "refs/teamster/shop/task-2"] {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
    assert_eq!(shop.git(&["show", "main:news.txt"]), "nothing new");
    let kept = shop.git(&["show", "refs/teamster/shop/task-2:more.txt"]);
    assert_eq!(kept, "more", "nothing is lost");
}

#[test]
fn resolver_that_cannot_write_to_git_succeeds_with_the_patch_it_is_given() {
    if !can_be_sandboxed() {
        return;
    }
    let shop = Shop::new();
    let apply = r#"
  patch=$(grep -o '`git apply --reject [^`]*`' ROOT/prompt-$TEAMSTER_TASK_ID | tr -d '`' | sed 's/.* //')
  sandboxed git apply --reject "$patch" || true
  rm news.txt.rej
  printf 'one\ntwo\n' > news.txt"#;
    resolved_in_a_sandbox(&shop, apply).exits(0);
    assert_eq!(shop.git(&["show", "main:news.txt"]), "one\ntwo");
    assert_eq!(shop.git(&["show", "main:more.txt"]), "more");
}

#[test]
fn fixer_of_a_later_round_is_told_what_the_one_before_said() {
    let shop = Shop::new();
    let plan = shop.plan("[[tasks]]\nid = 'a'\nsubject = 'Say more'\n");
    let worker = agent(
        &shop,
        r#"
Say\ more) echo bad > news.txt; echo done ;;
Fix*)
  if test -e ROOT/once; then echo good > news.txt; else touch ROOT/once; echo worse > news.txt; fi
  report '{"summary": "It says something else now."}' ;;
"#,
    );
    let args = RunCmd::new("shop", "1:w", "Say good")
        .provider(&worker)
        .plan(&plan)
        .verify("! grep -q bad news.txt && ! grep -q worse news.txt")
        .approve("auto");
    shop.run(&args).exits(0);
    assert_eq!(shop.tasks().len(), 3);
    assert!(!told(&shop, 2).contains("## An earlier attempt"));
    says(
        &told(&shop, 3),
        &[
            "## An earlier attempt",
            "Task 2 was to fix this before, and what came of it is in this folder.",
            "worker-1, who had task 2, says about it:",
            "> It says something else now.",
        ],
    );
}

#[test]
fn fixer_is_told_what_was_merged_the_other_checks_and_the_output() {
    let shop = Shop::new();
    let plan = shop.plan("[[tasks]]\nid = 'a'\nsubject = 'Say more'\n");
    let worker = agent(
        &shop,
        r#"
Say\ more) echo bad > news.txt; report '{"summary": "It says bad."}' ;;
Fix*) echo good > news.txt; echo mended ;;
"#,
    );
    let args = RunCmd::new("shop", "1:w", "Say all of it")
        .provider(&worker)
        .plan(&plan)
        .verify("cat news.txt; ! grep -q bad news.txt")
        .verify("test -e add.sh")
        .approve("auto");
    shop.run(&args).exits(0);
    says(
        &told(&shop, 2),
        &[
            "> Say all of it",
            "This is task 2.",
            "fails on it (with exit code 1)",
            "> cat news.txt; ! grep -q bad news.txt",
            "It did not fail before the team began.",
            "The last lines that it printed:",
            "> bad",
            "## What was merged since it last passed",
            "Task 1, done by worker-1:",
            "> It says bad.",
            "## The other checks",
            "This one passes:",
            "> test -e add.sh",
        ],
    );
}

#[test]
fn prompts_of_a_project_are_used_once_they_are_trusted_and_broken_ones_before_nothing_begins() {
    let shop = Shop::new();
    let worker = agent(&shop, "*) echo x > x.txt; echo ok ;;");
    let run = |more: &[&str]| {
        let args = RunCmd::new("shop", "1:w", "Do it")
            .provider(&worker)
            .verify("true")
            .approve("never");
        shop.run(args.more(more))
    };
    let mine = "Mine, {{ you.name }}.\n{{ (task.subject ~ task.description)|quote }}\n";
    shop.project.write(
        ".teamster/prompts/worker.md",
        "Mine.\n\n{{ task.subjekt|quote }}\n",
    );
    let broken = run(&["--trust-project"]).exits(6);
    let place = ".teamster/prompts/worker.md:3: ";
    assert!(broken.stderr.contains(place), "{}", broken.stderr);
    assert!(shop.events().is_empty(), "nothing has begun");
    shop.project.write(".teamster/prompts/worker.md", mine);
    let refused = run(&[]).exits(6);
    assert!(
        refused.stderr.contains("prompts.worker"),
        "{}",
        refused.stderr
    );
    run(&["--trust-project"]).exits(0);
    assert_eq!(told(&shop, 1), "Mine, worker-1.\n> Do it\n");
}

#[test]
fn prompts_of_the_user_are_used_and_shown_by_a_dry_run() {
    let shop = Shop::new();
    let worker = agent(&shop, "*) echo x > x.txt; echo ok ;;");
    let folder = shop.aside().join(".config/teamster/prompts");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("worker.md"),
        "Of the user.\n{% include \"parts/rules.md\" %}",
    )
    .unwrap();
    let args = RunCmd::new("shop", "1:w", "Do it")
        .provider(&worker)
        .verify("true")
        .approve("never");
    let shown = shop
        .run(args.clone().more(&["--dry-run"]))
        .succeeds()
        .stdout;
    assert!(
        shown.contains("    Of the user.\n    ## Rules\n"),
        "{shown}"
    );
    assert!(shop.events().is_empty());
    shop.run(&args).exits(0);
    assert!(told(&shop, 1).starts_with("Of the user.\n## Rules\n"));
}
