//! The findings of the attack on the built binary: one module for each class of defects.

mod checks;
mod clocks_and_versions;
mod full_disks;
mod gate_input;
mod histories;
mod housekeeping;
mod isolation;
mod landing;
mod merge_train;
mod repositories;
mod secrets;
mod trust;
mod worker_results;
