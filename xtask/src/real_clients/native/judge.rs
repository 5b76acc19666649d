//! Compares every observation of teamster's views with the truth.
//!
//! A viewer polls, so what it sees may be as old as the last hook: a change before a hook began must be shown once
//! that hook is over. `status`, `top` and `zombies scan` read the current state themselves and must not be late.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::looks::Look;
use super::truth::{Call, Calls, Letter, Process, RegisteredMember, Truth, letters};
use crate::product::{list, text};

/// The time limit for a hook, including the recorder beside it on a busy machine.
const HOOK: Duration = Duration::from_secs(2);
/// How long a process that is gone may still be shown as present.
const GONE: Duration = Duration::from_secs(5);
/// How much later than the hook its recorder begins.
const RECORDER: Duration = Duration::from_millis(300);
/// How long a client may delay a line before it is in the transcript.
const TRANSCRIPT: Duration = Duration::from_millis(300);
/// The lead's name in messages.
const LEAD: &str = "team-lead";
/// The length to which a task's description is cut.
const LONGEST_TASK: usize = 100;

/// The state of a session so far, and what was shown wrong.
#[derive(Debug, Default)]
pub(super) struct Judge {
    pub(super) looks: usize,
    calls: Calls,
    truth: Truth,
    /// Since when each part of the truth is unchanged.
    since: BTreeMap<&'static str, Duration>,
    members: BTreeMap<String, (RegisteredMember, Duration)>,
    panes: BTreeMap<String, Process>,
    lead: Option<Process>,
    /// When each process was first seen to be gone; the lead has the empty name.
    gone: BTreeMap<String, Duration>,
    letters: BTreeMap<Letter, Duration>,
    history: usize,
    /// When the session ended.
    pub(super) over: Option<Duration>,
    /// What was shown wrong, when first and last, and how often.
    wrong: BTreeMap<String, (Duration, Duration, usize)>,
    doubts: Vec<Doubt>,
    begin: Duration,
}

/// An observation in which a teammate is no longer shown as failed, although by the recorder it has not begun again.
/// The recorder is slower than the hook that changed the state.
#[derive(Debug)]
struct Doubt {
    name: String,
    what: String,
    /// When the observation began and ended.
    at: Duration,
    until: Duration,
    /// When the teammate failed.
    failed: Duration,
}

/// Returns whether a hook of teamster is installed for a call.
fn is_for_us(call: &Call) -> bool {
    match call.event.as_str() {
        "PreToolUse" | "PostToolUse" => {
            let tool = text(&call.fields["tool_name"]);
            ["Agent", "SendMessage"].contains(&tool) || tool.starts_with("Task")
        }
        "SubagentStart" | "SubagentStop" | "TeammateIdle" | "TaskCreated" | "TaskCompleted"
        | "Stop" | "StopFailure" | "SessionStart" | "SessionEnd" | "Notification" => true,
        _ => false,
    }
}

impl Judge {
    /// Describes what was shown wrong.
    pub(super) fn differences(&self) -> Vec<String> {
        let mut all = self.wrong.clone();
        for doubt in &self.doubts {
            count(&mut all, doubt.what.clone(), doubt.at);
        }
        all.iter()
            .map(|(what, (first, last, count))| {
                let at = |time: &Duration| time.saturating_sub(self.begin).as_secs_f64();
                format!(
                    "{what} ({count} looks, {:.1} s to {:.1} s)",
                    at(first),
                    at(last)
                )
            })
            .collect()
    }

    /// Returns how many hooks were called, and how many processes were seen to end.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.calls.all.len(), self.gone.len())
    }

    /// Returns the killed teammates that are not recorded as such exactly once.
    pub(super) fn unrecorded(&self, records: &str) -> Vec<String> {
        let records: Vec<Value> = records
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        let gone = self.gone.keys().filter(|name| !name.is_empty());
        let crashes = |name: &str| {
            let its = records.iter().filter(|record| record["teammate"] == name);
            its.filter(|record| record["type"] == "crash").count()
        };
        let wrong = gone.filter(|name| crashes(name) != 1);
        wrong
            .map(|name| format!("{name} was killed, and recorded is {records:?}"))
            .collect()
    }

    /// Judges one observation.
    pub(super) fn look(&mut self, session: &Path, look: &Look) {
        self.looks += 1;
        if self.begin.is_zero() {
            self.begin = look.at;
        }
        self.calls.read(&session.join("hooks"));
        self.settle_doubts(look.at);
        self.learn(session, look);
        let mut wrong = Vec::new();
        let mut doubts = Vec::new();
        if let Some(over) = self.over {
            if look.at > over + GONE {
                judge_over(look, &mut wrong);
            }
        } else {
            self.judge_state(look, &mut wrong, &mut doubts);
            if look.is_still() {
                self.judge_status(&look.status, "status", look, &mut wrong, &mut doubts);
                self.judge_zombies(look, &mut wrong);
                if let Some(top) = &look.top {
                    self.judge_status(top, "top", look, &mut wrong, &mut doubts);
                }
            }
        }
        for what in wrong {
            count(&mut self.wrong, what, look.at);
        }
        self.doubts.extend(doubts);
    }

    /// Drops the doubts about teammates that had begun again, as the recorder shows a moment later, and counts the
    /// others.
    fn settle_doubts(&mut self, now: Duration) {
        for doubt in std::mem::take(&mut self.doubts) {
            let mut calls = self.calls.all.iter();
            let had_begun = calls.any(|call| {
                call.at > doubt.failed
                    && call.at <= doubt.until + RECORDER
                    && begins(call)
                    && self.teammate(call) == Some(&*doubt.name)
            });
            if had_begun {
                continue;
            }
            if now > doubt.until + RECORDER {
                count(&mut self.wrong, doubt.what, doubt.at);
            } else {
                self.doubts.push(doubt);
            }
        }
    }

    /// Returns the doubt about a teammate that failed long enough ago and is not shown as failed.
    fn doubt(&self, view: &str, name: &str, shown: &str, look: &Look) -> Option<Doubt> {
        let failed = self.failed_since(name)?;
        (look.at >= failed + HOOK).then(|| Doubt {
            name: name.to_owned(),
            what: format!("{view}: {name} has failed and is {shown}"),
            at: look.at,
            until: look.until,
            failed,
        })
    }

    fn learn(&mut self, session: &Path, look: &Look) {
        let at = look.at;
        let new = &look.after;
        let mut moved = |what: &'static str, is_moved: bool| {
            if is_moved || !self.since.contains_key(what) {
                self.since.insert(what, look.until);
            }
        };
        moved("tasks", new.tasks != self.truth.tasks);
        moved("registry", new.registry != self.truth.registry);
        if let Some(registry) = &new.registry {
            for (name, member) in &registry.members {
                let known = self.members.entry(name.clone());
                // Its location is known a moment after its name.
                known.or_insert((member.clone(), look.until)).0 = member.clone();
            }
        }
        self.panes.extend(new.panes.clone());
        self.lead = new.lead.or(self.lead);
        let pairs = self
            .panes
            .iter()
            .map(|(name, process)| (name.as_str(), process));
        let everybody = pairs.chain(self.lead.iter().map(|lead| ("", lead)));
        for (name, process) in everybody {
            if process.is_alive() {
                self.gone.remove(name);
            } else {
                self.gone.entry(name.to_owned()).or_insert(at);
            }
        }
        for letter in &new.letters {
            self.letters.entry(letter.clone()).or_insert(look.until);
        }
        self.learn_history(&session.join("files.jsonl"), look.until);
        self.truth = new.clone();
    }

    /// Adds messages that were in an inbox only for a moment, from the lab's history of files.
    fn learn_history(&mut self, file: &Path, now: Duration) {
        let bytes = std::fs::read(file).unwrap_or_default();
        let new = bytes.get(self.history..).unwrap_or_default();
        let whole = new
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        for line in new[..whole].split(|byte| *byte == b'\n') {
            let change: Value = serde_json::from_slice(line).unwrap_or_default();
            let path: Vec<&str> = text(&change["path"]).split('/').collect();
            let ["teams", _, "inboxes", file] = path.as_slice() else {
                continue;
            };
            let inbox = serde_json::from_str(text(&change["content"])).unwrap_or_default();
            if let Some(owner) = file.strip_suffix(".json") {
                for letter in letters(owner, &inbox) {
                    self.letters.entry(letter).or_insert(now);
                }
            }
        }
        self.history += whole;
    }

    /// Returns whether a hook of this team began after a moment and is over by now.
    fn was_told(&self, after: Duration, now: Duration) -> bool {
        self.calls.all.iter().any(|call| {
            is_for_us(call)
                && self.is_of_team(call)
                && call.at > after + RECORDER
                && now > call.at + HOOK
        })
    }

    /// Returns whether a message of another program has reached its receiver, so that a hook could know of it. The
    /// client keeps it until the current turn is over, and calls no hook for it; when the turn that it began is over,
    /// it is in the transcript a moment later.
    fn was_taken(&self, to: &str, since: Duration, now: Duration) -> bool {
        let its = |call: &&Call| match self.teammate(call) {
            Some(name) => name == to,
            None => to == LEAD && self.is_of_team(call),
        };
        let calls = self.calls.all.iter().filter(its);
        let mut ends = calls.clone().filter(|call| {
            matches!(call.event.as_str(), "Stop" | "SubagentStop") && call.at > since
        });
        let Some(end) = ends.nth(1) else { return false };
        let mut calls = calls.filter(|call| is_for_us(call) && call.at > end.at + TRANSCRIPT);
        calls.any(|call| now > call.at + HOOK)
    }

    fn is_of_team(&self, call: &Call) -> bool {
        let lead = self
            .truth
            .registry
            .as_ref()
            .map(|registry| registry.lead_session.as_str());
        lead == Some(text(&call.fields["session_id"])) || self.pane_of(call).is_some()
    }

    /// Returns the teammate in a pane that made a call.
    fn pane_of(&self, call: &Call) -> Option<&str> {
        let is_its = |process: &Process| Some(process.pid) == call.client;
        let pane = self.panes.iter().find(|(_, process)| is_its(process));
        let known = pane.map(|(name, _)| name.as_str());
        // A client that does not report its process is identified by its pane.
        let told = || {
            let mut members = self.members.iter();
            let member = members
                .find(|(_, (member, _))| member.pane.starts_with('%') && member.pane == call.pane);
            member.map(|(name, _)| name.as_str())
        };
        known.or_else(|| call.client.is_none().then(told)?)
    }

    /// Returns the teammate that a call is about.
    fn teammate(&self, call: &Call) -> Option<&str> {
        let known = |name: &Value| {
            let member = self.members.get_key_value(text(name));
            member.map(|(name, _)| name.as_str())
        };
        known(&call.fields["teammate_name"])
            .or_else(|| self.pane_of(call))
            .or_else(|| {
                let has_id = call.fields["agent_id"].is_string();
                has_id.then(|| known(&call.fields["agent_type"]))?
            })
    }

    /// Returns since when a teammate has failed: its last turn failed, and it has begun no other.
    fn failed_since(&self, name: &str) -> Option<Duration> {
        let mut of_it = self
            .calls
            .all
            .iter()
            .rev()
            .filter(|call| self.teammate(call) == Some(name));
        let last = of_it.find(|call| begins(call) || call.event == "StopFailure")?;
        (last.event == "StopFailure").then_some(last.at)
    }

    fn judge_state(&self, look: &Look, wrong: &mut Vec<String>, doubts: &mut Vec<Doubt>) {
        let Some(state) = &look.state else {
            if look.is_torn {
                wrong.push("the state file was half a file".to_owned());
            }
            return;
        };
        let Some(registry) = &self.truth.registry else {
            return;
        };
        let at = look.at;
        let mut found = |holds: bool, what: String| {
            if !holds {
                wrong.push(format!("state: {what}"));
            }
        };
        let rows: Vec<&Value> = list(&state["teammates"]).collect();
        let was_shown = self
            .members
            .values()
            .any(|(_, since)| self.was_told(*since, at));
        let lives = |name: &str| !self.gone.contains_key(name);
        let somebody = lives("") || self.panes.keys().any(|name| lives(name));
        if was_shown && somebody {
            let (session, team) = (&state["sessionId"], &state["teamName"]);
            found(
                state["enabled"] == true,
                "it ended, and somebody lives".to_owned(),
            );
            found(
                *session == registry.lead_session,
                format!("shows the session {session}"),
            );
            found(*team == registry.team, format!("shows the team {team}"));
            for (name, (_, since)) in &self.members {
                let is_there = rows.iter().any(|row| row["name"] == **name);
                found(
                    is_there || !self.was_told(*since, at),
                    format!("{name} has no row"),
                );
            }
        }
        for row in &rows {
            let name = text(&row["name"]);
            let status = text(&row["status"]);
            let Some((member, _)) = self.members.get(name) else {
                found(false, format!("there is no {name}"));
                continue;
            };
            self.judge_row(row, name, member, look, &mut found);
            let of_lead = if member.is_pane { name } else { "" };
            if let Some(gone) = self.gone.get(of_lead) {
                let is_late = at > *gone + GONE && self.was_told(*gone, at.saturating_sub(GONE));
                found(
                    !is_late || status == "failed",
                    format!("{name} is gone and {status}"),
                );
            } else if self.failed_since(name).is_some() {
                if status != "failed" {
                    doubts.extend(self.doubt("state", name, status, look));
                }
            } else {
                let quiet = self.last_call(name).is_none_or(|last| at > last + HOOK);
                found(
                    status != "failed" || !quiet,
                    format!("{name} lives and is failed"),
                );
            }
        }
        let (shown, is) = (&state["progress"], self.truth.progress());
        let is_told = self.was_told(self.since["tasks"], at);
        found(
            *shown == is || !is_told,
            format!("the tasks are {is} and shown is {shown}"),
        );
        self.judge_letters(state, at, &mut found);
    }

    fn last_call(&self, name: &str) -> Option<Duration> {
        let mut calls = self.calls.all.iter().rev();
        calls
            .find(|call| self.teammate(call) == Some(name))
            .map(|call| call.at)
    }

    fn judge_row(
        &self,
        row: &Value,
        name: &str,
        member: &RegisteredMember,
        look: &Look,
        found: &mut impl FnMut(bool, String),
    ) {
        let (task, id) = (text(&row["currentTask"]), row["taskId"].as_str());
        let status = text(&row["status"]);
        if let Some(id) = id {
            let of_id = self.truth.tasks.get(id);
            let is_its =
                of_id.is_some_and(|of_id| of_id.owner == name || of_id.status != "in_progress");
            found(
                is_its,
                format!("{name} is shown with task {id} of somebody else"),
            );
            let is_same = status == "failed" || of_id.is_some_and(|of_id| of_id.subject == task);
            found(is_same, format!("{name}: task {id} is called {task:?}"));
        } else if !task.is_empty() && status != "failed" {
            let own: String = member.prompt.chars().take(LONGEST_TASK).collect();
            found(
                task == own,
                format!("{name} was told {own:?} and is shown with {task:?}"),
            );
        }
        let held = self
            .truth
            .tasks
            .iter()
            .find(|(_, task)| task.status == "in_progress" && task.owner == name);
        if let Some((held, _)) = held
            && matches!(status, "working" | "spawning")
            && self.was_told(self.since["tasks"], look.at)
        {
            found(
                id == Some(held),
                format!("{name} works on task {held} and is shown with {id:?}"),
            );
        }
    }

    fn judge_letters(&self, state: &Value, at: Duration, found: &mut impl FnMut(bool, String)) {
        let shown: Vec<Letter> = list(&state["recentMessages"])
            .map(|letter| {
                let of = |key: &str| text(&letter[key]).to_owned();
                (of("from"), of("to"), of("content"))
            })
            .collect();
        for (letter, since) in &self.letters {
            let count = shown.iter().filter(|one| *one == letter).count();
            let is_member = letter.0 == LEAD || self.members.contains_key(&letter.0);
            let is_told = if is_member {
                self.was_told(*since, at)
            } else {
                self.was_taken(&letter.1, *since, at)
            };
            found(
                count >= 1 || !is_told,
                format!("{letter:?} was in an inbox and is not shown"),
            );
            found(count <= 1, format!("{letter:?} is shown {count} times"));
        }
        let sent: BTreeSet<&str> = self
            .calls
            .all
            .iter()
            .filter(|call| call.event == "PostToolUse")
            .filter(|call| call.fields["tool_response"]["success"] == true)
            .map(|call| text(&call.fields["tool_input"]["message"]))
            .collect();
        for letter in &shown {
            let is_protocol = ["task assigned", "asks to", "shuts down", "system"];
            let is_known = self.letters.contains_key(letter)
                || sent.contains(letter.2.as_str())
                || is_protocol
                    .iter()
                    .any(|word| letter.2.starts_with(word) || letter.0 == *word);
            found(
                is_known,
                format!("{letter:?} is shown and was never delivered"),
            );
        }
    }

    /// Judges the output of `status`, or of `top`, which contains the same.
    fn judge_status(
        &self,
        status: &Value,
        view: &str,
        look: &Look,
        wrong: &mut Vec<String>,
        doubts: &mut Vec<Doubt>,
    ) {
        let Some(registry) = &self.truth.registry else {
            return;
        };
        let mut found = |holds: bool, what: String| {
            if !holds {
                wrong.push(format!("{view}: {what}"));
            }
        };
        let mut teams = list(&status["teams"]).filter(|team| team["name"] == *registry.team);
        let (Some(team), None) = (teams.next(), teams.next()) else {
            found(
                false,
                format!("the team {} is not there once", registry.team),
            );
            return;
        };
        let (shown, is) = (&team["progress"], self.truth.progress());
        found(
            *shown == is,
            format!("the tasks are {is} and shown is {shown}"),
        );
        for worker in list(&team["workers"]) {
            let (name, said) = (text(&worker["name"]), text(&worker["status"]));
            let member = registry.members.get(name);
            let of_lead = member.map(|member| if member.is_pane { name } else { "" });
            let lives = of_lead.is_some_and(|of_lead| !self.gone.contains_key(of_lead));
            if lives && said != "failed" {
                doubts.extend(self.doubt(view, name, said, look));
            }
        }
        self.judge_workers(&team["workers"], look.at, &mut found);
    }

    fn judge_workers(&self, workers: &Value, at: Duration, found: &mut impl FnMut(bool, String)) {
        let Some(registry) = &self.truth.registry else {
            return;
        };
        let names: BTreeSet<&str> = list(workers).map(|worker| text(&worker["name"])).collect();
        let is: BTreeSet<&str> = registry.members.keys().map(String::as_str).collect();
        found(names == is, format!("shows {names:?} of {is:?}"));
        for worker in list(workers) {
            let name = text(&worker["name"]);
            let (verdict, said) = (text(&worker["verdict"]), text(&worker["status"]));
            let Some(member) = registry.members.get(name) else {
                continue;
            };
            let of_lead = if member.is_pane { name } else { "" };
            if let Some(gone) = self.gone.get(of_lead) {
                found(
                    verdict == "dead" || at < *gone + GONE,
                    format!("{name} is gone, {verdict} and {said}"),
                );
            } else {
                found(verdict != "dead", format!("{name} lives and is dead"));
            }
            let held = self
                .truth
                .tasks
                .iter()
                .find(|(_, task)| task.status == "in_progress" && task.owner == name);
            if let Some((held, _)) = held {
                let shown = worker["currentTaskId"].as_str();
                found(
                    shown == Some(held),
                    format!("{name} holds task {held} and is shown with {shown:?}"),
                );
            }
        }
    }

    fn judge_zombies(&self, look: &Look, wrong: &mut Vec<String>) {
        let Some(registry) = &self.truth.registry else {
            return;
        };
        let all: Vec<&Value> = list(&look.zombies["zombies"]).collect();
        let mut found = |holds: bool, what: String| {
            if !holds {
                wrong.push(format!("zombies: {what}"));
            }
        };
        let is_listed = |name: &str| {
            all.iter().any(|zombie| {
                zombie["name"] == name && matches!(text(&zombie["kind"]), "worker" | "pane")
            })
        };
        let is_late = |gone: &Duration| look.at > *gone + GONE;
        let lead = self.gone.get("");
        for (name, member) in &registry.members {
            match (self.gone.get(name.as_str()), lead) {
                (Some(gone), None) if is_late(gone) => {
                    found(is_listed(name), format!("{name} is gone and not listed"));
                }
                (None, Some(gone)) if member.is_pane && is_late(gone) => {
                    found(
                        is_listed(name),
                        format!("{name} has no lead any more and is not listed"),
                    );
                }
                (None, None) => found(!is_listed(name), format!("{name} lives and is listed")),
                _ => {}
            }
        }
        let is_team = all
            .iter()
            .any(|zombie| zombie["kind"] == "team" && zombie["name"] == *registry.team);
        match lead {
            None => found(
                !is_team,
                "the team is listed, and its lead lives".to_owned(),
            ),
            Some(gone) => found(
                is_team || !is_late(gone),
                "the team of a lead that is gone is not listed".to_owned(),
            ),
        }
    }
}

/// Returns whether a call shows that a teammate works, or has begun again after a failure.
fn begins(call: &Call) -> bool {
    ![
        "StopFailure",
        "SubagentStop",
        "Notification",
        "TeammateIdle",
    ]
    .contains(&&*call.event)
}

/// Counts what was shown wrong at a moment.
fn count(wrong: &mut BTreeMap<String, (Duration, Duration, usize)>, what: String, at: Duration) {
    let entry = wrong.entry(what).or_insert((at, at, 0));
    entry.1 = at;
    entry.2 += 1;
}

/// Checks that no teammate is shown any more.
fn judge_over(look: &Look, wrong: &mut Vec<String>) {
    let state = look.state.as_ref();
    if state.is_none_or(|state| state["enabled"] != false) {
        wrong.push("state: everybody is gone, and it is enabled".to_owned());
    }
    if !list(&look.zombies["zombies"]).all(|zombie| zombie["kind"] != "worker") {
        let zombies = &look.zombies;
        wrong.push(format!(
            "zombies: everybody is gone, and listed is {zombies}"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn call(event: &str, at: Duration) -> Call {
        Call {
            at,
            event: event.to_owned(),
            fields: Value::Null,
            client: None,
            pane: "%1".to_owned(),
        }
    }

    #[test]
    fn who_failed_and_is_shown_at_work_is_wrong_unless_it_had_begun_anew_by_then() {
        let (at, until) = (millis(20_000), millis(20_100));
        let look = Look {
            at,
            until,
            before: Truth::default(),
            after: Truth::default(),
            state: None,
            is_torn: false,
            was_written: false,
            status: Value::Null,
            zombies: Value::Null,
            top: None,
        };
        let member = RegisteredMember {
            prompt: String::new(),
            is_pane: true,
            pane: "%1".to_owned(),
        };
        for (next, wrong) in [
            (Some(until + RECORDER), 0),
            (Some(until + RECORDER + millis(1)), 1),
            (None, 1),
        ] {
            let mut judge = Judge::default();
            let known = (member.clone(), Duration::ZERO);
            judge.members.insert("alpha".to_owned(), known);
            judge.calls.all.push(call("StopFailure", millis(10_000)));
            let doubt = judge.doubt("state", "alpha", "working", &look);
            judge.doubts.extend(doubt);
            assert_eq!(judge.differences().len(), 1);
            let later = next.map(|next| call("PreToolUse", next));
            judge.calls.all.extend(later);
            judge.settle_doubts(until + RECORDER + millis(2));
            assert_eq!(judge.differences().len(), wrong, "{next:?}");
            assert!(judge.doubts.is_empty());
        }
    }
}
