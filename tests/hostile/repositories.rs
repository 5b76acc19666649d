//! Unusual repositories and unusual settings of git.
