//! Work that takes long, done beside the loop: while git merges or a check runs, the host goes on looking at budget,
//! health and signals.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use super::{Host, Result, RunError};
use crate::observer::StopLevel;

/// How long nothing is looked at while the work says nothing.
const LOOK: Duration = Duration::from_millis(20);
/// How often budget, health and signals are looked at meanwhile.
const TICK: Duration = Duration::from_millis(250);
/// Parts of output that wait to be shown. A check that prints faster waits for whoever reads.
const LINES: usize = 64;

/// What work beside the loop has of the host.
pub(super) struct Background<'a> {
    lines: SyncSender<String>,
    stop: &'a AtomicBool,
}

impl Background<'_> {
    /// Shows lines to whoever watches the run.
    pub(super) fn show(&self, lines: &str) {
        // The host reads until we end, so somebody is there.
        let _ = self.lines.send(lines.to_owned());
    }

    /// Whether the work should end early: a person wants it, or the time is used up.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Host<'_> {
    /// Does something that may take long, and meanwhile everything that must not wait for it.
    pub(super) fn in_background<T: Send>(
        &mut self,
        work: impl FnOnce(&Background<'_>) -> T + Send,
    ) -> Result<T> {
        let stop = AtomicBool::new(false);
        let (lines, said) = sync_channel(LINES);
        let (done, looked) = std::thread::scope(|scope| {
            let background = Background { lines, stop: &stop };
            let thread = std::thread::Builder::new()
                .name("background".to_owned())
                .spawn_scoped(scope, move || work(&background));
            match thread {
                Ok(thread) => {
                    let looked = self.accompany(&said, &stop);
                    (
                        thread.join().map_err(|_| "it ended abnormally".to_owned()),
                        looked,
                    )
                }
                Err(error) => (Err(error.to_string()), Ok(())),
            }
        });
        looked?;
        done.map_err(|why| {
            RunError::refused(
                format!("a step of the run could not be done: {why}"),
                "`teamster run --resume TEAM` tries again",
            )
        })
    }

    /// Looks after everything else until the work is done. An error ends the work early, and is told once it has ended.
    fn accompany(&mut self, said: &Receiver<String>, stop: &AtomicBool) -> Result<()> {
        let mut looked = Ok(());
        let mut next = Instant::now() + TICK;
        loop {
            match said.recv_timeout(LOOK) {
                Ok(lines) => self.env.observer.output(&lines),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return looked,
            }
            if Instant::now() < next {
                continue;
            }
            if looked.is_ok() {
                looked = self.tick();
            }
            if looked.is_err() || self.must_stop() {
                stop.store(true, Ordering::Relaxed);
            }
            next = Instant::now() + TICK;
        }
    }

    /// What is looked at in every state of the loop.
    fn tick(&mut self) -> Result<()> {
        self.read()?;
        if self.workers_since.is_some() {
            self.look_after_if_due()?;
        }
        self.show()
    }

    /// Whether nothing that takes long should go on.
    pub(super) fn must_stop(&self) -> bool {
        self.env.observer.stop_level() > StopLevel::GoOn || self.is_out_of_time()
    }
}
