//! The store, attacked from all sides.

mod conformance;
mod crew;
mod damage;
mod every_step;
mod files;
mod histories;
mod machine;
mod planted;
