//! `teamster store` with a real PostgreSQL server: selecting, creating and showing a store, and moving teams there
//! and back.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use teamster_journal::EventActor;
use teamster_store::{
    ClaimRequest, FileStore, OutgoingMessage, PlannedTask, Reader, Recipient, Store as _,
};
use teamster_testkit::postgres::{PostgresServer, shared_server};
use teamster_testkit::wait::wait_until;
use teamster_types::TeamName;
use teamster_types::json::Object;
use teamster_types::task::NewTask;
use teamster_types::team::{NewMember, NewTeam};

use crate::kit::{Call, Ran, TestProject, skip};

/// The password of the test server.
const PASSWORD: &str = "only-for-tests";

/// The version of the schema.
const SCHEMA: usize = 5;

/// A separate database, and a home whose environment variable names it.
struct Place {
    server: &'static PostgresServer,
    name: String,
    url: String,
    project: TestProject,
}

impl Place {
    /// Creates an empty database; `None` where no server is installed.
    fn empty() -> Option<Self> {
        let server = shared_server()?;
        let url = server.database();
        let name = url.rsplit('/').next().unwrap().to_owned();
        Some(Self {
            server,
            name,
            url,
            project: TestProject::with_team(),
        })
    }

    /// Creates a database with a store in it; `None` where no server is installed.
    fn new() -> Option<Self> {
        let place = Self::empty()?;
        place.run(["store", "init"]).succeeds();
        Some(place)
    }

    fn call<const N: usize>(&self, args: [&str; N]) -> Call {
        self.project.call(args).env("TEAMSTER_STORE", &self.url)
    }

    fn run<const N: usize>(&self, args: [&str; N]) -> Ran {
        self.call(args).run()
    }

    fn sql(&self, statements: &str) -> String {
        self.server.sql(&self.name, statements)
    }

    /// Exports the team from the file store, and returns the path.
    fn exported(&self) -> String {
        let path = self
            .project
            .folder()
            .join("team.jsonl")
            .display()
            .to_string();
        let export = ["store", "export", "--team", "fix-auth", "--store", "files"];
        let all = export.into_iter().chain(["--output", &path]);
        self.project.run(all).succeeds();
        path
    }

    /// Runs statements in a transaction that stays open until the session is dropped.
    fn holding(&self, statements: &str) -> LockingSession {
        let programs = teamster_testkit::postgres::programs().unwrap();
        let mut psql = Command::new(programs.join("psql"))
            .args(["-X", "-q", "-A", "-t", &self.url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = psql.stdin.take().unwrap();
        writeln!(input, "BEGIN; {statements}; SELECT 'held';").unwrap();
        let mut said = [0; 5];
        psql.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        assert_eq!(&said, b"held\n");
        LockingSession {
            psql,
            input: Some(input),
        }
    }

    /// Returns whether a session waits for a lock.
    fn waiting(&self) -> bool {
        let asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        self.sql(asked) != "0"
    }
}

/// A session that holds locks.
struct LockingSession {
    psql: std::process::Child,
    input: Option<std::process::ChildStdin>,
}

impl Drop for LockingSession {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.psql.wait();
    }
}

fn says_no_password(ran: &Ran) {
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(PASSWORD), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn store_is_made_once_and_by_ten_machines_at_once() {
    let Some(place) = Place::empty() else { return };
    let calls: Vec<Ran> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| place.run(["store", "init", "--json"])))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let mut makers = 0;
    for ran in calls {
        let said = ran.succeeds();
        says_no_password(&said);
        let said = said.json();
        assert_eq!(said["schema"], SCHEMA);
        makers += usize::from(said["made"] == serde_json::json!((1..=SCHEMA).collect::<Vec<_>>()));
        assert!(!said["store"].as_str().unwrap().contains(PASSWORD));
    }
    assert_eq!(makers, 1, "one of them has made it");
    let again = place.run(["store", "init"]).succeeds().stdout;
    let up_to_date = format!("is up to date: version {SCHEMA}");
    assert!(again.contains(&up_to_date), "{again}");
}

#[test]
fn what_is_wrong_is_said_once_with_the_way_on_and_without_the_password() {
    let Some(place) = Place::empty() else { return };
    let good = &place.url;
    place.sql(
        "DROP ROLE IF EXISTS weak; CREATE ROLE weak LOGIN PASSWORD 'only-for-tests'; REVOKE ALL ON DATABASE postgres FROM PUBLIC",
    );
    let old = place.server.database();
    let old_name = old.rsplit('/').next().unwrap().to_owned();
    // A server that reports an older version than its own.
    place.server.sql(
        &old_name,
        &format!(
            "CREATE SCHEMA older; CREATE FUNCTION older.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT '120017'::text $$; \
             ALTER DATABASE {old_name} SET search_path = older, pg_catalog"
        ),
    );
    let newer = Place::new().unwrap();
    newer.sql("INSERT INTO teamster.migrations (version) VALUES (99)");
    let cases = [
        (
            good.replace(PASSWORD, "hunter2"),
            7,
            "refuses the login",
            "password",
        ),
        (
            good.replace("127.0.0.1", "no-such-host.invalid"),
            7,
            "cannot be reached",
            "address",
        ),
        (
            good.replace(&place.server.port().to_string(), "1"),
            7,
            "cannot be reached",
            "server runs",
        ),
        (place.server.url("nowhere"), 7, "does not exist", "createdb"),
        (
            good.replace("postgres:only", "weak:only"),
            6,
            "lacks a privilege",
            "GRANT CREATE ON DATABASE",
        ),
        (format!("{good}?sslmode=require"), 7, "with TLS", "sslmode"),
        (
            old,
            6,
            "is PostgreSQL 12, but teamster needs 13",
            "newer server",
        ),
        (
            newer.url.clone(),
            6,
            &format!("version 99, which a newer teamster created; this one supports {SCHEMA}"),
            "newer teamster",
        ),
        (
            "mysql://me:hunter2@db/x".to_owned(),
            6,
            "begins with postgres://",
            "postgres://user@host",
        ),
    ];
    for (url, code, says, hints) in cases {
        let ran = place
            .project
            .call(["store", "init"])
            .env("TEAMSTER_STORE", &url)
            .run();
        let ran = ran.fails(code);
        says_no_password(&ran);
        assert_eq!(ran.stderr.lines().count(), 2, "{}", ran.stderr);
        assert!(ran.stderr.contains(says), "{says}: {}", ran.stderr);
        let hint = ran.stderr.lines().last().unwrap();
        assert!(hint.contains(hints), "{hints}: {hint}");
        // `store status` shows the same text, after what it could find out.
        let look = place
            .project
            .call(["store", "status", "--json"])
            .env("TEAMSTER_STORE", &url)
            .run();
        says_no_password(&look);
        if code == 7 {
            let look = look.exits(7);
            assert_eq!(look.json()["reachable"], false, "{}", look.stdout);
            assert_eq!(look.error()["kind"], "unreachable");
        }
    }
    let status = place.run(["store", "status", "--json"]).exits(7);
    assert_eq!(status.json()["reachable"], true);
    assert_eq!(status.json()["server"]["schema"], 0);
    assert!(
        status.error()["hint"]
            .as_str()
            .unwrap()
            .contains("store init")
    );
}

#[test]
fn status_tells_of_the_server_and_its_teams() {
    let Some(place) = Place::new() else { return };
    place.project.task("Fix the login form", &[]);
    let path = place.exported();
    place.run(["store", "import", &path]).succeeds();
    let ran = place.run(["store", "status", "--json"]).succeeds();
    says_no_password(&ran);
    let said = ran.json();
    assert_eq!(said["kind"], "postgres");
    assert_eq!(said["from"], "TEAMSTER_STORE");
    assert_eq!(
        (&said["reachable"], &said["usable"]),
        (&Value::Bool(true), &Value::Bool(true))
    );
    let server = &said["server"];
    assert!(server["version"].as_str().unwrap().contains('.'));
    assert_eq!(server["role"], "postgres");
    assert_eq!(
        (&server["schema"], &server["schemaNeeded"]),
        (&SCHEMA.into(), &SCHEMA.into())
    );
    assert!(server["latencyMs"].as_f64().unwrap() > 0.0);
    assert_eq!(server["listen"], true);
    let team = &said["teams"][0];
    assert_eq!(team["name"], "fix-auth");
    assert_eq!(team["members"], 2);
    assert_eq!(team["progress"]["totalTasks"], 1);
    assert_eq!(team["events"], 2);
    let text = place.run(["store", "status"]).succeeds().stdout;
    assert!(text.contains("LISTEN   works"), "{text}");
    let files = place
        .project
        .run(["store", "status", "--json"])
        .succeeds()
        .json();
    assert_eq!(
        (&files["kind"], &files["from"]),
        (&"files".into(), &"default".into())
    );
    assert_eq!(files["teams"][0]["name"], "fix-auth");
}

#[test]
fn password_on_the_command_line_is_refused_and_repeated_nowhere() {
    let project = TestProject::new();
    for url in [
        "postgres://me:hunter2@127.0.0.1:1/x",
        "postgres://me@127.0.0.1:1/x?password=hunter2",
    ] {
        for command in ["init", "status"] {
            let ran = project.run(["store", command, "--store", url]).fails(2);
            says_no_password(&ran);
            assert!(ran.stderr.contains("TEAMSTER_STORE"), "{}", ran.stderr);
            assert!(ran.stderr.contains("url_file"), "{}", ran.stderr);
        }
        let ran = project.run(["store", "init", url]).exits(2);
        says_no_password(&ran);
        let ran = project.run(["store", "init", url, "--json"]).exits(2);
        says_no_password(&ran);
    }
    project
        .run(["store", "init", "--store", "postgres://me@127.0.0.1:1/x"])
        .fails(7);
}

/// Writes a file beside the user's settings.
fn user_file(project: &TestProject, name: &str, text: &str, mode: u32) {
    let folder = project.home().join(".config/teamster");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns the store that `store status` reports as selected.
fn meant(ran: &Ran) -> (Value, Value) {
    (ran.json()["store"].clone(), ran.json()["from"].clone())
}

#[test]
fn project_never_names_the_store() {
    let project = TestProject::new();
    project.write(
        ".teamster/config.toml",
        "[store]\nurl = \"postgres://me:hunter2@127.0.0.1:1/evil\"\nurl_file = \"evil\"\n",
    );
    let ran = project.run(["store", "status", "--json"]).succeeds();
    assert_eq!(ran.json()["kind"], "files");
    let warned = project.run(["store", "status"]).exits(0);
    says_no_password(&warned);
    let says = "is ignored in the settings of a project";
    assert_eq!(warned.stderr.matches(says).count(), 2, "{}", warned.stderr);
}

#[test]
fn user_names_the_store_in_settings_or_in_a_file_that_nobody_else_reads() {
    let project = TestProject::new();
    let status = || project.call(["store", "status", "--json"]).run();
    let settings = |text: &str, mode| user_file(&project, "config.toml", text, mode);
    settings("[store]\nurl = \"postgres://me@127.0.0.1:1/mine\"\n", 0o644);
    let (store, from) = meant(&status().exits(7));
    assert_eq!(store, "postgres://me@127.0.0.1:1/mine");
    assert!(from.as_str().unwrap().ends_with("config.toml, line 2"));

    // A password in a file that other users may read is refused.
    let with_password = "[store]\nurl = \"postgres://me:hunter2@127.0.0.1:1/mine\"\n";
    settings(with_password, 0o644);
    let ran = status().fails(6);
    says_no_password(&ran);
    assert!(ran.stderr.contains("chmod 600"), "{}", ran.stderr);
    settings(with_password, 0o600);
    says_no_password(&status().exits(7));
    let shown = project.run(["config", "show", "--json"]).exits(0);
    says_no_password(&shown);
    assert!(shown.stdout.contains("postgres://me@127.0.0.1:1/mine"));

    settings("[store]\nurl_file = \"store.url\"\n", 0o644);
    let missing = status().fails(3);
    assert!(missing.stderr.contains("store.url"), "{}", missing.stderr);
    let filed = |mode| {
        let address = "postgres://me:hunter2@127.0.0.1:1/filed\n";
        user_file(&project, "store.url", address, mode);
    };
    filed(0o640);
    says_no_password(&status().fails(6));
    filed(0o600);
    let ran = status().exits(7);
    says_no_password(&ran);
    assert_eq!(meant(&ran).0, "postgres://me@127.0.0.1:1/filed");
}

#[test]
fn argument_counts_more_than_the_variable_and_that_more_than_settings() {
    let project = TestProject::new();
    let settings = "[store]\nurl = \"postgres://me@127.0.0.1:1/mine\"\n";
    user_file(&project, "config.toml", settings, 0o600);
    let named = "postgres://me:hunter2@127.0.0.1:1/named";
    let status = project.call(["store", "status", "--json"]);
    let ran = status.env("TEAMSTER_STORE", named).run().exits(7);
    says_no_password(&ran);
    let (store, from) = meant(&ran);
    assert_eq!(store, "postgres://me@127.0.0.1:1/named");
    assert_eq!(from, "TEAMSTER_STORE");
    let argument = project.call(["store", "status", "--json", "--store", "files"]);
    let ran = argument.env("TEAMSTER_STORE", named).run().succeeds();
    assert_eq!(ran.json()["from"], "--store");
    let both = "[store]\nurl = \"files\"\nurl_file = \"store.url\"\n";
    user_file(&project, "config.toml", both, 0o600);
    project.run(["store", "status"]).fails(2);
}

#[test]
fn init_killed_in_the_middle_leaves_nothing() {
    let Some(place) = Place::empty() else { return };
    place.sql(
        "CREATE SCHEMA teamster; CREATE TABLE teamster.migrations (version int PRIMARY KEY, made_at timestamptz NOT NULL DEFAULT clock_timestamp())",
    );
    let holder = place.holding("LOCK TABLE teamster.migrations IN SHARE MODE");
    let mut child = place.call(["store", "init"]).spawn();
    wait_until("the migration that waits", || place.waiting());
    child.kill().unwrap();
    child.wait().unwrap();
    drop(holder);
    let left = "SELECT count(*) FROM pg_tables WHERE schemaname = 'teamster' AND tablename <> 'migrations'";
    wait_until("the end of its session", || {
        place.sql(left) == "0" && !place.waiting()
    });
    assert_eq!(place.sql("SELECT count(*) FROM teamster.migrations"), "0");
    place.run(["store", "init"]).succeeds();
    place.run(["store", "status"]).succeeds();
}

#[test]
fn import_killed_in_the_middle_leaves_nothing() {
    let Some(place) = Place::new() else { return };
    place.project.task("Fix the login form", &[]);
    let path = place.exported();
    let holder = place.holding("LOCK TABLE teamster.events IN SHARE MODE");
    let mut child = place.call(["store", "import", &path]).spawn();
    wait_until("the import that waits", || place.waiting());
    child.kill().unwrap();
    child.wait().unwrap();
    drop(holder);
    let count = "SELECT (SELECT count(*) FROM teamster.teams) + (SELECT count(*) FROM teamster.tasks) + (SELECT count(*) FROM teamster.events)";
    wait_until("the end of its session", || {
        place.sql(count) == "0" && !place.waiting()
    });
    let said = place.run(["store", "import", &path]).succeeds().stdout;
    assert!(
        said.contains("Imported team fix-auth into postgres://"),
        "{said}"
    );
    let again = place.run(["store", "import", &path]).fails(4);
    assert!(
        again.stderr.contains("there is a team fix-auth already"),
        "{}",
        again.stderr
    );
}

#[test]
fn two_imports_at_once_make_one_team_in_a_database() {
    let Some(place) = Place::new() else { return };
    place.project.task("Fix the login form", &[]);
    let path = place.exported();
    let codes: Vec<Option<i32>> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| place.run(["store", "import", &path]).code))
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    let made = codes.iter().filter(|code| **code == Some(0)).count();
    let taken = codes.iter().filter(|code| **code == Some(4)).count();
    assert_eq!((made, taken), (1, 3), "{codes:?}");
}

#[test]
fn import_into_files_that_is_killed_leaves_nothing_to_see() {
    let project = TestProject::new();
    big_team(&project.store(Duration::ZERO), &project.folder(), 3_000, 10);
    let path = project.folder().join("big.jsonl");
    let words = ["store", "export", "--team", "big", "--output"];
    // Some of its tasks are claimed, which the command reports.
    project
        .run(words.into_iter().chain([path.to_str().unwrap()]))
        .exits(0);
    let other = TestProject::new();
    let mut child = other
        .call(["store", "import", path.to_str().unwrap()])
        .spawn();
    let tasks = other.claude("tasks");
    wait_until("the folder of its tasks", || {
        let mut entries = std::fs::read_dir(&tasks).into_iter().flatten().flatten();
        entries.any(|entry| std::fs::read_dir(entry.path()).is_ok_and(|files| files.count() > 100))
    });
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success(), "it was too fast to be killed");
    let teams = other.run(["team", "list", "--json"]).succeeds().json();
    assert_eq!(teams["teams"], serde_json::json!([]));
    other
        .run(["store", "import", path.to_str().unwrap()])
        .succeeds();
    let left = other.files();
    let left = left
        .iter()
        .filter(|file| file.contains(".new-") || file.contains("importing"));
    assert_eq!(left.count(), 0);
}

/// Creates a team with many tasks in every state, partly read messages, and a journal of all that.
fn big_team(store: &FileStore, project: &Path, tasks: usize, sends: usize) {
    let team: TeamName = "big".parse().unwrap();
    let members = (1..=10).map(|number| NewMember {
        name: format!("worker-{number}").parse().unwrap(),
        provider: String::new(),
        capabilities: None,
    });
    let new = NewTeam {
        name: team.clone(),
        description: "many".to_owned(),
        project: project.display().to_string(),
        members: members.collect(),
        run: None,
    };
    store.create_team(&new, None).unwrap();
    for chunk in 0..tasks.div_ceil(1_000) {
        let plan: Vec<PlannedTask> = (0..1_000.min(tasks))
            .map(|number| PlannedTask {
                task: NewTask {
                    subject: format!("Task {chunk}.{number} \u{1f980} \"quoted\" \u{0}"),
                    description: "d".repeat(number % 300),
                    ..NewTask::default()
                },
                after: if number % 7 == 6 {
                    vec![number - 1]
                } else {
                    Vec::new()
                },
            })
            .collect();
        store.import_tasks(&team, &EventActor::Lead, &plan).unwrap();
    }
    for number in 0..sends {
        let outgoing = OutgoingMessage {
            from: "lead".to_owned(),
            to: Recipient::All,
            kind: "message".to_owned(),
            content: format!("news {number}\n\u{0}"),
            extra: Object::new(),
        };
        store.send(&team, &outgoing).unwrap();
    }
    for number in 1..=10_usize {
        let worker: teamster_types::WorkerName = format!("worker-{number}").parse().unwrap();
        for place in 0..10 {
            let request = ClaimRequest {
                worker: worker.clone(),
                id: None,
                lease: None,
            };
            let claimed = store.claim(&team, &request).unwrap().unwrap();
            let (id, token) = (claimed.task.id(), &claimed.token);
            match place % 3 {
                0 => drop(store.complete(&team, id, token, None).unwrap()),
                1 => drop(store.fail(&team, id, token, "it did not work").unwrap()),
                // This task is claimed when the team is exported.
                _ if place == 8 => {}
                _ => drop(
                    store
                        .release(&team, &EventActor::Lead, id, Some(token))
                        .unwrap(),
                ),
            }
        }
        let reader = Reader::Worker(worker);
        store.receive(&team, &reader, number * 3, true).unwrap();
        store.receive(&team, &reader, number, false).unwrap();
    }
}

#[test]
fn ten_thousand_tasks_go_to_a_database_and_back_byte_for_byte() {
    let Some(place) = Place::new() else { return };
    big_team(
        &place.project.store(Duration::ZERO),
        &place.project.folder(),
        10_000,
        1_000,
    );
    let folder = place.project.folder();
    let file = |name: &str| folder.join(name).display().to_string();
    let [first, second, third] = ["one.jsonl", "two.jsonl", "three.jsonl"].map(file);
    let export = [
        "store", "export", "--team", "big", "--store", "files", "--json", "--output", &first,
    ];
    let said = place.project.run(export).succeeds().json();
    assert_eq!(said["exported"]["tasks"], 10_000);
    assert_eq!(said["exported"]["messages"], 10_000);
    assert_eq!(said["exported"]["released"].as_array().unwrap().len(), 10);
    let mode = std::fs::metadata(&first).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // An existing export is not overwritten.
    place.project.run(export).fails(4);

    let said = place.run(["store", "import", &first]).succeeds().stdout;
    assert!(said.contains("10000 tasks, 10000 messages"), "{said}");
    place
        .run(["store", "export", "--team", "big", "--output", &second])
        .succeeds();
    let lines = std::fs::read(&first).unwrap();
    assert!(
        lines == std::fs::read(&second).unwrap(),
        "file and database differ"
    );

    let other = TestProject::new();
    other.run(["store", "import", &second]).succeeds();
    other
        .run(["store", "export", "--team", "big", "--output", &third])
        .succeeds();
    assert!(
        lines == std::fs::read(&third).unwrap(),
        "database and file differ"
    );
    let events = String::from_utf8(lines).unwrap();
    let events = events
        .lines()
        .filter(|line| line.starts_with("{\"event\""))
        .count();
    assert!(events > 11_000, "{events}");
    // The team continues in the new store, and nothing is attributed to another program.
    let store = other.store(Duration::ZERO);
    let team: TeamName = "big".parse().unwrap();
    let request = ClaimRequest {
        worker: "worker-1".parse().unwrap(),
        id: None,
        lease: None,
    };
    store.claim(&team, &request).unwrap().unwrap();
    let position = teamster_store::ReadStore::position(&store, &team).unwrap();
    assert_eq!(position, events as u64 + 1);
}

#[test]
fn certificate_of_the_server_is_judged_as_the_address_says() {
    let made = Command::new("openssl").arg("version").output();
    if made.is_err() {
        return skip("openssl is not installed");
    }
    if shared_server().is_none() {
        return;
    }
    let folder = PathBuf::from(format!("/tmp/teamster-tls-{}", teamster_fs::random_hex()));
    std::fs::create_dir(&folder).unwrap();
    let shown = folder.display();
    let script = format!(
        "cd {shown} && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=teamster -keyout ca.key -out ca.pem \
         -addext basicConstraints=critical,CA:TRUE \
         && openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr \
         && printf 'subjectAltName=DNS:localhost' > names \
         && openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem \
         && chmod 600 server.key && chmod 755 . && if [ \"$(id -u)\" = 0 ]; then chown postgres server.key 2>/dev/null || chown nobody server.key; fi"
    );
    let made = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let settings =
        format!("-c ssl=on -c ssl_cert_file={shown}/server.pem -c ssl_key_file={shown}/server.key");
    let server = PostgresServer::start(&settings).unwrap();
    let url = server.database();
    let by_name = url.replace("127.0.0.1", "localhost");
    let project = TestProject::new();
    let init = |url: String| {
        project
            .call(["store", "init"])
            .env("TEAMSTER_STORE", url)
            .run()
    };
    init(format!("{url}?sslmode=require")).succeeds();
    init(format!(
        "{by_name}?sslmode=verify-full&sslrootcert={shown}/ca.pem"
    ))
    .succeeds();
    init(format!(
        "{url}?sslmode=verify-ca&sslrootcert={shown}/ca.pem"
    ))
    .succeeds();
    for (url, says) in [
        // The machine does not know this certificate authority.
        (format!("{by_name}?sslmode=verify-full"), "UnknownIssuer"),
        // The certificate is for another name.
        (
            format!("{url}?sslmode=verify-full&sslrootcert={shown}/ca.pem"),
            "not valid for",
        ),
    ] {
        let ran = init(url);
        says_no_password(&ran);
        let code = ran.code;
        assert!(matches!(code, Some(6 | 7)), "{}", ran.stderr);
        if code == Some(7) {
            assert!(ran.stderr.contains("with TLS"), "{}", ran.stderr);
            assert!(ran.stderr.contains(says), "{}", ran.stderr);
        }
    }
    let missing = init(format!(
        "{url}?sslmode=verify-ca&sslrootcert={shown}/none.pem"
    ))
    .fails(6);
    assert!(missing.stderr.contains("none.pem"), "{}", missing.stderr);
    let _ = std::fs::remove_dir_all(folder);
}

/// Forwards everything except notifications, like a pooler in transaction mode.
fn deaf_pooler(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let Ok(client) = client else { return };
            let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                return;
            };
            let (mut up, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut up, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            std::thread::spawn(move || pass_answers(server, client));
        }
    });
    own
}

fn pass_answers(mut server: TcpStream, mut client: TcpStream) {
    let mut head = [0; 5];
    // The URL asks for no TLS, so there are only complete messages.
    while server.read_exact(&mut head).is_ok() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        if server.read_exact(&mut body).is_err() {
            return;
        }
        let is_notification = head[0] == b'A';
        if !is_notification
            && (client.write_all(&head).is_err() || client.write_all(&body).is_err())
        {
            return;
        }
    }
    let _ = client.shutdown(std::net::Shutdown::Both);
}

#[test]
fn status_says_that_nobody_is_woken_behind_a_pooler() {
    let Some(place) = Place::new() else { return };
    let port = deaf_pooler(place.server.port());
    let url = place
        .url
        .replace(&place.server.port().to_string(), &port.to_string());
    let url = format!("{url}?sslmode=disable");
    let status = |more: &[&str]| {
        let words = ["store", "status"].iter().chain(more);
        place
            .project
            .call(words)
            .env("TEAMSTER_STORE", &url)
            .run()
            .succeeds()
    };
    assert_eq!(status(&["--json"]).json()["server"]["listen"], false);
    assert!(
        status(&[])
            .stdout
            .contains("changes are polled every second")
    );
}
