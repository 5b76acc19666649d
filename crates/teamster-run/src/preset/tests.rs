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
    let filling = Filling {
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
    own.md:2: "my team" is no name of a team: use 1 to 64 of A-Z, a-z, 0-9, `-` and `_`, beginning with a letter
    own.md:3: the front matter has the unknown key `keywords`; known are name, description, trigger_keywords, members, flow, verify
    own.md:4: the keyword "BUG" is there twice, and would count twice
    own.md:6: there is no agent "nobody"; there are architect, debugger, designer, executor, planner, researcher, reviewer, tester, writer, claude, codex, gemini, mcp-codex, mcp-gemini, command:…, scripted:…
    own.md:7: there is no provider "ghost"; there are claude, codex, gemini, mcp-codex, mcp-gemini, command:…, scripted:…
    own.md:7: two members are called a
    own.md:8: `lead` is reserved and cannot be the name of a worker
    own.md:9: "x y" is no role: use 1 to 64 of A-Z, a-z, 0-9, `-` and `_`, beginning with a letter
    own.md:9: member "b" has the unknown key `colour`; known are name, agent, role, provider, model, capabilities
    own.md:10: member 5 of the list has no `name`
    own.md:11: staged does not lead from team-plan to team-verify; it leads to team-prd, team-exec, cancelled
    own.md:12: the front matter has a `verify` that is a text, not a list
    own.md:15: the prompt is for "c", and nobody here has this name or role; there are a, b, nobody, x y
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
    own.md:3: nobody in it works
    own.md:4: there is no flow "waterfall"; there are staged, party, pdca
    own.md:4: not valid YAML: while parsing a node, did not find expected node content
    "#);
}

fn chosen(task: &str) -> String {
    let presets = builtin();
    match choose(task, &presets) {
        Choice::Preset { preset, matched } => format!("{} by {}", preset.name, matched.join(", ")),
        Choice::Tie { between, count } => format!("{count} each: {}", between.join(", ")),
        Choice::None => "none".to_owned(),
    }
}

#[test]
fn the_words_of_a_task_choose_the_team() {
    let mut said = String::new();
    for task in [
        "There is a Bug in the parser",
        "debug the parser",
        "NPE, then an EXCEPTION",
        "로그인에서 에러가 납니다",
        "배포할 때 리소스가 모자라는 버그",
        "api를 추가해줘",
        "rapid apis",
        "api_key",
        "a responsive component",
        "component error",
        "UI-component of the api",
        "build the GUI",
        "fix all type errors",
        "",
    ] {
        let _ = writeln!(said, "{task}: {}", chosen(task));
    }
    insta::assert_snapshot!(said, @r"
    There is a Bug in the parser: bugfix by bug
    debug the parser: none
    NPE, then an EXCEPTION: bugfix by exception, NPE
    로그인에서 에러가 납니다: bugfix by 에러
    배포할 때 리소스가 모자라는 버그: devops by 리소스, 배포
    api를 추가해줘: dev-backend by api
    rapid apis: none
    api_key: none
    a responsive component: dev-frontend by component, responsive
    component error: 1 each: bugfix, dev-frontend
    UI-component of the api: dev-frontend by component, UI
    build the GUI: none
    fix all type errors: none
    : none
    ");
}

#[test]
fn a_users_preset_replaces_the_built_in_one_of_its_name() {
    let mut presets = builtin();
    presets.push(preset(
        "---\nname: bugfix\ntrigger_keywords: [wrong]\nmembers: [{ name: a, agent: executor }]\n---\n",
    ));
    assert_eq!(choose("a bug", &presets), Choice::None);
    assert!(
        matches!(choose("it is wrong", &presets), Choice::Preset { preset, .. } if preset.members.len() == 1)
    );
}

#[test]
fn without_a_preset_a_team_is_proposed_with_the_reason() {
    let agent = |word: &str, can: &[&str]| Available {
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
    let _ = writeln!(said, "{}", propose(&Choice::None, &[]).unwrap_err());
    insta::assert_snapshot!(said, @r#"
    3:claude: no word of the task calls for a team that is ready; claude is the agent that was found for it
    2:claude,1:codex:reviewer: no word of the task calls for a team that is ready; claude changes code, and codex looks at it
    3:codex: bugfix and dev-frontend fit alike (each has 1 of its words in the task); codex is the agent that was found for it
    no agent was found: install a client (claude, codex or gemini) and sign in; or name a program of your own, `3:command:PROGRAM` or `[roles] executor = "command:PROGRAM"` in the configuration; or play a script, `3:scripted:FILE`
    "#);
}

proptest! {
    #[test]
    fn a_latin_word_is_found_as_a_word_and_nowhere_else(before in "[ a-z가.]{0,8}", after in "[ a-z가.]{0,8}") {
        let text = format!("{before}bug{after}");
        let is_part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphabetic());
        let whole = !is_part(before.chars().next_back()) && !is_part(after.chars().next());
        let again = before.contains("bug") || after.contains("bug");
        prop_assert!(again || matches(&text, "BUG") == whole, "{}", text);
        let korean = format!("{before}버그{after}");
        prop_assert!(matches(&korean, "버그"));
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
