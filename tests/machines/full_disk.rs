//! A server whose disk is full in the middle of a run: the run ends with the reason and a hint, and continues once
//! there is space.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use teamster_testkit::postgres::{PostgresServer, shared_server};
use teamster_testkit::scratch::Scratch;
use teamster_testkit::wait::wait_until;

use super::{Host, Machine, TEAM, database, writer};
use crate::kit::skip;

/// The variable with the path of the test's own disk.
const DISK: &str = "TEAMSTER_TEST_DISK";
/// Mounts a small disk that is not visible outside, and continues as a user that can run a server: root drops its
/// privileges, any other user is root only to mount.
const WITH_DISK: &str = r#"
mount -t tmpfs -o size=120m,mode=0777 tmpfs "$TEAMSTER_TEST_DISK" || exit
if [ "$1" = 0 ]; then shift 2; else user=--map-user=$1 group=--map-group=$2; shift 2; set -- unshare "$user" "$group" "$@"; fi
exec "$@"
"#;
const TASKS: usize = 30;

#[test]
fn run_goes_on_when_the_disk_of_the_server_was_full_and_has_room_again() {
    if teamster_testkit::postgres::programs().is_none() {
        skip("there is no PostgreSQL server");
        return;
    }
    let disk = Scratch::new("disk");
    let id = |flag: &str| {
        let output = Command::new("id").arg(flag).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let (user, group) = (id("-u"), id("-g"));
    let mut inside = Command::new("unshare");
    if user != "0" {
        inside.arg("--map-root-user");
    }
    let inner = "machines::full_disk::run_on_a_server_whose_disk_fills_up";
    let output = inside
        .args(["--mount", "sh", "-c", WITH_DISK, "sh", &user, &group])
        .arg(std::env::current_exe().unwrap())
        .args([inner, "--exact", "--ignored", "--nocapture"])
        .env(DISK, disk.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn run_whose_workers_cannot_claim_says_why_and_goes_on_when_they_can() {
    let Some(run) = RefusedRun::begin("NEW.status = 1 AND OLD.status <> 1") else {
        return;
    };
    run.says("no worker can go on: worker-1 cannot claim a task: the disk of the server");
    run.goes_on();
}

#[test]
fn run_whose_worker_cannot_write_its_result_says_why_and_goes_on_when_it_can() {
    let Some(run) = RefusedRun::begin("NEW.status = 2 AND OLD.status <> 2") else {
        return;
    };
    run.says("no worker can go on: worker-1 cannot write the result of task");
    run.goes_on();
}

#[test]
fn run_whose_worker_can_neither_end_nor_release_its_task_says_why_and_goes_on_when_it_can() {
    let Some(run) = RefusedRun::begin("OLD.status = 1") else {
        return;
    };
    run.says("no worker can go on: worker-1 cannot write the result of task");
    // A host that cannot take the task back does not wait for it either.
    let early = run.home.run(&["run", "--resume", TEAM]);
    assert_eq!(early.code, Some(7), "{early:?}");
    assert!(early.stderr.contains("the disk of the server"), "{early:?}");
    run.goes_on();
}

/// A run with one worker that ended because the server refused a change of its tasks. A full disk refuses only what makes
/// a table grow; here it is one kind of change, and nothing that the host writes.
struct RefusedRun {
    server: &'static PostgresServer,
    url: String,
    home: Machine,
    said: String,
}

impl RefusedRun {
    fn begin(refused: &str) -> Option<Self> {
        let Some(server) = shared_server() else {
            skip("there is no PostgreSQL server");
            return None;
        };
        let url = database(server);
        let home = Machine::with_repository(&url);
        let mut host = home.begin_run(4, &writer("0.3"), &[]);
        wait_until("a task is done", || host.said().contains("completed task"));
        let refuse = format!(
            "CREATE FUNCTION teamster.refuse() RETURNS trigger LANGUAGE plpgsql AS \
            $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$; \
            CREATE TRIGGER refuse BEFORE UPDATE ON teamster.tasks FOR EACH ROW \
            WHEN ({refused}) EXECUTE FUNCTION teamster.refuse()"
        );
        server.sql(name_of(&url), &refuse);
        let status = host.child.wait().unwrap();
        let said = host.said();
        assert_eq!(status.code(), Some(7), "{said}");
        Some(Self {
            server,
            url,
            home,
            said,
        })
    }

    fn says(&self, told: &str) {
        for part in [
            told,
            "the disk of the server",
            "make room on the server",
            &format!("teamster run --resume {TEAM}"),
        ] {
            assert!(self.said.contains(part), "{part}: {}", self.said);
        }
    }

    /// Resumes the run once the server accepts every change again.
    fn goes_on(&self) {
        let accept = "DROP TRIGGER refuse ON teamster.tasks";
        self.server.sql(name_of(&self.url), accept);
        resume(&self.home).lands(4);
    }
}

/// Returns the name of the database of an address.
fn name_of(url: &str) -> &str {
    url.rsplit('/').next().unwrap()
}

#[test]
#[ignore = "it needs a disk of its own, with which the test above runs it"]
fn run_on_a_server_whose_disk_fills_up() {
    let disk = PathBuf::from(std::env::var_os(DISK).unwrap());
    let server = PostgresServer::start_in(&disk, "").unwrap();
    let home = Machine::with_repository(&database(&server));
    let mut host = home.begin_run(TASKS, &writer("0.3"), &[]);
    wait_until("a task is done", || host.said().contains("completed task"));

    let filler = fill(&disk);
    let status = host.child.wait().unwrap();
    let said = host.said();
    assert_eq!(status.code(), Some(7), "{said}");
    for part in [
        "the disk of the server",
        "is full",
        "make room on the server",
        &format!("teamster run --resume {TEAM}"),
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }

    std::fs::remove_file(filler).unwrap();
    resume(&home).lands(TASKS);
}

fn resume(home: &Machine) -> Host<'_> {
    let output = home.project.home().join("resumed.txt");
    let child = home
        .call(&["run", "--resume", TEAM])
        .spawn_into(File::create(&output).unwrap());
    Host {
        machine: home,
        child,
        output,
    }
}

/// Fills a disk to the last byte.
fn fill(disk: &Path) -> PathBuf {
    let path = disk.join("filler");
    let mut file = File::create(&path).unwrap();
    let mut piece = 1024 * 1024;
    while piece > 0 {
        if file.write_all(&vec![0; piece]).is_err() {
            piece /= 2;
        }
    }
    path
}
