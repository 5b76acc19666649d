//! Secrets stay out of everything that people read and share.

use std::path::Path;

use teamster_testkit::RunCmd;

use crate::run::Shop;

/// Returns a private key whose single lines do not look like secrets.
fn key() -> (String, Vec<String>) {
    let line = |number: usize| {
        format!(
            "{}{number:02}",
            "MIIEowIBAAKCAQEAaB3dE5gH7jK9mN1p".repeat(2)
        )
    };
    let body: Vec<String> = (10..40).map(line).collect();
    let text = format!(
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n",
        body.join("\n")
    );
    (text, body)
}

/// Returns the files below a folder that contain one of these words, without worktrees.
fn files_with(folder: &Path, words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, words));
        } else if let Ok(bytes) = std::fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes);
            if words.iter().any(|word| text.contains(word)) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn private_key_that_a_worker_prints_line_by_line_is_kept_nowhere() {
    let shop = Shop::new();
    let (text, body) = key();
    let file = shop.aside().join("key.pem");
    std::fs::write(&file, text).unwrap();
    let file = file.display();
    let command = format!(
        "w=command:cat {file}; sed 's/^/   /' {file} >&2; echo mended > news.txt; head -5 {file} >&2; head -9 {file}"
    );
    let words = RunCmd::new("shop", "1:w", "mend it").provider(&command);
    let check = format!("cat {file}; head -9 {file}");
    let words = words.verify(&check).approve("never");
    let ran = shop.call(words).run().exits(0);
    let logs = shop.run(&["worker", "logs", "worker-1", "--team", "shop", "--raw"]);
    assert!(logs.stdout.contains("[redacted]"), "{}", logs.stdout);
    for text in [&ran.stdout, &ran.stderr, &logs.stdout] {
        assert!(!body.iter().any(|line| text.contains(line)), "{text}");
    }
    for folder in [".omc", ".party"] {
        assert_eq!(files_with(&shop.folder().join(folder), &body), [""; 0]);
    }
    assert_eq!(files_with(&shop.project.claude("teams"), &body), [""; 0]);
    assert_eq!(files_with(&shop.project.claude("tasks"), &body), [""; 0]);
}

#[test]
fn secret_in_the_texts_of_a_run_is_in_no_file_that_others_read() {
    let shop = Shop::new();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let script = shop.script(
        "[[step]]\ntask = \"mend it\"\ndo = \"edit\"\npath = \"news.txt\"\ncontent = \"x\"\n",
    );
    let task = format!("mend it with {token}");
    let words = RunCmd::new("shop", "1:w", &task).provider(&script);
    let words = words.verify("true").approve("never");
    shop.call(words).run().exits(0);
    let commit = shop.asked();
    let why = format!("it has {token}");
    let words = ["reject", &why, "--team", "shop", "--commit", &commit];
    shop.run(&words).exits(10);
    let token = [token];
    for folder in [".party", ".omc/state", ".omc/reports"] {
        let mut found = files_with(&shop.folder().join(folder), &token);
        // An agent gets its task unredacted.
        found.retain(|path| !path.ends_with("/worker-1/task.json"));
        assert_eq!(found, [""; 0]);
    }
    let findings = std::fs::read_dir(shop.folder().join(".party/findings"));
    assert_eq!(findings.unwrap().count(), 4, "each is written once");
}

#[test]
fn secret_in_a_session_that_a_person_keeps_is_not_written_down() {
    let shop = Shop::new();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let text = format!("use {token}");
    let words = |words: &[&str]| shop.run(words).succeeds();
    words(&["session", "init", "--team", "shop", "--task", &text]);
    words(&["ticket", "create", "--title", &text, "--description", &text]);
    words(&["state", "transition", "PLANNING", &text]);
    assert_eq!(files_with(&shop.folder().join(".party"), &[token]), [""; 0]);
}

#[test]
fn secrets_that_a_worker_leaves_in_a_run_are_in_no_commit_and_named_in_the_report() {
    let shop = Shop::new();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let once = shop.aside().join("once");
    let once = once.display();
    let command = format!(
        "w=command:echo mended > news.txt; test -e {once} && exit 0; touch {once}; mkdir secrets; \
         echo A=canary-51 > .env; echo canary-51 > secrets/k; echo 'x {token}' > notes.txt"
    );
    let words = RunCmd::new("shop", "1:w", "mend it").provider(&command);
    let words = words.verify("true").approve("never");
    let ran = shop.call(words).run().exits(0);
    let failed = &shop.events_of("task.failed")[0]["data"]["failure"]["lastError"];
    let failed = failed.as_str().unwrap();
    assert!(failed.contains("notes.txt:1"), "{failed}");
    let listed = shop.git(&["rev-list", "--all", "--objects"]);
    for line in listed.lines() {
        let (object, path) = line.split_once(' ').unwrap_or((line, ""));
        assert!(
            !path.contains(".env") && !path.contains("secrets"),
            "{line}"
        );
        let content = shop.git(&["cat-file", "-p", object]);
        assert!(!content.contains("canary-51"), "{line}");
        assert!(!content.contains(&token), "{line}");
    }
    let commit = shop.asked();
    let words = ["reject", "no", "--team", "shop", "--commit", &commit];
    shop.run(&words).exits(10);
    let report = shop.report();
    assert!(
        report.contains(".omc/private/shop/worker-1-1/.env"),
        "{report}"
    );
    for text in [ran.stdout.as_str(), &ran.stderr, &report, failed] {
        assert!(
            !text.contains(&token) && !text.contains("canary-51"),
            "{text}"
        );
    }
    let kept = shop.folder().join(".omc/private/shop/worker-1-1/notes.txt");
    assert!(std::fs::read_to_string(kept).unwrap().contains(&token));
}
