//! Ten thousand messages through rotating files, to a reader that repeatedly dies.

use teamster_fs::fail;
use teamster_store::{Reader, Store};
use teamster_testkit::Dice;

use super::{FileTeam, message};

const MESSAGES: usize = 10_000;

/// What a reader knows about its deliveries.
#[derive(Default)]
struct Books {
    /// Acknowledged, with a successful return.
    acked: usize,
    /// Acknowledged by a reader that died before the call returned.
    perhaps: usize,
    /// Every message before this one was delivered.
    delivered: usize,
    deaths: usize,
}

impl Books {
    /// Checks that a delivery begins where an acknowledgement ended, and omits nothing.
    fn note(&mut self, got: &[usize]) {
        let first = got[0];
        assert!(
            first == self.acked || first == self.perhaps,
            "the next is {first}, but {} were acknowledged (or {})",
            self.acked,
            self.perhaps
        );
        for (place, number) in got.iter().enumerate() {
            assert_eq!(*number, first + place, "one was left out");
        }
        self.acked = first;
        self.perhaps = first;
        self.delivered = self.delivered.max(first + got.len());
    }
}

fn number(text: &str) -> usize {
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn ten_thousand_messages_reach_a_reader_that_dies_again_and_again() {
    let crew = FileTeam::new("rotation");
    let sender = crew.another();
    let padding = "x".repeat(300);
    let books = std::thread::scope(|scope| {
        let team = &crew.team;
        let sending = scope.spawn(move || {
            for number in 0..MESSAGES {
                let text = format!("{number} {padding}");
                sender.send(team, &message("ada", &text)).unwrap();
            }
        });
        let books = read_all(&crew);
        sending.join().unwrap();
        books
    });
    assert_eq!(books.delivered, MESSAGES);
    assert!(books.deaths > 20, "only {} deaths", books.deaths);
    assert!(crew.read("ada", true).unwrap().is_empty());
    let inbox = std::fs::read_dir(crew.in_team("inbox")).unwrap();
    let segments = inbox.filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().matches('.').count() == 2
    });
    assert!(segments.count() >= 2, "the box never rotated");
}

/// Reads, works, and only then acknowledges; dies in between, and during either.
fn read_all(crew: &FileTeam) -> Books {
    let reader = Reader::Worker("ada".parse().unwrap());
    let (mut books, mut dice) = (Books::default(), Dice(17));
    while books.acked < MESSAGES {
        let limit = usize::try_from(1 + dice.below(200)).unwrap();
        let got = mortal(&mut books, &mut dice, || {
            crew.store.receive(&crew.team, &reader, limit, false)
        });
        let Some(delivery) = got else {
            continue;
        };
        let numbers: Vec<usize> = delivery
            .messages
            .iter()
            .map(|message| number(message.content()))
            .collect();
        if numbers.is_empty() {
            std::thread::yield_now();
            continue;
        }
        books.note(&numbers);
        let done = usize::try_from(dice.below(numbers.len() as u64 + 1)).unwrap();
        if done == 0 {
            continue;
        }
        let last = delivery.messages[done - 1].id();
        let acked = mortal(&mut books, &mut dice, || {
            crew.store.acknowledge(&crew.team, &reader, last)
        });
        books.perhaps = books.acked + done;
        if acked.is_some() {
            books.acked = books.perhaps;
        }
    }
    books
}

/// Runs an operation that may be killed on its way; returns `None` if it was.
fn mortal<T>(
    books: &mut Books,
    dice: &mut Dice,
    act: impl FnOnce() -> teamster_store::Result<T>,
) -> Option<T> {
    if dice.below(3) == 0 {
        fail::die_after(dice.below(70));
    }
    let done = act();
    let died = fail::revive();
    books.deaths += usize::from(died);
    match done {
        Ok(value) => Some(value),
        Err(_) if died => None,
        Err(error) => panic!("{error}"),
    }
}
