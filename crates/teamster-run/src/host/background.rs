//! Runs long work on a thread, while the host continues with what must not wait for it: output, budget, health and
//! signals ([`run`]), or with everything else that it does ([`BackgroundTask`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Result, RunError};

/// How long the host waits for output before it checks the time.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often budget, health and signals are checked meanwhile.
const TICK_INTERVAL: Duration = Duration::from_millis(250);
/// The number of chunks of output that may be queued. A check that prints faster is blocked until they are read.
const QUEUED_CHUNKS: usize = 64;

/// The link from work in the background to the host.
pub(super) struct Background<'a> {
    lines: SyncSender<String>,
    stop: &'a AtomicBool,
}

impl Background<'_> {
    /// Shows lines to the observer of the run.
    pub(super) fn show(&self, lines: &str) {
        // The host reads until the work ends, so there is a receiver.
        let _ = self.lines.send(lines.to_owned());
    }

    /// Returns whether the work should end early: on request, or because the time is used up.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// An event in the host while work runs in the background.
pub(super) enum BackgroundEvent {
    /// The work has printed lines.
    Output(String),
    /// It is time to check budget, health and signals. The handler returns whether the work should end early.
    Tick,
}

/// Runs `work` on a thread and calls `on_event` for events meanwhile. An error of `on_event` ends the work early, and is
/// returned once the work has ended.
pub(super) fn run<T: Send>(
    work: impl FnOnce(&Background<'_>) -> T + Send,
    on_event: impl FnMut(BackgroundEvent) -> Result<bool>,
) -> Result<T> {
    let stop = AtomicBool::new(false);
    let (lines, printed) = sync_channel(QUEUED_CHUNKS);
    let (done, attended) = std::thread::scope(|scope| {
        let background = Background { lines, stop: &stop };
        let thread = std::thread::Builder::new()
            .name("background".to_owned())
            .spawn_scoped(scope, move || work(&background));
        match thread {
            Ok(thread) => {
                let attended = watch(&printed, &stop, on_event);
                (
                    thread.join().map_err(|_| "it ended abnormally".to_owned()),
                    attended,
                )
            }
            Err(error) => (Err(error.to_string()), Ok(())),
        }
    });
    attended?;
    done.map_err(|why| not_done(&why))
}

fn not_done(why: &str) -> RunError {
    RunError::refused(
        format!("a step of the run could not be done: {why}"),
        "`teamster run --resume TEAM` tries again",
    )
}

/// Work on its own thread, which the host polls instead of waiting for it. Dropping it ends the work early and waits
/// for its end.
#[derive(Debug)]
pub(super) struct BackgroundTask<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> BackgroundTask<T> {
    /// Starts the work. It gets a flag, and must end early once that is set.
    pub(super) fn start(work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("background".to_owned())
            .spawn(move || work(&seen))
            .map_err(|error| not_done(&error.to_string()))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    /// Returns whether the work has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of the work, and returns its result.
    pub(super) fn finish(mut self) -> Result<T> {
        let thread = self.thread.take();
        let done = thread.and_then(|thread| thread.join().ok());
        done.ok_or_else(|| not_done("it ended abnormally"))
    }
}

impl<T> BackgroundTask<T> {
    /// Asks the work to end early.
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl<T> Drop for BackgroundTask<T> {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::debug!("work in the background ended abnormally");
        }
    }
}

fn watch(
    printed: &Receiver<String>,
    stop: &AtomicBool,
    mut on_event: impl FnMut(BackgroundEvent) -> Result<bool>,
) -> Result<()> {
    let mut attended = Ok(());
    let mut next = Instant::now() + TICK_INTERVAL;
    loop {
        match printed.recv_timeout(POLL_INTERVAL) {
            Ok(lines) => drop(on_event(BackgroundEvent::Output(lines))),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return attended,
        }
        if Instant::now() < next {
            continue;
        }
        if attended.is_ok() {
            match on_event(BackgroundEvent::Tick) {
                Ok(false) => {}
                Ok(true) => stop.store(true, Ordering::Relaxed),
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    attended = Err(error);
                }
            }
        }
        next = Instant::now() + TICK_INTERVAL;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_passed_on_and_the_result_returned() {
        let mut lines = String::new();
        let work = |background: &Background<'_>| {
            background.show("a\n");
            background.show("b\n");
            3
        };
        let done = run(work, |news| {
            if let BackgroundEvent::Output(more) = news {
                lines += &more;
            }
            Ok(false)
        });
        assert_eq!(done.unwrap(), 3);
        assert_eq!(lines, "a\nb\n");
    }

    #[test]
    fn task_that_nobody_waits_for_is_ended_when_it_is_dropped() {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let task = BackgroundTask::start(move |stop| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            seen.store(true, Ordering::Relaxed);
        });
        let task = task.unwrap();
        assert!(!task.has_ended());
        drop(task);
        assert!(ended.load(Ordering::Relaxed));
    }

    #[test]
    fn task_returns_what_came_of_it_and_an_abnormal_end_is_an_error() {
        let task = BackgroundTask::start(|_| 3).unwrap();
        assert_eq!(task.finish().unwrap(), 3);
        let task = BackgroundTask::start(|_| assert_eq!(1, 2, "it breaks"));
        assert!(task.unwrap().finish().is_err());
    }

    #[test]
    fn error_while_waiting_stops_the_work_and_is_returned() {
        let work = |background: &Background<'_>| {
            while !background.is_stopped() {
                std::thread::yield_now();
            }
        };
        let mut ticks = 0;
        let done = run(work, |news| {
            ticks += u32::from(matches!(news, BackgroundEvent::Tick));
            Err(RunError::refused("no", "hint"))
        });
        assert!(matches!(done, Err(RunError::Refused { .. })));
        assert_eq!(ticks, 1);
    }
}
