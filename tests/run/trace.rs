//! The traces of a host and of each bridge: their location, their content, and what they must not contain.

use super::Shop;

const SECRET: &str = "sk-ant-api03-Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4";

fn read(shop: &Shop, path: &str) -> String {
    std::fs::read_to_string(shop.folder().join(path)).unwrap_or_default()
}

#[test]
fn trace_of_a_failed_run_is_named_and_has_every_git_call_and_no_secret() {
    let shop = Shop::new();
    let script = format!(
        "[[step]]\ndo = \"run\"\ncommand = \"echo {SECRET} > key.txt; git commit -qm {SECRET} key.txt; exit 1\"\n"
    );
    let sentence = format!("mend it with {SECRET}");
    let script = shop.script(&script);
    let args = [
        "run",
        "1:w",
        &sentence,
        "--team",
        "shop",
        "--provider",
        &script,
    ];
    let ran = shop
        .call(
            args.iter()
                .chain(&["--verify", "true", "--approve", "auto"]),
        )
        .env("TEAMSTER_LOG", "debug")
        .run();
    assert_ne!(ran.code, Some(0), "{}", ran.stdout);
    let named = "log: .omc/logs/shop/host.log";
    assert!(ran.stderr.contains(named), "{}", ran.stderr);
    let host = read(&shop, ".omc/logs/shop/host.log");
    for told in ["INFO", "run.stage", "DEBUG", "`git worktree add"] {
        assert!(host.contains(told), "{told}: {host}");
    }
    let bridge = read(&shop, ".omc/logs/shop/worker-1/trace.log");
    assert!(bridge.contains("`git "), "{bridge}");
    for text in [host, bridge] {
        assert!(!text.contains(SECRET), "{text}");
    }
    shop.is_quiet();
}

#[test]
fn trace_is_off_when_asked_and_tells_the_steps_when_not() {
    for (filter, has_trace) in [("off", false), ("", true), ("teamster_run=oops", true)] {
        let shop = Shop::new();
        let script = "[[step]]\ndo = \"run\"\ncommand = \"echo mended > news.txt\"\n";
        let more = ["--verify", "true", "--approve", "auto"];
        let run = shop.scripted_run(script, &more);
        run.env("TEAMSTER_LOG", filter).run().exits(0);
        let host = read(&shop, ".omc/logs/shop/host.log");
        assert_eq!(
            host.contains("run.finished"),
            has_trace,
            "{filter:?}: {host}"
        );
        assert!(!host.contains("DEBUG"), "{filter:?}: {host}");
    }
}
