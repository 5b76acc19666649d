//! The store, attacked from all sides.

mod beginnings;
mod conformance;
mod crew;
mod damage;
mod every_step;
mod files;
mod histories;
mod listening;
mod locks;
mod machine;
mod mended;
mod planted;
mod readers;
mod rotation;
mod watching;
