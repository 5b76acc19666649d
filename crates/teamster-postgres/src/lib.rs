//! The store on PostgreSQL, for teams whose members work on several machines.
//!
//! # What it owns
//!
//! The schema `teamster` of one database: its numbered migrations, its tables and its functions. Nobody else reads or writes
//! there.
//!
//! # How it works
//!
//! [`PgStore`] is a back end of `teamster-store`, so the rules are the same as for files, and it passes the same suite. A change
//! reads what its rule asks for without any lock, and notes the version of everything it read. The function `teamster.apply`
//! then takes the lock of the team, compares the versions, writes everything, gives the events their positions and is
//! committed; when anything has changed meanwhile, the change begins anew. Three things follow:
//!
//! - No lock of a team is held while anything travels between machines.
//! - Positions of the journal are given in the order in which changes are committed: whoever follows it misses none.
//! - A worker that asks for any task locks the row that it is offered with `FOR UPDATE SKIP LOCKED`, so claimers at the same
//!   moment are offered different tasks and none of them waits.
//!
//! The commit does not wait for the disk, so that the next change can follow at once. Whoever asked is answered only when the
//! server's log has reached the disk (`PgStore::make_durable`), which changes at the same moment do together. A reader of the
//! journal makes sure of the same before it tells anybody of an event.
//!
//! A lost connection leaves open whether a change was made. Its first event has an id that stays the same when the change is
//! tried again, and the database takes an id once: so it is made once, and its outcome is known.
//!
//! Time is the server's. Leases, heartbeats and pauses are never compared with the clock of another machine.
//!
//! # What it refuses
//!
//! - A schema that a newer teamster has made: it is neither read nor changed.
//! - A server older than PostgreSQL 13.
//! - A password in any message.

mod read;
mod schema;
mod session;
mod store;
mod txn;
mod url;
mod watch;
mod whole;

pub use schema::{StoreStatus, init, let_work, let_work_no_more, schema_needed, status};
pub use store::{PgSettings, PgStore};
pub use url::StoreUrl;
