use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;

use super::*;

fn preset(text: &str) -> Preset {
    Preset::parse(Path::new("own.md"), text, &Agents::default()).unwrap()
}

fn faults(text: &str) -> String {
    Preset::parse(Path::new("own.md"), text, &Agents::default())
        .unwrap_err()
        .to_string()
}

const OWN: &str = "\
---
name: own
trigger_keywords: [gradle, 빌드]
members:
  - name: leader
    agent: leader-agent
    role: orchestrator
  - { name: builder, agent: executor, provider: 'command:make fix', capabilities: [code-edit] }
  - { name: second, agent: reviewer, role: reviewer }
flow:
  name: staged
  path: [team-plan, team-exec, team-verify, complete]
verify: ['make test']
---
For people only.

## prompt
All of you.

```text
## prompt ghost
```

## prompt reviewer

Look twice.

# notes

Not for agents.
";

#[test]
fn a_users_own_preset_is_read_whole() {
    let preset = preset(OWN);
    assert_eq!(preset.keywords, ["gradle", "빌드"]);
    assert_eq!(preset.leader.as_ref().unwrap().agent, "leader-agent");
    assert_eq!(preset.members.len(), 2);
    assert_eq!(preset.members[0].role, "executor");
    assert_eq!(
        preset.members[0].provider.as_deref(),
        Some("command:make fix")
    );
    let flow = preset.flow.as_ref().unwrap();
    assert_eq!((flow.flow.name.as_str(), flow.path.len()), ("staged", 4));
    assert_eq!(preset.verify, ["make test"]);
    let everybody = "All of you.\n\n```text\n## prompt ghost\n```";
    assert_eq!(preset.prompts.of("builder", "executor"), everybody);
    assert_eq!(
        preset.prompts.of("second", "reviewer"),
        format!("{everybody}\n\nLook twice.")
    );
}

#[test]
fn the_published_form_has_a_leader_and_a_worker_section_and_words_to_fill_in() {
    let preset = preset(
        "---\nname: own\ndescription: For builds.\nmembers: [{ name: a, agent: executor, model: small }]\n---\n\
         ## Leader\nPlan {task} for {team}.\n\n## Worker\nYou are {member} of {team}: {task} {other} {\n",
    );
    assert_eq!(preset.description.as_deref(), Some("For builds."));
    assert_eq!(preset.members[0].model.as_deref(), Some("small"));
    assert_eq!(preset.prompts.of_leader(), "Plan {task} for {team}.");
    let told = preset.prompts.of("a", "executor");
    let filling = PlaceholderValues {
        task: "fix {team}",
        team: "crew",
        member: "a",
    };
    assert_eq!(
        filling.fill(&told),
        "You are a of crew: fix {team} {other} {"
    );
}

#[test]
fn a_flow_of_its_own_must_make_sense() {
    let own = |rest: &str| {
        format!(
            "---\nname: own\nmembers: [{{ name: a, agent: executor }}]\nflow:\n  name: mine\n  initial: begin\n  states:\n    - {{ name: begin, kind: active }}\n    - {{ name: end, kind: final }}\n{rest}---\n"
        )
    };
    let good = preset(&own("  edges:\n    - { from: begin, to: end }\n"));
    assert_eq!(good.flow.unwrap().flow.next_states("begin"), ["end"]);
    let mut said = String::new();
    for rest in [
        "  edges:\n    - { from: begin, to: end }\n    - { from: end, to: begin }\n",
        "  edges:\n    - { from: begin, to: nowhere }\n",
        "  edges:\n    - { from: begin, to: end }\n  path: [begin, begin]\n",
        "  edges: [{ from: begin, until: end }]\n",
    ] {
        let _ = writeln!(said, "{}", faults(&own(rest)));
    }
    insta::assert_snapshot!(said, @r"
    own.md:12: the step end → begin leaves a final state; make `end` active or remove the step
    own.md:9: no step leads to `end`; add one or remove the state
    own.md:11: the step begin → nowhere names `nowhere`, which is not one of the states; declare it
    own.md:12: mine does not lead from begin to begin; it leads to end
    own.md:10: edge 1 of the list has no `to`
    own.md:10: edge 1 of the list has the unknown key `until`; known are from, to, needs, round, beyond
    ");
}

#[test]
fn everything_that_is_wrong_is_named_at_once_with_its_line() {
    let text = "\
---
name: my team
keywords: [a]
trigger_keywords: [bug, BUG]
members:
  - { name: a, agent: nobody }
  - { name: a, agent: executor, provider: ghost }
  - { name: lead, agent: executor }
  - { name: b, agent: executor, role: 'x y', colour: red }
  - { agent: executor }
flow: { name: staged, path: [team-plan, team-verify] }
verify: make
---

## prompt c
";
    insta::assert_snapshot!(faults(text), @r#"
    own.md:2: "my team" is not a valid name of a team: use 1 to 64 of A-Z, a-z, 0-9, `-` and `_`, beginning with a letter
    own.md:3: the front matter has the unknown key `keywords`; known are name, description, trigger_keywords, members, flow, verify, tasks
    own.md:4: the keyword "BUG" is listed twice, and would count twice
    own.md:6: there is no agent "nobody"; there are architect, debugger, designer, executor, planner, researcher, reviewer, tester, writer, claude, codex, gemini, mcp-codex, mcp-gemini, command:…, scripted:…
    own.md:7: there is no provider "ghost"; there are claude, codex, gemini, mcp-codex, mcp-gemini, command:…, scripted:…
    own.md:7: two members are called a
    own.md:8: `lead` is reserved and cannot be the name of a worker
    own.md:9: "x y" is not a valid role: use 1 to 64 of A-Z, a-z, 0-9, `-` and `_`, beginning with a letter
    own.md:9: member "b" has the unknown key `colour`; known are name, agent, role, provider, model, capabilities
    own.md:10: member 5 of the list has no `name`
    own.md:11: staged does not lead from team-plan to team-verify; it leads to team-prd, team-exec, cancelled
    own.md:12: the front matter has a `verify` that is a text, not a list
    own.md:15: the prompt is for "c", and no member has this name or role; there are a, b, nobody, x y
    "#);
    let mut said = String::new();
    for text in [
        "",
        "# A preset",
        "---\nname: own\n",
        "---\n- a\n---\n",
        "---\nname: own\n---\n",
        "---\nname: own\nmembers: []\n---\n",
        "---\nname: own\nmembers: [{ name: a, agent: executor }]\nflow: waterfall\n---\n",
        "---\nname: own\nmembers: [\n---\n",
    ] {
        let _ = writeln!(said, "{}", faults(text));
    }
    insta::assert_snapshot!(said, @r#"
    own.md:1: a preset begins with a line `---` and its front matter in YAML
    own.md:1: a preset begins with a line `---` and its front matter in YAML
    own.md:1: the front matter has no end: a line `---`
    own.md:2: the front matter is a list, not a table of keys and values
    own.md:2: the front matter has no `members`
    own.md:3: it has no workers
    own.md:4: there is no flow "waterfall"; there are staged, party, pdca
    own.md:4: not valid YAML: while parsing a node, did not find expected node content
    "#);
}

fn chosen(task: &str) -> String {
    let presets = builtin();
    match choose(task, &presets) {
        PresetChoice::Preset { preset, matched } => {
            format!("{} by {}", preset.name, matched.join(", "))
        }
        PresetChoice::Tie { between, count } => format!("{count} each: {}", between.join(", ")),
        PresetChoice::None => "none".to_owned(),
    }
}

const WITH_TASKS: &str = "\
---
name: own
members:
  - { name: ann, agent: executor, role: developer }
  - { name: bob, agent: tester, role: tester }
tasks:
  - id: build
    role: developer
    subject: 'Build {task}'
    description: |
      {task} for {team}, by {member}.
    accept: ['{task} works.']
  - id: test
    role: tester
    subject: Test it
    blockedBy: [build]
---
";

#[test]
fn plan_of_a_preset_is_read_like_a_plan_file_and_filled_with_the_words_of_the_run() {
    let plan = preset(WITH_TASKS).plan.unwrap();
    let ids: Vec<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["build", "test"]);
    assert_eq!(plan.tasks[1].blocked_by, ["build"]);
    let filled = fill_plan(&plan, "the {team} door\nand more", "crew");
    assert_eq!(filled.tasks[0].subject, "Build the {team} door and more");
    assert_eq!(
        filled.tasks[0].description,
        "the {team} door\nand more for crew, by developer.\n"
    );
    assert_eq!(filled.tasks[0].accept, ["the {team} door\nand more works."]);
    assert_eq!(filled.tasks[1], plan.tasks[1], "nothing is to be filled in");
    let long = fill_plan(&plan, &"x".repeat(3_000), "crew");
    let (count, limit) = (
        long.tasks[0].subject.chars().count(),
        teamster_types::task::SUBJECT_LIMIT,
    );
    assert!(count <= limit, "{count}");
    assert_eq!(preset(OWN).plan, None);
}

#[test]
fn plan_of_a_preset_that_does_not_fit_its_members_is_refused_by_line() {
    for (from, to, wrong) in [
        (
            "role: developer\n    subject",
            "role: architect\n    subject",
            "own.md:7: task \"build\" is for the role architect, and no member has it; there are developer, tester",
        ),
        (
            "blockedBy: [build]",
            "blockedBy: [ghost]",
            "own.md:16: task \"test\" is blocked by \"ghost\", which is not in the plan",
        ),
        (
            "    blockedBy: [build]\n",
            "",
            "own.md:13: task \"test\" checks the work of other tasks but waits for none: name the tasks it checks in `blockedBy`",
        ),
        (
            "    role: tester\n    subject",
            "    owner: bob\n    subject",
            "",
        ),
        (
            "    role: tester\n    subject",
            "    role: tester\n    owner: ann\n    subject",
            "own.md:13: task \"test\" has the owner ann, and there is no such member with the role tester; there are ann, bob",
        ),
        (
            "    blockedBy: [build]\n",
            "    blockedBy: [test]\n",
            "own.md:16: the plan has a cycle: test waits for test",
        ),
        (
            "subject: Test it",
            "subjet: Test it",
            "own.md:13: task \"test\" has no `subject`",
        ),
    ] {
        let text = WITH_TASKS.replacen(from, to, 1);
        assert_ne!(text, WITH_TASKS, "{from}");
        match Preset::parse(Path::new("own.md"), &text, &Agents::default()) {
            Ok(_) => assert_eq!(wrong, "", "{to}"),
            Err(found) => {
                let found = found.to_string();
                assert!(!wrong.is_empty() && found.contains(wrong), "{to}:\n{found}");
            }
        }
    }
    let none = WITH_TASKS.split("tasks:").next().unwrap().to_owned() + "tasks: []\n---\n";
    let found = faults(&none);
    assert!(found.contains("`tasks` is empty"), "{found}");
}

/// Every built-in team has its own task graph: each task is for an existing role, and tasks that check work depend on
/// it.
#[test]
fn every_builtin_brings_its_own_plan() {
    let mut seen = String::new();
    for preset in builtin() {
        let _ = writeln!(seen, "{}", preset.name);
        for task in preset.plan.unwrap().tasks {
            let after = match task.blocked_by.as_slice() {
                [] => "at once".to_owned(),
                before => format!("after {}", before.join(", ")),
            };
            let role = task.role.unwrap();
            let _ = writeln!(seen, "  {} ({role}) {after}", task.id);
            assert!(task.subject.contains("{task}"), "{}", task.subject);
            assert!(task.description.contains("{task}"), "{}", task.description);
            assert!(!task.accept.is_empty(), "{}", task.id);
        }
    }
    insta::assert_snapshot!(seen, @r"
    bugfix
      reproduce (fixer) at once
      fix (fixer) after reproduce
      test (tester) after fix
      review (reviewer) after test
    devops
      survey (operator) at once
      change (operator) after survey
      review (reviewer) after change
    dev-backend
      interface (developer) at once
      logic (developer) after interface
      edge (developer) after interface
      test (tester) after logic, edge
    dev-frontend
      design (designer) at once
      build (developer) after design
      check-design (designer) after build
      test (tester) after check-design
    ");
}

/// Sentences as people write them, in both languages, and the teams that they match.
#[test]
fn the_words_of_a_task_choose_the_team() {
    for (task, team) in [
        ("There is a Bug in the parser", "bugfix by bug"),
        ("debug the parser", "none"),
        ("NPE, then an EXCEPTION", "bugfix by exception, NPE"),
        ("로그인에서 에러가 납니다", "bugfix by 에러"),
        ("배포할 때 리소스가 모자라는 버그", "devops by 리소스, 배포"),
        ("api를 추가해줘", "dev-backend by api"),
        ("rapid apis", "dev-backend by api"),
        ("api_key", "none"),
        (
            "a responsive component",
            "dev-frontend by component, responsive",
        ),
        ("component error", "1 each: bugfix, dev-frontend"),
        ("UI-component of the api", "dev-frontend by component, UI"),
        ("build the GUI", "none"),
        ("fix all type errors", "bugfix by error"),
        ("", "none"),
        // Forms of the same word.
        ("fix all TypeScript errors", "bugfix by error"),
        ("fixing bugs in the parser", "bugfix by bug"),
        ("the login is buggy", "bugfix by bug"),
        ("it keeps bugging out", "bugfix by bug"),
        ("NPEs since yesterday", "bugfix by NPE"),
        ("unhandled exceptions everywhere", "bugfix by exception"),
        ("the request errored twice", "bugfix by error"),
        ("TypeError when I log in", "bugfix by error"),
        (
            "java.lang.NullPointerException at Shop.java:12",
            "bugfix by exception",
        ),
        ("document our public APIs", "dev-backend by api"),
        (
            "the service's endpoints",
            "dev-backend by endpoint, service",
        ),
        ("servicing two backends", "dev-backend by service, backend"),
        ("split UserController in two", "dev-backend by controller"),
        ("rewrite the back-end", "dev-backend by backend"),
        ("automate the deployment", "devops by deploy"),
        ("Deployments hang", "devops by deploy"),
        ("we deployed it with helm", "devops by deploy, helm"),
        ("deploying takes an hour", "devops by deploy"),
        ("limit the resources of k8s pods", "devops by k8s, resource"),
        ("two components of the UIs", "dev-frontend by component, UI"),
        (
            "improve the responsiveness of the front-end",
            "dev-frontend by responsive, frontend",
        ),
        // Other words, which contain a keyword by chance.
        ("write a debugger", "none"),
        ("debugging is hard", "none"),
        ("a film about terror", "none"),
        ("report on terrorism", "none"),
        ("mirror the repository", "none"),
        ("an exceptional result", "none"),
        ("a resourceful helper", "none"),
        ("the server serves", "none"),
        ("a capital letter, rapidly", "none"),
        ("build quickly, please guide me", "none"),
        ("take control of the helmet", "none"),
        ("replay the film", "none"),
        // Korean, with particles, endings and in compounds.
        ("버그를 고쳐", "bugfix by 버그"),
        ("에러가 났어", "bugfix by 에러"),
        ("버그들이 많아요", "bugfix by 버그"),
        ("결제 장애 대응", "bugfix by 장애"),
        ("서버장애가 났습니다", "bugfix by 장애"),
        ("에러메시지를 없애줘", "bugfix by 에러"),
        ("버그수정 해줘", "bugfix by 버그"),
        ("배포했는데 느려요", "devops by 배포"),
        ("자동배포를 설정해", "devops by 배포"),
        ("홈페이지를 만들어 주세요", "dev-frontend by 페이지"),
        ("버튼 컴포넌트들을 나눠줘", "dev-frontend by 컴포넌트"),
        ("API들을 정리해", "dev-backend by api"),
        ("UI와 페이지의 버그", "dev-frontend by UI, 페이지"),
        ("버그가 있는 페이지", "1 each: bugfix, dev-frontend"),
        ("디버그 모드를 켜줘", "none"),
        ("장애인을 위한 안내문", "none"),
        ("테러 기사를 찾아줘", "none"),
        ("리눅스 배포판 목록", "none"),
    ] {
        assert_eq!(chosen(task), team, "{task}");
    }
}

fn matches(task: &str, keyword: &str) -> bool {
    !stem::SearchedText::new(task).find(keyword).is_empty()
}

#[test]
fn keywords_of_a_user_are_found_in_every_form() {
    for (keyword, task, is_found) in [
        ("고치다", "로그인을 고쳐줘", true),
        ("고치다", "고친 것을 봐", true),
        ("고치다", "고쳤습니다", true),
        ("바꾸다", "이름을 바꿔줘", true),
        ("만들다", "새로 만든 화면", true),
        ("만들다", "화면을 만들어", true),
        ("배포하다", "배포해 주세요", true),
        ("고치다", "고추를 사자", false),
        // Text from another system, in which the letters of each syllable are separate characters.
        (
            "버그",
            "\u{1107}\u{1165}\u{1100}\u{1173}\u{1105}\u{1173}\u{11af}",
            true,
        ),
        ("포", "폼을 고쳐", false),
        ("cache", "caching it", true),
        ("cache", "the caches", true),
        ("note", "do not", false),
        ("plan", "two planes", false),
        ("queries", "one query", true),
        ("class", "all classes", true),
        ("type error", "two type errors", true),
        ("type error", "an error of a type", false),
        ("c++", "learn C++ now", true),
        ("c++", "xc++", false),
        ("ci/cd", "our CI/CD pipeline", true),
        ("k8s", "on K8S", true),
        ("fehler", "zwei Fehler", true),
    ] {
        assert_eq!(matches(task, keyword), is_found, "{keyword} in {task}");
    }
}

#[test]
fn longer_keyword_counts_instead_of_one_inside_of_it() {
    let mut presets = builtin();
    presets.push(preset(
        "---\nname: edge\ntrigger_keywords: [api gateway]\nmembers: [{ name: a, agent: executor }]\n---\n",
    ));
    let chosen = |task: &str| match choose(task, &presets) {
        PresetChoice::Preset { preset, matched } => {
            format!("{} by {}", preset.name, matched.join(", "))
        }
        other => format!("{other:?}"),
    };
    assert_eq!(chosen("move the api gateways"), "edge by api gateway");
    assert_eq!(chosen("add an api"), "dev-backend by api");
    let both = chosen("an api behind the api gateway");
    assert!(both.contains("Tie"), "{both}");
}

#[test]
fn a_users_preset_replaces_the_built_in_one_of_its_name() {
    let mut presets = builtin();
    presets.push(preset(
        "---\nname: bugfix\ntrigger_keywords: [wrong]\nmembers: [{ name: a, agent: executor }]\n---\n",
    ));
    assert_eq!(choose("a bug", &presets), PresetChoice::None);
    assert!(
        matches!(choose("it is wrong", &presets), PresetChoice::Preset { preset, .. } if preset.members.len() == 1)
    );
}

#[test]
fn without_a_preset_a_team_is_proposed_with_the_reason() {
    let agent = |word: &str, can: &[&str]| AvailableAgent {
        agent: word.to_owned(),
        capabilities: can.iter().map(|word| (*word).to_owned()).collect(),
    };
    let claude = agent("claude", &["code-edit", "testing", "general"]);
    let codex = agent("codex", &["code-review", "refactoring"]);
    let presets = builtin();
    let mut said = String::new();
    for (task, there) in [
        ("go", vec![claude.clone()]),
        ("go", vec![codex.clone(), claude.clone()]),
        ("component error", vec![codex.clone()]),
    ] {
        let proposal = propose(&choose(task, &presets), &there).unwrap();
        let _ = writeln!(said, "{}: {}", proposal.crew, proposal.reason);
    }
    let _ = writeln!(said, "{}", propose(&PresetChoice::None, &[]).unwrap_err());
    insta::assert_snapshot!(said, @r#"
    3:claude: no preset matches; claude fits best
    2:claude,1:codex:reviewer: no preset matches; claude edits, codex reviews
    3:codex: presets bugfix and dev-frontend match equally well; codex fits best
    no agent was found: install a client (claude, codex or gemini) and sign in; or name a program of your own, `3:command:PROGRAM` or `[roles] executor = "command:PROGRAM"` in the configuration; or play a script, `3:scripted:FILE`
    "#);
}

proptest! {
    #[test]
    fn a_latin_word_is_found_in_its_forms_and_nowhere_else(before in "[ a-z가.]{0,8}", after in "[ a-z가.]{0,8}") {
        let text = format!("{before}bug{after}");
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic());
        let rest: String = after.chars().take_while(char::is_ascii_alphabetic).collect();
        let forms = ["", "ed", "ing", "gy", "ged", "ging"];
        let is_form = forms.contains(&rest.strip_suffix('s').unwrap_or(&rest));
        let whole = !is_part(before.chars().next_back()) && is_form;
        let again = before.contains("bug") || after.contains("bug");
        prop_assert!(again || matches(&text, "BUG") == whole, "{}", text);
        let korean = format!("{before}버그{after}");
        prop_assert!(matches(&korean, "버그"));
    }

    #[test]
    fn whatever_is_found_is_a_part_of_the_sentence(task in "\\PC{0,30}", keyword in "\\PC{1,6}") {
        for place in stem::SearchedText::new(&task).find(&keyword) {
            prop_assert!(task.get(place.clone()).is_some_and(|part| !part.is_empty()), "{:?} in {}", place, task);
        }
    }

    #[test]
    fn no_text_makes_a_preset_panic(text in "(---\n)?[a-z:\\[\\]{}\\- \n#]{0,60}(---\n)?[a-z# \n]{0,20}") {
        if let Err(found) = Preset::parse(Path::new("p.md"), &text, &Agents::default()) {
            prop_assert!(!found.list.is_empty());
            prop_assert!(found.list.iter().all(|fault| fault.line <= text.lines().count() + 1), "{:?}", found);
        }
    }
}

#[test]
fn every_builtin_is_read_and_has_the_keywords_that_were_promised() {
    let agents = Agents::default();
    let mut seen = Vec::new();
    for (file, text) in BUILTIN {
        let preset = Preset::parse(Path::new(file), text, &agents).unwrap();
        assert_eq!(format!("{}.md", preset.name), file);
        seen.push(format!("{}: {}", preset.name, preset.keywords.join(", ")));
    }
    assert_eq!(builtin().len(), BUILTIN.len());
    insta::assert_snapshot!(seen.join("\n"), @r"
    bugfix: error, exception, NPE, bug, 에러, 버그, 장애
    devops: k8s, resource, deploy, helm, 리소스, 배포
    dev-backend: api, endpoint, service, controller, backend
    dev-frontend: component, UI, 컴포넌트, 페이지, responsive, frontend
    ");
}
