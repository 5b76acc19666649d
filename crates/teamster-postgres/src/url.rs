//! The address of a database: its URL, with the password never shown, and how its server is authenticated.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use teamster_store::{Result, StoreError};
use tokio_postgres::config::SslMode;

/// How the server's certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateCheck {
    /// Any certificate is accepted: the connection is encrypted, but the server is not authenticated.
    Any,
    /// The certificate must come from a known authority.
    Authority,
    /// The certificate must come from a known authority and name the host.
    Host,
}

/// The address of a database, as `postgres://user:password@host:port/database?sslmode=…`.
///
/// Its text forms leave out the password.
#[derive(Clone)]
pub struct StoreUrl {
    pub(crate) config: tokio_postgres::Config,
    pub(crate) trust: CertificateCheck,
    pub(crate) root_certificate: Option<PathBuf>,
    shown: String,
}

/// How long a server may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the server may be silent before the connection is closed.
const SILENCE: Duration = Duration::from_secs(10);

impl StoreUrl {
    /// Parses a URL in the forms that `psql` accepts, with `sslmode` from `disable` to `verify-full` and `sslrootcert`.
    pub fn parse(text: &str) -> Result<Self> {
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            return Err(
                StoreError::refused("the address of a store begins with postgres://")
                    .hint("write it as postgres://user@host:5432/database"),
            );
        }
        let shown = without_password(text);
        let (mut plain, query) = match text.split_once('?') {
            Some((plain, query)) => (plain.to_owned(), query),
            None => (text.to_owned(), ""),
        };
        let mut mode = "prefer";
        let mut root_certificate = None;
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = value,
                Some(("sslrootcert", value)) => root_certificate = Some(PathBuf::from(value)),
                _ => rest.push(pair),
            }
        }
        if !rest.is_empty() {
            plain = format!("{plain}?{}", rest.join("&"));
        }
        let (ssl, trust) = match mode {
            "disable" => (SslMode::Disable, CertificateCheck::Any),
            "allow" | "prefer" => (SslMode::Prefer, CertificateCheck::Any),
            // As in libpq, naming a root certificate means that it is verified.
            "require" if root_certificate.is_some() => {
                (SslMode::Require, CertificateCheck::Authority)
            }
            "require" => (SslMode::Require, CertificateCheck::Any),
            "verify-ca" => (SslMode::Require, CertificateCheck::Authority),
            "verify-full" => (SslMode::Require, CertificateCheck::Host),
            other => {
                return Err(
                    StoreError::refused(format!("sslmode={other} of {shown} is unknown"))
                        .hint("use disable, prefer, require, verify-ca or verify-full"),
                );
            }
        };
        let mut config: tokio_postgres::Config = plain.parse().map_err(|error| {
            // The error never contains the value.
            StoreError::refused(format!("{shown} is not a valid database URL: {error}"))
                .hint("write it as postgres://user@host:5432/database")
        })?;
        if config.get_hosts().is_empty() {
            return Err(StoreError::refused(format!("{shown} names no host"))
                .hint("write it as postgres://user@host:5432/database"));
        }
        let patience = config.get_connect_timeout().copied().unwrap_or(CONNECT);
        config
            .ssl_mode(ssl)
            .connect_timeout(patience)
            .keepalives_idle(SILENCE)
            .tcp_user_timeout(SILENCE);
        if config.get_application_name().is_none() {
            config.application_name("teamster");
        }
        Ok(Self {
            config,
            trust,
            root_certificate,
            shown,
        })
    }

    /// Returns whether the URL contains a password, which must not appear where other users can read it.
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }
}

/// Returns a URL without its password.
fn without_password(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("postgres", text));
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    // A password may contain an unescaped `@`, so the last one counts.
    let rest = match rest.rsplit_once('@') {
        Some((login, place)) => {
            let user = login.split_once(':').map_or(login, |(user, _)| user);
            format!("{user}@{place}")
        }
        None => rest.to_owned(),
    };
    let query = query.map(|query| {
        let kept = query.split('&').filter(|pair| {
            let key = pair.split('=').next().unwrap_or_default();
            !key.eq_ignore_ascii_case("password")
        });
        kept.collect::<Vec<_>>().join("&")
    });
    match query.filter(|query| !query.is_empty()) {
        Some(query) => format!("{scheme}://{rest}?{query}"),
        None => format!("{scheme}://{rest}"),
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({})", self.shown)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
mod tests {
    use super::*;

    #[test]
    fn password_is_in_no_text_form() {
        for text in [
            "postgres://me:hunter2@db.example:5432/team",
            "postgres://me:hunter2@x@db.example/team?sslmode=disable",
            "postgres://me@db.example/team?password=hunter2&sslmode=disable",
        ] {
            let url = StoreUrl::parse(text).unwrap();
            assert!(url.has_password(), "{text}");
            for shown in [url.to_string(), format!("{url:?}")] {
                assert!(!shown.contains("hunter2"), "{shown}");
                assert!(shown.contains("db.example"), "{shown}");
            }
        }
        let error = StoreUrl::parse("postgres://me:hunter2@db:port/x").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn sslmode_decides_what_is_trusted() {
        let trust = |mode: &str| {
            let url = StoreUrl::parse(&format!("postgres://me@db/x?{mode}")).unwrap();
            (url.config.get_ssl_mode(), url.trust)
        };
        assert_eq!(
            trust("sslmode=disable"),
            (SslMode::Disable, CertificateCheck::Any)
        );
        assert_eq!(trust(""), (SslMode::Prefer, CertificateCheck::Any));
        assert_eq!(
            trust("sslmode=require"),
            (SslMode::Require, CertificateCheck::Any)
        );
        let with_authority = trust("sslmode=require&sslrootcert=ca.pem");
        assert_eq!(
            with_authority,
            (SslMode::Require, CertificateCheck::Authority)
        );
        assert_eq!(
            trust("sslmode=verify-full"),
            (SslMode::Require, CertificateCheck::Host)
        );
        assert!(StoreUrl::parse("postgres://me@db/x?sslmode=sometimes").is_err());
        assert!(StoreUrl::parse("mysql://me@db/x").is_err());
        assert!(StoreUrl::parse("postgres:///x").is_err());
    }
}
