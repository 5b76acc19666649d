//! The scripts of the model in each scene.

use serde_json::{Value, json};

/// The name of a hook that is never called, and the record of a call, which ends the lab's script.
const END: &str = "SceneOver";
pub(super) const END_FILE: &str = "hooks/0.SceneOver.0.json";
/// The person's prompt, by which the lead is recognised.
const PROMPT: &str = "Build the parser with a small team";

/// One response of the model: its tool calls.
type Step = Vec<Value>;

/// Returns a step with one call of a tool.
fn tool(name: &str, input: impl Into<Value>) -> Step {
    vec![json!({"tool": name, "input": input.into()})]
}

fn bash(command: &str) -> Step {
    let input = json!({"command": command, "description": "wait", "timeout": 300_000});
    tool("Bash", input)
}

/// Returns a step that lasts until the scene gives a sign.
fn until(sign: &str) -> Step {
    bash(&format!("until [ -e ../sign-{sign} ]; do sleep 0.1; done"))
}

fn create(subject: &str) -> Step {
    let description = format!("{subject}, all of it");
    let input = json!({"subject": subject, "description": description});
    tool("TaskCreate", input)
}

fn spawn(name: &str, prompt: &str) -> Step {
    let input = json!({"description": format!("Work of {name}"), "prompt": prompt,
        "subagent_type": "general-purpose", "name": name, "team_name": "lab"});
    tool("Agent", input)
}

fn take(task: &str, owner: &str) -> Step {
    let input = json!({"taskId": task, "status": "in_progress", "owner": owner});
    tool("TaskUpdate", input)
}

fn complete(task: &str) -> Step {
    tool("TaskUpdate", json!({"taskId": task, "status": "completed"}))
}

fn tell(to: &str, words: &str) -> Step {
    let input = json!({"to": to, "summary": "a few words", "message": words});
    tool("SendMessage", input)
}

fn say(words: &str) -> Step {
    vec![json!({"text": words})]
}

/// Returns a step that the model takes, once, when it gets a text.
fn wake(on: &str, blocks: &Step) -> Value {
    json!({"on": on, "blocks": blocks})
}

/// Returns the scenario of a scene. Clients before 2.1.178 create their teams themselves.
fn scenario(has_team_tool: bool, mut lead: Vec<Step>, others: &[(&str, &str, Vec<Step>)]) -> Value {
    if has_team_tool {
        let input = json!({"team_name": "lab", "description": "The parser"});
        lead.insert(0, tool("TeamCreate", input));
    }
    let mut actors = serde_json::Map::new();
    for (name, prompt, steps) in others {
        let actor = json!({"match": prompt, "steps": steps});
        actors.insert((*name).to_owned(), actor);
    }
    actors.insert("lead".to_owned(), json!({"match": PROMPT, "steps": lead}));
    json!({"about": "a scene", "prompt": PROMPT, "done": END, "expect": {}, "actors": actors, "default": "ok"})
}

/// Two teammates at work that are killed one after the other, and between them the lead.
pub(super) fn deaths(has_team_tool: bool) -> Value {
    let (alpha, beta) = ("you own the alpha part", "you own the beta part");
    let lead = vec![
        [create("Write alpha"), create("Write beta")].concat(),
        spawn("alpha", alpha),
        spawn("beta", beta),
        until("teammate-is-dead"),
        tell("beta", "Alpha is gone, go on."),
        until("never"),
    ];
    let first = vec![take("1", "alpha"), until("never")];
    let second = vec![
        take("2", "beta"),
        tell("team-lead", "I work on beta."),
        until("lead-is-dead"),
        complete("2"),
        until("never"),
    ];
    let others = [("alpha", alpha, first), ("beta", beta, second)];
    scenario(has_team_tool, lead, &others)
}

/// Two teammates with the same name, a message to an unknown receiver, and changes by other programs.
pub(super) fn words(has_team_tool: bool) -> Value {
    let (one, two) = ("you own the first part", "you own the second part");
    let lead = vec![
        create("Write the first part"),
        spawn("worker", one),
        spawn("worker", two),
        tell("nobody", "You will never read this."),
        until("outside"),
        tell("worker", "Somebody has left a task."),
        until("beside"),
        say("All is done."),
    ];
    let first = vec![
        take("1", "worker"),
        until("work"),
        complete("1"),
        tell("team-lead", "The first part is written."),
        say("Nothing left."),
    ];
    let second = vec![until("second"), say("There is nothing for me.")];
    let others = [("one", one, first), ("two", two, second)];
    scenario(has_team_tool, lead, &others)
}

/// A teammate whose model fails in the middle of a task, that is woken again, and whose process, if it has one, is
/// killed.
pub(super) fn failure(has_team_tool: bool) -> Value {
    let alpha = "you own the alpha part";
    let lead = vec![
        create("Write alpha"),
        spawn("alpha", alpha),
        until("failed"),
        tell("alpha", "Try again."),
        until("woken"),
        tell("alpha", "Are you there?"),
        until("asked"),
        say("All is done."),
    ];
    // Clients retry, with a different limit in each version, so the model fails until the teammate is woken.
    let fails = vec![json!({"error": 400, "message": "the scripted model fails"})];
    let mut first = vec![take("1", "alpha"), until("fail")];
    first.extend(std::iter::repeat_n(fails, 20));
    let goes_on = [
        tell("team-lead", "I try again."),
        bash("until [ -e ../sign-work ]; do sleep 0.1; done; echo there-is-work"),
    ];
    let ends = [complete("1"), bash("echo all-of-it")];
    let wakes = [
        wake(r"Try again\.", &goes_on.concat()),
        wake("there-is-work", &ends.concat()),
        wake("all-of-it", &say("Done after all.")),
        wake(r"Are you there\?", &say("I am.")),
    ];
    let mut scenario = scenario(has_team_tool, lead, &[("alpha", alpha, first)]);
    scenario["actors"]["alpha"]["wake"] = json!(wakes);
    scenario
}
