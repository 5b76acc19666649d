//! Kills the release binary, or fails one of its system calls, at every possible place.
//!
//! strace runs a call of the binary and injects a fault into one system call: the N-th one of a name, because that is
//! how strace counts. An undisturbed run shows which names occur and how often; [`kills`] and [`errors`] then go
//! through all of them. The tested operations are a table of operations on the store ([`store`]) and a table of hook
//! calls ([`hook`]); each entry prepares a project, and knows what must hold after the fault.

mod hook;
mod store;

use std::collections::BTreeMap;
use std::fs::File;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::product::{Finished, Product, TempProject, check, table_line, words};

/// The errors that are injected into each call.
const ERRORS: [&str; 4] = ["ENOSPC", "EIO", "EACCES", "EINTR"];

/// System calls that set the process up or allocate memory. The kernel does not return these errors for them; if it
/// is forced to, the process may die, as it may when memory runs out. Its files must then be as intact as after a
/// kill.
const RUNTIME_CALLS: &str = "arch_prctl brk exit_group futex getrandom madvise mmap mprotect mremap munmap poll \
    prlimit64 rseq rt_sigaction rt_sigprocmask sched_getaffinity set_robust_list set_tid_address sigaltstack";

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    /// Every call of every operation, and every error at each of them.
    Every,
    /// Every call of the central operations and every third of the others, with one of the errors in turn.
    Sample,
}

/// The fault that is injected at a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// The process is killed before the call is made.
    Kill,
    /// The call is not made and returns this error.
    Error(&'static str),
}

/// One place for a fault: the `n`-th call of a name.
#[derive(Clone, Debug)]
struct Point {
    call: String,
    n: usize,
}

impl Point {
    fn is_runtime(&self) -> bool {
        words(RUNTIME_CALLS).contains(&self.call.as_str())
    }
}

/// A prepared project and the call that gets the fault.
#[derive(Debug)]
struct Case<'a> {
    product: &'a Product,
    project: TempProject,
    words: Vec<String>,
    /// The file that the call reads from its standard input.
    input: Option<PathBuf>,
    /// The token of the claim that the operation ends.
    token: String,
}

impl<'a> Case<'a> {
    fn new(product: &'a Product, project: TempProject, line: &str) -> Self {
        Self {
            product,
            project,
            words: words(line).into_iter().map(str::to_owned).collect(),
            input: None,
            token: String::new(),
        }
    }
}

/// A call with a fault, after its end.
struct Struck<'a> {
    case: &'a Case<'a>,
    fault: Fault,
    point: &'a Point,
    finished: Finished,
    /// The trace line of the call that was hit, or `None` when it was never reached.
    hit: Option<String>,
}

/// One entry of a table.
trait Target: Sync {
    /// Returns the operation as a command line, and whether even a sample goes through every call.
    fn name(&self) -> (&'static str, bool);

    /// Makes a project in which the operation can be performed once.
    fn prepare<'a>(&self, product: &'a Product) -> Result<Case<'a>>;

    /// Applies the rules to a call that got a fault.
    fn judge(&self, struck: &Struck<'_>, run: &mut Run) -> Result<()>;
}

/// The results of one operation.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The operation, as a command line.
    operation: &'static str,
    /// How many names of system calls it uses.
    names: usize,
    /// How many system calls an undisturbed run makes.
    calls: usize,
    /// Runs with a fault.
    pub(crate) tried: usize,
    /// Runs whose fault was reached.
    pub(crate) hit: usize,
    /// Runs after which the operation had happened.
    happened: usize,
    /// Runs after which it had not.
    did_not: usize,
    /// Runs that succeeded, but whose effect readers saw only after the next write.
    late: usize,
    /// The longest time that the next operation took.
    slowest_next: Duration,
    /// Broken rules, each with the place of the fault.
    pub(crate) violations: Vec<String>,
}

impl Tally {
    /// The columns of a table.
    pub(crate) const COLUMNS: &str = "operation | names | calls | tried | hit | happened | did not | seen late | \
        longest next operation | violations";

    /// Returns the cells of its row.
    pub(crate) fn cells(&self) -> Vec<String> {
        let (happened, did_not, late) = (self.happened, self.did_not, self.late);
        let (names, calls, tried) = (self.names, self.calls, self.tried);
        let counts = [names, calls, tried, self.hit, happened, did_not, late];
        let mut row = vec![format!("`{}`", self.operation)];
        row.extend(counts.map(|count| count.to_string()));
        row.push(format!("{} ms", self.slowest_next.as_millis()));
        row.push(self.violations.len().to_string());
        row
    }

    /// Returns the row in one line.
    pub(crate) fn line(&self) -> String {
        table_line(Self::COLUMNS, &self.cells())
    }

    fn add(&mut self, run: Run) {
        self.tried += 1;
        self.hit += usize::from(run.hit);
        self.happened += usize::from(run.happened == Some(true));
        self.did_not += usize::from(run.happened == Some(false));
        self.late += usize::from(run.late);
        self.slowest_next = self.slowest_next.max(run.next);
        self.violations.extend(run.violations);
    }
}

/// One run with a fault.
#[derive(Debug, Default)]
struct Run {
    hit: bool,
    happened: Option<bool>,
    late: bool,
    /// The time that the next operation took.
    next: Duration,
    violations: Vec<String>,
}

/// Sends SIGKILL before each system call of each operation.
pub(crate) fn kills(product: &Product, coverage: Coverage) -> Result<Vec<Tally>> {
    inject(product, &[Fault::Kill], coverage)
}

/// Returns an error from each system call of each operation.
pub(crate) fn errors(product: &Product, coverage: Coverage) -> Result<Vec<Tally>> {
    inject(product, &ERRORS.map(Fault::Error), coverage)
}

fn inject(product: &Product, faults: &[Fault], coverage: Coverage) -> Result<Vec<Tally>> {
    let operations = store::OPERATIONS.iter().map(|one| one as &dyn Target);
    let targets = operations.chain(hook::CASES.iter().map(|one| one as &dyn Target));
    targets
        .map(|target| inject_into(product, target, faults, coverage))
        .collect()
}

fn inject_into(
    product: &Product,
    target: &dyn Target,
    faults: &[Fault],
    coverage: Coverage,
) -> Result<Tally> {
    let counts = count_calls(&target.prepare(product)?)?;
    let points = counts.iter().flat_map(|(call, count)| {
        let point = |n| Point {
            call: call.clone(),
            n,
        };
        (1..=*count).map(point).collect::<Vec<_>>()
    });
    let is_every = coverage == Coverage::Every;
    let (operation, is_central) = target.name();
    let points = points.step_by(if is_every || is_central { 1 } else { 3 });
    let trials: Vec<(Point, Fault)> = if is_every {
        points
            .flat_map(|point| faults.iter().map(move |fault| (point.clone(), *fault)))
            .collect()
    } else {
        points.zip(faults.iter().copied().cycle()).collect()
    };
    let mut tally = Tally {
        operation,
        names: counts.len(),
        calls: counts.values().sum(),
        ..Tally::default()
    };
    let try_one = |point: &Point, fault| try_at(product, target, point, fault);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let runs = in_parallel(threads, &trials, |(point, fault)| try_one(point, *fault));
    for run in runs {
        tally.add(run);
    }
    if faults != [Fault::Kill] {
        return Ok(tally);
    }
    // A run may make more calls than the first one. Those are tried too, until there are none left.
    for (call, count) in counts {
        let mut point = Point { call, n: count + 1 };
        loop {
            let run = try_one(&point, Fault::Kill);
            let was_hit = run.hit;
            if was_hit || !run.violations.is_empty() {
                tally.add(run);
            }
            if !was_hit {
                break;
            }
            point.n += 1;
        }
    }
    Ok(tally)
}

fn try_at(product: &Product, target: &dyn Target, point: &Point, fault: Fault) -> Run {
    let (mut run, mut hit) = (Run::default(), String::new());
    let mut strike = || -> Result<()> {
        let case = target.prepare(product)?;
        let struck = disturb(&case, point, fault)?;
        run.hit = struck.hit.is_some();
        hit = struck.hit.clone().unwrap_or_default();
        if fault == Fault::Kill && !run.hit {
            let (is_good, end) = (struck.finished.success(), struck.finished.describe());
            check!(run.violations, is_good => "not reached, but {end}");
            return Ok(());
        }
        target.judge(&struck, &mut run)
    };
    if let Err(error) = strike() {
        run.violations.push(format!("{error:#}"));
    }
    let ((name, _), Point { call, n }) = (target.name(), point);
    for violation in &mut run.violations {
        *violation = format!("{name}, {fault:?} at {call} {n}: {violation} [{hit}]");
    }
    run
}

/// Counts the system calls of an undisturbed run by name.
fn count_calls(case: &Case<'_>) -> Result<BTreeMap<String, usize>> {
    let (finished, trace) = run_traced(case, &[])?;
    let (is_good, end) = (finished.success(), finished.describe());
    ensure!(is_good, "the undisturbed run failed: {end}");
    let mut counts = BTreeMap::new();
    for line in trace.lines() {
        if let Some((call, _)) = line.split_once('(')
            && !call.is_empty()
            && call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        {
            *counts.entry(call.to_owned()).or_insert(0) += 1;
        }
    }
    // strace counts for each thread, so a second thread would need a separate loop.
    let forks = ["clone", "clone3", "fork", "vfork"];
    ensure!(
        !forks.iter().any(|call| counts.contains_key(*call)),
        "the operation starts a thread or a process, which this harness does not follow"
    );
    // It starts the program; before it there is nothing to inject a fault into.
    counts.remove("execve");
    Ok(counts)
}

fn disturb<'a>(case: &'a Case<'_>, point: &'a Point, fault: Fault) -> Result<Struck<'a>> {
    let Point { call, n } = point;
    let (what, name) = match fault {
        Fault::Kill => ("signal", "SIGKILL"),
        Fault::Error(name) => ("error", name),
    };
    let inject = format!("inject={call}:{what}={name}:when={n}");
    let (finished, trace) = run_traced(case, &[format!("trace={call}"), inject])?;
    let begin = format!("{call}(");
    let mut calls = trace.lines().filter(|line| line.starts_with(&begin));
    let hit = match fault {
        Fault::Kill if finished.signal() == Some(9) => calls.next_back(),
        Fault::Kill => None,
        Fault::Error(_) => calls.find(|line| line.ends_with("(INJECTED)")),
    };
    Ok(Struck {
        case,
        hit: hit.map(str::to_owned),
        point,
        fault,
        finished,
    })
}

fn run_traced(case: &Case<'_>, expressions: &[String]) -> Result<(Finished, String)> {
    let trace = case.project.root().join("trace");
    let mut command = Command::new("strace");
    command.arg("-qq").arg("-o").arg(&trace);
    for expression in expressions {
        command.arg("-e").arg(expression);
    }
    command.arg(&case.product.binary).args(&case.words);
    case.project.enter(&mut command);
    let input = match &case.input {
        Some(file) => File::open(file)?.into(),
        None => Stdio::null(),
    };
    let finished = Finished::reading(&mut command, input)?;
    let trace = std::fs::read_to_string(&trace).context("strace left no trace")?;
    Ok((finished, trace))
}

/// Processes all items with this many threads and returns the results in the order of the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    threads: usize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let items = Mutex::new(items.iter().enumerate());
    let next = || items.lock().ok()?.next();
    let work = || -> Vec<(usize, R)> {
        let items = std::iter::from_fn(next);
        items.map(|(place, item)| (place, work(item))).collect()
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let results = threads.into_iter().map(ScopedJoinHandle::join);
        results
            .flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}
