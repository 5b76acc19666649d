use std::fmt::Write as _;
use std::path::Path;

use super::*;
use crate::preset::{Agents, builtin};

/// The environment of a cast; each test changes the part that it is about.
struct FakeMachine {
    presets: Vec<Preset>,
    roles: Vec<Role>,
    providers: Providers,
    defined: Vec<String>,
    found: Vec<String>,
}

fn here(found: &[&str]) -> FakeMachine {
    FakeMachine {
        presets: builtin(),
        roles: Vec::new(),
        providers: Providers::new(Path::new("/project")),
        defined: Vec::new(),
        found: found.iter().map(|name| (*name).to_owned()).collect(),
    }
}

fn role(name: &str, provider: &str, model: Option<&str>) -> Role {
    Role {
        name: name.to_owned(),
        provider: provider.to_owned(),
        model: model.map(str::to_owned),
    }
}

impl FakeMachine {
    fn cast(&self, crew: &str, preset: &str, task: &str) -> Result<CastOutcome, CastError> {
        let crew: Option<Crew> = (!crew.is_empty()).then(|| crew.parse().unwrap());
        cast(&Casting {
            task,
            team: "crew",
            crew: crew.as_ref(),
            preset: (!preset.is_empty()).then_some(preset),
            presets: &self.presets,
            roles: &self.roles,
            providers: &self.providers,
            defined: &self.defined,
            found: &self.found,
        })
    }

    fn ready(&self, crew: &str, preset: &str, task: &str) -> Cast {
        match self.cast(crew, preset, task) {
            Ok(CastOutcome::Ready(cast)) => cast,
            other => panic!("{other:?}"),
        }
    }

    fn said(&self, crew: &str, preset: &str, task: &str) -> String {
        match self.cast(crew, preset, task) {
            Ok(CastOutcome::Ready(cast)) => shown("ready", &cast),
            Ok(CastOutcome::Ask(cast)) => shown("ask", &cast),
            Err(error) => format!("error: {error}\n"),
        }
    }
}

fn shown(word: &str, cast: &Cast) -> String {
    let mut text = format!("{word}: {} ({})\n", cast.agents, cast.how);
    for member in &cast.members {
        let _ = writeln!(
            text,
            "  {} {} role {} model {} can {}",
            member.name,
            member.provider,
            member.role.as_deref().unwrap_or("-"),
            member.model.as_deref().unwrap_or("-"),
            member.can.join(" ")
        );
    }
    text
}

#[test]
fn a_crew_is_taken_as_it_was_asked_for() {
    let mut here = here(&["gemini", "codex", "claude"]);
    let mut said = here.said("2:executor,1:codex:reviewer", "", "go");
    here.roles = vec![role("executor", "codex", Some("large"))];
    said += &here.said("1:executor,1:tester", "", "go");
    here.defined = vec![
        "fast=command:make fix".to_owned(),
        "executor=scripted:a.toml".to_owned(),
    ];
    said += &here.said("1:fast,1:executor,1:command:make test", "", "go");
    insta::assert_snapshot!(said, @r"
    ready: 2:executor,1:codex:reviewer (as you asked: 2:executor,1:codex:reviewer; executor is claude, the first client that was found)
      worker-1 claude role executor model - can code-edit testing general
      worker-2 claude role executor model - can code-edit testing general
      worker-3 codex role reviewer model - can code-review security-review architecture refactoring
    ready: 1:executor,1:tester (as you asked: 1:executor,1:tester; executor is codex, as [roles] says; tester is claude, the first client that was found)
      worker-1 codex role executor model large can code-review security-review architecture refactoring
      worker-2 claude role tester model - can code-edit testing general
    ready: 1:fast,1:executor,1:command:make test (as you asked: 1:fast,1:executor,1:command:make test)
      worker-1 fast=command:make fix role - model - can general
      worker-2 executor=scripted:a.toml role executor model - can general
      worker-3 command:make test role - model - can general
    ");
}

#[test]
fn the_words_of_the_task_choose_a_preset_and_a_tie_is_asked_about() {
    let mut here = here(&["claude", "codex"]);
    let mut said = here.said("", "", "mend the bug");
    said += &here.said("", "devops", "mend the bug");
    said += &here.said("", "", "component error");
    said += &here.said("", "", "make it nice");
    here.roles = vec![role("executor", "command:fix", None)];
    here.found.clear();
    said += &here.said("", "", "make it nice");
    insta::assert_snapshot!(said, @r"
    ready: 1:executor:fixer,1:tester,1:reviewer (the team bugfix, because the task says bug; executor and tester and reviewer are claude, the first client that was found)
      fixer claude role fixer model - can code-edit
      tester claude role tester model - can testing
      reviewer claude role reviewer model - can code-review
    ready: 1:executor:operator,1:reviewer (the team devops, as you asked; executor and reviewer are claude, the first client that was found)
      operator claude role operator model - can code-edit
      reviewer claude role reviewer model - can security-review
    ask: 2:claude,1:codex:reviewer (presets bugfix and dev-frontend match equally well; claude edits, codex reviews)
      worker-1 claude role - model - can code-edit testing general
      worker-2 claude role - model - can code-edit testing general
      worker-3 codex role reviewer model - can code-review security-review architecture refactoring
    ask: 2:claude,1:codex:reviewer (no preset matches; claude edits, codex reviews)
      worker-1 claude role - model - can code-edit testing general
      worker-2 claude role - model - can code-edit testing general
      worker-3 codex role reviewer model - can code-review security-review architecture refactoring
    ask: 3:executor (no preset matches; executor fits best; executor is command:fix, as [roles] says)
      worker-1 command:fix role executor model - can general
      worker-2 command:fix role executor model - can general
      worker-3 command:fix role executor model - can general
    ");
}

#[test]
fn who_cannot_be_started_is_named_with_what_to_do() {
    let mut nobody = here(&[]);
    let mut said = nobody.said("", "", "make it nice");
    said += &nobody.said("", "", "mend the bug");
    said += &nobody.said("3:executor", "", "go");
    said += &nobody.said("1:codex", "", "go");
    said += &nobody.said("1:nobody", "", "go");
    said += &nobody.said("1:claude-native", "", "go");
    said += &nobody.said("1:command:make", "", "go");
    said += &nobody.said("", "nothing", "go");
    nobody.defined = vec!["fast=command:make fix".to_owned()];
    said += &nobody.said("1:executor", "", "go");
    said += &nobody.said("", "", "make it nice");
    said += &nobody.said("1:codex", "", "go");
    nobody.defined = vec!["fast=cloud:x".to_owned()];
    said += &nobody.said("1:fast", "", "go");
    nobody.defined = vec!["fast".to_owned()];
    said += &nobody.said("1:fast", "", "go");
    nobody.defined = vec!["fast=codex".to_owned()];
    said += &nobody.said("1:fast", "", "go");
    insta::assert_snapshot!(said, @r#"
    error: no agent was found: install a client (claude, codex or gemini) and sign in; or name a program of your own, `3:command:PROGRAM` or `[roles] executor = "command:PROGRAM"` in the configuration; or play a script, `3:scripted:FILE`
    error: no agent was found: install a client (claude, codex or gemini) and sign in; or name a program of your own, `3:command:PROGRAM` or `[roles] executor = "command:PROGRAM"` in the configuration; or play a script, `3:scripted:FILE`
    error: no agent was found: install a client (claude, codex or gemini) and sign in; or name a program of your own, `3:command:PROGRAM` or `[roles] executor = "command:PROGRAM"` in the configuration; or play a script, `3:scripted:FILE`
    error: codex is not on PATH or cannot be run; install Codex: npm install -g @openai/codex, or name another agent: command:PROGRAM or scripted:FILE
    error: there is no agent "nobody"; there are architect, debugger, designer, executor, planner, researcher, reviewer, tester, writer, claude, codex, gemini, mcp-codex, mcp-gemini, command:…, scripted:…
    error: `claude-native` workers are started by the user's own session, never by teamster; use `claude`
    ready: 1:command:make (as you asked: 1:command:make)
      worker-1 command:make role - model - can general
    error: there is no team preset "nothing"; there are bugfix, dev-backend, dev-frontend, devops
    ready: 1:executor (as you asked: 1:executor; executor is fast, because no client was found and it was given)
      worker-1 fast=command:make fix role executor model - can general
    ask: 3:fast (no preset matches; fast fits best)
      worker-1 fast=command:make fix role - model - can general
      worker-2 fast=command:make fix role - model - can general
      worker-3 fast=command:make fix role - model - can general
    error: codex is not on PATH or cannot be run; install Codex: npm install -g @openai/codex, or name another agent: fast
    error: --provider fast=cloud:x: unknown provider `cloud:x`; known are claude, codex, gemini, command:… and scripted:…
    error: --provider fast: `fast` defines no provider; write NAME=command:…
    error: fast needs codex, which is not on PATH or cannot be run; install Codex: npm install -g @openai/codex, or name another agent: command:PROGRAM or scripted:FILE
    "#);
}

const OWN: &str = "\
---
name: own
members:
  - { name: leader, agent: boss, provider: 'command:plan', model: wise }
  - { name: a, agent: executor, model: small }
  - { name: b, agent: reviewer, provider: codex, capabilities: [testing] }
flow: party
verify: ['make test']
---
## Leader
Split {task}.
## Worker
{member} of {team}: {task}
## prompt reviewer
Look twice.
";

#[test]
fn a_preset_brings_models_prompts_flow_leader_and_commands() {
    let mut here = here(&["claude", "codex"]);
    here.presets
        .push(Preset::parse(Path::new("own.md"), OWN, &Agents::default()).unwrap());
    let cast = here.ready("", "own", "the {team} thing");
    assert_eq!(cast.agents, "1:executor,1:codex:reviewer");
    assert_eq!(cast.preset.as_deref(), Some("own"));
    assert_eq!(cast.verify, ["make test"]);
    assert_eq!(cast.flow.as_ref().unwrap().flow.name, "party");
    let leader = cast.leader.unwrap();
    assert_eq!(
        (leader.provider.as_str(), leader.model.as_deref()),
        ("command:plan", Some("wise"))
    );
    assert_eq!(cast.leader_prompt, "Split the {team} thing.");
    let [a, b] = cast.members.as_slice() else {
        panic!("{:?}", cast.members)
    };
    assert_eq!(
        (a.provider.as_str(), a.model.as_deref()),
        ("claude", Some("small"))
    );
    assert_eq!(a.prompt, "a of crew: the {team} thing");
    assert_eq!(a.capabilities, None);
    assert_eq!(b.capabilities.as_deref(), Some(&["testing".to_owned()][..]));
    assert_eq!(b.can, ["testing"]);
    assert_eq!(b.prompt, "b of crew: the {team} thing\n\nLook twice.");

    // A crew that was asked for keeps its size; the preset only determines how it works.
    let cast = here.ready("3:claude:reviewer", "own", "go");
    assert_eq!(cast.members.len(), 3);
    assert_eq!(cast.verify, ["make test"]);
    assert_eq!(
        cast.members[2].prompt,
        "worker-3 of crew: go\n\nLook twice."
    );
    assert_eq!(
        cast.how,
        "as you asked: 3:claude:reviewer, using the preset own"
    );
}

#[test]
fn a_leader_can_be_named_by_any_word_for_an_agent() {
    let here = here(&["codex"]);
    let casting = Casting {
        task: "go",
        team: "crew",
        crew: None,
        preset: None,
        presets: &here.presets,
        roles: &[role("planner", "codex", Some("wise"))],
        providers: &here.providers,
        defined: &here.defined,
        found: &here.found,
    };
    let planner = leader(&casting, "planner").unwrap();
    assert_eq!(
        (planner.provider.as_str(), planner.model.as_deref()),
        ("codex", Some("wise"))
    );
    assert!(matches!(
        leader(&casting, "claude"),
        Err(CastError::NotInstalled { .. })
    ));
}
