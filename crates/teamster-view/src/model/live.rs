//! The live view of one team, kept current.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use teamster_fs::layout::Layout;
use teamster_journal::{Event, EventType, family};
use teamster_store::{
    Change, Damaged, JournalPage, ReadStore, Result, StoreError, StoreErrorKind as ErrorKind,
    TeamEntry,
};
use teamster_types::graph::critical_path;
use teamster_types::health::Limits;
use teamster_types::progress::Progress;
use teamster_types::task::Task;
use teamster_types::team::{TeamConfig, TeamOrigin};
use teamster_types::{TaskId, TeamName};

use super::graph::levels;
use super::patch::Patch;
use super::projection::{MOST_MESSAGES, PAGE, TeamProjection};
use super::rows::{MessageView, TaskRow, WorkerView};
use super::sessions::Sessions;
use super::stage::{RunNow, run_lately};
use super::team::{TeamKind, TeamView, Viewed};
use crate::status::{self, TeamProblem};
use crate::tasks::judge;
use crate::teams;
use crate::workers::{self, Workers};

/// When more tasks than this change at once, all tasks are read together.
const READ_ONE_BY_ONE: usize = 300;

/// The live view of one team. The current state comes from the store; the journal adds the rest, and may be read in
/// parts while the current state is already shown.
pub struct LiveTeam {
    team: TeamName,
    limits: Limits,
    config: TeamConfig,
    tasks: BTreeMap<TaskId, Task>,
    broken: Vec<Damaged>,
    workers: Workers,
    unread: Vec<TeamProblem>,
    gate: Option<TeamProblem>,
    /// The damaged lines of the journal. All lines of a long one are checked only once it was read.
    journal: Option<TeamProblem>,
    /// How far the journal was read when the damaged lines were last due.
    reached: u64,
    state: Viewed,
    projection: TeamProjection,
    last: u64,
    view: TeamView,
    /// The state files of the project of a team of Claude Code.
    sessions: Option<Sessions>,
    /// What the state files say about the team.
    session: Option<TeamView>,
}

impl LiveTeam {
    /// Opens a team. Its journal is not read yet; see [`LiveTeam::read_on`].
    pub fn open(read: &dyn ReadStore, team: &TeamName, limits: &Limits) -> Result<Self> {
        let config = read.team(team)?;
        // The position is read before the tasks, so that a change in between is reported again by its event.
        let last = read.position(team)?;
        let found = read.tasks(team)?;
        let mut live = Self {
            team: team.clone(),
            limits: *limits,
            tasks: by_id(found.tasks),
            broken: found.problems,
            workers: workers::list(read, team, &config, limits)?,
            unread: status::unread(read, team)?,
            gate: status::at_gate(read, team)?,
            journal: None,
            reached: 0,
            state: Viewed::Stale,
            projection: TeamProjection::of(team.as_str()),
            last,
            view: TeamProjection::of(team.as_str()).view(),
            sessions: None,
            session: None,
            config,
        };
        live.state = live.state_now(read);
        if last <= PAGE as u64 {
            live.journal = status::damaged_journal(read, team)?;
        }
        live.update(read, true);
        Ok(live)
    }

    /// Adds the state files of the project, which know more about a team of Claude Code than its registry: what
    /// teammates do, and their messages.
    #[must_use]
    pub fn beside_sessions(mut self, layout: &Layout, read: &dyn ReadStore) -> Self {
        if self.config.kind() == TeamOrigin::Claude
            && let Some(project) = self.config.project()
        {
            self.sessions = Some(Sessions::of(layout, Path::new(project)));
            self.look_at_session(read);
            self.update(read, true);
        }
        self
    }

    fn look_at_session(&mut self, read: &dyn ReadStore) {
        let sessions = self.sessions.as_ref();
        self.session =
            sessions.and_then(|sessions| sessions.of_team(self.team.as_str(), read.now()));
        if let Some(session) = &self.session {
            workers::add_session(&mut self.workers.rows, session);
        }
    }

    /// Returns whether this is still the registry of the team that was opened, and not of a new team with the same
    /// name.
    pub fn is_of(&self, config: &TeamConfig) -> bool {
        self.config.created_at() == config.created_at()
    }

    /// Returns the position up to which changes are known.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// Returns the current view.
    pub fn view(&self) -> &TeamView {
        &self.view
    }

    /// Returns the projection of the journal, as far as it has been read.
    pub fn projection(&self) -> &TeamProjection {
        &self.projection
    }

    /// Returns whether the whole journal has been read.
    pub fn is_read(&self) -> bool {
        self.projection.seq() >= self.last
    }

    /// Returns the next part of the journal to read: the first position, and the number of events.
    pub fn wanted(&self) -> Option<(u64, usize)> {
        let from = self.projection.seq() + 1;
        let left = (self.last + 1).saturating_sub(from);
        let count = usize::try_from(left).unwrap_or(PAGE).min(PAGE);
        (count > 0).then_some((from, count))
    }

    /// Reads the next part of the journal and returns what it changed.
    pub fn read_on(&mut self, read: &dyn ReadStore) -> Result<Option<Patch>> {
        let Some((from, count)) = self.wanted() else {
            return Ok(None);
        };
        let page = read.events(&self.team, from, count)?;
        Ok(self.count_in(read, &page))
    }

    /// Applies the part of the journal that was [wanted](Self::wanted), for callers that read it themselves, and
    /// returns what it changed.
    pub fn count_in(&mut self, read: &dyn ReadStore, page: &JournalPage) -> Option<Patch> {
        let before = self.projection.seq();
        for event in &page.events {
            self.projection.apply(event);
        }
        if self.projection.seq() == before {
            // Unreadable positions will not become readable later.
            self.last = before;
        }
        if self.is_read() {
            self.state = self.state_now(read);
            if let Ok(journal) = status::damaged_journal(read, &self.team) {
                self.journal = journal;
            }
            return self.update(read, true);
        }
        // Building a view for each page would cost more than reading the pages, but the reading progress is still
        // updated.
        self.view.history = self.projection.history(self.last);
        None
    }

    /// Applies changes and returns what they changed in the view.
    pub fn apply(&mut self, read: &dyn ReadStore, changes: &[Change]) -> Result<Option<Patch>> {
        let mut again = false;
        // Without a change, time has passed, so everything that depends on age is updated.
        let aged = changes.is_empty();
        let (mut crew, mut registry, mut mail, mut gate) = (aged, aged, aged, aged);
        let mut touched = BTreeSet::new();
        for change in changes {
            match change {
                Change::Event(event) => {
                    if event.seq == self.projection.seq() + 1 {
                        self.projection.apply(event);
                    }
                    self.last = self.last.max(event.seq);
                    tasks_of(event, &mut touched);
                    registry |= is_about_crew(event);
                    mail |= !self.unread.is_empty() && event.kind.starts_with(family::MESSAGE);
                    gate |= event.kind.starts_with(family::APPROVAL)
                        || event.kind.starts_with(family::PLAN)
                        || event.kind.starts_with(family::RUN);
                }
                Change::Beat(_) => crew = true,
                Change::Task(id) => {
                    touched.insert(id.clone());
                }
                Change::Foreign => again = true,
            }
        }
        let tasks = again || aged || !touched.is_empty();
        if again || touched.len() > READ_ONE_BY_ONE || !self.read_tasks(read, touched) {
            let found = read.tasks(&self.team)?;
            self.tasks = by_id(found.tasks);
            self.broken = found.problems;
        }
        if again || registry {
            let config = read.team(&self.team)?;
            if !self.is_of(&config) {
                return Err(StoreError::not_found(format!(
                    "team {} was deleted and created again",
                    self.team
                )));
            }
            self.config = config;
        }
        if again || registry || crew {
            self.workers = workers::list(read, &self.team, &self.config, &self.limits)?;
            self.look_at_session(read);
            self.state = self.state_now(read);
        }
        if again || mail {
            self.unread = status::unread(read, &self.team)?;
        }
        if again || gate {
            // If it cannot be read now, the next update will show it.
            self.gate = status::at_gate(read, &self.team).ok().flatten();
        }
        if again || aged {
            let before = std::mem::replace(&mut self.reached, self.projection.seq());
            // While the journal is being read, they would be looked for again and again.
            if self.is_read() || before == self.reached {
                self.journal = status::damaged_journal(read, &self.team)?;
            }
        }
        Ok(self.update(read, tasks))
    }

    /// Reads these tasks again. Returns `false` if one cannot be parsed; the problem is reported when all tasks are
    /// read again.
    fn read_tasks(&mut self, read: &dyn ReadStore, touched: BTreeSet<TaskId>) -> bool {
        for id in touched {
            match read.task(&self.team, &id) {
                Ok(task) => {
                    self.tasks.insert(id, task);
                }
                Err(error) if error.kind == ErrorKind::NotFound => {
                    self.tasks.remove(&id);
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Rebuilds the view and returns what changed. Evaluating every task is the most expensive part, so it is done only
    /// when a task may have changed.
    fn update(&mut self, read: &dyn ReadStore, tasks: bool) -> Option<Patch> {
        let mut after = self.build_view();
        if tasks {
            self.judge_tasks(read, &mut after);
            let patch = Patch::between(&self.view, &after);
            self.view = after;
            return patch;
        }
        after.progress = self.view.progress;
        let rows = std::mem::take(&mut self.view.tasks);
        let critical = std::mem::take(&mut self.view.critical_path);
        let patch = Patch::between(&self.view, &after);
        self.view = TeamView {
            tasks: rows,
            critical_path: critical,
            ..after
        };
        patch
    }

    fn state_now(&self, read: &dyn ReadStore) -> Viewed {
        let entry = TeamEntry {
            name: self.team.as_str().to_owned(),
            config: Ok(self.config.clone()),
        };
        teams::state(read, &entry, &|team| self.run_of(read, team))
    }

    /// Returns the state of the run, as far as it is known. A journal that is not fully read is not searched: the end
    /// of a run is among the last events, or becomes known when all of them have been applied.
    fn run_of(&self, read: &dyn ReadStore, team: &TeamName) -> Result<RunNow> {
        if !self.is_read() {
            return run_lately(read, team);
        }
        Ok(RunNow {
            stage: self
                .projection
                .stage()
                .map(|stage| stage.as_str().to_owned()),
            finished: self.projection.finished().cloned(),
            ..RunNow::default()
        })
    }

    /// Evaluates the tasks of a view, each in relation to the others.
    fn judge_tasks(&self, read: &dyn ReadStore, view: &mut TeamView) {
        let tasks: Vec<Task> = self.tasks.values().cloned().collect();
        let critical = critical_path(&tasks);
        let on_it: HashSet<&TaskId> = critical.iter().collect();
        let levels = levels(&tasks);
        view.progress = Progress::of(&tasks);
        view.tasks = judge(read, &self.team, tasks)
            .into_iter()
            .map(|judged| {
                let task = judged.task();
                let mut row = TaskRow::of(task, judged.explained_state().clone());
                row.level = levels.get(task.id()).copied().unwrap_or(0);
                row.critical = on_it.contains(task.id());
                self.projection.add_times(&mut row);
                row
            })
            .collect();
        view.critical_path = critical;
    }

    /// Builds the view without its tasks.
    fn build_view(&self) -> TeamView {
        let mut problems = status::with_workers(&self.broken, &self.workers);
        problems.extend(self.journal.iter().cloned());
        problems.extend(self.gate.iter().cloned());
        problems.extend(self.unread.iter().cloned());
        let mut view = TeamView {
            id: self.team.as_str().to_owned(),
            name: self.team.as_str().to_owned(),
            kind: Some(kind(self.config.kind())),
            project: self.config.project().map(str::to_owned),
            description: self.config.description().to_owned(),
            state: self.state,
            seq: self.last,
            at: self.projection.last(),
            past: false,
            workers: self.roster(),
            problems,
            ..TeamProjection::of(self.team.as_str()).view()
        };
        self.projection.complete(&mut view);
        if let Some(session) = &self.session {
            add_session(&mut view, session);
        }
        view.bounded()
    }

    fn roster(&self) -> Vec<WorkerView> {
        let rows = self.workers.rows.iter().cloned();
        rows.map(|row| {
            let mut worker = WorkerView::of(row);
            let task = worker.current_task_id.as_ref();
            worker.current_task = task
                .and_then(|id| self.tasks.get(id))
                .map(|task| task.subject().to_owned());
            worker
        })
        .collect()
    }
}

/// Adds what a state file knows beyond the registry and the journal.
fn add_session(view: &mut TeamView, session: &TeamView) {
    for worker in &mut view.workers {
        let told = session.workers.iter().find(|told| told.name == worker.name);
        if let Some(told) = told {
            worker.role = worker.role.take().or_else(|| told.role.clone());
            worker.model = worker.model.take().or_else(|| told.model.clone());
            let task = worker.current_task.take();
            worker.current_task = task.or_else(|| told.current_task.clone());
            worker.since = worker.since.or(told.since);
        }
    }
    let is_new = |letter: &&MessageView| {
        let is_it = |known: &MessageView| {
            (&known.from, &known.to, &known.content) == (&letter.from, &letter.to, &letter.content)
        };
        !view.messages.iter().any(is_it)
    };
    let told: Vec<MessageView> = session.messages.iter().filter(is_new).cloned().collect();
    view.message_count += told.len() as u64;
    view.messages.extend(told);
    view.messages.sort_by_key(|letter| letter.sent_at);
    let surplus = view.messages.len().saturating_sub(MOST_MESSAGES);
    view.messages.drain(..surplus);
}

/// Returns whether an event may be about a worker that joined, left, started or ended. The most frequent events of
/// agents are not.
fn is_about_crew(event: &Event) -> bool {
    let is_frequent = [family::MESSAGE, family::VERIFY]
        .iter()
        .any(|family| event.kind.starts_with(family));
    let is_of_agent = matches!(
        event.known_kind(),
        Some(
            EventType::AgentEvent
                | EventType::Usage
                | EventType::HookReceived
                | EventType::BudgetReserved
        )
    );
    !is_frequent && !is_of_agent && !event.is_about_tasks()
}

/// Collects the tasks that an event changed.
fn tasks_of(event: &Event, touched: &mut BTreeSet<TaskId>) {
    if event.is_about_tasks() {
        touched.extend(event.task_id.clone());
    }
    let also = event.data.get("also").and_then(|also| also.as_object());
    let also = also.into_iter().flat_map(|also| also.keys());
    touched.extend(also.filter_map(|id| id.parse::<TaskId>().ok()));
}

fn by_id(tasks: Vec<Task>) -> BTreeMap<TaskId, Task> {
    let tasks = tasks.into_iter();
    tasks.map(|task| (task.id().clone(), task)).collect()
}

/// Converts the origin of a team to the model's type.
pub(crate) fn kind(kind: TeamOrigin) -> TeamKind {
    match kind {
        TeamOrigin::Teamster => TeamKind::Teamster,
        TeamOrigin::Claude => TeamKind::Claude,
    }
}
