//! The address that Studio sends its metrics to.

use std::net::{SocketAddr, ToSocketAddrs as _};

/// The address of a collector, `http://HOST:PORT/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    path: String,
}

impl Endpoint {
    /// Parses an address, or returns what is expected instead.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const WANTED: &str = "an address like \"http://127.0.0.1:4318\", or \"off\"";
        if text.starts_with("https://") {
            return Err(
                "an address that begins with http://: a collector on this machine passes it on over https",
            );
        }
        let rest = text.strip_prefix("http://").ok_or(WANTED)?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| WANTED)?),
            _ => (authority, 4318),
        };
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"@?#\\".contains(&byte);
        if host.is_empty() || !rest.bytes().all(is_plain) {
            return Err(WANTED);
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            path: path.trim_end_matches('/').to_owned(),
        })
    }

    /// Returns whether it is on this machine, independently of name resolution.
    pub fn is_loopback(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        let address = host.parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// Returns `HOST:PORT`.
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns the path, without a trailing slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the addresses that the host name resolves to.
    pub fn addresses(&self) -> std::io::Result<Vec<SocketAddr>> {
        let host = self.host.trim_matches(['[', ']']);
        Ok((host, self.port).to_socket_addrs()?.collect())
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "http://{}:{}{}", self.host, self.port, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_or_refused_in_words() {
        let read = |text: &str| Endpoint::parse(text).map(|endpoint| endpoint.to_string());
        assert_eq!(
            read("http://127.0.0.1:4318").as_deref(),
            Ok("http://127.0.0.1:4318")
        );
        assert_eq!(
            read("http://localhost/otel/").as_deref(),
            Ok("http://localhost:4318/otel")
        );
        assert_eq!(read("http://[::1]:9").as_deref(), Ok("http://[::1]:9"));
        assert!(read("https://example.org").is_err_and(|error| error.contains("https")));
        for wrong in [
            "",
            "http://",
            "127.0.0.1:4318",
            "http://a:b",
            "http://a b",
            "http://u@h",
            "http://h/\r\nX: y",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let is_here = |text: &str| Endpoint::parse(text).unwrap().is_loopback();
        assert!(
            is_here("http://[::1]:9") && is_here("http://127.9.9.9") && is_here("http://localhost")
        );
        assert!(!is_here("http://10.0.0.1") && !is_here("http://localhost.example.org"));
    }
}
