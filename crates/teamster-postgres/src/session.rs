//! One connection to the server, used by one thread at a time.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, try_join_all};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use teamster_store::{Result, StoreError, StoreErrorKind};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Error, Row, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::url::{CertificateCheck, StoreUrl};

/// A parameter of a statement with its type. Types are explicit, so that no statement has to be prepared first: a
/// pooler may use another server connection for every transaction.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// The SQLSTATE for a version conflict: something that the transaction read has changed.
pub(crate) const STALE: &str = "TM409";
/// The SQLSTATE for a lost right to host the team.
const NOT_HOST: &str = "TM423";
/// The SQLSTATE for a team that does not exist.
pub(crate) const NO_TEAM: &str = "TM404";

/// The session settings: timeouts in milliseconds (no regular change takes a second, so a process that holds a lock for
/// longer is stuck), and generic plans, because other values would not need another plan.
const LIMITS: &str = "SET statement_timeout = 20000; SET lock_timeout = 8000; \
    SET idle_in_transaction_session_timeout = 10000; SET client_min_messages = warning; \
    SET plan_cache_mode = force_generic_plan";
/// Waits until the server's log is flushed to disk, and with it every earlier commit.
pub(crate) const MAKE_DURABLE: &str = "SELECT pg_logical_emit_message(true, 'teamster', '')";
/// Commits and does the same. The server replies once, so the caller wakes up once.
const COMMIT_DURABLY: &str = "COMMIT; SELECT pg_logical_emit_message(true, 'teamster', '')";
/// How long a statement may go unanswered, despite the server's own timeouts, before the server counts as unreachable.
const ANSWER: Duration = Duration::from_secs(25);

/// A connection with its own small runtime, which runs only while a caller waits for an answer.
pub(crate) struct Session {
    runtime: Runtime,
    client: Client,
    notifications: mpsc::UnboundedReceiver<String>,
    /// Whether there is no pooler in between, so that prepared statements stay on this connection.
    pub(crate) is_direct: bool,
    /// The prepared statements, by their text.
    prepared: OnceCell<Vec<(&'static str, Statement)>>,
    /// The server's version, such as 150004 for 15.4.
    pub(crate) version: u32,
}

/// A statement that failed.
#[derive(Debug)]
pub(crate) enum StatementError {
    /// The connection is lost: it is unknown whether the statement was executed.
    Lost(StoreError),
    /// The server rejected the statement.
    Refused(SqlState, StoreError),
}

impl From<StatementError> for StoreError {
    fn from(trouble: StatementError) -> Self {
        match trouble {
            StatementError::Lost(error) | StatementError::Refused(_, error) => error,
        }
    }
}

impl Session {
    pub(crate) fn connect(url: &StoreUrl) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(|error| unreachable(url, &error.to_string()))?;
        let tls = tls(url)?;
        let (sender, notifications) = mpsc::unbounded_channel();
        let connected = runtime.block_on(async {
            let (client, mut connection) = url.config.connect(tls).await?;
            tokio::spawn(async move {
                loop {
                    let next = std::future::poll_fn(|context| connection.poll_message(context));
                    match next.await {
                        Some(Ok(AsyncMessage::Notification(told))) => {
                            let _ = sender.send(told.payload().to_owned());
                        }
                        Some(Ok(_)) => {}
                        Some(Err(error)) => {
                            tracing::debug!("the connection to the database ended: {error}");
                            return;
                        }
                        None => return,
                    }
                }
            });
            client.batch_execute(LIMITS).await?;
            let asked = "SELECT current_setting('server_version_num')::int4, inet_client_port(), host(inet_server_addr()), \
                inet_server_port()";
            let row = client.query_typed_one(asked, &[]).await?;
            Ok((client, row))
        });
        let (client, row) = connected.map_err(|error| describe(url, &error))?;
        Ok(Self {
            runtime,
            client,
            notifications,
            is_direct: is_direct(&row),
            prepared: OnceCell::new(),
            version: u32::try_from(row.get::<_, i32>(0)).unwrap_or(0),
        })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Executes one statement.
    pub(crate) fn query(
        &self,
        url: &StoreUrl,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, StatementError> {
        self.wait(url, self.rows(statement, params))
    }

    /// Prepares the common statements on the server, once for this connection and always in the same order. Nothing is
    /// prepared behind a pooler, where the next statement may use another connection.
    pub(crate) fn prepare(
        &self,
        url: &StoreUrl,
        statements: &[(&'static str, &[Type])],
    ) -> Result<(), StatementError> {
        if !self.is_direct || self.prepared.get().is_some() {
            return Ok(());
        }
        let prepared = self.wait(url, async {
            let asked = statements.iter().map(async |(text, types)| {
                let prepared = self.client.prepare_typed(text, types).await?;
                Ok::<_, Error>((*text, prepared))
            });
            try_join_all(asked).await
        })?;
        let _ = self.prepared.set(prepared);
        Ok(())
    }

    /// Sends a statement, prepared if it is.
    async fn rows(&self, statement: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let prepared = self.prepared.get().into_iter().flatten();
        let mut prepared = prepared.filter(|(text, _)| *text == statement);
        match prepared.next() {
            Some((_, prepared)) => {
                let values: Vec<_> = params.iter().map(|(value, _)| *value).collect();
                self.client.query(prepared, &values).await
            }
            None => self.client.query_typed(statement, params).await,
        }
    }

    /// Executes plain statements without parameters.
    pub(crate) fn execute(&self, url: &StoreUrl, statements: &str) -> Result<(), StatementError> {
        self.wait(url, self.client.batch_execute(statements))
    }

    /// Begins a transaction and executes its first statement, in one round trip. If the statement is rejected, no
    /// transaction is open.
    pub(crate) fn begin_with(
        &self,
        url: &StoreUrl,
        statement: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, StatementError> {
        let begun = self.wait(url, async {
            let opening = self.client.batch_execute("BEGIN");
            let (opened, rows) = join(opening, self.rows(statement, params)).await;
            opened.and(rows)
        });
        if matches!(begun, Err(StatementError::Refused(..))) {
            // The next user of the connection must not find an aborted transaction.
            self.execute(url, "ROLLBACK")?;
        }
        begun
    }

    /// Executes the last statement of a transaction, commits if one is open, and waits for the flush to the server's
    /// disk, in one round trip. A rejected statement aborts the transaction.
    pub(crate) fn commit_durably(
        &self,
        url: &StoreUrl,
        statement: &str,
        params: &[Param<'_>],
        is_open: bool,
    ) -> Result<Vec<Row>, StatementError> {
        self.wait(url, async {
            let rows = self.rows(statement, params);
            let (rows, flushed) = if is_open {
                join(rows, self.client.batch_execute(COMMIT_DURABLY)).await
            } else {
                let (rows, flushed) = join(rows, self.rows(MAKE_DURABLE, &[])).await;
                (rows, flushed.map(drop))
            };
            let rows = rows?;
            flushed.map(|()| rows)
        })
    }

    /// Waits up to `patience` for a notification, and returns the addressees of all that arrived; empty text means
    /// everybody.
    pub(crate) fn wait_for_notifications(&mut self, patience: Duration) -> Vec<String> {
        let notifications = &mut self.notifications;
        self.runtime.block_on(async {
            let first = tokio::time::timeout(patience, notifications.recv()).await;
            let mut all: Vec<String> = first.ok().flatten().into_iter().collect();
            while let Ok(next) = notifications.try_recv() {
                all.push(next);
            }
            all
        })
    }

    fn wait<T>(
        &self,
        url: &StoreUrl,
        statement: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, StatementError> {
        let answered = self
            .runtime
            .block_on(async { tokio::time::timeout(ANSWER, statement).await });
        match answered {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(match error.code() {
                Some(state) if !ends_connection(state) => {
                    StatementError::Refused(state.clone(), describe(url, &error))
                }
                _ => StatementError::Lost(describe(url, &error)),
            }),
            Err(_) => Err(StatementError::Lost(unreachable(
                url,
                &format!("it has not answered for {} s", ANSWER.as_secs()),
            ))),
        }
    }
}

/// Returns whether the connection that the server sees belongs to this process; that of a pooler would not.
fn is_direct(row: &Row) -> bool {
    let port = |place: usize| {
        let port: Option<i32> = row.get(place);
        port.and_then(|port| u16::try_from(port).ok())
    };
    let server: Option<&str> = row.get(2);
    match (port(1), server.and_then(|it| it.parse().ok()), port(3)) {
        (Some(own), Some(address), Some(port)) => {
            teamster_fs::proc::is_connected(own, SocketAddr::new(address, port))
        }
        _ => false,
    }
}

/// Returns whether a server error means that the connection is unusable: the server shut down or restarted, the session
/// was terminated, or the connection is stuck in an aborted transaction.
fn ends_connection(state: &SqlState) -> bool {
    let class = &state.code()[..2];
    class == "08"
        || state.code().starts_with("57P")
        || *state == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        || *state == SqlState::IN_FAILED_SQL_TRANSACTION
}

/// Returns the error for an unreachable server.
fn unreachable(url: &StoreUrl, why: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unreachable,
        format!("the database {url} cannot be reached: {why}"),
    )
    .hint("check the address and that the server runs; `teamster store status` tries again")
}

/// Returns the same error, marked as temporary.
fn temporary(error: StoreError) -> StoreError {
    StoreError {
        busy: true,
        ..error
    }
}

/// Returns the error for a server and an address that disagree about TLS.
fn no_tls(url: &StoreUrl, why: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Unreachable,
        format!("the database {url} cannot be reached with TLS as its address requires: {why}"),
    )
    .hint(
        "check `sslmode` of the address and the server's certificate; `sslrootcert=FILE` names the CA certificate to trust",
    )
}

/// Translates a server error for the user.
fn describe(url: &StoreUrl, error: &Error) -> StoreError {
    let Some(refusal) = error.as_db_error() else {
        let mut why = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            let _ = write!(why, ": {cause}");
            source = cause.source();
        }
        // The library reports this only as text.
        return if why.starts_with("error performing TLS handshake") {
            no_tls(url, &why)
        } else {
            unreachable(url, &why)
        };
    };
    let said = refusal.message();
    let state = refusal.code();
    let new = |kind, message: String, hint: &str| StoreError::new(kind, message).hint(hint);
    match state.code() {
        NO_TEAM => StoreError::not_found(said.to_owned())
            .hint("`teamster team list` shows the teams of this store"),
        STALE => StoreError::busy(said.to_owned()),
        NOT_HOST => new(
            StoreErrorKind::Conflict,
            format!("{said}, so this process makes no more changes"),
            "`teamster status` shows its progress",
        ),
        // The schema, a table or a function does not exist.
        "3F000" | "42P01" | "42883" => new(
            StoreErrorKind::Unreachable,
            format!("the database {url} has no teamster store: {said}"),
            "`teamster store init` creates one",
        ),
        "42704" => new(
            StoreErrorKind::NotFound,
            format!("the database {url} says: {said}"),
            "`CREATE ROLE name LOGIN` makes a role",
        ),
        "28000" | "28P01" => new(
            StoreErrorKind::Unreachable,
            format!("the database {url} refuses the login: {said}"),
            "check the user and the password of the address",
        ),
        "3D000" => new(
            StoreErrorKind::Unreachable,
            format!("the database {url} does not exist: {said}"),
            "`createdb` creates a database",
        ),
        "42501" => new(
            StoreErrorKind::Refused,
            format!("the role of {url} lacks a privilege: {said}"),
            "use the role that owns the store, or have the database owner grant this role the \
             privilege: creating the store needs `GRANT CREATE ON DATABASE`",
        ),
        // The server is starting up.
        "57P03" => temporary(unreachable(url, said)),
        _ if ends_connection(state) => unreachable(url, said),
        "53100" => new(
            StoreErrorKind::Unreachable,
            format!("the disk of the server of {url} is full: {said}"),
            "make room on the server and try again; nothing was changed",
        ),
        "53300" => temporary(new(
            StoreErrorKind::Unreachable,
            format!("the server of {url} accepts no more connections: {said}"),
            "raise max_connections, or put a connection pooler in front of it",
        )),
        "55P03" | "57014" | "40001" | "40P01" => StoreError::busy(format!(
            "another session holds a lock that is needed: {said}"
        ))
        .hint("try again; `teamster store status` shows who holds locks"),
        // The server lacks memory or another resource, or its system or storage fails. A quota of its disk is an internal
        // error.
        code if ["53", "58", "XX"]
            .iter()
            .any(|class| code.starts_with(class)) =>
        {
            new(
                StoreErrorKind::Unreachable,
                format!("the server of {url} fails: {said} ({code})"),
                "look into the log of the server; nothing was changed",
            )
        }
        code => new(
            StoreErrorKind::Failed,
            format!("the database {url} says: {said} ({code})"),
            "`teamster store status` checks the store",
        ),
    }
}

/// Returns the TLS configuration that the address asks for.
fn tls(url: &StoreUrl) -> Result<MakeRustlsConnect> {
    let refused = |why: String| {
        StoreError::refused(why).hint("check `sslrootcert` of the address, or use another sslmode")
    };
    let provider = Arc::new(crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(format!("TLS cannot be set up: {error}")))?;
    let config = if url.trust == CertificateCheck::Any {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(provider)))
            .with_no_client_auth()
    } else {
        let roots = Arc::new(roots(url).map_err(refused)?);
        let strict = rustls::client::WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| refused(format!("certificates cannot be verified: {error}")))?;
        if url.trust == CertificateCheck::Host {
            builder.with_webpki_verifier(strict).with_no_client_auth()
        } else {
            builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(AcceptAnyHostName(strict)))
                .with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

/// Returns the trusted root certificates: those of the file that the address names, else the machine's.
fn roots(url: &StoreUrl) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match &url.root_certificate {
        Some(path) => {
            let file = teamster_fs::UserFile::find(path).and_then(|file| match file {
                Some(file) => file.read(),
                None => Ok(None),
            });
            let bytes = match file {
                Ok(Some(file)) => file.bytes,
                Ok(None) => return Err(format!("certificate {} does not exist", path.display())),
                Err(error) => return Err(error.to_string()),
            };
            for certificate in CertificateDer::pem_slice_iter(&bytes) {
                let added =
                    certificate
                        .map_err(|error| error.to_string())
                        .and_then(|certificate| {
                            roots.add(certificate).map_err(|error| error.to_string())
                        });
                added
                    .map_err(|error| format!("{} is not a certificate: {error}", path.display()))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    if roots.is_empty() {
        return Err("there is no CA certificate to verify the server with".to_owned());
    }
    Ok(roots)
}

/// Accepts any certificate, as `sslmode=require` does in libpq.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

/// Accepts any host name in a certificate from a known authority, as `sslmode=verify-ca` does in libpq.
#[derive(Debug)]
struct AcceptAnyHostName(Arc<rustls::client::WebPkiServerVerifier>);

type TlsResult<T> = Result<T, rustls::Error>;

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> TlsResult<ServerCertVerified> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> TlsResult<HandshakeSignatureValid> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> TlsResult<HandshakeSignatureValid> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for AcceptAnyHostName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> TlsResult<ServerCertVerified> {
        let judged = self
            .0
            .verify_server_cert(end_entity, intermediates, server, ocsp, now);
        match judged {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> TlsResult<HandshakeSignatureValid> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> TlsResult<HandshakeSignatureValid> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
