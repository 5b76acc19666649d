//! Waiting for a condition: check, pause briefly, and panic with the name of what never happened.

use std::fmt::Display;
use std::thread;
use std::time::{Duration, Instant};

/// The timeout: nothing that a test waits for takes this long unless it hangs, even on a busy machine.
pub const LONG: Duration = Duration::from_secs(120);

/// The maximum pause between two checks.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Waits until `is_so` returns true.
///
/// # Panics
///
/// Panics after [`LONG`] and says what it waited for.
#[track_caller]
pub fn wait_until(what: impl Display, mut is_so: impl FnMut() -> bool) {
    wait_for(what, || is_so().then_some(()));
}

/// Waits until `look` finds something and returns that.
///
/// # Panics
///
/// Panics after [`LONG`] and says what it waited for.
#[track_caller]
pub fn wait_for<T>(what: impl Display, look: impl FnMut() -> Option<T>) -> T {
    match poll(LONG, look) {
        Some(found) => found,
        None => panic!("waited {} s in vain for: {what}", LONG.as_secs()),
    }
}

/// Polls until `look` finds something, and returns `None` after `limit`.
///
/// Pauses are a tenth of the time waited so far: short waits end quickly, and long ones do not load the machine.
pub fn poll<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return Some(found);
        }
        let waited = start.elapsed();
        if waited >= limit {
            return None;
        }
        thread::sleep((waited / 10).min(LONGEST_PAUSE));
    }
}

/// Polls for the whole of `span` and panics as soon as `is_so` returns false.
#[track_caller]
pub fn stays_so(what: impl Display, span: Duration, mut is_so: impl FnMut() -> bool) {
    let broken = poll(span, || (!is_so()).then_some(()));
    assert!(broken.is_none(), "it did not stay so: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_for_returns_what_the_look_found() {
        let mut looks = 0;
        let found = wait_for("the third look", || {
            looks += 1;
            (looks == 3).then_some(looks)
        });
        assert_eq!(found, 3);
    }

    #[test]
    fn poll_gives_up_after_its_limit_and_looks_at_least_once() {
        let mut looks = 0;
        let found: Option<()> = poll(Duration::ZERO, || {
            looks += 1;
            None
        });
        assert_eq!((found, looks), (None, 1));
    }

    #[test]
    #[should_panic(expected = "it did not stay so: two looks")]
    fn stays_so_panics_when_the_condition_breaks() {
        let mut looks = 0;
        stays_so("two looks", LONG, || {
            looks += 1;
            looks < 2
        });
    }
}
