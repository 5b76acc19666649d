//! Polling while clients run: the thread that does it, and the record of what was wrong at which polls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// A thread that polls at an interval until it is ended.
pub(super) struct Poller<T> {
    over: Arc<AtomicBool>,
    thread: JoinHandle<T>,
}

impl<T: Default + Send + 'static> Poller<T> {
    pub(super) fn begin(interval: Duration, look: impl Fn(&mut T) + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = T::default();
            loop {
                let (start, is_last) = (Instant::now(), ends.load(Ordering::Relaxed));
                look(&mut seen);
                if is_last {
                    return seen;
                }
                std::thread::sleep(interval.saturating_sub(start.elapsed()));
            }
        });
        Self { over, thread }
    }

    /// Ends the thread after one more poll and returns its observations.
    pub(super) fn end(self) -> Result<T> {
        self.over.store(true, Ordering::Relaxed);
        let seen = self.thread.join();
        seen.map_err(|_| anyhow!("the thread that polls has panicked"))
    }
}

/// What was wrong at some polls: when first and last, and how often.
#[derive(Clone, Debug, Default)]
pub(super) struct WrongPolls(BTreeMap<String, (Duration, Duration, usize)>);

impl WrongPolls {
    pub(super) fn add(&mut self, what: String, at: Duration) {
        let (_, last, count) = self.0.entry(what).or_insert((at, at, 0));
        (*last, *count) = (at, *count + 1);
    }

    /// Describes each of them, with its times since `begin`.
    pub(super) fn describe(&self, begin: Duration) -> impl Iterator<Item = String> {
        self.0.iter().map(move |(what, (first, last, count))| {
            let [first, last] = [first, last].map(|at| at.saturating_sub(begin).as_secs_f64());
            format!("{what} ({count} looks, {first:.1} s to {last:.1} s)")
        })
    }
}
