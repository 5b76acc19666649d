//! Full disks: a whole run with limited space, for the project or for the home. It ends by itself, reports nothing
//! false, and once there is space again `--resume` finishes it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use teamster_testkit::RunCmd;
use teamster_testkit::wait::poll;

use super::sentences::RunOutput;
use crate::run::Shop;

/// The variable with the number of sizes for each of the two places.
const COUNT: &str = "TEAMSTER_DISK_SIZES";
const FEW: u64 = 2;
/// Set inside the namespace in which mounting is allowed and not visible outside.
const INSIDE: &str = "TEAMSTER_TEST_INSIDE_MOUNTS";
/// The maximum free space at the beginning of a run, in KiB.
const MOST_ROOM: [(&str, u64); 2] = [("project", 1_600), ("home", 500)];
/// A call that takes longer than this hangs.
const HANGS: Duration = Duration::from_secs(120);
const PARTS: u32 = 3;

/// Runs the sweep in its own mount and user namespaces, so that nothing is mounted elsewhere and no privileges are
/// needed.
#[test]
fn run_on_a_full_disk_ends_by_itself_and_loses_nothing() {
    let test = "hostile::full_disks::sweep_over_the_sizes_of_a_disk";
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "--"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for line in said.lines().filter(|line| line.contains("sizes of")) {
        println!("{line}");
    }
}

#[test]
#[ignore = "it mounts file systems, and is run by the test above in a namespace of its own"]
fn sweep_over_the_sizes_of_a_disk() {
    assert!(
        std::env::var_os(INSIDE).is_some(),
        "it is run by the test above"
    );
    let count = std::env::var(COUNT)
        .ok()
        .and_then(|count| count.parse().ok());
    let count: u64 = count.unwrap_or(FEW);
    let mut wrong = Vec::new();
    for (place, most) in MOST_ROOM {
        let (mut whole, mut stopped) = (0, 0);
        for number in 0..count {
            // Small sizes are closer together, because more goes wrong there.
            let share = (number + 1) * (number + 1);
            let room = (most * share / (count * count)).max(8);
            match with_room(place, room) {
                Ok(true) => whole += 1,
                Ok(false) => stopped += 1,
                Err(why) => wrong.push(format!("{place} with {room} KiB: {why}")),
            }
        }
        println!(
            "{count} sizes of the {place}'s disk: {whole} ran through, {stopped} stopped and were resumed"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Runs with this much space in `place`; returns whether it was enough.
fn with_room(place: &str, room: u64) -> Result<bool, String> {
    let shop = Shop::on_disk(place);
    let disk = match place {
        "project" => shop.folder(),
        _ => shop.aside(),
    };
    let script = "[[step]]\ndo = \"run\"\ncommand = \"head -c 60000 /dev/urandom > part-$TEAMSTER_TASK_ID.txt\"\n";
    let plan = shop.parts(PARTS);
    let script = shop.script(script);
    let args = RunCmd::new("shop", "2:w", "all parts")
        .provider(&script)
        .plan(&plan)
        .approve("auto")
        .verify("true");
    resize(&disk, used(&disk) + room);
    let first = run(&shop, &args)?;
    if first.0 == Some(0) {
        all_landed(&shop).map_err(|why| format!("it ended with 0, and {why}:\n{}", first.1))?;
    }
    resize(&disk, 256 * 1024);
    let mut last = first.clone();
    for _ in 0..4 {
        if last.0 == Some(0) {
            break;
        }
        // If not even the team could be created, there is nothing to resume; then the run must not promise it either.
        last = if last.2 {
            run(&shop, ["run", "--resume", "shop"])?
        } else {
            run(&shop, &args)?
        };
    }
    let all = format!(
        "first: {:?}\n{}\nlast: {:?}\n{}",
        first.0, first.1, last.0, last.1
    );
    if last.0 != Some(0) {
        return Err(format!("it does not go on once there is room:\n{all}"));
    }
    all_landed(&shop).map_err(|why| format!("{why}:\n{all}"))?;
    match shop.alive().as_slice() {
        [] => Ok(first.0 == Some(0)),
        left => Err(format!("processes are left: {left:?}\n{all}")),
    }
}

/// Runs it to its end, and checks its output. Returns its exit code, its output, and whether it promises that a
/// resume goes on.
fn run<I: IntoIterator<Item: AsRef<OsStr>>>(
    shop: &Shop,
    args: I,
) -> Result<(Option<i32>, String, bool), String> {
    let said = std::env::temp_dir().join(format!("said-{}", teamster_fs::random_hex()));
    let mut child = shop
        .call(args)
        .spawn_into(std::fs::File::create(&said).unwrap());
    let ended = poll(HANGS, || child.try_wait().unwrap());
    let code = ended.map(|status| status.code());
    let text = std::fs::read_to_string(&said).unwrap_or_default();
    let _ = std::fs::remove_file(said);
    if let Some(code) = code {
        let said = RunOutput {
            shop,
            text: &text,
            code,
        };
        said.judge()
            .map_err(|why| format!("it says what is not so: {why}\nin:\n{text}"))?;
        let promises = said.promises_resume();
        return Ok((code, text, promises));
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(format!("it hangs:\n{text}"))
}

fn all_landed(shop: &Shop) -> Result<(), String> {
    let files = shop.git(&["ls-tree", "-r", "--name-only", "main"]);
    for part in 1..=PARTS {
        let part = format!("part-{part}.txt");
        if !files.lines().any(|file| file == part) {
            return Err(format!("{part} is missing"));
        }
    }
    for event in shop.events_of("merge.merged") {
        let commit = event["data"]["commit"].as_str().unwrap_or_default();
        if !shop.git_ok(&["merge-base", "--is-ancestor", commit, "main"]) {
            return Err(format!(
                "task {} is called merged and is not",
                event["taskId"]
            ));
        }
    }
    Ok(())
}

/// Returns the KiB used on the disk.
fn used(disk: &Path) -> u64 {
    let output = Command::new("df")
        .args(["--output=used", "-k"])
        .arg(disk)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().nth(1).unwrap().trim().parse().unwrap()
}

fn resize(disk: &Path, size: u64) {
    let options = format!("remount,size={size}k");
    let status = Command::new("mount")
        .args(["-o", &options])
        .arg(disk)
        .status()
        .unwrap();
    assert!(status.success(), "the disk cannot be resized");
}
