//! The store on PostgreSQL, for teams whose members work on several machines.
//!
//! # What it owns
//!
//! The schema `teamster` of one database: its numbered migrations, its tables and its functions. No other program reads
//! or writes there.
//!
//! # How it works
//!
//! [`PgStore`] is a back end of `teamster-store`, so the rules are the same as for files, and it passes the same test
//! suite. A transaction normally reads what its rule needs without the lock of the team, and notes the version of
//! everything it read. The function `teamster.apply` then takes that lock, compares the versions, writes everything,
//! assigns the positions of the events and commits. If anything that was read has changed meanwhile, the transaction is
//! retried. Three things follow:
//!
//! - The lock of a team is usually not held across a network round trip. It is taken first only after three failed
//!   tries, or by a rule that must read the journal.
//! - Positions of the journal are assigned in commit order, so a reader that follows the journal misses no event.
//! - A worker that asks for any task locks the row that it is offered with `FOR UPDATE SKIP LOCKED`, so concurrent
//!   claimers are offered different tasks and none of them waits.
//!
//! The commit does not wait for the disk, so that the next transaction can follow at once. The caller gets its result
//! only when the server's log is flushed (`PgStore::make_durable`), and concurrent transactions share one flush. A
//! reader of the journal waits for the same flush before it reports an event.
//!
//! After a lost connection it is unknown whether the commit happened. The id of the transaction's first event stays the
//! same across retries, and the database accepts an id once: so the change is made once, and its outcome is known.
//!
//! The server's clock is the only clock. Leases, heartbeats and retry delays are never compared with the clock of
//! another machine.
//!
//! # What it refuses
//!
//! - A schema that a newer teamster has created: it is neither read nor changed.
//! - A server older than PostgreSQL 13.
//! - A password in any message.

mod read;
mod schema;
mod session;
mod store;
mod transfer;
mod txn;
mod url;
mod watch;

pub use schema::{StoreStatus, grant_access, init, revoke_access, schema_needed, status};
pub use store::{PgSettings, PgStore};
pub use url::StoreUrl;
