//! Every kind of change, killed before each of its file operations in turn.
//!
//! The next process finds the change made or not made, never half, and no leftovers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use teamster_fs::fail;
use teamster_journal::EventActor;
use teamster_store::{
    Backend, ClaimRequest, Clock, FileStore, OutgoingMessage, PlannedTask, ReadStore, Reader,
    Recipient, Result, Signal, Store, Txn, rebuild,
};
use teamster_testkit::ManualClock;
use teamster_testkit::recorded;
use teamster_testkit::scratch::{Scratch, gone, stopped_clock};
use teamster_types::TaskId;
use teamster_types::graph::{self, ExplainedState, State};
use teamster_types::task::{NewTask, Task, Token};
use teamster_types::team::{NewMember, NewTeam};
use teamster_types::transitions::TaskEdit;

use super::leftovers;

/// A team with a bit of everything in it.
struct Scene {
    store: FileStore,
    clock: Arc<ManualClock>,
    scratch: Scratch,
    /// The token of task 2, held by `ada`.
    token: Token,
}

const TEAM: &str = "crew";

impl Scene {
    fn new() -> Result<Self> {
        let scratch = Scratch::new("every-step");
        let clock = stopped_clock();
        let store = scratch.store(clock.clone(), Duration::from_millis(20));
        let members = ["ada", "bob"].map(|name| NewMember {
            name: name.parse().unwrap(),
            provider: String::new(),
            capabilities: None,
        });
        store.create_team(
            &NewTeam {
                name: team(),
                description: String::new(),
                project: scratch.project().display().to_string(),
                members: members.to_vec(),
                run: None,
            },
            None,
        )?;
        for subject in ["blocker", "held", "free"] {
            store.create_task(&team(), &EventActor::Lead, &new(subject, &[]))?;
        }
        for blocker in [1, 2] {
            store.create_task(&team(), &EventActor::Lead, &new("waits", &[blocker]))?;
        }
        let token = claim(&store, Some(2))?;
        for number in 0..3 {
            store.send(&team(), &message(Recipient::Worker("ada".into()), number))?;
        }
        store.receive(&team(), &ada(), 1, true)?;
        Ok(Self {
            store,
            clock,
            scratch,
            token,
        })
    }

    /// Returns everything that a person could see, except times and random ids.
    fn look(&self) -> Result<Value> {
        let list = self.store.tasks(&team())?;
        assert!(list.problems.is_empty(), "{:?}", list.problems);
        let mut tasks = Vec::new();
        for task in &list.tasks {
            let mut object = task.public();
            object["metadata"]["teamster"]["claim"]["leasedUntil"] = json!(
                task.claim()
                    .map(|claim| claim.leased_until.as_millis() - self.clock.now().as_millis())
            );
            let failure = self.store.failure(&team(), task.id())?;
            tasks.push(json!({"task": object, "failures": failure.map(|f| f.retry_count)}));
        }
        let filed = self.store.messages(&team())?;
        let filed = filed.iter();
        let mail: Vec<Value> = filed
            .map(|filed| {
                json!([
                    filed.mailbox,
                    filed.message.content(),
                    filed.acked_at.is_some()
                ])
            })
            .collect();
        let signals: Vec<Value> = self
            .store
            .signals(&team(), &"ada".parse()?)?
            .iter()
            .map(|signal| json!([signal.drain, signal.reason]))
            .collect();
        let members = self.store.team(&team())?.members().len();
        Ok(json!({"tasks": tasks, "mail": mail, "signals": signals, "members": members}))
    }

    /// Checks that claimable tasks are given out, the claimant's own first, then by number.
    fn check_claims(&self) -> Result<()> {
        self.clock.advance(600_000);
        let list = self.store.tasks(&team())?.tasks;
        let standings = graph::explain_states(&list, self.clock.now());
        let dead = gone();
        let is_free = |(task, standing): &(&Task, ExplainedState)| {
            let abandoned = task.claim().is_some_and(|claim| claim.process() == dead);
            standing.state == State::Claimable || (standing.state == State::InProgress && abandoned)
        };
        let free: Vec<&Task> = list
            .iter()
            .zip(standings)
            .filter(is_free)
            .map(|(task, _)| task)
            .collect();
        let (mut expected, others): (Vec<&Task>, Vec<&Task>) = free
            .into_iter()
            .partition(|task| task.owner() == Some("bob"));
        expected.extend(others);
        let expected: Vec<&TaskId> = expected.into_iter().map(Task::id).collect();
        let request = ClaimRequest {
            worker: "bob".parse()?,
            id: None,
            lease: None,
        };
        let mut given = Vec::new();
        while let Some(claimed) = self.store.claim(&team(), &request)? {
            given.push(claimed.task.id().clone());
        }
        assert_eq!(
            given.iter().collect::<Vec<_>>(),
            expected,
            "what bob is given"
        );
        Ok(())
    }

    /// Checks that the journal alone gives the same state, without a gap.
    fn check_journal(&self) -> Result<()> {
        let page = self.store.events(&team(), 1, usize::MAX)?;
        assert!(page.damaged.is_empty());
        let mut told = rebuild::Tasks::default();
        for (seq, event) in (1..).zip(&page.events) {
            assert_eq!(event.seq, seq);
            assert_ne!(event.actor, "foreign", "nobody else was here: {event:?}");
            told.apply(event);
        }
        let list = self.store.tasks(&team())?.tasks;
        assert_eq!(told.iter().count(), list.len());
        for (told, there) in told.iter().zip(&list) {
            assert!(
                rebuild::is_same_task(told, there),
                "task {} differs",
                there.id()
            );
        }
        Ok(())
    }
}

fn team() -> teamster_types::TeamName {
    TEAM.parse().unwrap()
}

fn ada() -> Reader {
    Reader::Worker("ada".parse().unwrap())
}

fn id(number: u64) -> TaskId {
    TaskId::from_number(number)
}

fn new(subject: &str, blockers: &[u64]) -> NewTask {
    NewTask {
        subject: subject.to_owned(),
        blocked_by: blockers.iter().copied().map(id).collect(),
        ..NewTask::default()
    }
}

fn message(to: Recipient, number: u64) -> OutgoingMessage {
    OutgoingMessage {
        from: "lead".to_owned(),
        to,
        kind: "message".to_owned(),
        content: format!("number {number}"),
        extra: Map::new(),
    }
}

fn claim(store: &FileStore, number: Option<u64>) -> Result<Token> {
    let request = ClaimRequest {
        worker: "ada".parse()?,
        id: number.map(id),
        lease: None,
    };
    let claimed = store.claim(&team(), &request)?;
    Ok(claimed.expect("there is something to claim").token)
}

/// Makes the inbox of `ada` so long that the next message must rotate it.
fn fill(scene: &Scene) {
    use std::io::Write as _;
    let inbox = scene
        .scratch
        .layout()
        .claude
        .join("teams/crew/inbox/ada.jsonl");
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(inbox)
        .unwrap();
    let mut line = vec![b' '; 1024 * 1024];
    line.push(b'\n');
    file.write_all(&line).unwrap();
}

type Arrange = fn(&Scene);
type Change = fn(&Scene) -> Result<()>;

fn nothing(_: &Scene) {}

/// All kinds of change, with the state that each needs.
const CHANGES: &[(&str, Arrange, Change)] = &[
    ("create", nothing, |scene| {
        let made = scene
            .store
            .create_task(&team(), &EventActor::Lead, &new("new", &[1, 3]));
        made.map(drop)
    }),
    ("import", nothing, |scene| {
        let plan = [0, 1, 2].map(|place: usize| PlannedTask {
            task: new("planned", &[3]),
            after: (0..place).collect(),
        });
        let made = scene.store.import_tasks(&team(), &EventActor::Lead, &plan);
        made.map(drop)
    }),
    ("update", nothing, |scene| {
        let edit = TaskEdit {
            subject: Some("waits for another".to_owned()),
            blocked_by: Some(vec![id(3)]),
            ..TaskEdit::default()
        };
        let updated = scene
            .store
            .update_task(&team(), &EventActor::Lead, &id(4), &edit);
        updated.map(drop)
    }),
    ("delete", nothing, |scene| {
        let deleted = scene.store.delete_task(&team(), &EventActor::Lead, &id(1));
        deleted.map(drop)
    }),
    ("claim the next", nothing, |scene| {
        claim(&scene.store, None).map(drop)
    }),
    ("claim by id", nothing, |scene| {
        claim(&scene.store, Some(3)).map(drop)
    }),
    (
        "take over from the dead",
        |scene| {
            let patience = Duration::from_secs(1);
            let ghost = scene.scratch.store(scene.clock.clone(), patience);
            claim(&ghost.claiming_as(gone()), Some(1)).unwrap();
            scene.clock.advance(200_000);
        },
        |scene| claim(&scene.store, Some(1)).map(drop),
    ),
    (
        "renew",
        |scene| scene.clock.advance(50_000),
        |scene| {
            let renewed = scene.store.renew(&team(), &id(2), &scene.token, None);
            renewed.map(drop)
        },
    ),
    (
        "complete",
        // After reading all files, the index claims to know which tasks are blocked.
        |scene| {
            let look = &mut |tx: &mut dyn Txn| tx.refresh().map(drop);
            scene.store.change(&team(), "look", look).unwrap();
        },
        |scene| {
            let done = scene.store.complete(&team(), &id(2), &scene.token, None);
            done.map(drop)
        },
    ),
    ("fail", nothing, |scene| {
        let failed = scene.store.fail(&team(), &id(2), &scene.token, "boom");
        failed.map(drop)
    }),
    ("release", nothing, |scene| {
        let free = scene
            .store
            .release(&team(), &"-".into(), &id(2), Some(&scene.token));
        free.map(drop)
    }),
    (
        "retry",
        |scene| {
            let failed = scene.store.fail(&team(), &id(2), &scene.token, "boom");
            failed.unwrap();
        },
        |scene| {
            scene
                .store
                .retry(&team(), &EventActor::Lead, &id(2))
                .map(drop)
        },
    ),
    (
        "retry what failed for good",
        |scene| {
            let (store, team) = (&scene.store, team());
            store.fail(&team, &id(2), &scene.token, "boom").unwrap();
            for _ in 0..4 {
                scene.clock.advance(60_000);
                let token = claim(store, Some(2)).unwrap();
                store.fail(&team, &id(2), &token, "boom").unwrap();
            }
            // With everything before it completed, it is not checked again until it is restored.
            let token = claim(store, Some(1)).unwrap();
            store.complete(&team, &id(1), &token, None).unwrap();
            claim(store, None).unwrap();
        },
        |scene| {
            scene
                .store
                .retry(&team(), &EventActor::Lead, &id(2))
                .map(drop)
        },
    ),
    (
        "assign",
        // A claim before it, so that the index is fresh and says that no task is assigned.
        |scene| drop(claim(&scene.store, None).unwrap()),
        |scene| {
            let edit = TaskEdit {
                owner: Some(Some("bob".parse()?)),
                ..TaskEdit::default()
            };
            let assigned = scene
                .store
                .update_task(&team(), &EventActor::Lead, &id(3), &edit);
            assigned.map(drop)
        },
    ),
    ("send", nothing, |scene| {
        let to = Recipient::Worker("ada".into());
        scene.store.send(&team(), &message(to, 9)).map(drop)
    }),
    ("send the first", nothing, |scene| {
        let to = Recipient::Worker("bob".into());
        scene.store.send(&team(), &message(to, 9)).map(drop)
    }),
    ("send into a full box", fill, |scene| {
        let to = Recipient::Worker("ada".into());
        scene.store.send(&team(), &message(to, 9)).map(drop)
    }),
    ("broadcast", nothing, |scene| {
        let sent = scene.store.send(&team(), &message(Recipient::All, 9));
        sent.map(drop)
    }),
    ("read and acknowledge", nothing, |scene| {
        let got = scene.store.receive(&team(), &ada(), 1, true);
        got.map(drop)
    }),
    (
        "read across a rotation",
        |scene| {
            fill(scene);
            let to = Recipient::Worker("ada".into());
            scene.store.send(&team(), &message(to, 9)).unwrap();
        },
        |scene| {
            let got = scene.store.receive(&team(), &ada(), 100, true);
            got.map(drop)
        },
    ),
    ("join", nothing, |scene| {
        let member = NewMember {
            name: "cyd".parse()?,
            provider: "codex".to_owned(),
            capabilities: None,
        };
        scene.store.join_team(&team(), &member).map(drop)
    }),
    ("signal", nothing, |scene| {
        let signal = Signal {
            request_id: "r".to_owned(),
            reason: "enough".to_owned(),
            timestamp: scene.clock.now(),
            drain: true,
        };
        let ada = "ada".parse()?;
        scene
            .store
            .signal(&team(), &EventActor::Lead, &ada, &signal)
    }),
];

/// One kind of change, with the visible state before and after it.
struct Killing {
    name: &'static str,
    arrange: Arrange,
    change: Change,
    before: Value,
    done: Value,
}

impl Killing {
    fn new((name, arrange, change): (&'static str, Arrange, Change)) -> Result<Self> {
        let scene = Scene::new()?;
        arrange(&scene);
        let before = scene.look()?;
        change(&scene)?;
        Ok(Self {
            name,
            arrange,
            change,
            before: normalized(&before),
            done: normalized(&scene.look()?),
        })
    }

    /// Kills the change before its n-th file operation, and the process that repairs it before the m-th; returns
    /// `false` when the change succeeded.
    fn at(&self, step: u64, mender: Option<u64>) -> Result<bool> {
        let Self {
            name, before, done, ..
        } = self;
        let scene = Scene::new()?;
        (self.arrange)(&scene);
        fail::die_after(step);
        let answered = (self.change)(&scene);
        let died = fail::revive();
        if let Some(mender) = mender {
            fail::die_after(mender);
            let _ = scene
                .store
                .record(&team(), recorded("usage", "test", &serde_json::json!({})));
            fail::revive();
        }
        let at = format!("{name}, killed at {step}, its mender at {mender:?}");
        let next = scene
            .store
            .record(&team(), recorded("usage", "test", &serde_json::json!({})));
        assert!(next.is_ok(), "{at}: the next change: {next:?}");
        let left = leftovers(&scene.scratch.layout().claude);
        assert!(left.is_empty(), "{at}: left lying about: {left:?}");
        let after = normalized(&scene.look()?);
        assert!(
            after == *done || (answered.is_err() && after == *before),
            "{at}: neither done\n{done:#}\nnor undone\n{before:#}\nbut\n{after:#}"
        );
        scene.check_journal()?;
        scene.check_claims()?;
        Ok(died)
    }
}

/// Removes what differs between two scenes: times and processes.
fn normalized(value: &Value) -> Value {
    match value {
        Value::Object(object) => object
            .iter()
            .filter(|(key, _)| {
                !["createdAt", "completedAt", "notBefore", "error", "nonce"].contains(&key.as_str())
            })
            .map(|(key, inner)| (key.clone(), normalized(inner)))
            .collect::<Map<_, _>>()
            .into(),
        Value::Array(list) => list.iter().map(normalized).collect(),
        other => other.clone(),
    }
}

#[test]
fn every_change_killed_at_every_step_is_done_or_not_done() {
    let double = std::env::var_os("TEAMSTER_DOUBLE_DEATHS").is_some();
    let mut deaths = 0;
    for change in CHANGES {
        let killing = Killing::new(*change).unwrap();
        let mut step = 0;
        while killing.at(step, None).unwrap() {
            deaths += 1;
            // The repairing process is killed as well: at some steps by default, at all of them on request.
            let menders = match step % 6 {
                _ if double => 0..120,
                0 => step..step + 1,
                _ => 0..0,
            };
            for mender in menders {
                killing.at(step, Some(mender)).unwrap();
            }
            step += 1;
        }
        assert!(step > 5, "{} was never killed", killing.name);
        println!("{}: {step} file operations", killing.name);
    }
    println!("{} changes, {deaths} deaths", CHANGES.len());
}
