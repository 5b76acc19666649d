//! What `doctor` reports about the clients.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::kit::TestProject;

fn install(file: &Path, script: &str) {
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
}

fn report(project: &TestProject, path: &str) -> Value {
    let call = project.call(["doctor", "--json"]).env("PATH", path).run();
    serde_json::from_str(&call.stdout).unwrap()
}

fn client<'a>(report: &'a Value, name: &str) -> &'a Value {
    let all = report["clients"].as_array().unwrap();
    all.iter().find(|client| client["name"] == name).unwrap()
}

#[test]
fn a_client_is_shown_with_what_is_really_started() {
    let project = TestProject::new();
    let (bin, modules) = (
        project.home().join("bin"),
        project.home().join("lib/@openai"),
    );
    let script = modules.join("codex/bin/codex.js");
    install(&script, "echo 'the Node one'");
    let (platform, triple) = match std::env::consts::ARCH {
        "aarch64" => ("linux-arm64", "aarch64-unknown-linux-musl"),
        _ => ("linux-x64", "x86_64-unknown-linux-musl"),
    };
    let native = modules.join(format!("codex-{platform}/vendor/{triple}/bin/codex"));
    install(&native, "echo 'codex-cli 0.166.0'");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(&script, bin.join("codex")).unwrap();
    install(&bin.join("opencode"), "echo 1.18.33");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let seen = report(&project, &path);
    let codex = client(&seen, "codex");
    assert_eq!(codex["version"], "codex-cli 0.166.0");
    assert_eq!(codex["path"], json!(bin.join("codex")));
    assert_eq!(codex["program"], json!(native));
    assert_eq!(codex["missing"], json!([]));
    assert_eq!(codex["driver"], true);
    assert_eq!(client(&seen, "opencode")["driver"], false);
    let text = project.call(["doctor"]).env("PATH", &path).run().stdout;
    assert!(
        text.contains("codex-cli 0.166.0") && text.contains("not yet"),
        "{text}"
    );

    std::fs::remove_file(native).unwrap();
    let seen = report(&project, &path);
    let missing = client(&seen, "codex")["missing"][0].as_str().unwrap();
    assert!(
        missing.starts_with("its native program was not found"),
        "{missing}"
    );
}

#[test]
fn gemini_needs_a_node_that_runs_it() {
    let project = TestProject::new();
    let bin = project.home().join("bin");
    install(&bin.join("gemini"), "echo 0.61.0");
    let path = format!("{}:/bin-of-nobody", bin.display());
    let missing = |report: &Value| client(report, "gemini")["missing"][0].clone();
    let seen = missing(&report(&project, &path));
    assert_eq!(
        seen,
        "it needs Node 20 or newer, and there is no `node` on PATH"
    );
    install(&bin.join("node"), "echo v18.2.0");
    let seen = missing(&report(&project, &path));
    assert_eq!(
        seen,
        "it needs Node 20 or newer, and `node` is v18.2.0; install a newer one"
    );
    install(&bin.join("node"), "echo v24.0.0");
    assert_eq!(missing(&report(&project, &path)), json!(null));
}

#[test]
fn a_client_that_hangs_does_not_hang_the_doctor() {
    let project = TestProject::new();
    let bin = project.home().join("bin");
    install(&bin.join("claude"), "exec sleep 600");
    let start = std::time::Instant::now();
    let seen = report(&project, &format!("{}:/usr/bin:/bin", bin.display()));
    assert!(start.elapsed().as_secs() < 60);
    let claude = client(&seen, "claude");
    assert_eq!(claude["version"], json!(null));
    assert_eq!(claude["missing"][0], "it did not answer within 5 s");
}

#[test]
fn clients_are_found_without_being_started_the_preferred_one_first() {
    let project = TestProject::new();
    let bin = project.home().join("bin");
    let trace = project.home().join("started");
    for name in ["gemini", "claude", "opencode"] {
        install(&bin.join(name), &format!("touch '{}'", trace.display()));
    }
    std::fs::write(bin.join("codex"), "no program").unwrap();
    let found = teamster_agents::detect::found(bin.as_os_str());
    assert_eq!(found, ["claude", "gemini"]);
    assert!(!trace.exists());
}
