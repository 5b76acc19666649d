//! The command line, one file for each thing that people do with it.

mod config;
mod demo;
mod doctor;
mod errors;
mod help;
mod identity;
mod journal;
mod messages;
mod names;
mod native;
mod plans;
mod status;
mod tasks;
mod teams;
mod trust;
mod viewing;
