//! Settings and where they come from.

use serde_json::{Value, json};

use crate::kit::{Ran, TestProject};

fn setting(ran: &Ran, key: &str) -> Value {
    let shown = ran.json();
    let settings = shown["settings"].as_array().unwrap().clone();
    settings
        .into_iter()
        .find(|setting| setting["key"] == key)
        .unwrap()
}

#[test]
fn a_variable_counts_more_than_the_project_and_that_more_than_the_user() {
    let project = TestProject::new();
    let show = || project.call(["config", "show", "--json"]);
    insta::assert_snapshot!(project.run(["config", "show"]).succeeds().shown(), @r"
    SETTING                    VALUE    FROM     VARIABLE
    claim.lease                2m       default  TEAMSTER_CLAIM_LEASE
    reservations               enforce  default  TEAMSTER_RESERVATIONS
    notify                     bell     default  TEAMSTER_NOTIFY
    store.durable              true     default  TEAMSTER_STORE_DURABLE
    store.patience             5s       default  TEAMSTER_STORE_PATIENCE
    store.url                  files    default  TEAMSTER_STORE
    store.url_file             off      default  TEAMSTER_STORE_URL_FILE
    health.silent_after        5m       default  TEAMSTER_HEALTH_SILENT_AFTER
    team.enabled               true     default  TEAMSTER_TEAM_ENABLED
    worker.start_limit         58s      default  TEAMSTER_WORKER_START_LIMIT
    worker.idle_limit          10m      default  TEAMSTER_WORKER_IDLE_LIMIT
    worker.task_limit          1h       default  TEAMSTER_WORKER_TASK_LIMIT
    worker.heartbeat_messages  off      default  TEAMSTER_WORKER_HEARTBEAT_MESSAGES
    run.max_tasks              200      default  TEAMSTER_RUN_MAX_TASKS
    leader                     auto     default  TEAMSTER_LEADER
    leader.max_wakes           20       default  TEAMSTER_LEADER_MAX_WAKES
    leader.budget_share        25%      default  TEAMSTER_LEADER_BUDGET_SHARE
    permissions.shell          allow    default  TEAMSTER_PERMISSIONS_SHELL
    permissions.other          deny     default  TEAMSTER_PERMISSIONS_OTHER
    worktree.setup             []       default  TEAMSTER_WORKTREE_SETUP
    worktree.setup_limit       10m      default  TEAMSTER_WORKTREE_SETUP_LIMIT
    worktree.link              []       default  TEAMSTER_WORKTREE_LINK
    worktree.link_writable     false    default  TEAMSTER_WORKTREE_LINK_WRITABLE
    gc.keep                    30d      default  TEAMSTER_GC_KEEP
    studio.otlp                off      default  TEAMSTER_STUDIO_OTLP
    studio.otlp_every          15s      default  TEAMSTER_STUDIO_OTLP_EVERY
    ");

    let user = project.home().join(".config/teamster");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(
        user.join("config.toml"),
        "[claim]\nlease = \"10m\"\n[store]\ndurable = false\n",
    )
    .unwrap();
    assert_eq!(setting(&show().run(), "claim.lease")["value"], "10m");
    assert_eq!(setting(&show().run(), "store.durable")["source"], "user");

    project.write(".teamster/config.toml", "# ours\nclaim.lease = \"5m\"\n");
    let lease = setting(&show().run(), "claim.lease");
    assert_eq!(lease["value"], "5m");
    assert!(
        lease["from"]
            .as_str()
            .unwrap()
            .ends_with(".teamster/config.toml, line 2"),
        "{lease}"
    );
    assert_eq!(
        setting(&show().run(), "store.durable")["value"],
        json!(false)
    );

    let lease = setting(
        &show().env("TEAMSTER_CLAIM_LEASE", "90s").run(),
        "claim.lease",
    );
    assert_eq!(lease["value"], "90s");
    assert_eq!(lease["from"], "TEAMSTER_CLAIM_LEASE");
}

#[test]
fn leader_is_set_by_its_name_or_in_a_section_of_its_own() {
    let project = TestProject::new();
    let show = || project.call(["config", "show", "--json"]);
    project.write(".teamster/config.toml", "leader = \"codex\"\n");
    assert_eq!(setting(&show().run(), "leader")["value"], "codex");
    project.write(
        ".teamster/config.toml",
        "[leader]\nagent = \"engine\"\nmax_wakes = 3\nbudget_share = \"10%\"\n",
    );
    let shown = show().run().succeeds();
    assert_eq!(shown.stderr, "", "every key is known");
    assert_eq!(setting(&shown, "leader")["value"], "engine");
    assert_eq!(setting(&shown, "leader.max_wakes")["value"], 3);
    assert_eq!(setting(&shown, "leader.budget_share")["value"], "10%");
    project.write(".teamster/config.toml", "[leader]\nmax_wakes = 3\n");
    let leader = setting(&show().run(), "leader");
    assert_eq!(
        (&leader["value"], &leader["source"]),
        (&json!("auto"), &json!("default"))
    );
    for (wrong, why) in [
        ("leader = \"two words\"", "an agent such as"),
        ("[leader]\nbudget_share = 200", "a percentage"),
        ("[leader]\nmax_wakes = \"many\"", "a whole number"),
    ] {
        project.write(".teamster/config.toml", wrong);
        let ran = project.run(["task", "list", "--team", "x"]);
        assert_eq!(ran.code, Some(2), "{wrong}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{wrong}: {}", ran.stderr);
    }
}

#[test]
fn a_setting_is_used() {
    let project = TestProject::with_team();
    project.task("a", &[]);
    let claimed = project
        .call(["task", "claim", "--worker", "worker-1", "--json"])
        .env("TEAMSTER_CLAIM_LEASE", "24h")
        .run()
        .succeeds();
    let until: teamster_types::Time = claimed.json()["leasedUntil"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let hours = until.since(crate::kit::now()).as_secs() / 3_600;
    assert_eq!(hours, 23);
}

#[test]
fn a_value_that_makes_no_sense_is_an_error_with_its_place() {
    let project = TestProject::with_team();
    project.write(".teamster/config.toml", "[claim]\nlease = \"soon\"\n");
    insta::assert_snapshot!(project.run(["task", "list"]).fails(2).shown(), @r#"
    error: [root]/project/.teamster/config.toml, line 2: `claim.lease` is "soon", expected a time such as "5s", "10m" or "24h"
    hint: `teamster config show` lists every setting and where it comes from
    "#);
    project.write(".teamster/config.toml", "[claim]\nlease = 120\n");
    insta::assert_snapshot!(project.run(["task", "list"]).fails(2).shown(), @r#"
    error: [root]/project/.teamster/config.toml, line 2: `claim.lease` is 120, expected a time such as "5s", "10m" or "24h"
    hint: `teamster config show` lists every setting and where it comes from
    "#);
    project.write(".teamster/config.toml", "[claim\n");
    insta::assert_snapshot!(project.run(["task", "list"]).fails(2).shown(), @r"
    error: [root]/project/.teamster/config.toml, line 1: not valid TOML: unclosed table, expected `]`
    hint: `teamster config show` lists every setting and where it comes from
    ");
    // `config show` reports the problem instead of failing.
    let shown = project.run(["config", "show", "--json"]).succeeds().json();
    assert_eq!(shown["problems"][0]["fatal"], true);
    let doctor = project.run(["doctor", "--json"]).exits(1);
    assert!(
        doctor.stdout.contains("not valid TOML"),
        "{}",
        doctor.stdout
    );
    std::fs::remove_file(project.folder().join(".teamster/config.toml")).unwrap();
    project
        .call(["task", "list"])
        .env("TEAMSTER_STORE_DURABLE", "maybe")
        .run()
        .fails(2);
    project
        .call(["task", "list"])
        .env("TEAMSTER_STORE_DURABLE", "false")
        .run()
        .succeeds();
}

#[test]
fn a_setting_that_nobody_knows_is_remarked_on_and_stops_nothing() {
    let project = TestProject::with_team();
    project.write(
        ".teamster/config.toml",
        "[claim]\nleese = \"5s\"\n\n[providers.mine]\nkind = \"codex\"\nmodle = \"x\"\n",
    );
    insta::assert_snapshot!(project.run(["task", "list"]).exits(0).shown(), @r"
    no tasks
    warning: [root]/project/.teamster/config.toml, line 2: unknown setting `claim.leese`; did you mean `claim.lease`?
    warning: [root]/project/.teamster/config.toml, line 6: `providers.mine` has the unknown key `modle`; known are kind, command, file, model, capabilities, secrets
    ");
    project.run(["task", "list", "--json"]).succeeds();
}

#[test]
fn a_project_cannot_point_its_settings_elsewhere_but_a_user_can() {
    let project = TestProject::with_team();
    let target = project.home().join("real.toml");
    std::fs::write(&target, "[claim]\nlease = \"7m\"\n").unwrap();
    let user = project.home().join(".config/teamster");
    std::fs::create_dir_all(&user).unwrap();
    std::os::unix::fs::symlink(&target, user.join("config.toml")).unwrap();
    let show = project.run(["config", "show", "--json"]);
    assert_eq!(setting(&show, "claim.lease")["value"], "7m");
    std::fs::create_dir(project.folder().join(".teamster")).unwrap();
    std::os::unix::fs::symlink(&target, project.folder().join(".teamster/config.toml")).unwrap();
    project.run(["task", "list"]).fails(2);
}

#[test]
fn providers_are_layered_shown_and_checked_with_their_lines() {
    let project = TestProject::with_team();
    let user = project.home().join(".config/teamster");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(
        user.join("config.toml"),
        "[providers.checks]\nkind = \"command\"\ncommand = \"make check\"\nsecrets = [\"OPENAI_API_KEY\"]\n\
         [providers.demo]\nkind = \"scripted\"\nfile = \"demo.toml\"\n",
    )
    .unwrap();
    project.write(
        ".teamster/config.toml",
        "[providers]\nchecks = { kind = \"command\", command = \"make test\", capabilities = [\"testing\"] }\n\
         codex.model = \"small\"\n",
    );
    let shown = project.run(["config", "show", "--json"]).succeeds().json();
    assert_eq!(shown["problems"], json!([]));
    let providers = shown["providers"].as_array().unwrap();
    let names: Vec<&Value> = providers.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["checks", "codex", "demo"]);
    let checks = &providers[0];
    assert_eq!(checks["command"], "make test");
    assert_eq!(
        checks["secrets"],
        json!([]),
        "no half of the user's section"
    );
    assert_eq!(checks["source"], "project");
    assert!(
        checks["from"].as_str().unwrap().ends_with("line 2"),
        "{checks}"
    );
    assert_eq!(
        (&providers[1]["kind"], &providers[1]["model"]),
        (&json!("codex"), &json!("small"))
    );
    let file = user.join("demo.toml");
    assert_eq!(providers[2]["file"], file.to_str().unwrap());
    let text = project.run(["config", "show"]).succeeds().shown();
    assert!(
        text.contains("providers.checks           command:make test, can testing"),
        "{text}"
    );

    for (wrong, said) in [
        (
            "[providers.x]\nkind = \"command\"\n",
            "line 1: [providers.x]: kind \"command\" needs `command`",
        ),
        (
            "[providers.x]\n\nkind = \"cloud\"\n",
            "line 1: [providers.x]: `kind` must be",
        ),
        (
            "[providers.x]\nkind = 7\n",
            "line 2: `providers.x` has a `kind` that is a number, not a text",
        ),
        (
            "[providers.codex]\ncapabilities = \"testing\"\n",
            "line 2: `providers.codex` has a `capabilities` that is a text, not a list",
        ),
        (
            "[providers]\nx = \"codex\"\n",
            "line 2: `providers.x` is a text, not a table",
        ),
        (
            "[providers.\"a b\"]\nkind = \"codex\"\n",
            "line 1: `a b` is not a valid name",
        ),
        (
            "[providers.x]\nkind = \"command\"\ncommand = \"y\"\nsecrets = [\"HOME\"]\n",
            "line 1: [providers.x]: `HOME` is not withheld",
        ),
        (
            "[permissions]\nshell = true\n",
            "line 2: `permissions.shell` is true, expected \"allow\", \"deny\" or \"ask\"",
        ),
        (
            "[worktree]\nsetup = \"npm ci\"\n",
            "line 2: `worktree.setup` is \"npm ci\", expected a list of texts",
        ),
    ] {
        project.write(".teamster/config.toml", wrong);
        let refused = project.run(["task", "list"]).fails(2);
        assert!(refused.stderr.contains(said), "{wrong}: {}", refused.stderr);
    }
}

/// The table in the documentation matches the code.
#[test]
fn every_setting_is_documented_with_its_default_and_its_variable() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let documented: Vec<Vec<String>> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells = line.trim_matches('|').split('|').take(3);
            cells
                .map(|cell| cell.trim().trim_matches('`').to_owned())
                .collect()
        })
        .filter(|cells: &Vec<String>| cells.len() == 3 && cells[2].starts_with("TEAMSTER_"))
        .collect();
    let shown = TestProject::new()
        .run(["config", "show", "--json"])
        .succeeds()
        .json();
    let settings = shown["settings"].as_array().unwrap().iter();
    let known: Vec<Vec<String>> = settings
        .map(|setting| {
            let value = match &setting["value"] {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let text = |key: &str| setting[key].as_str().unwrap().to_owned();
            vec![text("key"), value, text("variable")]
        })
        .collect();
    assert_eq!(documented, known);
}

#[test]
fn roles_are_layered_shown_and_checked_with_their_lines() {
    let project = TestProject::with_team();
    let user = project.home().join(".config/teamster");
    std::fs::create_dir_all(&user).unwrap();
    std::fs::write(
        user.join("config.toml"),
        "[roles]\nexecutor = \"claude\"\nreviewer = { provider = \"codex\", model = \"large\" }\ndemo = \"scripted:demo.toml\"\n\
         [providers.checks]\nkind = \"command\"\ncommand = \"make check\"\n",
    )
    .unwrap();
    project.write(
        ".teamster/config.toml",
        "[roles.executor]\nprovider = \"command:make fix\"\n[roles]\ntester = \"checks\"\n",
    );
    let shown = project.run(["config", "show", "--json"]).succeeds().json();
    assert_eq!(shown["problems"], json!([]));
    let roles: Vec<String> = shown["roles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|role| {
            let text = |key: &str| role[key].as_str().unwrap_or("-").to_owned();
            let keys = ["name", "provider", "model", "source"];
            keys.map(text).join(" ")
        })
        .collect();
    let script = user.join("demo.toml");
    assert_eq!(
        roles,
        [
            format!("demo scripted:{} - user", script.display()),
            "executor command:make fix - project".to_owned(),
            "reviewer codex large user".to_owned(),
            "tester checks - project".to_owned(),
        ]
    );
    let text = project.run(["config", "show"]).succeeds().shown();
    assert!(text.contains("roles.reviewer"), "{text}");
    assert!(text.contains("codex, model large"), "{text}");

    for (wrong, said) in [
        (
            "[roles]\n\nexecutor = 7\n",
            "line 3: `roles.executor` is a number, not a text or a table",
        ),
        (
            "[roles]\nexecutor = \"cloud\"\n",
            "line 2: `roles.executor`: unknown provider `cloud`",
        ),
        (
            "[roles]\ncodex = \"claude\"\n",
            "line 2: `roles.codex`: codex is a provider",
        ),
        (
            "[roles]\n\"a b\" = \"claude\"\n",
            "line 2: \"a b\" is not a valid role",
        ),
        (
            "[roles.executor]\nmodel = \"m\"\n",
            "line 1: `roles.executor` has no `provider`",
        ),
        (
            "[roles.executor]\nprovider = \"claude\"\nmodel = true\n",
            "line 3: `roles.executor` has a `model` that is true or false, not a text",
        ),
        (
            "[roles]\nexecutor = \"command:\"\n",
            "line 2: `roles.executor`: the provider `command` needs its argument",
        ),
    ] {
        project.write(".teamster/config.toml", wrong);
        let refused = project.run(["task", "list"]).fails(2);
        assert!(refused.stderr.contains(said), "{wrong}: {}", refused.stderr);
    }
    project.write(
        ".teamster/config.toml",
        "[roles.executor]\nprovider = \"claude\"\ncolour = \"red\"\n",
    );
    let warned = project.run(["task", "list"]).exits(0);
    assert!(
        warned
            .stderr
            .contains("line 3: `roles.executor` has the unknown key `colour`"),
        "{}",
        warned.stderr
    );
}

fn preset(name: &str, rest: &str) -> String {
    format!("---\nname: {name}\nmembers: [{{ name: a, agent: executor }}]\n{rest}---\n")
}

#[test]
fn teams_of_ones_own_are_read_from_both_folders_and_faults_have_lines() {
    let project = TestProject::new();
    let teams = project.home().join(".config/teamster/teams");
    std::fs::create_dir_all(&teams).unwrap();
    std::fs::write(teams.join("own.md"), preset("own", "description: Mine.\n")).unwrap();
    // A user may keep the files elsewhere.
    let elsewhere = project.home().join("elsewhere.md");
    std::fs::write(&elsewhere, preset("linked", "")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, teams.join("linked.md")).unwrap();
    std::fs::write(teams.join("notes.txt"), "no preset").unwrap();
    project.write(".teamster/teams/own.md", &preset("own", "verify: [make]\n"));
    std::os::unix::fs::symlink(
        &elsewhere,
        project.folder().join(".teamster/teams/planted.md"),
    )
    .unwrap();
    project.write(".teamster/teams/same.md", &preset("own", ""));
    project.write(
        ".teamster/teams/wrong.md",
        "---\nname: wrong\nmembers: [{ name: a, agent: nobody }]\n---\n",
    );
    let shown = project.run(["config", "show", "--json"]).succeeds().json();
    let found: Vec<String> = shown["teams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|team| format!("{} {}", team["name"], team["source"]))
        .collect();
    assert_eq!(
        found,
        [
            "\"linked\" \"user\"",
            "\"own\" \"user\"",
            "\"own\" \"project\""
        ]
    );
    let faults: Vec<&str> = shown["teamProblems"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fault| fault.as_str().unwrap())
        .collect();
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(faults[0].contains("planted.md:1: "), "{faults:?}");
    assert!(
        faults[1].contains("same.md:1: ") && faults[1].contains("is also called \"own\""),
        "{faults:?}"
    );
    assert!(
        faults[2].contains("wrong.md:3: there is no agent \"nobody\""),
        "{faults:?}"
    );
    let text = project.run(["config", "show"]).succeeds().shown();
    assert!(text.contains("wrong.md:3: there is no agent"), "{text}");
}

/// The examples in the documentation are accepted unchanged.
#[test]
fn the_roles_and_the_team_of_the_documentation_are_read() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    let block = |begin: &str| {
        let from = page.find(begin).unwrap();
        let fence = page[from..].find('\n').unwrap() + from + 1;
        let end = page[fence..].find("\n```").unwrap() + fence;
        page[fence..=end].to_owned()
    };
    let project = TestProject::new();
    project.write(".teamster/config.toml", &block("```toml\n[roles]"));
    project.write(".teamster/teams/docs.md", &block("```markdown\n---"));
    let shown = project.run(["config", "show", "--json"]).succeeds().json();
    assert_eq!(shown["problems"], json!([]));
    assert_eq!(shown["teamProblems"], json!([]));
    assert_eq!(shown["roles"].as_array().unwrap().len(), 3);
    assert_eq!(shown["teams"][0]["name"], "docs");
}
