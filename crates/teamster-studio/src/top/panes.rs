//! The parts of a frame.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Paragraph, Widget};
use teamster_journal::{EventType, WorkerPhase};
use teamster_types::graph::State;
use teamster_types::health::Verdict;
use teamster_view::model::{Lane, SpanEnd, TaskRow, WorkerView};

use super::render;
use super::{MOST_ASKED, TopFrame};

fn block(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).title(title.to_owned())
}

/// Returns the range of lines that fit around the selected one.
fn window(selected: usize, count: usize, height: u16) -> std::ops::Range<usize> {
    let height = usize::from(height);
    let first = selected.saturating_sub(height.saturating_sub(1));
    first..count.min(first + height)
}

/// Returns the height of the list of items that wait for a person.
pub(super) fn asked_height(count: usize) -> u16 {
    match u16::try_from(count.min(MOST_ASKED)).unwrap_or(0) {
        0 => 0,
        lines => lines + 1,
    }
}

/// Draws the items that wait for a person's answer, with the numbers that select them.
pub(super) fn asked(asked: &[String], area: Rect, buffer: &mut Buffer) {
    if asked.is_empty() {
        return;
    }
    let title = format!(" waits for you ({}); its number answers it ", asked.len());
    let block = block(&title);
    let inner = block.inner(area);
    block.render(area, buffer);
    let lines: Vec<Line<'_>> = (1..)
        .zip(asked)
        .take(usize::from(inner.height))
        .map(|(number, words)| {
            let style = Style::new().fg(Color::Yellow);
            Line::from(format!("{number} {}", render::line(words))).style(style)
        })
        .collect();
    Paragraph::new(lines).render(inner, buffer);
}

pub(super) fn roster(scene: &TopFrame, area: Rect, buffer: &mut Buffer) {
    let workers = &scene.view.workers;
    let title = format!(" workers ({}) ", scene.view.worker_count);
    let block = block(&title);
    let inner = block.inner(area);
    block.render(area, buffer);
    if workers.is_empty() {
        Paragraph::new("none; `teamster worker start` starts one").render(inner, buffer);
        return;
    }
    let shown = window(scene.worker, workers.len(), inner.height);
    let lines: Vec<Line<'_>> = workers[shown.clone()]
        .iter()
        .zip(shown)
        .map(|(worker, place)| worker_line(scene, worker, place == scene.worker))
        .collect();
    Paragraph::new(lines).render(inner, buffer);
}

fn worker_line<'a>(scene: &TopFrame, worker: &WorkerView, is_selected: bool) -> Line<'a> {
    let mark = if is_selected { ">" } else { " " };
    let asks = worker.status.as_deref() == Some(WorkerPhase::Waiting.as_str());
    let does = match (&worker.current_task_id, &worker.current_task) {
        // There is no room for "waiting for an answer" in full.
        (Some(id), _) if asks => format!("{id} asks"),
        (Some(id), Some(task)) => format!("{id} {}", render::line(task)),
        (Some(id), None) => format!("task {id}"),
        (None, Some(task)) => render::line(task),
        (None, None) => worker.status.clone().unwrap_or_default(),
    };
    let since = render::ago(scene.now, worker.last_event_at.or(worker.last_poll_at));
    let line = vec![
        Span::raw(format!("{mark}{:<12} ", render::line(&worker.name))),
        Span::styled(
            format!("{:<11} ", worker.word()),
            Style::new().fg(colour_of(worker.verdict)),
        ),
        Span::raw(format!("{since:>4} {does}")),
    ];
    let style = if is_selected {
        Style::new().add_modifier(Modifier::BOLD)
    } else {
        Style::new()
    };
    Line::from(line).style(style)
}

fn colour_of(verdict: Verdict) -> Color {
    match verdict {
        Verdict::Healthy => Color::Green,
        Verdict::AtRisk | Verdict::Limited | Verdict::Silent => Color::Yellow,
        Verdict::Quarantined | Verdict::Hung | Verdict::Dead => Color::Red,
        Verdict::Unknown => Color::Reset,
    }
}

pub(super) fn tasks(scene: &TopFrame, area: Rect, buffer: &mut Buffer) {
    let tasks = &scene.view.tasks;
    let title = format!(" tasks ({}) ", tasks.len());
    let block = block(&title);
    let inner = block.inner(area);
    block.render(area, buffer);
    if tasks.is_empty() {
        Paragraph::new("none; `teamster task create` makes one").render(inner, buffer);
        return;
    }
    // Tasks in progress come first, then claimable ones, then the rest, because a long list is cut off.
    let mut order: Vec<&TaskRow> = tasks.iter().collect();
    order.sort_by_key(|task| rank(task.state));
    let first = scene.first_task.min(tasks.len().saturating_sub(1));
    let lines: Vec<Line<'_>> = order[first..]
        .iter()
        .take(usize::from(inner.height))
        .map(|task| task_line(task))
        .collect();
    Paragraph::new(lines).render(inner, buffer);
}

fn rank(state: State) -> u8 {
    match state {
        State::InProgress => 0,
        State::Failed => 1,
        State::Blocked => 2,
        State::Claimable => 3,
        State::Waiting => 4,
        State::Completed => 5,
    }
}

fn task_line<'a>(task: &TaskRow) -> Line<'a> {
    let colour = match task.state {
        State::InProgress => Color::Cyan,
        State::Failed | State::Blocked => Color::Red,
        State::Completed => Color::Green,
        State::Claimable | State::Waiting => Color::Reset,
    };
    let mark = if task.critical { "*" } else { " " };
    Line::from(vec![
        Span::raw(format!("{mark}{:>3} ", task.id.as_str())),
        Span::styled(
            format!("{:<11} ", task.state.as_str()),
            Style::new().fg(colour),
        ),
        Span::raw(render::line(&task.subject)),
    ])
}

/// Draws a timeline row for each worker, from the first event to now.
pub(super) fn strip(scene: &TopFrame, area: Rect, buffer: &mut Buffer) {
    let timeline = &scene.timeline;
    let from = render::ago(scene.now, timeline.from);
    let title = if from.is_empty() {
        " timeline ".to_owned()
    } else {
        format!(" timeline, {from} ")
    };
    let block = block(&title);
    let inner = block.inner(area);
    block.render(area, buffer);
    let selected = scene.view.workers.get(scene.worker);
    let place = timeline
        .lanes
        .iter()
        .position(|lane| selected.is_some_and(|worker| worker.name == lane.worker));
    let shown = window(place.unwrap_or(0), timeline.lanes.len(), inner.height);
    let lines: Vec<Line<'_>> = timeline.lanes[shown]
        .iter()
        .map(|lane| lane_line(scene, lane, usize::from(inner.width)))
        .collect();
    Paragraph::new(lines).render(inner, buffer);
}

fn lane_line<'a>(scene: &TopFrame, lane: &Lane, width: usize) -> Line<'a> {
    const NAME: usize = 13;
    let cells = width.saturating_sub(NAME).max(1);
    let from = scene.timeline.from.unwrap_or(scene.now).as_millis();
    let to = scene.now.as_millis().max(from + 1);
    let place = |at: i64| -> usize {
        let share = (at - from)
            .max(0)
            .saturating_mul(i64::try_from(cells).unwrap_or(1))
            / (to - from);
        usize::try_from(share).unwrap_or(0).min(cells - 1)
    };
    let mut drawn = vec!['·'; cells];
    for span in &lane.spans {
        let end = span.to.unwrap_or(scene.now).as_millis();
        let letter = match span.end {
            SpanEnd::Open => '▶',
            SpanEnd::Completed => '█',
            SpanEnd::Failed => 'x',
            SpanEnd::Released | SpanEnd::Requeued => '░',
        };
        for cell in &mut drawn[place(span.from.as_millis())..=place(end)] {
            *cell = letter;
        }
    }
    for mark in &lane.marks {
        if matches!(
            EventType::parse(&mark.what),
            Some(EventType::WorkerDead | EventType::WorkerHung)
        ) {
            drawn[place(mark.at.as_millis())] = '†';
        }
    }
    let name: String = render::line(&lane.worker).chars().take(NAME - 1).collect();
    let drawn: String = drawn.into_iter().collect();
    Line::from(format!("{name:<NAME$}{drawn}"))
}

pub(super) fn messages(scene: &TopFrame, area: Rect, buffer: &mut Buffer) {
    let title = format!(" messages ({}) ", scene.view.message_count);
    let block = block(&title);
    let inner = block.inner(area);
    block.render(area, buffer);
    let messages = &scene.view.messages;
    let first = messages.len().saturating_sub(usize::from(inner.height));
    let lines: Vec<Line<'_>> = messages[first..]
        .iter()
        .map(|message| {
            // Some messages have no content beyond their type.
            let said = match message.content.as_str() {
                "" => format!("({})", render::line(&message.kind)),
                content => render::line(content),
            };
            let (from, to) = (render::line(&message.from), render::line(&message.to));
            Line::from(format!("{from} → {to}: {said}"))
        })
        .collect();
    Paragraph::new(lines).render(inner, buffer);
}

pub(super) fn log(scene: &TopFrame, area: Rect, buffer: &mut Buffer) {
    let selected = scene.view.workers.get(scene.worker);
    let title = selected.map_or_else(
        || " log ".to_owned(),
        |worker| format!(" log of {} ", render::line(&worker.name)),
    );
    let block = block(&title);
    let inner = block.inner(area);
    block.render(area, buffer);
    let mut lines: Vec<Line<'_>> = Vec::new();
    if scene.log.is_empty()
        && let Some(worker) = selected
    {
        // Without a log, the evidence for the worker's verdict is the most useful text.
        lines.extend(
            worker
                .evidence
                .iter()
                .map(|text| Line::from(render::line(text))),
        );
    }
    let first = scene.log.len().saturating_sub(usize::from(inner.height));
    lines.extend(
        scene.log[first..]
            .iter()
            .map(|line| Line::from(render::line(&line.text))),
    );
    Paragraph::new(lines).render(inner, buffer);
}
