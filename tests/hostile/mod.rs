//! The findings of the attack on the built binary: one module for each class of defects.

mod checks;
mod clocks_and_versions;
mod decisions;
mod full_disks;
mod gate_input;
mod histories;
mod housekeeping;
mod isolation;
mod journals;
mod landing;
mod large_files;
mod limits;
mod long_inboxes;
mod merge_train;
mod replaced_objects;
mod repositories;
mod secrets;
mod security_document;
mod sentences;
mod signals;
mod trust;
mod versions;
mod worker_results;
