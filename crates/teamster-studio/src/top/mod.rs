//! The terminal view: the same model on a text screen.
//!
//! A frame is drawn from a [`TopFrame`] alone, so `--once`, a replay and the live screen show the same.

mod panes;
mod render;
mod screen;

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Widget};
use teamster_types::Time;
use teamster_view::model::{TeamView, Timeline};

use crate::api::LogLine;
pub use screen::{KeyPress, LineKey, TerminalScreen, size};

/// What a frame shows.
#[derive(Clone, Debug)]
pub struct TopFrame {
    /// The team.
    pub view: TeamView,
    /// Its timeline.
    pub timeline: Timeline,
    /// The current time, from which ages are calculated.
    pub now: Time,
    /// The number of the team among all teams, counted from 1, and the number of teams.
    pub place: (usize, usize),
    /// The index of the selected worker.
    pub worker: usize,
    /// The index of the first visible task.
    pub first_task: usize,
    /// The output of the selected worker's agent, the newest last.
    pub log: Vec<LogLine>,
    /// The text of the last line, which lists the keys.
    pub keys: String,
    /// The item that is being answered and the answer typed so far; they replace the last line.
    pub answer: Option<(String, String)>,
}

/// The maximum number of items waiting for a person that are shown; the others are only counted.
const MOST_ASKED: usize = 4;

impl TopFrame {
    /// Returns a scene of one team with nothing selected, no log and no keys.
    pub fn new(view: TeamView, timeline: Timeline, now: Time) -> Self {
        Self {
            view,
            timeline,
            now,
            place: (1, 1),
            worker: 0,
            first_task: 0,
            log: Vec::new(),
            keys: String::new(),
            answer: None,
        }
    }

    /// Draws the scene.
    pub fn draw(&self, area: Rect, buffer: &mut Buffer) {
        let lanes = u16::try_from(self.timeline.lanes.len()).unwrap_or(u16::MAX);
        let asked = self.asked();
        let [head, wanted, upper, strip, lower, foot] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(panes::asked_height(asked.len())),
            Constraint::Fill(3),
            Constraint::Length(lanes.clamp(1, 4) + 1),
            Constraint::Fill(2),
            Constraint::Length(1),
        ])
        .areas(area);
        let halves = [Constraint::Percentage(50), Constraint::Percentage(50)];
        let [roster, tasks] = Layout::horizontal(halves).areas(upper);
        let [messages, log] = Layout::horizontal(halves).areas(lower);
        self.draw_header(head, buffer);
        panes::asked(&asked, wanted, buffer);
        panes::roster(self, roster, buffer);
        panes::tasks(self, tasks, buffer);
        panes::strip(self, strip, buffer);
        panes::messages(self, messages, buffer);
        panes::log(self, log, buffer);
        self.draw_footer(foot, buffer);
    }

    /// Returns what waits for a person's answer, one line each: questions of agents, then permission requests.
    fn asked(&self) -> Vec<String> {
        let questions = self.view.questions_for_person();
        let questions = questions.map(|open| format!("{} {}", open.id, open.words()));
        let requests = self.view.requests();
        let requests = requests.map(|(worker, open)| {
            let command = &open.command;
            format!(
                "{} asks for permission: {} (`{command}`)",
                worker.name, open.what
            )
        });
        questions.chain(requests).collect()
    }

    /// Draws the keys, or the answer that is being typed: its end, if it is too long for the line.
    fn draw_footer(&self, area: Rect, buffer: &mut Buffer) {
        let Some((about, typed)) = &self.answer else {
            Paragraph::new(self.keys.as_str())
                .style(Style::new().add_modifier(Modifier::DIM))
                .render(area, buffer);
            return;
        };
        let about = format!("{}> ", render::line(about));
        let room = usize::from(area.width).saturating_sub(about.chars().count() + 1);
        let mut letters: Vec<char> = Vec::new();
        let mut width = 0;
        for letter in typed.chars().rev() {
            width += Span::raw(letter.to_string()).width();
            if width > room {
                break;
            }
            letters.push(letter);
        }
        let end: String = letters.into_iter().rev().collect();
        let line = vec![
            Span::styled(about, Style::new().add_modifier(Modifier::BOLD)),
            Span::raw(end),
            Span::styled(" ", Style::new().add_modifier(Modifier::REVERSED)),
        ];
        Paragraph::new(Line::from(line)).render(area, buffer);
    }

    fn draw_header(&self, area: Rect, buffer: &mut Buffer) {
        let view = &self.view;
        let mut first = vec![
            Span::styled(
                render::line(&view.name),
                Style::new().add_modifier(Modifier::BOLD),
            ),
            Span::raw(format!("  {}", view.state.as_str())),
        ];
        let finished = view.run.as_ref().and_then(|run| run.finished.as_ref());
        if let Some(finished) = finished {
            let outcome = finished.outcome.replace('_', " ");
            first.push(Span::raw(format!("  {}", render::line(&outcome))));
        } else if let Some(stage) = view.stage() {
            first.push(Span::raw(format!("  {}", render::line(stage))));
        }
        if view.past {
            first.push(Span::raw(format!("  as it was at event {}", view.seq)));
        }
        let wanted = self.asked().len();
        if wanted > 0 {
            let words = match wanted {
                1 => "  1 question for you".to_owned(),
                some => format!("  {some} questions for you"),
            };
            let style = Style::new().add_modifier(Modifier::REVERSED);
            first.push(Span::styled(words, style));
        }
        if let Some(revision) = view.open_plan() {
            first.push(Span::styled(
                format!("  plan {revision} waits for you: teamster plan show"),
                Style::new().add_modifier(Modifier::REVERSED),
            ));
        }
        if view.awaits_approval() {
            first.push(Span::styled(
                "  waits for your approval",
                Style::new().add_modifier(Modifier::REVERSED),
            ));
        }
        if self.place.1 > 1 {
            first.push(Span::raw(format!(
                "  team {} of {}",
                self.place.0, self.place.1
            )));
        }
        let mut second = render::progress(&view.progress);
        let spent = render::spent(&view.cost.total);
        if !spent.is_empty() {
            second.push_str("  ");
            second.push_str(&spent);
        }
        if !view.history.complete {
            let _ = write!(
                second,
                "  reading the journal: {} of {}",
                view.history.read, view.history.last
            );
        }
        if let Some(problem) = view.problems.first() {
            let more = match view.problem_count {
                1 => String::new(),
                count => format!(" (1 of {count})"),
            };
            let _ = write!(
                second,
                "  ! {}: {}{more}",
                render::line(&problem.about),
                render::line(&problem.error)
            );
        }
        Paragraph::new(vec![Line::from(first), Line::from(second)]).render(area, buffer);
    }
}

/// Returns one frame as plain text without control characters.
pub fn once(scene: &TopFrame, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    scene.draw(area, &mut buffer);
    let mut text = String::new();
    for y in 0..height {
        let mut line = String::new();
        let mut covered = 0;
        for x in 0..width {
            // A wide character covers the next cell.
            if covered > 0 {
                covered -= 1;
                continue;
            }
            let cell = &buffer[(x, y)];
            let symbol = cell.symbol();
            covered = Span::raw(symbol).width().saturating_sub(1);
            line.push_str(symbol);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
