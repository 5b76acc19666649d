//! Metrics of every team, from the same model: for Prometheus here, for a collector in `otlp.rs`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use teamster_types::text::shown;
use teamster_view::model::{TeamView, Viewed};
use tracing::debug;

use super::StudioServer;
use super::middleware::{failed, text};

/// The maximum number of teams with full metrics; only live teams have them.
const MOST_TEAMS: usize = 32;

pub(super) async fn metrics(State(studio): State<Arc<StudioServer>>) -> Response<Body> {
    let figures = tokio::task::spawn_blocking(move || page(&figures(&studio))).await;
    match figures {
        Ok(figures) => text(StatusCode::OK, "text/plain; version=0.0.4", figures),
        Err(error) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "text/plain; charset=utf-8",
            failed("the metrics could not be rendered", &error).message,
        ),
    }
}

/// Returns all current metrics.
pub(super) fn figures(studio: &StudioServer) -> Metrics {
    let overview = studio.hub.overview();
    let mut page = MetricsPage::default();
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
        match studio.hub.feed(&team) {
            Ok(feed) => of_team(&mut page, &feed.view()),
            Err(error) => debug!("no figures of team {team}: {error}"),
        }
    }
    page.figures
}

fn of_team(page: &mut MetricsPage, view: &TeamView) {
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

/// The value of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MetricValue {
    Count(u64),
    Amount(f64),
}

impl From<u64> for MetricValue {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for MetricValue {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<f64> for MetricValue {
    fn from(amount: f64) -> Self {
        Self::Amount(amount)
    }
}

/// Sanitised labels and the value that they belong to.
type MetricsRow = (Vec<(&'static str, String)>, MetricValue);

/// Metrics by name, with their descriptions; all values of one name are grouped.
pub(super) type Metrics = BTreeMap<&'static str, (&'static str, Vec<MetricsRow>)>;

#[derive(Default)]
struct MetricsPage {
    figures: Metrics,
}

impl MetricsPage {
    fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        figure: impl Into<MetricValue>,
    ) {
        let (_, rows) = self.figures.entry(name).or_insert((help, Vec::new()));
        let labels = labels.iter().map(|(key, value)| (*key, shown(value, 200)));
        rows.push((labels.collect(), figure.into()));
    }
}

/// Formats the metrics for Prometheus.
fn page(figures: &Metrics) -> String {
    let mut text = String::new();
    for (name, (help, rows)) in figures {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, figure) in rows {
            let labels: Vec<String> = labels
                .iter()
                .map(|(key, value)| format!("{key}=\"{}\"", escaped(value)))
                .collect();
            let labels = match labels.as_slice() {
                [] => String::new(),
                labels => format!("{{{}}}", labels.join(",")),
            };
            let _ = match figure {
                MetricValue::Count(count) => writeln!(text, "{name}{labels} {count}"),
                MetricValue::Amount(amount) => writeln!(text, "{name}{labels} {amount}"),
            };
        }
    }
    text
}

fn escaped(label: &str) -> String {
    label
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
