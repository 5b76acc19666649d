//! Changes of other programs to the files.

use serde_json::{Map, json};
use teamster_types::task::Status;

use super::model;
use super::ops::{Damage, Foreign};
use super::run::Run;

impl Run {
    fn touched_by_others(&mut self, id: u64) {
        self.foreign.insert(id);
        self.unnoticed = true;
        self.counts.foreign += 1;
    }

    pub(super) fn foreign_write(&mut self, task: u8, what: Foreign, in_place: bool) {
        let id = self.pick(task);
        if !self.tasks.tasks.contains_key(&id) {
            return;
        }
        self.touched_by_others(id);
        let mark = self.counts.steps;
        let mut object = self.world.read_as_foreign(id);
        let task = self.tasks.tasks.get_mut(&id).unwrap();
        match what {
            Foreign::Keys => {
                let (key, value) = (format!("x-{mark}"), json!({"n": 1.50, "big": mark}));
                task.extra.insert(key.clone(), value.to_string());
                task.extra
                    .insert(format!("metadata.{key}"), value.to_string());
                object.insert(key.clone(), value.clone());
                object.entry("metadata").or_insert_with(|| json!({}))[&key] = value;
                let mut backwards: Vec<_> = object.into_iter().collect();
                backwards.reverse();
                object = backwards.into_iter().collect::<Map<_, _>>();
            }
            // Each title is longer than the last, so that even the size of the file differs.
            Foreign::Subject => {
                task.subject.push('!');
                object.insert("subject".to_owned(), json!(task.subject));
            }
            Foreign::Owner => {
                task.owner = Some(format!("stranger-{}", "x".repeat(self.log.len())));
                object.insert("owner".to_owned(), json!(task.owner));
            }
            Foreign::PutBack => {
                task.status = Status::Pending;
                task.owner = None;
                task.subject.push('?');
                object.insert("subject".to_owned(), json!(task.subject));
                object.insert("status".to_owned(), json!("pending"));
                object.shift_remove("owner");
            }
            Foreign::Completed => {
                task.status = Status::Completed;
                task.subject.push('.');
                object.insert("subject".to_owned(), json!(task.subject));
                object.insert("status".to_owned(), json!("completed"));
            }
        }
        self.world.write_as_foreign(id, &object, in_place);
    }

    pub(super) fn foreign_create(&mut self, skip: u8) {
        let id = self.highest_id + 1 + u64::from(skip);
        self.highest_id = id;
        self.touched_by_others(id);
        let subject = format!("made by others in step {}", self.counts.steps);
        let object = json!({"id": id.to_string(), "subject": subject, "description": "",
            "status": "pending", "blocks": [], "blockedBy": []});
        let object = object.as_object().unwrap();
        self.world.write_as_foreign(id, object, true);
        self.tasks.tasks.insert(id, model::Task::new(subject));
    }

    pub(super) fn foreign_delete(&mut self, task: u8) {
        let id = self.pick(task);
        if self.tasks.tasks.remove(&id).is_some() {
            self.touched_by_others(id);
            std::fs::remove_file(self.world.task_file(id)).unwrap();
        }
    }

    pub(super) fn lose_index(&mut self, damage: Damage) {
        let file = self.world.index_file();
        let Ok(bytes) = std::fs::read(&file) else {
            return;
        };
        match damage {
            Damage::Removed => std::fs::remove_file(file).unwrap(),
            Damage::Cut => std::fs::write(file, &bytes[..bytes.len() / 2]).unwrap(),
            Damage::Scribbled => std::fs::write(file, vec![0x5a; bytes.len()]).unwrap(),
        }
    }
}
