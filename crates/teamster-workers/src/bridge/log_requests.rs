//! Logs for somebody on another machine: the worker sends what the asker lacks, through the store.

use teamster_fs::{Dir, FileKind, FsError, layout};
use teamster_isolate::OrTrace as _;
use teamster_store::{LogPiece, LogRequest};

use super::reporter::Reporter;

/// The most that one answer brings, in bytes. Whoever wants more asks again.
const MOST: usize = 1024 * 1024;

/// Answers every request for the worker's logs. One that cannot be answered now is asked again by whoever still wants it.
pub(super) fn answer(reporter: &Reporter, project: &Dir) {
    let (store, team) = (reporter.store(), reporter.team());
    let requests = store.log_requests(team, reporter.name());
    for request in requests
        .ok_or_trace("read requests for logs")
        .unwrap_or_default()
    {
        let mut folders = vec![layout::OMC];
        folders.extend(layout::log_folders(team, reporter.name()));
        let pieces = match project.descend(&folders) {
            Ok(Some(folder)) => missing(&folder, &request),
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        let pieces = pieces.ok_or_trace("read logs that somebody asked for");
        let answered = store.answer_logs(team, &request.id, &pieces.unwrap_or_default());
        answered.or_trace("answer a request for logs");
    }
}

/// Returns what somebody lacks of the logs in a folder, those that were written last first.
fn missing(folder: &Dir, request: &LogRequest) -> Result<Vec<LogPiece>, FsError> {
    let mut files = Vec::new();
    for entry in folder.entries()? {
        // An agent may put whatever it likes beside its logs, and nothing of that keeps them back.
        let stamp = folder.stamp(&entry.name)?;
        if let Some(stamp) = stamp.filter(|stamp| stamp.kind == FileKind::File) {
            files.push((stamp.modified, entry.name, stamp.size));
        }
    }
    files.sort_by(|one, other| other.cmp(one));
    let (mut pieces, mut room) = (Vec::new(), MOST);
    for (_, file, size) in files {
        let present = request.present.iter().find(|(name, _)| *name == file);
        let mut from = present.map_or(0, |(_, size)| *size);
        if from == size {
            continue;
        }
        if from > size {
            // It was put aside and begun anew.
            from = 0;
        }
        let bytes = folder.read_from(&file, from)?;
        let bytes = bytes.map(|(bytes, _)| bytes).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(room)];
        let whole = bytes.iter().rposition(|byte| *byte == b'\n');
        let Some(whole) = whole.map(|end| &bytes[..=end]) else {
            continue;
        };
        room -= whole.len();
        pieces.push(LogPiece {
            file,
            from,
            text: String::from_utf8_lossy(whole).into_owned(),
        });
    }
    Ok(pieces)
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "the test writes what an agent would have left"
)]
mod tests {
    use teamster_testkit::scratch::Scratch;

    use super::*;

    #[test]
    fn whole_lines_that_somebody_lacks_are_sent_and_a_log_that_was_begun_anew_from_its_beginning() {
        let scratch = Scratch::new("log-requests");
        for (name, text) in [
            ("1.jsonl", "a\nb\nc"),
            ("2.jsonl", "new\n"),
            ("3.jsonl", "same\n"),
        ] {
            std::fs::write(scratch.path().join(name), text).unwrap();
        }
        std::fs::create_dir(scratch.path().join("folder.jsonl")).unwrap();
        std::os::unix::fs::symlink("1.jsonl", scratch.path().join("link.jsonl")).unwrap();
        let folder = Dir::open_root(scratch.path()).unwrap().unwrap();
        let request = LogRequest {
            id: "r".to_owned(),
            present: vec![
                ("1.jsonl".to_owned(), 2),
                ("2.jsonl".to_owned(), 900),
                ("3.jsonl".to_owned(), 5),
            ],
        };
        let mut pieces = missing(&folder, &request).unwrap();
        pieces.sort_by(|one, other| one.file.cmp(&other.file));
        let found: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.file.as_str(), piece.from, piece.text.as_str()))
            .collect();
        assert_eq!(found, [("1.jsonl", 2, "b\n"), ("2.jsonl", 0, "new\n")]);
    }

    #[test]
    fn answer_is_never_longer_than_a_megabyte() {
        let scratch = Scratch::new("log-requests-long");
        let line = format!("{}\n", "x".repeat(1_000));
        std::fs::write(scratch.path().join("1.jsonl"), line.repeat(3_000)).unwrap();
        let folder = Dir::open_root(scratch.path()).unwrap().unwrap();
        let (mut present, mut got) = (Vec::new(), String::new());
        for _ in 0..3 {
            let request = LogRequest {
                id: "r".to_owned(),
                present: present.clone(),
            };
            let pieces = missing(&folder, &request).unwrap();
            assert_eq!(pieces.len(), 1);
            assert!(pieces[0].text.len() <= MOST);
            got.push_str(&pieces[0].text);
            present = vec![("1.jsonl".to_owned(), got.len() as u64)];
        }
        assert_eq!(got, line.repeat(3_000));
    }
}
