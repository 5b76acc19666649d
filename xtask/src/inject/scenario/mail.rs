//! Send, read with acknowledgement, and a send that rotates the mailbox.

use anyhow::{Result, bail};
use serde_json::Value;

use super::super::disk::Disk;
use super::{Case, Scenario, ask, words};
use crate::kit;
use crate::product::{Answer, Place, Product};

/// What the operation sends, and what the next sender does.
const STRUCK: &str = "struck";
const NEXT: &str = "next";

/// The contents of a worker's inbox, full segments first.
fn contents(place: &Place, worker: &str) -> Result<Vec<String>> {
    let folder = place.team().join("inbox");
    let mut text = String::new();
    for number in 1.. {
        match std::fs::read_to_string(folder.join(format!("{worker}.{number}.jsonl"))) {
            Ok(segment) => text.push_str(&segment),
            Err(_) => break,
        }
    }
    let live = std::fs::read_to_string(folder.join(format!("{worker}.jsonl")));
    text.push_str(&live.unwrap_or_default());
    let mut contents = Vec::new();
    for line in text.lines() {
        match serde_json::from_str::<Value>(line) {
            Ok(message) => contents.push(short(message["content"].as_str().unwrap_or_default())),
            Err(error) => bail!("a line of the inbox of {worker} is torn: {error}"),
        }
    }
    Ok(contents)
}

/// The first word: long messages begin with their name.
fn short(content: &str) -> String {
    let word = content.split_whitespace().next().unwrap_or_default();
    word.to_owned()
}

/// What a reader is given.
fn read(product: &Product, case: &Case, line: &str) -> Result<Vec<String>> {
    let answer = ask(product, case, line)?;
    let messages = answer["messages"].as_array().cloned().unwrap_or_default();
    let content = |message: &Value| short(message["content"].as_str().unwrap_or_default());
    Ok(messages.iter().map(content).collect())
}

fn names(numbers: std::ops::RangeInclusive<usize>) -> Vec<String> {
    numbers.map(|number| format!("m{number}")).collect()
}

/// How often the struck message lies in the inbox: never or once.
fn is_sent(case: &Case) -> Result<bool> {
    let contents = contents(&case.place, "w2")?;
    match contents.iter().filter(|content| *content == STRUCK).count() {
        0 => Ok(false),
        1 => Ok(true),
        more => bail!("the message lies in the inbox {more} times"),
    }
}

fn told_of_struck(disk: &Disk) -> usize {
    let of_struck = |event: &&Value| {
        let content = event["data"]["content"].as_str().unwrap_or_default();
        event["type"] == "message.sent" && short(content) == STRUCK
    };
    disk.events.iter().filter(of_struck).count()
}

/// Reading must give `before`, the struck message if it was sent, and the next one, in this order.
fn check_order(
    product: &Product,
    case: &Case,
    mut before: Vec<String>,
    happened: bool,
) -> Result<Vec<String>> {
    if happened {
        before.push(STRUCK.to_owned());
    }
    before.push(NEXT.to_owned());
    let got = read(product, case, "message read --as w2 --json")?;
    Ok(if got == before {
        Vec::new()
    } else {
        vec![format!("the reader should get {before:?} and got {got:?}")]
    })
}

/// `message send`
pub(super) struct Send;

impl Scenario for Send {
    fn name(&self) -> &'static str {
        "message send"
    }

    fn is_central(&self) -> bool {
        true
    }

    fn prepare(&self) -> Result<Case> {
        let place = Place::temporary()?;
        let store = kit::team_of(&place, 3)?;
        for name in names(1..=2) {
            kit::send(&store, 1, 2, &name)?;
        }
        let words = words(&format!("message send --to w2 --from w1 {STRUCK} --json"));
        Ok(Case {
            place,
            words,
            input: None,
            token: String::new(),
        })
    }

    fn state(&self, case: &Case, _: &Disk) -> Result<bool> {
        is_sent(case)
    }

    fn told(&self, disk: &Disk) -> usize {
        told_of_struck(disk)
    }

    fn seen(&self, product: &Product, case: &Case) -> Result<bool> {
        let listed = read(product, case, "message list --json")?;
        Ok(listed.iter().any(|content| content == STRUCK))
    }

    fn next(&self) -> Vec<String> {
        words(&format!("message send --to w2 --from w3 {NEXT} --json"))
    }

    fn end(
        &self,
        product: &Product,
        case: &Case,
        happened: bool,
        _: &Answer,
    ) -> Result<Vec<String>> {
        check_order(product, case, names(1..=2), happened)
    }
}

/// `message read --ack`
pub(super) struct ReadAndAck;

impl Scenario for ReadAndAck {
    fn name(&self) -> &'static str {
        "message read --ack"
    }

    fn prepare(&self) -> Result<Case> {
        let place = Place::temporary()?;
        let store = kit::team_of(&place, 3)?;
        for name in names(1..=3) {
            kit::send(&store, 1, 2, &name)?;
        }
        Ok(Case {
            place,
            words: words("message read --as w2 --ack --limit 2 --json"),
            input: None,
            token: String::new(),
        })
    }

    fn state(&self, case: &Case, _: &Disk) -> Result<bool> {
        let file = case.place.team().join("inbox").join("w2.offset");
        let Ok(bytes) = std::fs::read(&file) else {
            return Ok(false);
        };
        let cursor: Value = serde_json::from_slice(&bytes)?;
        let live = std::fs::read_to_string(case.place.team().join("inbox").join("w2.jsonl"))?;
        let two: usize = live.split_inclusive('\n').take(2).map(str::len).sum();
        match cursor["bytesRead"].as_u64() {
            Some(0) | None => Ok(false),
            Some(read) if read == two as u64 => Ok(true),
            Some(read) => bail!("the cursor stands at byte {read}, not behind two messages"),
        }
    }

    fn told(&self, disk: &Disk) -> usize {
        disk.count("message.acked", None)
    }

    fn seen(&self, product: &Product, case: &Case) -> Result<bool> {
        let listed = ask(product, case, "message list --json")?;
        Ok(!listed["messages"][0]["ackedAt"].is_null())
    }

    fn next(&self) -> Vec<String> {
        words(&format!("message send --to w2 --from w3 {NEXT} --json"))
    }

    fn hands_out(&self) -> bool {
        true
    }

    fn end(
        &self,
        product: &Product,
        case: &Case,
        happened: bool,
        _: &Answer,
    ) -> Result<Vec<String>> {
        let left = if happened { names(3..=3) } else { names(1..=3) };
        check_order(product, case, left, false)
    }
}

/// A `message send` that finds the inbox full.
pub(super) struct Rotate;

/// Messages that fill an inbox, and how many of them are acknowledged and read.
const FILL: usize = 17;
const ACKED: usize = 5;
const READ: usize = 3;

impl Scenario for Rotate {
    fn name(&self) -> &'static str {
        "message send (rotating)"
    }

    fn prepare(&self) -> Result<Case> {
        let place = Place::temporary()?;
        let store = kit::team_of(&place, 3)?;
        let padding = "x".repeat(63 * 1024);
        for name in names(1..=FILL) {
            kit::send(&store, 1, 2, &format!("{name} {padding}"))?;
        }
        kit::receive(&store, 2, ACKED, true)?;
        kit::receive(&store, 2, READ, false)?;
        let size = std::fs::metadata(place.team().join("inbox").join("w2.jsonl"))?.len();
        if size < 1024 * 1024 {
            bail!("the inbox has only {size} bytes");
        }
        let words = words(&format!("message send --to w2 --from w1 {STRUCK} --json"));
        Ok(Case {
            place,
            words,
            input: None,
            token: String::new(),
        })
    }

    fn state(&self, case: &Case, _: &Disk) -> Result<bool> {
        is_sent(case)
    }

    fn told(&self, disk: &Disk) -> usize {
        told_of_struck(disk)
    }

    fn seen(&self, product: &Product, case: &Case) -> Result<bool> {
        Send.seen(product, case)
    }

    fn next(&self) -> Vec<String> {
        Send.next()
    }

    fn end(
        &self,
        product: &Product,
        case: &Case,
        happened: bool,
        _: &Answer,
    ) -> Result<Vec<String>> {
        let mut complaints = check_order(product, case, names(ACKED + 1..=FILL), happened)?;
        if !case.place.team().join("inbox").join("w2.1.jsonl").exists() {
            complaints.push("the inbox did not rotate".to_owned());
        }
        Ok(complaints)
    }
}
