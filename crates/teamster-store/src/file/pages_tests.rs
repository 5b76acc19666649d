//! Tests of readers whose journal is torn, rotated, replaced and appended to while they read.

use std::path::{Path, PathBuf};

use teamster_fs::{Dir, Durability, layout, random_hex};
use teamster_journal::Event;
use teamster_types::Time;
use teamster_types::json::{self, Object};

use super::journal;
use super::last_events::LastEvents;
use super::pages::{ReadPlaces, each_event, last};

/// A folder with a journal, removed at the end.
struct JournalDir {
    root: PathBuf,
    dir: Dir,
}

impl JournalDir {
    fn new() -> Self {
        let root = std::env::temp_dir().join(format!("teamster-pages-{}", random_hex()));
        let dir = Dir::open_or_create_root(&root).unwrap();
        Self { root, dir }
    }

    fn put(&self, lines: &[u8]) {
        self.dir
            .append(layout::JOURNAL, lines, Durability::Fast)
            .unwrap();
    }

    /// Appends events with these positions, as teamster's writer does.
    fn write(&self, positions: impl IntoIterator<Item = u64>) {
        for seq in positions {
            self.put(&json::to_line(&event(seq, "agent.event")));
        }
    }

    /// Rotates the live file, as teamster's writer does with a full one.
    fn rotate(&self, number: u64) {
        let segment = layout::journal_segment(number);
        let moved = self.dir.rename_new(layout::JOURNAL, &self.dir, &segment);
        assert!(moved.unwrap());
    }

    fn path(&self) -> &Path {
        &self.root
    }
}

impl Drop for JournalDir {
    fn drop(&mut self) {
        let name = self.root.file_name().unwrap().to_str().unwrap();
        let parent = Dir::open_root(self.root.parent().unwrap()).unwrap();
        teamster_fs::remove_tree(&parent.unwrap(), name).unwrap();
    }
}

fn event(seq: u64, kind: &str) -> Event {
    let mut data = Object::new();
    data.insert(
        "text".to_owned(),
        "a line of some length ".repeat(20).into(),
    );
    Event {
        seq,
        id: random_hex(),
        ts: Time::from_millis(1_700_000_000_000),
        team: "crew".to_owned(),
        kind: kind.to_owned(),
        actor: "worker-1".into(),
        task_id: None,
        more: false,
        data,
    }
}

fn positions(events: &[Event]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

/// Returns the positions that one reader gets from `from` on, page by page, until there are no more.
fn read_all(places: &ReadPlaces, journal: &JournalDir, from: u64, limit: usize) -> Vec<u64> {
    let mut all = Vec::new();
    loop {
        let next = all.last().map_or(from, |last| last + 1);
        let page = places.read(&journal.dir, next, limit).unwrap();
        if page.events.is_empty() {
            return all;
        }
        all.extend(positions(&page.events));
    }
}

#[test]
fn pages_fit_together_whether_a_place_is_known_or_not() {
    let journal = JournalDir::new();
    journal.write(1..=900);
    let places = ReadPlaces::default();
    let all: Vec<u64> = (1..=900).collect();
    for limit in [1, 7, 64, 899, 900, 5_000] {
        assert_eq!(read_all(&places, &journal, 1, limit), all, "{limit}");
    }
    // Backwards, interleaved and repeated: the cached place of one reader does not mislead another.
    for from in [900, 899, 450, 451, 1, 850, 2, 900, 901] {
        let expected: Vec<u64> = (from..=900).take(5).collect();
        for places in [&places, &ReadPlaces::default()] {
            let page = places.read(&journal.dir, from, 5).unwrap();
            assert_eq!(positions(&page.events), expected, "from {from}");
        }
    }
}

#[test]
fn a_torn_last_line_is_not_there_until_it_is_whole() {
    let journal = JournalDir::new();
    journal.write(1..=10);
    let places = ReadPlaces::default();
    let line = json::to_line(&event(11, "agent.event"));
    let (torn, rest) = line.split_at(line.len() / 2);
    journal.put(torn);
    assert_eq!(
        read_all(&places, &journal, 1, 4),
        (1..=10).collect::<Vec<_>>()
    );
    assert_eq!(
        positions(&last(&journal.dir, 3).unwrap().events),
        [8, 9, 10]
    );
    assert!(places.read(&journal.dir, 11, 4).unwrap().events.is_empty());
    journal.put(rest);
    let page = places.read(&journal.dir, 11, 4).unwrap();
    assert_eq!(positions(&page.events), [11]);
    assert!(page.damaged.is_empty());
    assert_eq!(
        positions(&last(&journal.dir, 3).unwrap().events),
        [9, 10, 11]
    );
}

#[test]
fn a_commit_without_its_last_line_did_not_happen() {
    let journal = JournalDir::new();
    journal.write(1..=3);
    let places = ReadPlaces::default();
    let half = Event {
        more: true,
        ..event(4, "task.claimed")
    };
    journal.put(&json::to_line(&half));
    assert_eq!(read_all(&places, &journal, 1, 100), [1, 2, 3]);
    assert_eq!(positions(&last(&journal.dir, 2).unwrap().events), [2, 3]);
    assert_eq!(journal::position(&journal.dir).unwrap(), 3);
    journal.write([5]);
    assert_eq!(read_all(&places, &journal, 4, 100), [4, 5]);
    assert_eq!(positions(&last(&journal.dir, 2).unwrap().events), [4, 5]);
}

#[test]
fn a_reader_goes_on_when_its_file_becomes_a_segment() {
    let journal = JournalDir::new();
    let places = ReadPlaces::default();
    journal.write(1..=50);
    assert_eq!(read_all(&places, &journal, 1, 20).len(), 50);
    let page = places.read(&journal.dir, 21, 10).unwrap();
    assert_eq!(positions(&page.events), (21..=30).collect::<Vec<_>>());
    journal.rotate(1);
    // Between the two steps of a rotation there is no live file.
    assert!(places.read(&journal.dir, 51, 10).unwrap().events.is_empty());
    journal.write(51..=90);
    journal.rotate(2);
    journal.write(91..=95);
    for from in [31, 51, 90, 91, 1] {
        let expected: Vec<u64> = (from..=95).collect();
        assert_eq!(
            read_all(&places, &journal, from, 7),
            expected,
            "from {from}"
        );
    }
    let expected: Vec<u64> = (41..=95).collect();
    assert_eq!(positions(&last(&journal.dir, 55).unwrap().events), expected);
    let mut told = Vec::new();
    each_event(&journal.dir, layout::JOURNAL, &mut |event| {
        told.push(event.seq);
        event.seq < 93
    })
    .unwrap();
    assert_eq!(told, (1..=93).collect::<Vec<_>>());
}

#[test]
fn a_file_that_was_replaced_or_cut_is_read_anew() {
    let journal = JournalDir::new();
    let places = ReadPlaces::default();
    journal.write(1..=40);
    assert_eq!(read_all(&places, &journal, 1, 10).len(), 40);
    // Another file under the same name, with its lines at other offsets.
    let lines: Vec<u8> = (1..=60)
        .flat_map(|seq| {
            let mut event = event(seq, "agent.event");
            event.data.insert("more".to_owned(), "x".repeat(77).into());
            json::to_line(&event)
        })
        .collect();
    journal
        .dir
        .replace(layout::JOURNAL, &lines, Durability::Fast)
        .unwrap();
    assert_eq!(
        read_all(&places, &journal, 41, 10),
        (41..=60).collect::<Vec<_>>()
    );
    // The same file with other lines in it, and fewer.
    let file = journal.path().join(layout::JOURNAL);
    rewrite(&file, &lines[..lines.len() / 2]);
    assert!(places.read(&journal.dir, 61, 10).unwrap().events.is_empty());
    journal.put(b"\n");
    journal.write(31..=70);
    let expected: Vec<u64> = (61..=70).collect();
    assert_eq!(read_all(&places, &journal, 61, 10), expected);
}

/// Writes a file in place, which teamster never does.
#[allow(clippy::disallowed_methods, reason = "a test plays a foreign program")]
fn rewrite(file: &Path, bytes: &[u8]) {
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn damaged_lines_are_told_and_passed_over() {
    let journal = JournalDir::new();
    journal.write(1..=5);
    journal.put(b"{\"seq\":6,\"this is\n");
    journal.write(7..=9);
    let places = ReadPlaces::default();
    let page = places.read(&journal.dir, 1, 100).unwrap();
    assert_eq!(positions(&page.events), [1, 2, 3, 4, 5, 7, 8, 9]);
    assert_eq!(page.damaged.len(), 1);
    let page = last(&journal.dir, 4).unwrap();
    assert_eq!(positions(&page.events), [7, 8, 9]);
    assert_eq!(page.damaged.len(), 1);
    assert_eq!(read_all(&places, &journal, 6, 1), [7, 8, 9]);
}

#[test]
fn a_reader_misses_nothing_while_others_append_and_rotate() {
    const EVENTS: u64 = 3_000;
    let journal = JournalDir::new();
    journal.write([1]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for seq in 2..=EVENTS {
                if seq % 400 == 0 {
                    journal.rotate(seq / 400);
                }
                journal.write([seq]);
            }
        });
        for limit in [3, 100, 1_000] {
            let journal = &journal;
            scope.spawn(move || {
                let places = ReadPlaces::default();
                let mut seen = 0;
                let mut at = 0;
                while seen < EVENTS {
                    for event in places.read(&journal.dir, seen + 1, limit).unwrap().events {
                        assert_eq!(event.seq, seen + 1);
                        seen = event.seq;
                    }
                    let now = journal::position(&journal.dir).unwrap();
                    assert!(now >= at, "{now} after {at}");
                    at = now;
                    let newest = positions(&last(&journal.dir, 5).unwrap().events);
                    assert!(newest.is_sorted() && newest.last() >= Some(&at));
                }
            });
        }
    });
}

#[test]
fn the_last_of_a_type_is_found_however_far_back_and_across_segments() {
    let journal = JournalDir::new();
    let places = ReadPlaces::default();
    let known = LastEvents::default();
    let ask = || {
        let asked: [&[&str]; 3] = [&["run."], &["run.started"], &["approval.", "run.finished"]];
        let found = known.last_of_each(&journal.dir, &places, &asked).unwrap();
        let found = found.into_iter();
        found
            .map(|event| event.map(|event| (event.seq, event.kind)))
            .collect::<Vec<_>>()
    };
    let some = |seq, kind: &str| Some((seq, kind.to_owned()));
    journal.write([1]);
    assert_eq!(ask(), [None, None, None]);
    journal.put(&json::to_line(&event(2, "run.started")));
    journal.put(&json::to_line(&event(3, "run.stage")));
    journal.write(4..=2_500);
    journal.rotate(1);
    journal.write(2_501..=2_600);
    assert_eq!(ask(), [some(3, "run.stage"), some(2, "run.started"), None]);
    journal.put(&json::to_line(&event(2_601, "approval.requested")));
    journal.write(2_602..=2_650);
    let gate = some(2_601, "approval.requested");
    assert_eq!(
        ask(),
        [some(3, "run.stage"), some(2, "run.started"), gate.clone()]
    );
    // Many new events are searched rather than parsed, and no further back than the earlier search.
    journal.put(&json::to_line(&event(2_651, "run.resumed")));
    journal.write(2_652..=5_000);
    let expected = [some(2_651, "run.resumed"), some(2, "run.started"), gate];
    assert_eq!(ask(), expected);
    assert_eq!(ask(), expected);
    let fresh = LastEvents::default();
    let found = fresh
        .last_of_each(&journal.dir, &places, &[&["run.st"]])
        .unwrap();
    assert_eq!(found[0].as_ref().map(|event| event.seq), Some(3));
}
