//! Compares every observation of teamster's views with the truth.
//!
//! A viewer polls, so what it sees may be as old as the last hook: a change before a hook began must be shown once
//! that hook is over. `status`, `top` and `zombies scan` read the current state themselves and must not be late.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::super::polls::WrongPolls;
use super::super::session_files::{HookCall, Member, Members, progress};
use super::looks::Look;
use super::truth::{Calls, LEAD, Letter, Process, Registry, Truth, letters};
use crate::product::{check, list, text};

/// The time limit for a hook, including the recorder beside it on a busy machine.
const HOOK: Duration = Duration::from_secs(2);
/// How long a process that is gone may still be shown as present.
const GONE: Duration = Duration::from_secs(5);
/// How much later than the hook its recorder begins.
const RECORDER: Duration = Duration::from_millis(300);
/// How long a client may delay a line before it is in the transcript.
const TRANSCRIPT: Duration = Duration::from_millis(300);
/// The length to which a task's description is cut.
const LONGEST_TASK: usize = 100;
/// How messages of the client's protocol begin, or the name of their sender.
const PROTOCOL: [&str; 4] = ["task assigned", "asks to", "shuts down", "system"];
/// The file that a scene makes when everybody is gone and what was left is reaped.
pub(super) const OVER: &str = "sign-over";

/// The state of a session so far, and what was shown wrong.
#[derive(Debug, Default)]
pub(super) struct Judge {
    pub(super) looks: usize,
    calls: Calls,
    truth: Truth,
    /// Since when the tasks are unchanged.
    tasks_since: Duration,
    members: Members,
    /// Since when each teammate is known.
    known: BTreeMap<String, Duration>,
    /// Every process that ever ran, by name.
    processes: BTreeMap<String, Process>,
    /// When each process was first seen to be gone.
    gone: BTreeMap<String, Duration>,
    letters: BTreeMap<Letter, Duration>,
    history: usize,
    /// When the session was seen to be over.
    over: Option<Duration>,
    wrong: WrongPolls,
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

/// What is wrong in one observation, or may be.
#[derive(Default)]
struct Found {
    wrong: Vec<String>,
    doubts: Vec<Doubt>,
}

impl Judge {
    /// Describes what was shown wrong.
    pub(super) fn differences(&self) -> Vec<String> {
        let mut all = self.wrong.clone();
        for doubt in &self.doubts {
            all.add(doubt.what.clone(), doubt.at);
        }
        all.describe(self.begin).collect()
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
        let gone = self.gone.keys().filter(|name| *name != LEAD);
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
        let mut found = Found::default();
        if session.join(OVER).exists() {
            if look.at > *self.over.get_or_insert(look.at) + GONE {
                judge_over(look, &mut found.wrong);
            }
        } else {
            check!(found.wrong, !look.is_torn => "the state file was half a file");
            if let Some(registry) = &self.truth.registry {
                if let Some(state) = &look.state {
                    self.judge_state(state, registry, look, &mut found);
                }
                if look.is_still() {
                    self.judge_status("status", &look.status, registry, look, &mut found);
                    self.judge_zombies(registry, look, &mut found.wrong);
                    if let Some(top) = &look.top {
                        self.judge_status("top", top, registry, look, &mut found);
                    }
                }
            }
        }
        for what in found.wrong {
            self.wrong.add(what, look.at);
        }
        self.doubts.extend(found.doubts);
    }

    /// Drops the doubts about teammates that had begun again, as the recorder shows a moment later, and counts the
    /// others.
    fn settle_doubts(&mut self, now: Duration) {
        for doubt in std::mem::take(&mut self.doubts) {
            let had_begun = self.calls_of(&doubt.name).any(|call| {
                begins(call) && call.at > doubt.failed && call.at <= doubt.until + RECORDER
            });
            if had_begun {
                continue;
            }
            if now > doubt.until + RECORDER {
                self.wrong.add(doubt.what, doubt.at);
            } else {
                self.doubts.push(doubt);
            }
        }
    }

    /// Returns the doubt about a teammate that failed long enough ago and is not shown as failed.
    fn doubt(&self, view: &str, name: &str, shown: &str, look: &Look) -> Option<Doubt> {
        let failed = self.failed_since(name)?;
        (shown != "failed" && look.at >= failed + HOOK).then(|| Doubt {
            name: name.to_owned(),
            what: format!("{view}: {name} has failed and is {shown}"),
            at: look.at,
            until: look.until,
            failed,
        })
    }

    fn learn(&mut self, session: &Path, look: &Look) {
        let new = &look.after;
        if new.tasks != self.truth.tasks || self.tasks_since.is_zero() {
            self.tasks_since = look.until;
        }
        if let Some(registry) = &new.registry {
            // The location of a teammate is known a moment after its name.
            self.members.extend(registry.members.clone());
            for name in registry.members.keys() {
                self.known.entry(name.clone()).or_insert(look.until);
            }
        }
        self.processes.extend(new.processes.clone());
        for (name, process) in &self.processes {
            if process.is_alive() {
                self.gone.remove(name);
            } else {
                self.gone.entry(name.clone()).or_insert(look.at);
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
            call.is_for_us()
                && self.is_of_team(call)
                && call.at > after + RECORDER
                && now > call.at + HOOK
        })
    }

    /// Returns whether a message of another program has reached its receiver, so that a hook could know of it. The
    /// client keeps it until the current turn is over, and calls no hook for it; when the turn that it began is over,
    /// it is in the transcript a moment later.
    fn was_taken(&self, to: &str, since: Duration, now: Duration) -> bool {
        let its = |call: &&HookCall| match self.teammate(call) {
            Some(name) => name == to,
            None => to == LEAD && self.is_of_team(call),
        };
        let calls = self.calls.all.iter().filter(its);
        let mut ends = calls.clone().filter(|call| {
            matches!(call.event.as_str(), "Stop" | "SubagentStop") && call.at > since
        });
        let Some(end) = ends.nth(1) else { return false };
        let mut calls = calls.filter(|call| call.is_for_us() && call.at > end.at + TRANSCRIPT);
        calls.any(|call| now > call.at + HOOK)
    }

    fn is_of_team(&self, call: &HookCall) -> bool {
        let registry = self.truth.registry.as_ref();
        registry.is_some_and(|registry| registry.lead_session == call.text("session_id"))
            || call.pane_of(&self.members).is_some()
    }

    fn teammate(&self, call: &HookCall) -> Option<&str> {
        call.teammate(&self.members)
    }

    /// Returns since when a teammate has failed: its last turn failed, and it has begun no other.
    fn failed_since(&self, name: &str) -> Option<Duration> {
        let mut latest = self.calls_of(name).rev();
        let last = latest.find(|call| begins(call) || call.event == "StopFailure")?;
        (last.event == "StopFailure").then_some(last.at)
    }

    /// Returns since when the process of a teammate is gone: its own, or else the lead's.
    fn gone_since(&self, name: &str, member: &Member) -> Option<Duration> {
        let process = if member.is_pane { name } else { LEAD };
        self.gone.get(process).copied()
    }

    /// Returns the id of the task that a teammate works on.
    fn held_by(&self, name: &str) -> Option<&str> {
        let mut tasks = self.truth.tasks.iter();
        let held = tasks.find(|(_, task)| task.status == "in_progress" && task.owner == name);
        held.map(|(id, _)| id.as_str())
    }

    /// Returns the calls that are about a teammate.
    fn calls_of(&self, name: &str) -> impl DoubleEndedIterator<Item = &HookCall> {
        let all = self.calls.all.iter();
        all.filter(move |call| self.teammate(call) == Some(name))
    }

    fn judge_state(&self, state: &Value, registry: &Registry, look: &Look, found: &mut Found) {
        let (at, wrong) = (look.at, &mut found.wrong);
        let was_told = |since: &Duration| self.was_told(*since, at);
        let was_shown = self.known.values().any(was_told);
        let lives = |name: &str| !self.gone.contains_key(name);
        if was_shown && (lives(LEAD) || self.processes.keys().any(|name| lives(name))) {
            let (session, team) = (&state["sessionId"], &state["teamName"]);
            check!(wrong, state["enabled"] == true => "state: it ended, and somebody lives");
            check!(wrong, *session == registry.lead_session => "state: shows the session {session}");
            check!(wrong, *team == registry.team => "state: shows the team {team}");
            for (name, since) in &self.known {
                let is_there = list(&state["teammates"]).any(|row| row["name"] == **name);
                check!(wrong, is_there || !was_told(since) => "state: {name} has no row");
            }
        }
        for row in list(&state["teammates"]) {
            let (name, status) = (text(&row["name"]), text(&row["status"]));
            let Some(member) = self.members.get(name) else {
                wrong.push(format!("state: there is no {name}"));
                continue;
            };
            self.judge_row(row, name, member, at, wrong);
            if let Some(gone) = self.gone_since(name, member) {
                let is_late = at > gone + GONE && self.was_told(gone, at.saturating_sub(GONE));
                let is_shown = !is_late || status == "failed";
                check!(wrong, is_shown => "state: {name} is gone and {status}");
            } else if self.failed_since(name).is_some() {
                found.doubts.extend(self.doubt("state", name, status, look));
            } else {
                let last = self.calls_of(name).next_back();
                let quiet = last.is_none_or(|last| at > last.at + HOOK);
                let is_alive = status != "failed" || !quiet;
                check!(wrong, is_alive => "state: {name} lives and is failed");
            }
        }
        let (shown, is) = (&state["progress"], progress(&self.truth.tasks));
        check!(wrong, *shown == is || !was_told(&self.tasks_since) =>
            "state: the tasks are {is} and shown is {shown}");
        self.judge_letters(state, at, wrong);
    }

    fn judge_row(
        &self,
        row: &Value,
        name: &str,
        member: &Member,
        at: Duration,
        wrong: &mut Vec<String>,
    ) {
        let (task, id) = (text(&row["currentTask"]), row["taskId"].as_str());
        let status = text(&row["status"]);
        if let Some(id) = id {
            let of_id = self.truth.tasks.get(id);
            let is_its = of_id.is_some_and(|it| it.owner == name || it.status != "in_progress");
            check!(wrong, is_its => "state: {name} is shown with task {id} of somebody else");
            let is_same = status == "failed" || of_id.is_some_and(|of_id| of_id.subject == task);
            check!(wrong, is_same => "state: {name}: task {id} is called {task:?}");
        } else if !task.is_empty() && status != "failed" {
            let own: String = member.prompt.chars().take(LONGEST_TASK).collect();
            check!(wrong, task == own =>
                "state: {name} was told {own:?} and is shown with {task:?}");
        }
        if let Some(held) = self.held_by(name)
            && matches!(status, "working" | "spawning")
            && self.was_told(self.tasks_since, at)
        {
            check!(wrong, id == Some(held) =>
                "state: {name} works on task {held} and is shown with {id:?}");
        }
    }

    fn judge_letters(&self, state: &Value, at: Duration, wrong: &mut Vec<String>) {
        let letter = |letter: &Value| -> Letter {
            let of = |key: &str| text(&letter[key]).to_owned();
            (of("from"), of("to"), of("content"))
        };
        let shown: Vec<Letter> = list(&state["recentMessages"]).map(letter).collect();
        for (letter, since) in &self.letters {
            let count = shown.iter().filter(|one| *one == letter).count();
            let is_member = letter.0 == LEAD || self.members.contains_key(&letter.0);
            let is_told = if is_member {
                self.was_told(*since, at)
            } else {
                self.was_taken(&letter.1, *since, at)
            };
            check!(wrong, count >= 1 || !is_told =>
                "state: {letter:?} was in an inbox and is not shown");
            check!(wrong, count <= 1 => "state: {letter:?} is shown {count} times");
        }
        let sent = self.calls.all.iter().filter(|call| {
            call.event == "PostToolUse" && call.fields["tool_response"]["success"] == true
        });
        let sent: BTreeSet<&str> = sent
            .map(|call| text(&call.fields["tool_input"]["message"]))
            .collect();
        for letter in &shown {
            let (from, _, content) = letter;
            let is_protocol = PROTOCOL
                .iter()
                .any(|word| content.starts_with(word) || from == word);
            let is_known = self.letters.contains_key(letter) || sent.contains(content.as_str());
            check!(wrong, is_known || is_protocol =>
                "state: {letter:?} is shown and was never delivered");
        }
    }

    /// Judges the output of `status`, or of `top`, which contains the same.
    fn judge_status(
        &self,
        view: &str,
        status: &Value,
        registry: &Registry,
        look: &Look,
        found: &mut Found,
    ) {
        let wrong = &mut found.wrong;
        let mut teams = list(&status["teams"]).filter(|team| team["name"] == *registry.team);
        let (Some(team), None) = (teams.next(), teams.next()) else {
            let team = &registry.team;
            return wrong.push(format!("{view}: the team {team} is not there once"));
        };
        let (shown, is) = (&team["progress"], progress(&self.truth.tasks));
        check!(wrong, *shown == is => "{view}: the tasks are {is} and shown is {shown}");
        let workers = list(&team["workers"]);
        let names: BTreeSet<&str> = workers.clone().map(|it| text(&it["name"])).collect();
        let is: BTreeSet<&str> = registry.members.keys().map(String::as_str).collect();
        check!(wrong, names == is => "{view}: shows {names:?} of {is:?}");
        for worker in workers {
            let of = |key: &str| text(&worker[key]);
            let (name, verdict, said) = (of("name"), of("verdict"), of("status"));
            let Some(member) = registry.members.get(name) else {
                continue;
            };
            if let Some(gone) = self.gone_since(name, member) {
                check!(wrong, verdict == "dead" || look.at < gone + GONE =>
                    "{view}: {name} is gone, {verdict} and {said}");
            } else {
                check!(wrong, verdict != "dead" => "{view}: {name} lives and is dead");
                found.doubts.extend(self.doubt(view, name, said, look));
            }
            if let Some(held) = self.held_by(name) {
                let shown = worker["currentTaskId"].as_str();
                check!(wrong, shown == Some(held) =>
                    "{view}: {name} holds task {held} and is shown with {shown:?}");
            }
        }
    }

    fn judge_zombies(&self, registry: &Registry, look: &Look, wrong: &mut Vec<String>) {
        let all = list(&look.zombies["zombies"]);
        let is_listed = |name: &str, kinds: &[&str]| {
            let mut named = all.clone().filter(|zombie| zombie["name"] == name);
            named.any(|zombie| kinds.contains(&text(&zombie["kind"])))
        };
        let is_late = |gone: &Duration| look.at > *gone + GONE;
        let lead = self.gone.get(LEAD);
        for (name, member) in &registry.members {
            let is_listed = is_listed(name, &["worker", "pane"]);
            match (self.gone.get(name.as_str()), lead) {
                (Some(gone), None) if is_late(gone) => {
                    check!(wrong, is_listed => "zombies: {name} is gone and not listed");
                }
                (None, Some(gone)) if member.is_pane && is_late(gone) => {
                    check!(wrong, is_listed =>
                        "zombies: {name} has no lead any more and is not listed");
                }
                (None, None) => {
                    check!(wrong, !is_listed => "zombies: {name} lives and is listed");
                }
                _ => {}
            }
        }
        let is_listed = is_listed(&registry.team, &["team"]);
        if let Some(gone) = lead {
            check!(wrong, is_listed || !is_late(gone) =>
                "zombies: the team of a lead that is gone is not listed");
        } else {
            check!(wrong, !is_listed => "zombies: the team is listed, and its lead lives");
        }
    }
}

/// Returns whether a call shows that a teammate works, or has begun again after a failure.
fn begins(call: &HookCall) -> bool {
    ![
        "StopFailure",
        "SubagentStop",
        "Notification",
        "TeammateIdle",
    ]
    .contains(&&*call.event)
}

/// Checks that no teammate is shown any more.
fn judge_over(look: &Look, wrong: &mut Vec<String>) {
    let (state, zombies) = (look.state.as_ref(), &look.zombies);
    check!(wrong, state.is_some_and(|state| state["enabled"] == false) =>
        "state: everybody is gone, and it is enabled");
    check!(wrong, list(&zombies["zombies"]).all(|zombie| zombie["kind"] != "worker") =>
        "zombies: everybody is gone, and listed is {zombies}");
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn call(event: &str, at: Duration) -> HookCall {
        HookCall {
            at,
            event: event.to_owned(),
            pane: "%1".to_owned(),
            ..HookCall::default()
        }
    }

    #[test]
    fn who_failed_and_is_shown_at_work_is_wrong_unless_it_had_begun_anew_by_then() {
        let (at, until) = (millis(20_000), millis(20_100));
        let look = Look {
            at,
            until,
            ..Look::default()
        };
        let member = Member {
            is_pane: true,
            pane: "%1".to_owned(),
            ..Member::default()
        };
        for (next, wrong) in [
            (Some(until + RECORDER), 0),
            (Some(until + RECORDER + millis(1)), 1),
            (None, 1),
        ] {
            let mut judge = Judge::default();
            judge.members.insert("alpha".to_owned(), member.clone());
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
