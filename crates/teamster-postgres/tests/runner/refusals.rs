//! Invalid input: each case gives one clear error and changes nothing.

use std::time::Duration;

use teamster_postgres::{PgSettings, PgStore, StoreUrl, init, status};
use teamster_store::{StoreError, StoreErrorKind};
use teamster_testkit::postgres::shared_server;

use crate::Database;

fn open(url: &str) -> StoreError {
    let settings = PgSettings {
        patience: Duration::ZERO,
        ..PgSettings::default()
    };
    let opened = StoreUrl::parse(url).and_then(|url| PgStore::open(url, settings));
    match opened {
        Err(error) => error,
        Ok(_) => panic!("{url} was opened"),
    }
}

#[test]
fn what_is_wrong_with_a_database_is_said_with_the_way_on_and_without_the_password() {
    let Some(server) = shared_server() else {
        return;
    };
    let empty = Database::empty(server);
    let port = server.port();
    let good = server.url(&empty.name);
    let cases = [
        (
            good.clone(),
            StoreErrorKind::Unreachable,
            "has no teamster store",
            "teamster store init",
        ),
        (
            good.replace("only-for-tests", "secret-wrong"),
            StoreErrorKind::Unreachable,
            "refuses the login",
            "password",
        ),
        (
            server.url("nowhere"),
            StoreErrorKind::Unreachable,
            "does not exist",
            "createdb",
        ),
        (
            good.replace(&port.to_string(), "1"),
            StoreErrorKind::Unreachable,
            "cannot be reached",
            "server runs",
        ),
        (
            format!("{good}?sslmode=verify-full"),
            StoreErrorKind::Unreachable,
            "with TLS",
            "sslrootcert",
        ),
        (
            "sqlite://x".to_owned(),
            StoreErrorKind::Refused,
            "postgres://",
            "postgres://user@host",
        ),
    ];
    for (url, kind, says, hints) in cases {
        let error = open(&url);
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(says), "{error}");
        let hint = error.hint.clone().unwrap_or_default();
        assert!(hint.contains(hints), "{error}: {hint}");
        for secret in ["only-for-tests", "secret-wrong"] {
            assert!(
                !format!("{error} {hint} {error:?}").contains(secret),
                "{error}"
            );
        }
    }
}

#[test]
fn newer_schema_is_refused_with_both_versions() {
    let Some(database) = Database::new() else {
        return;
    };
    let known = status(&database.url()).unwrap();
    assert_eq!(known.schema, known.needed);
    database.sql("INSERT INTO teamster.migrations (version) VALUES (99)");
    let url = database.server.url(&database.name);
    for error in [open(&url), init(&database.url()).unwrap_err()] {
        assert_eq!(error.kind, StoreErrorKind::Refused);
        assert!(error.message.contains("version 99"), "{error}");
        let this = format!("this one supports {}", known.needed);
        assert!(error.message.contains(&this), "{error}");
    }
}
