//! The URL of a store, as the user wrote it.

use std::fmt;

use teamster_postgres::StoreUrl;

/// The URL of a store, as the user wrote it. It may contain a password, so it is displayed without one.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretUrl(String);

impl SecretUrl {
    /// The value that selects the file store.
    pub const FILES: &'static str = "files";

    /// Wraps a text.
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    /// Returns the full text including a password, for connecting.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match StoreUrl::parse(&self.0) {
            Ok(url) => write!(f, "{url}"),
            Err(_) if self.0 == Self::FILES => f.write_str(Self::FILES),
            Err(_) => f.write_str("(not an address of a database)"),
        }
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreText({self})")
    }
}
