//! Lines as programs print them.

#![allow(
    clippy::disallowed_methods,
    reason = "tests arrange and look at files as any other program would"
)]

use super::*;
use teamster_testkit::scratch::Scratch;
use teamster_types::redact::MASK;

/// Returns the shown lines, the remembered lines and the content of the log.
fn printed(lines: &[&[u8]]) -> (Vec<String>, String, String) {
    let scratch = Scratch::new("output");
    let project = Dir::open_root(&scratch.project()).unwrap().unwrap();
    let mut shown = Vec::new();
    let mut say = |lines: &str| shown.extend(lines.lines().map(str::to_owned));
    let mut output = CheckOutput::open(&project, &"fix".parse().unwrap(), &PLACE, &mut say);
    for line in lines {
        output.line(OutputStream::Output, line);
    }
    let last = output.take_last();
    let (path, remarks) = output.close();
    assert_eq!(remarks, Vec::<String>::new());
    assert_eq!(path, ".omc/logs/fix/verify/integration-1-2.log");
    let file = std::fs::read_to_string(scratch.project().join(path)).unwrap();
    (shown, last, file)
}

const PLACE: CheckPlace<'_> = CheckPlace {
    on: "integration",
    round: 1,
    number: 2,
};

#[test]
fn a_line_is_shown_remembered_and_kept() {
    let (shown, last, file) = printed(&[b"one", b"", b"  two\x1b[31m!\x1b[0m"]);
    assert_eq!(shown, ["one", "", "  two!"]);
    assert_eq!(last, "one\n\n  two!");
    assert_eq!(file, "one\n\n  two!\n");
}

#[test]
fn a_progress_bar_is_many_lines_and_bytes_that_are_no_text_are_marked() {
    let (shown, ..) = printed(&[b"10%\r50%\r100%", b"\xff\xfe caf\xe9"]);
    assert_eq!(
        shown,
        ["10%", "50%", "100%", "\u{fffd}\u{fffd} caf\u{fffd}"]
    );
}

#[test]
fn a_progress_bar_of_any_length_is_shown_to_its_end() {
    let bar: Vec<String> = (0..20_000).map(|n| format!("{n} of 20000")).collect();
    let (shown, last, _) = printed(&[bar.join("\r").as_bytes()]);
    assert_eq!(shown, bar);
    assert!(last.ends_with("\n19999 of 20000"));
}

#[test]
fn secrets_go_nowhere() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let line = format!("token {token} PASSWORD=hunter22secret");
    let (shown, last, file) = printed(&[line.as_bytes()]);
    for text in [&shown[0], &last, &file] {
        assert!(
            !text.contains(&token) && !text.contains("hunter22"),
            "{text}"
        );
        assert!(text.contains(MASK), "{text}");
    }
}

#[test]
fn a_private_key_over_many_lines_goes_as_a_whole_and_takes_nothing_with_it() {
    let body = "MIIEowIBAAKCAQEAaB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJaB3dE5gH7j";
    let (shown, ..) = printed(&[
        b"before",
        b"-----BEGIN RSA PRIVATE KEY-----",
        b"Proc-Type: 4,ENCRYPTED",
        b"",
        body.as_bytes(),
        b"K9mN1pQ3sT5vW7y=",
        b"-----END RSA PRIVATE KEY-----",
        b"after",
    ]);
    assert_eq!(shown, ["before", MASK, "after"]);
    let (shown, ..) = printed(&[
        b"expected -----BEGIN PRIVATE KEY-----",
        b"test x ... FAILED",
        body.as_bytes(),
    ]);
    assert_eq!(shown, ["expected [redacted]", "test x ... FAILED", body]);
}

#[test]
fn only_so_many_lines_are_remembered_and_only_so_much_of_each() {
    let lines: Vec<Vec<u8>> = (0..300).map(|n| format!("line {n}").into_bytes()).collect();
    let mut lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
    let long = [b'x'; 5_000];
    lines.push(&long);
    let (_, last, file) = printed(&lines);
    assert_eq!(last.lines().count(), 200);
    assert!(last.starts_with("line 101\n"));
    assert_eq!(last.lines().last().unwrap().chars().count(), LAST_LINE);
    assert_eq!(file.lines().count(), 301);
    assert_eq!(file.lines().last().unwrap().len(), 5_000);
}

#[test]
fn a_line_without_end_is_cut_and_no_half_of_a_secret_is_left() {
    // The secret begins before the cut and ends after it.
    let token = format!("ghp_{}", "a1B2".repeat(9));
    for before in [LONGEST_LINE - 10, LONGEST_LINE + LOOK_AHEAD - 10] {
        let line = format!(
            "{} {token} {}",
            "word ".repeat(before / 5),
            "y".repeat(100_000)
        );
        let (shown, ..) = printed(&[line.as_bytes()]);
        assert!(shown[0].len() <= LONGEST_LINE + 3, "{}", shown[0].len());
        assert!(!shown[0].contains("ghp_"));
    }
}

#[test]
fn the_file_has_the_first_and_the_last_part_and_says_how_much_is_missing() {
    let line = [b'z'; 999];
    let mut lines: Vec<&[u8]> = vec![b"the first"];
    lines.extend(std::iter::repeat_n(&line[..], 10_000));
    lines.push(b"the last");
    let (_, _, file) = printed(&lines);
    assert!(file.len() <= 8 * 1024 * 1024, "{}", file.len());
    assert!(file.len() > 7 * 1024 * 1024, "{}", file.len());
    assert!(file.starts_with("the first\n") && file.ends_with("the last\n"));
    let words = file.lines().find(|line| line.starts_with('[')).unwrap();
    let kept = file.len() - words.len() - 1;
    let all: usize = lines.iter().map(|line| line.len() + 1).sum();
    assert_eq!(
        words,
        format!("[… {} bytes are left out here …]", all - kept)
    );
}

#[test]
fn a_log_that_is_there_already_stays() {
    let scratch = Scratch::new("output-again");
    let project = Dir::open_root(&scratch.project()).unwrap().unwrap();
    for (try_, name) in ["integration-1-2.log", "integration-1-2.again-1.log"]
        .iter()
        .enumerate()
    {
        let mut say = |_: &str| {};
        let mut output = CheckOutput::open(&project, &"fix".parse().unwrap(), &PLACE, &mut say);
        output.line(OutputStream::Error, format!("try {try_}").as_bytes());
        let (path, _) = output.close();
        assert_eq!(path, format!(".omc/logs/fix/verify/{name}"));
        let file = std::fs::read_to_string(scratch.project().join(path)).unwrap();
        assert_eq!(file, format!("try {try_}\n"));
    }
}

#[test]
fn without_a_place_for_the_log_the_output_is_shown_and_that_is_told() {
    let scratch = Scratch::new("output-nowhere");
    std::os::unix::fs::symlink("/tmp", scratch.project().join(".omc")).unwrap();
    let project = Dir::open_root(&scratch.project()).unwrap().unwrap();
    let mut shown = Vec::new();
    let mut say = |lines: &str| shown.extend(lines.lines().map(str::to_owned));
    let mut output = CheckOutput::open(&project, &"fix".parse().unwrap(), &PLACE, &mut say);
    output.line(OutputStream::Output, b"here");
    assert_eq!(output.take_last(), "here");
    let (path, remarks) = output.close();
    assert_eq!(path, "");
    assert!(
        remarks[0].starts_with("its output is not kept: "),
        "{remarks:?}"
    );
    assert_eq!(shown, ["here"]);
}
