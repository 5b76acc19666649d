//! Figures for Prometheus, from the same model.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use teamster_types::redact::{clean, redact};
use teamster_view::model::{TeamView, Viewed};

use super::Studio;
use super::door::text;

/// Teams that are told in full: those that live, at most so many.
const MOST_TEAMS: usize = 32;

pub(super) async fn metrics(State(studio): State<Arc<Studio>>) -> Response<Body> {
    let figures = tokio::task::spawn_blocking(move || figures(&studio)).await;
    match figures {
        Ok(figures) => text(StatusCode::OK, "text/plain; version=0.0.4", figures),
        Err(_) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            "the figures could not be made",
        ),
    }
}

fn figures(studio: &Studio) -> String {
    let overview = studio.hub.overview();
    let mut page = Page::default();
    for state in [Viewed::Live, Viewed::Stale, Viewed::Ended] {
        let count = overview.teams.iter().filter(|row| row.state == state);
        let labels = [("state", state.as_str())];
        page.gauge("teamster_teams", "Teams by state", &labels, count.count());
    }
    page.gauge(
        "teamster_studio_streams",
        "Clients that listen to the stream of events",
        &[],
        studio.hub.listeners(),
    );
    for row in &overview.teams {
        let counts = [
            ("completed", row.progress.completed_tasks),
            ("in_progress", row.progress.in_progress_tasks),
            ("pending", row.progress.pending_tasks),
            ("failed", row.progress.failed_tasks),
        ];
        for (status, count) in counts {
            let labels = [("team", row.id.as_str()), ("status", status)];
            page.gauge("teamster_tasks", "Tasks by status", &labels, count);
        }
        let labels = [("team", row.id.as_str())];
        page.gauge(
            "teamster_problems",
            "Things that need a person",
            &labels,
            row.problems,
        );
    }
    let live = overview
        .teams
        .iter()
        .filter(|row| row.state == Viewed::Live);
    let live = live.filter_map(|row| row.id.parse().ok()).take(MOST_TEAMS);
    for team in live {
        if let Ok(desk) = studio.hub.desk(&team) {
            of_team(&mut page, &desk.view());
        }
    }
    page.text()
}

fn of_team(page: &mut Page, view: &TeamView) {
    let labels = [("team", view.id.as_str())];
    page.gauge(
        "teamster_journal_position",
        "The last position of the journal",
        &labels,
        view.seq,
    );
    let spent = &view.cost.total;
    page.gauge(
        "teamster_tokens",
        "Tokens that agents used",
        &labels,
        spent.tokens,
    );
    if let Some(cost) = spent.cost_usd {
        page.gauge(
            "teamster_cost_usd",
            "US dollars that agents cost",
            &labels,
            cost,
        );
    }
    let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
    for worker in &view.workers {
        *verdicts.entry(worker.verdict.as_str()).or_default() += 1;
    }
    for (verdict, count) in verdicts {
        let labels = [("team", view.id.as_str()), ("verdict", verdict)];
        page.gauge("teamster_workers", "Workers by verdict", &labels, count);
    }
}

/// Figures by name: all of one name stand together.
#[derive(Default)]
struct Page {
    figures: BTreeMap<&'static str, (&'static str, String)>,
}

impl Page {
    fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: impl Display,
    ) {
        let (_, lines) = self.figures.entry(name).or_insert((help, String::new()));
        let labels: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}=\"{}\"", escaped(value)))
            .collect();
        let labels = match labels.as_slice() {
            [] => String::new(),
            labels => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(lines, "{name}{labels} {value}");
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for (name, (help, lines)) in &self.figures {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{lines}");
        }
        text
    }
}

fn escaped(label: &str) -> String {
    let shown = clean(&redact(label), 200).into_owned();
    shown
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
