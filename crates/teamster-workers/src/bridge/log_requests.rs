//! Sends logs to readers on other machines: the worker sends the missing parts through the store.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use teamster_fs::{Dir, FileKind, FsError, Stamp, layout};
use teamster_isolate::OrTrace as _;
use teamster_store::{LogPiece, LogRequest};

use super::reporter::Reporter;

/// The most bytes of logs in one reply. As JSON they take up to twice as much, which still fits into the database. The
/// reader sends another request for more.
const MAX_REPLY_BYTES: usize = 512 * 1024;
/// A file is identified by this many bytes at its start, or by its first line if that is shorter.
const IDENTITY_BYTES: usize = 64;

/// Answers every request for the worker's logs. A reader repeats a request that cannot be answered now.
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
            Ok(Some(folder)) => missing_parts(&folder, &request),
            Ok(None) => Ok(Vec::new()),
            Err(error) => Err(error),
        };
        // An empty reply would mean that the reader already has everything.
        let Some(pieces) = pieces.ok_or_trace("read logs that somebody asked for") else {
            continue;
        };
        let answered = store.answer_logs(team, &request.id, &pieces);
        answered.or_trace("answer a request for logs");
    }
}

/// Returns the parts of a folder's logs that the reader lacks, the latest logs first. Logs that cannot be read are skipped.
fn missing_parts(folder: &Dir, request: &LogRequest) -> Result<Vec<LogPiece>, FsError> {
    let mut files = Vec::new();
    for entry in folder.entries()? {
        if !layout::is_worker_log(&entry.name) {
            continue;
        }
        let stamp = folder.stamp(&entry.name).ok_or_trace("look at a log");
        let plain = stamp
            .flatten()
            .filter(|stamp| stamp.kind == FileKind::File && stamp.size > 0);
        if let Some(stamp) = plain {
            files.push((stamp.modified, entry.name, stamp));
        }
    }
    files.sort_by(|one, other| (other.0, &other.1).cmp(&(one.0, &one.1)));
    let (mut pieces, mut room) = (Vec::new(), MAX_REPLY_BYTES);
    for (_, file, stamp) in files {
        let piece = missing_part(folder, &file, &stamp, request, room);
        if let Some(piece) = piece.ok_or_trace("read a log").flatten() {
            room -= usize::try_from(piece.next - piece.from).unwrap_or(room);
            pieces.push(piece);
        }
        if room == 0 {
            break;
        }
    }
    Ok(pieces)
}

/// Returns the part of one log that the reader lacks, at most `room` bytes, or `None` when there is nothing to send.
fn missing_part(
    folder: &Dir,
    file: &str,
    stamp: &Stamp,
    request: &LogRequest,
    room: usize,
) -> Result<Option<LogPiece>, FsError> {
    let Some(identity) = identity(folder, file, stamp)? else {
        return Ok(None);
    };
    let mut known = request.present.iter();
    let known = known.find(|known| known.identity == identity);
    // A file that is shorter than the reader's copy was truncated.
    let from = known
        .map(|known| known.next)
        .filter(|next| *next <= stamp.size)
        .unwrap_or(0);
    let left = usize::try_from(stamp.size - from).unwrap_or(room);
    let mut bytes = vec![0; left.min(room)];
    let read = folder.read_at(file, &mut bytes, from)?.unwrap_or(0);
    bytes.truncate(read);
    let end = match bytes.iter().rposition(|byte| *byte == b'\n') {
        Some(last) => last + 1,
        // A line that is too long for a single reply is sent in parts.
        None if read == MAX_REPLY_BYTES => whole_characters(&bytes),
        None => 0,
    };
    bytes.truncate(end);
    Ok((end > 0).then(|| LogPiece {
        file: file.to_owned(),
        identity,
        from,
        next: from + end as u64,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    }))
}

/// Returns the number of bytes before an incomplete character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to().max(1),
        _ => bytes.len(),
    }
}

/// Returns the identity of a file, which changes when another file takes its place, or `None` while the file is too short.
fn identity(folder: &Dir, file: &str, stamp: &Stamp) -> Result<Option<String>, FsError> {
    let mut head = [0; IDENTITY_BYTES];
    let read = folder.read_at(file, &mut head, 0)?.unwrap_or(0);
    let line = head[..read].iter().position(|byte| *byte == b'\n');
    let head = match line {
        Some(end) => &head[..end],
        None if read == IDENTITY_BYTES => &head[..],
        None => return Ok(None),
    };
    let mut hasher = DefaultHasher::new();
    head.hash(&mut hasher);
    Ok(Some(format!("{}-{:016x}", stamp.inode, hasher.finish())))
}

#[cfg(test)]
#[allow(
    clippy::disallowed_methods,
    reason = "the test writes what an agent would have left"
)]
mod tests {
    use teamster_store::KnownLog;
    use teamster_testkit::scratch::Scratch;

    use super::*;

    fn folder(scratch: &Scratch) -> Dir {
        Dir::open_root(scratch.path()).unwrap().unwrap()
    }

    fn request(present: &[LogPiece]) -> LogRequest {
        let known = |piece: &LogPiece| KnownLog {
            identity: piece.identity.clone(),
            next: piece.next,
        };
        LogRequest {
            id: "r".to_owned(),
            present: present.iter().map(known).collect(),
        }
    }

    fn found(pieces: &[LogPiece]) -> Vec<(&str, u64, &str)> {
        let mut found: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.file.as_str(), piece.from, piece.text.as_str()))
            .collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn whole_lines_that_somebody_lacks_are_sent_and_nothing_but_logs() {
        let scratch = Scratch::new("log-requests");
        let write =
            |name: &str, text: &str| std::fs::write(scratch.path().join(name), text).unwrap();
        write("1.jsonl", "a\nb");
        write("2.jsonl", "same\n");
        write("bridge.log", "hello\n");
        for other in [".1.jsonl.swp", "notes.txt", "x.jsonl", "1.jsonl.bak"] {
            write(other, "no log\n");
        }
        std::fs::create_dir(scratch.path().join("7.jsonl")).unwrap();
        std::os::unix::fs::symlink("1.jsonl", scratch.path().join("8.jsonl")).unwrap();
        let folder = folder(&scratch);
        let first = missing_parts(&folder, &request(&[])).unwrap();
        assert_eq!(
            found(&first),
            [
                ("1.jsonl", 0, "a\n"),
                ("2.jsonl", 0, "same\n"),
                ("bridge.log", 0, "hello\n")
            ]
        );
        let mut more = std::fs::File::options();
        let mut file = more
            .append(true)
            .open(scratch.path().join("1.jsonl"))
            .unwrap();
        std::io::Write::write_all(&mut file, b"\nc\nd").unwrap();
        let second = missing_parts(&folder, &request(&first)).unwrap();
        assert_eq!(found(&second), [("1.jsonl", 2, "b\nc\n")]);
    }

    #[test]
    fn log_that_was_put_aside_goes_on_where_it_was_and_the_new_one_begins_at_its_beginning() {
        let scratch = Scratch::new("log-requests-aside");
        let path = |name: &str| scratch.path().join(name);
        std::fs::write(path("1.jsonl"), "old 1\n").unwrap();
        let folder = folder(&scratch);
        let known = missing_parts(&folder, &request(&[])).unwrap();
        std::fs::write(path("1.jsonl"), "old 1\nold 2\n").unwrap();
        std::fs::rename(path("1.jsonl"), path("1.old.jsonl")).unwrap();
        // The new log is longer than the known part of the first one.
        std::fs::write(path("1.jsonl"), "a new log, longer than the other one\n").unwrap();
        let pieces = missing_parts(&folder, &request(&known)).unwrap();
        assert_eq!(
            found(&pieces),
            [
                ("1.jsonl", 0, "a new log, longer than the other one\n"),
                ("1.old.jsonl", 6, "old 2\n")
            ]
        );
    }

    /// Sends requests until nothing is missing, and returns the number of replies and the received text of a file.
    fn all_of(folder: &Dir) -> (usize, String) {
        let (mut known, mut got, mut answers) = (Vec::new(), String::new(), 0);
        loop {
            let pieces = missing_parts(folder, &request(&known)).unwrap();
            let Some(piece) = pieces.first() else {
                return (answers, got);
            };
            assert!(piece.text.len() <= MAX_REPLY_BYTES);
            answers += 1;
            got.push_str(&piece.text);
            known = pieces;
        }
    }

    #[test]
    fn answer_is_never_longer_than_it_may_be() {
        let scratch = Scratch::new("log-requests-long");
        let lines = format!("{}\n", "x".repeat(1_000)).repeat(1_500);
        std::fs::write(scratch.path().join("1.jsonl"), &lines).unwrap();
        let (answers, got) = all_of(&folder(&scratch));
        assert_eq!(answers, 3);
        assert_eq!(got, lines);
    }

    #[test]
    fn line_longer_than_an_answer_comes_in_parts() {
        let scratch = Scratch::new("log-requests-line");
        let lines = format!("{}\nafter\n", "é".repeat(MAX_REPLY_BYTES));
        std::fs::write(scratch.path().join("1.jsonl"), &lines).unwrap();
        let (answers, got) = all_of(&folder(&scratch));
        assert!(answers > 2, "{answers}");
        assert!(got == lines, "{} bytes of {}", got.len(), lines.len());
    }
}
