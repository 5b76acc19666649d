//! A Studio that is ready to serve: for `teamster studio` until it is stopped, for `teamster demo` while it runs.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use teamster_app::config::SettingSource;
use teamster_app::env_vars;
use teamster_store::{Clock, SystemClock};
use teamster_studio::keys::Keys;
use teamster_studio::server::{self, Otlp, StudioServer};
use teamster_studio::watch::{Hub, HubSettings};

use super::memory;
use crate::context::Context;
use crate::error::{AppError, ErrorKind, Result};

/// How long to wait for the browser to start; it may still open later.
const PATIENCE: Duration = Duration::from_secs(5);

/// A Studio that has its port and has read all teams, but does not serve requests yet.
pub struct OpenedStudio {
    server: StudioServer,
    listener: TcpListener,
    /// The address with a token that is valid once, for one browser.
    pub url: String,
    address: String,
}

impl OpenedStudio {
    /// Opens a Studio for these projects and for every team of the machine.
    pub fn at(context: &Context, listener: TcpListener, named: &[PathBuf]) -> Result<Self> {
        let (key, projects) = memory::remember(&context.layout, named)?;
        let port = listener.local_addr().map_err(no_port)?.port();
        let hub = Hub::open(
            context.shared_store()?,
            HubSettings {
                layout: context.layout.clone(),
                limits: context.config.limits(),
                projects,
            },
        )?;
        let keys = Keys::new(key);
        let address = format!("http://127.0.0.1:{port}/");
        Ok(Self {
            url: format!("{address}?token={}", keys.token().unwrap_or_default()),
            address,
            server: StudioServer {
                hub,
                keys,
                port,
                version: env!("CARGO_PKG_VERSION"),
                started_at: SystemClock.now(),
                otlp: otlp(context),
                streams: Arc::default(),
            },
            listener,
        })
    }

    /// Returns the addresses and keys as JSON, for programs.
    pub fn json(&self) -> Value {
        json!({
            "url": self.url,
            "address": self.address,
            "port": self.server.port,
            "bearer": self.server.keys.bearer(),
        })
    }

    /// Returns the hub with everything that Studio watches.
    pub fn hub(&self) -> Arc<Hub> {
        self.server.hub.clone()
    }

    /// Serves requests until the process ends.
    pub fn serve(self) -> Result {
        server::serve(self.server, self.listener)
            .map_err(|error| AppError::new(ErrorKind::Failed, format!("the server ended: {error}")))
    }
}

/// Returns where metrics are sent, if the user has set that.
fn otlp(context: &Context) -> Option<Otlp> {
    let setting = &context.config.studio_otlp;
    let endpoint = setting.value.clone()?;
    // A setting that comes with a project must not send data to other machines.
    if let SettingSource::Project(file, _) = &setting.source
        && !endpoint.is_loopback()
    {
        context.out.remark(&format!(
            "no figures are sent to {endpoint}: {} comes with the project; put studio.otlp into your own settings",
            file.display()
        ));
        return None;
    }
    let out = context.out;
    Some(Otlp {
        endpoint,
        every: context.config.studio_otlp_every.value,
        tell: Arc::new(move |text| out.remark(text)),
    })
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "it is given to `map_err`, which passes the error on"
)]
pub fn no_port(error: std::io::Error) -> AppError {
    AppError::new(ErrorKind::Conflict, format!("cannot listen: {error}"))
        .hint("another program has the port, perhaps another Studio; `--port 0` takes a free one")
}

/// Asks the desktop to open a page, and returns whether it took the request.
pub fn in_browser(url: &str) -> bool {
    let path = env_vars::get(env_vars::PATH).unwrap_or_default();
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let Some(program) = teamster_isolate::find_program(opener, &path) else {
        return false;
    };
    let address = OsString::from(url);
    teamster_isolate::probe(Path::new(&program), [address.as_os_str()], PATIENCE).is_ok()
}
