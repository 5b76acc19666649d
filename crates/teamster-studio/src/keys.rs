//! Authentication: a key that a browser keeps in a cookie, and a single-use token that opens the page.

use std::sync::{Mutex, PoisonError};

use teamster_fs::random_hex;

/// The keys of one server.
#[derive(Debug)]
pub struct Keys {
    key: String,
    once: Mutex<Option<String>>,
}

impl Keys {
    /// Creates the keys of a server from a key that browsers may already have, and a new token.
    pub fn new(key: String) -> Self {
        Self {
            key,
            once: Mutex::new(Some(Self::random())),
        }
    }

    /// Returns a text that cannot be guessed: 256 random bits.
    pub fn random() -> String {
        random_hex() + &random_hex()
    }

    /// Returns the token, until it has been used.
    pub fn token(&self) -> Option<String> {
        let once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        once.clone()
    }

    /// Returns whether this is the key.
    pub fn is_key(&self, given: &str) -> bool {
        same(&self.key, given)
    }

    /// Returns the key in exchange for the token, once.
    pub fn exchange(&self, given: &str) -> Option<&str> {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        if once.as_deref().is_some_and(|token| same(token, given)) {
            *once = None;
            return Some(&self.key);
        }
        None
    }

    /// Returns the key itself, for a program that the user trusts with it.
    pub fn bearer(&self) -> &str {
        &self.key
    }
}

/// Compares in constant time, so that timing does not reveal how much matched.
fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let differs = |sum: u8, (a, b): (&u8, &u8)| sum | (a ^ b);
    one.len() == other.len() && one.iter().zip(other).fold(0, differs) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_one_exchange() {
        let keys = Keys::new(Keys::random());
        let token = keys.token().unwrap();
        assert_eq!(token.len(), 64);
        assert!(!keys.is_key(&token), "a token is no key");
        assert!(keys.exchange("").is_none() && keys.exchange(&token[1..]).is_none());
        let key = keys.exchange(&token).unwrap();
        assert!(keys.is_key(key));
        assert!(keys.exchange(&token).is_none());
        assert_eq!(keys.token(), None);
    }
}
