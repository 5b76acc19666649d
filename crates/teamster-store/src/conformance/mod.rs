//! The one suite that every back end passes.
