//! The address of a store as somebody wrote it.

use std::fmt;

use teamster_postgres::StoreUrl;

/// The address of a store as somebody wrote it. It may have a password in it, so it shows itself without.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreText(String);

impl StoreText {
    /// The word for the store in files.
    pub const FILES: &'static str = "files";

    /// Keeps a text.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Returns the text with all that is in it, for whoever connects.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StoreText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match StoreUrl::parse(&self.0) {
            Ok(url) => write!(f, "{url}"),
            Err(_) if self.0 == Self::FILES => f.write_str(Self::FILES),
            Err(_) => f.write_str("(no address of a database)"),
        }
    }
}

impl fmt::Debug for StoreText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreText({self})")
    }
}
