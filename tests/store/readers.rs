//! Readers without a lock, beside writers that never pause.

use std::sync::atomic::{AtomicBool, Ordering};

use teamster_journal::EventActor;
use teamster_store::{PlannedTask, ReadStore, Store};
use teamster_types::task::{NewTask, Task};
use teamster_types::transitions::TaskEdit;

use super::{FileTeam, claim_request, id};

fn check_mirrors(tasks: &[Task]) {
    for task in tasks {
        for blocker in task.blocked_by() {
            let other = tasks.iter().find(|other| other.id() == blocker);
            let known = other.is_some_and(|other| other.blocks().contains(task.id()));
            assert!(known, "half a change: {} and {blocker}", task.id());
        }
        for dependent in task.blocks() {
            let other = tasks.iter().find(|other| other.id() == dependent);
            let known = other.is_some_and(|other| other.blocked_by().contains(task.id()));
            assert!(known, "half a change: {} and {dependent}", task.id());
        }
    }
}

#[test]
fn a_reader_never_sees_half_a_change_nor_half_a_file() {
    let crew = FileTeam::new("readers");
    for number in 1..=4 {
        crew.create(&format!("number {number}"));
    }
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (team, over) = (&crew.team, &over);
        let writer = crew.another();
        scope.spawn(move || {
            let planned = |after: &[usize]| PlannedTask {
                task: NewTask {
                    subject: "planned".to_owned(),
                    ..NewTask::default()
                },
                after: after.to_vec(),
            };
            for round in 0..60_u64 {
                let edit = TaskEdit {
                    blocked_by: Some(vec![id(1 + round % 3)]),
                    ..TaskEdit::default()
                };
                writer
                    .update_task(team, &EventActor::Lead, &id(4), &edit)
                    .unwrap();
                let plan = [planned(&[]), planned(&[0]), planned(&[0, 1])];
                let made = writer.import_tasks(team, &EventActor::Lead, &plan).unwrap();
                let claimed = writer.claim(team, &claim_request("ada", Some(made[0].id())));
                let claimed = claimed.unwrap().unwrap();
                writer
                    .fail(team, claimed.task.id(), &claimed.token, "boom")
                    .unwrap();
                for task in &made {
                    writer
                        .delete_task(team, &EventActor::Lead, task.id())
                        .unwrap();
                }
            }
            over.store(true, Ordering::SeqCst);
        });
        let reader = crew.another();
        let mut reads = 0;
        while !over.load(Ordering::SeqCst) {
            let list = reader.tasks(team).unwrap();
            assert!(list.problems.is_empty(), "{:?}", list.problems);
            assert!(
                [4, 5, 6, 7].contains(&list.tasks.len()),
                "{}",
                list.tasks.len()
            );
            check_mirrors(&list.tasks);
            let events = reader.last_events(team, 5).unwrap();
            assert!(events.damaged.is_empty());
            reads += 1;
        }
        assert!(reads > 2, "only {reads} reads");
    });
    crew.check_journal();
}
