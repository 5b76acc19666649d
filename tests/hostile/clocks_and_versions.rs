//! Clocks that jump, process ids that are used again, long inboxes, two versions at once.
