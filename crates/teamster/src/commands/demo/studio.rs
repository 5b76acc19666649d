//! Studio for a demo. The demo's own process serves it, so it ends with the demo.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use teamster_app::env_vars;
use teamster_studio::server;
use teamster_studio::watch::Hub;

use super::super::run::Signals;
use super::super::studio::{OpenedStudio, in_browser};
use crate::context::Context;
use crate::error::Result;

/// How long a page may be disconnected before it counts as closed; reloading it takes less.
const AWAY: Duration = Duration::from_secs(3);
const BEAT: Duration = Duration::from_millis(200);

/// A page that shows the demo.
pub struct DemoStudio {
    hub: Arc<Hub>,
}

impl DemoStudio {
    /// Starts serving the page and prints its address. The demo also runs without it.
    pub fn begin(context: &Context) -> Result<Option<Self>> {
        let opened = server::listen(0)
            .map_err(super::super::studio::no_port)
            .and_then(|listener| {
                OpenedStudio::at(
                    context,
                    listener,
                    std::slice::from_ref(&context.layout.project),
                )
            });
        let studio = match opened {
            Ok(studio) => studio,
            Err(error) => {
                context.out.remark(&format!(
                    "Studio cannot show this demo: {}",
                    error.message()
                ));
                return Ok(None);
            }
        };
        let is_opening = context.out.is_screen() && has_desktop();
        context.out.answer(
            || {
                let mut said = studio.json();
                said["type"] = json!("studio");
                said
            },
            || {
                let how = if is_opening {
                    "it opens in your browser"
                } else {
                    "open it in a browser on this machine"
                };
                format!("Watch it in Studio ({how}):\n\n  {}\n\n", studio.url)
            },
        )?;
        let hub = studio.hub();
        if is_opening {
            let url = studio.url.clone();
            // Opening the browser may be slow; the demo does not wait for it.
            std::thread::spawn(move || in_browser(&url));
        }
        std::thread::spawn(move || studio.serve());
        Ok(Some(Self { hub }))
    }

    /// Waits until the user at the terminal closes the page or presses Ctrl-C.
    pub fn wait_until_closed(&self, context: &Context) {
        if !context.out.is_screen() || self.hub.listeners() == 0 {
            return;
        }
        context
            .out
            .remark("You are looking at it in Studio: close the page or press Ctrl-C to end.");
        let signals = Signals::listen();
        let mut seen = Instant::now();
        while !signals.is_stop_requested() && seen.elapsed() < AWAY {
            if self.hub.listeners() > 0 {
                seen = Instant::now();
            }
            std::thread::sleep(BEAT);
        }
    }
}

/// Whether there is a desktop on which a browser can open. A text browser in this terminal does not count.
fn has_desktop() -> bool {
    cfg!(target_os = "macos")
        || [env_vars::DISPLAY, env_vars::WAYLAND_DISPLAY]
            .into_iter()
            .any(|name| env_vars::get(name).is_some_and(|value| !value.is_empty()))
}
