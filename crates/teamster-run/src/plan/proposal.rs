//! A plan that a person decides about: how it is shown, how it is edited, and the rules for an edited plan.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use teamster_document::{Fault, Faults};
use teamster_journal::payload::{
    Distribution, PlanAuthor, PlanDraft, PlanDraftTask, PlanProposed, RunSpec,
};
use teamster_types::text::one_line;
use unicode_width::UnicodeWidthStr;

use super::Plan;
use crate::cast::misfits;
use crate::leader::MOST_TASKS;
use crate::preview::AlignedTable;

/// The name of the file in which a plan is edited; its extension determines the format.
pub const EDITED_FILE: &str = "plan.toml";

/// The most tasks whose dependencies are drawn. Larger plans are better viewed in Studio.
const MOST_DRAWN: usize = 60;
/// The width after which a chain of tasks goes on in the next line.
const CHAIN_WIDTH: usize = 60;
/// The number of lines of the analysis that are shown with a plan.
const ANALYSIS_LINES: usize = 20;

impl Plan {
    /// Returns the plan without its questions, which are not asked.
    #[must_use]
    pub fn without_questions(mut self) -> Self {
        self.questions.clear();
        self
    }
}

/// Checks a plan that a person wrote for a run: it must suit the team, and respect the limits.
pub fn check_for_run(plan: Plan, spec: &RunSpec) -> Result<Plan, Faults> {
    let mut faults = misfits(&plan, &spec.members);
    if plan.tasks.len() > MOST_TASKS {
        let count = plan.tasks.len();
        let why = format!("the plan has {count} tasks; the limit is {MOST_TASKS}");
        faults.push(Fault::new(1, why));
    }
    if spec.distribution != Distribution::One {
        let why = "every worker does the whole task in this run, so there is no plan to change";
        faults.push(Fault::new(1, why));
    }
    if faults.is_empty() {
        return Ok(plan);
    }
    Err(Faults::new(Path::new(EDITED_FILE), faults))
}

/// Reads a plan that a person edited for a run, in the format that the file name or the text itself indicates.
pub fn read_edited(file: &Path, text: &str, spec: &RunSpec) -> Result<PlanDraft, Faults> {
    let plan = Plan::parse(file, text.as_bytes())?;
    let checked = check_for_run(plan, spec);
    let checked = checked.map_err(|faults| Faults::new(file, faults.list));
    Ok(checked?.without_questions().draft())
}

/// Returns the plan as a file that a person edits.
pub fn edited_document(proposed: &PlanProposed, spec: &RunSpec) -> Result<String, String> {
    let mut text = String::from(
        "# Save and close this file to propose the plan as it is then. Leave it as it is to change nothing.\n\
         # A task has `id` and `subject` and, if wanted, `description`, `blockedBy`, `owner`, `role`, `capabilities`,\n\
         # `paths`, `accept` and `verify`.\n#\n# The team:\n",
    );
    for member in &spec.members {
        let role = match &member.role {
            Some(role) => format!(" ({})", one_line(role)),
            None => String::new(),
        };
        let can = one_line(&member.can.join(", "));
        let _ = writeln!(text, "#   {}{role}: {can}", member.name);
    }
    let plan = toml::to_string_pretty(&proposed.plan).map_err(|error| error.to_string())?;
    let _ = write!(text, "\n{plan}");
    Ok(text)
}

/// Returns the text that a person reads before deciding about a plan. It contains untrusted texts unescaped: the caller
/// must sanitize them before showing them.
pub fn proposal_text(proposed: &PlanProposed, spec: &RunSpec) -> String {
    let plan = &proposed.plan;
    let mut text = String::new();
    if let Some(problem) = &proposed.problem {
        let _ = writeln!(text, "{}\n", problem.trim());
    }
    let by = match proposed.by {
        PlanAuthor::Leader => {
            // A provider that was defined for this run alone is known by its name.
            let name = spec.leader.split('=').next().unwrap_or_default();
            format!(" by the leader {}", one_line(name))
        }
        PlanAuthor::Person => ", edited by you".to_owned(),
        PlanAuthor::File => " of the plan file".to_owned(),
        PlanAuthor::Preset => " of the preset".to_owned(),
        PlanAuthor::Session => " of the session that started the run".to_owned(),
        PlanAuthor::Sentence => ": the task as given".to_owned(),
    };
    let count = plan.tasks.len();
    let tasks = if count == 1 { "task" } else { "tasks" };
    let revision = proposed.revision;
    let _ = writeln!(text, "The plan{by}, revision {revision}: {count} {tasks}\n");
    text.push_str(&table(plan));
    let _ = write!(text, "\n{}", draw_dependencies(&plan.tasks));
    let criteria: Vec<String> = (plan.tasks.iter())
        .flat_map(|task| {
            task.accept
                .iter()
                .map(move |it| format!("{}: {it}", task.id))
        })
        .collect();
    let analysis: Vec<&str> = plan.analysis.trim().lines().collect();
    if !plan.analysis.trim().is_empty() {
        text.push_str("\nWhat the leader found out:\n");
        for line in analysis.iter().take(ANALYSIS_LINES) {
            let _ = writeln!(text, "{}", format!("  {line}").trim_end());
        }
        if let Some(more) = analysis
            .len()
            .checked_sub(ANALYSIS_LINES)
            .filter(|it| *it > 0)
        {
            let _ = writeln!(text, "  … and {more} more lines");
        }
    }
    for (heading, list) in [
        ("A task is done when this holds", &criteria),
        ("Assumptions", &plan.assumptions),
        ("What could go wrong", &plan.risks),
        ("Failing checks that this plan must fix", &plan.must_pass),
        ("Commands of the plan that verify the result", &plan.verify),
        ("Left out, because it was not approved", &proposed.left_out),
    ] {
        if !list.is_empty() {
            let _ = writeln!(text, "\n{heading}:");
        }
        for item in list {
            let _ = writeln!(text, "  - {}", one_line(item));
        }
    }
    text
}

fn table(plan: &PlanDraft) -> String {
    let mut table = AlignedTable::new(["NR", "ID", "TASK", "AFTER", "WHO", "PATHS"]);
    for (place, task) in plan.tasks.iter().enumerate() {
        let who = match (&task.owner, &task.role) {
            (Some(owner), _) => owner.clone(),
            (None, Some(role)) => format!("a {role}"),
            (None, None) if task.capabilities.is_empty() => "any free worker".to_owned(),
            (None, None) => format!("needs {}", task.capabilities.join(", ")),
        };
        table.row([
            (place + 1).to_string().as_str(),
            &task.id,
            &task.subject,
            &dash(&task.blocked_by),
            &who,
            &dash(&task.paths),
        ]);
    }
    table.render()
}

fn dash(list: &[String]) -> String {
    match list {
        [] => "-".to_owned(),
        list => list.join(", "),
    }
}

/// Draws the dependencies: each task stands behind or below the deepest of its dependencies.
fn draw_dependencies(tasks: &[PlanDraftTask]) -> String {
    if tasks.iter().all(|task| task.blocked_by.is_empty()) {
        return match tasks.len() {
            0 | 1 => String::new(),
            _ => "No task waits for another.\n".to_owned(),
        };
    }
    if tasks.len() > MOST_DRAWN {
        return "Studio draws which task waits for which: these are too many tasks for a terminal.\n"
            .to_owned();
    }
    let graph = DependencyTree::of(tasks);
    let mut text = String::from("Which task waits for which:\n");
    for (place, _) in tasks.iter().enumerate() {
        if graph.parents[place].is_none() {
            graph.draw(place, "  ", "  ", &mut text);
        }
    }
    text
}

/// The tasks as a tree, each below one of its dependencies.
struct DependencyTree<'a> {
    tasks: &'a [PlanDraftTask],
    parents: Vec<Option<usize>>,
}

impl<'a> DependencyTree<'a> {
    fn of(tasks: &'a [PlanDraftTask]) -> Self {
        let places: HashMap<&str, usize> = tasks
            .iter()
            .enumerate()
            .map(|(place, task)| (task.id.as_str(), place))
            .collect();
        let after: Vec<Vec<usize>> = tasks
            .iter()
            .map(|task| {
                let blockers = task.blocked_by.iter();
                blockers
                    .filter_map(|id| places.get(id.as_str()).copied())
                    .collect()
            })
            .collect();
        // Every pass settles at least one more level; a plan has no cycles.
        let mut depths = vec![0_usize; tasks.len()];
        for _ in 0..tasks.len() {
            for place in 0..tasks.len() {
                let deepest = after[place].iter().map(|before| depths[*before] + 1).max();
                depths[place] = deepest.unwrap_or(0).min(tasks.len());
            }
        }
        let parents = after
            .iter()
            .map(|before| before.iter().copied().max_by_key(|place| depths[*place]))
            .collect();
        Self { tasks, parents }
    }

    fn label(&self, place: usize) -> String {
        let task = &self.tasks[place];
        let parent = self.parents[place].map(|parent| self.tasks[parent].id.as_str());
        let others: Vec<&str> = task
            .blocked_by
            .iter()
            .map(String::as_str)
            .filter(|id| Some(*id) != parent)
            .collect();
        let id = one_line(&task.id);
        if others.is_empty() {
            return id;
        }
        format!("{id} (also after {})", one_line(&others.join(", ")))
    }

    fn children(&self, place: usize) -> Vec<usize> {
        let all = 0..self.tasks.len();
        all.filter(|child| self.parents[*child] == Some(place))
            .collect()
    }

    /// Draws a task and its subtree. The first line begins with `first`, those below it with `rest`.
    fn draw(&self, place: usize, first: &str, rest: &str, text: &mut String) {
        let mut line = format!("{first}{}", self.label(place));
        let mut children = self.children(place);
        while let [only] = children[..]
            && line.width() < CHAIN_WIDTH
        {
            let _ = write!(line, " ─▶ {}", self.label(only));
            children = self.children(only);
        }
        let _ = writeln!(text, "{line}");
        for (number, child) in children.iter().enumerate() {
            let is_last = number + 1 == children.len();
            let (turn, bar) = if is_last {
                ("└─▶ ", "    ")
            } else {
                ("├─▶ ", "│   ")
            };
            let (first, rest) = (format!("{rest}{turn}"), format!("{rest}{bar}"));
            self.draw(*child, &first, &rest, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: &str, subject: &str, after: &[&str]) -> PlanDraftTask {
        PlanDraftTask {
            id: id.to_owned(),
            subject: subject.to_owned(),
            blocked_by: after.iter().map(|id| (*id).to_owned()).collect(),
            ..PlanDraftTask::default()
        }
    }

    fn spec() -> RunSpec {
        RunSpec {
            leader: "claude".to_owned(),
            members: vec![
                crate::cast::example("worker-1", Some("executor"), &["code-edit", "general"]),
                crate::cast::example("worker-2", Some("tester"), &["testing"]),
            ],
            ..RunSpec::default()
        }
    }

    fn proposed() -> PlanProposed {
        let mut test = task("test", "Test the whole", &["form", "api"]);
        test.role = Some("tester".to_owned());
        test.accept = vec!["Every page has a test.".to_owned()];
        let mut form = task("form", "Mend the form", &[]);
        form.description = "It is in `src/form.rs`.\nMind \"quotes\".".to_owned();
        form.owner = Some("worker-1".to_owned());
        PlanProposed {
            revision: 2,
            ask: true,
            plan: PlanDraft {
                analysis: "The form is old.\n\nThe API is new.".to_owned(),
                assumptions: vec!["Nobody uses the old page.".to_owned()],
                risks: vec!["The tests are slow.".to_owned()],
                must_pass: vec!["cargo test".to_owned()],
                tasks: vec![
                    form,
                    task("api", "Mend the API", &[]),
                    task("model", "Mend the model", &["api"]),
                    test,
                    task("docs", "Describe it", &["test"]),
                    task("news", "Tell people", &["model"]),
                    task("more", "Tell others", &["model"]),
                ],
                ..PlanDraft::default()
            },
            left_out: vec!["make".to_owned()],
            ..PlanProposed::default()
        }
    }

    #[test]
    fn plan_is_shown_as_a_table_and_as_a_graph() {
        insta::assert_snapshot!(proposal_text(&proposed(), &spec()), @r"
        The plan by the leader claude, revision 2: 7 tasks

          NR  ID     TASK            AFTER      WHO              PATHS
          1   form   Mend the form   -          worker-1         -
          2   api    Mend the API    -          any free worker  -
          3   model  Mend the model  api        any free worker  -
          4   test   Test the whole  form, api  a tester         -
          5   docs   Describe it     test       any free worker  -
          6   news   Tell people     model      any free worker  -
          7   more   Tell others     model      any free worker  -

        Which task waits for which:
          form
          api
          ├─▶ model
          │   ├─▶ news
          │   └─▶ more
          └─▶ test (also after form) ─▶ docs

        What the leader found out:
          The form is old.

          The API is new.

        A task is done when this holds:
          - test: Every page has a test.

        Assumptions:
          - Nobody uses the old page.

        What could go wrong:
          - The tests are slow.

        Failing checks that this plan must fix:
          - cargo test

        Left out, because it was not approved:
          - make
        ");
    }

    #[test]
    fn plan_that_is_edited_is_the_plan_that_is_read() {
        let (proposed, spec) = (proposed(), spec());
        let text = edited_document(&proposed, &spec).unwrap();
        insta::assert_snapshot!(text, @r#"
        # Save and close this file to propose the plan as it is then. Leave it as it is to change nothing.
        # A task has `id` and `subject` and, if wanted, `description`, `blockedBy`, `owner`, `role`, `capabilities`,
        # `paths`, `accept` and `verify`.
        #
        # The team:
        #   worker-1 (executor): code-edit, general
        #   worker-2 (tester): testing

        analysis = """
        The form is old.

        The API is new."""
        assumptions = ["Nobody uses the old page."]
        risks = ["The tests are slow."]
        must_pass = ["cargo test"]

        [[tasks]]
        id = "form"
        subject = "Mend the form"
        description = """
        It is in `src/form.rs`.
        Mind "quotes"."""
        owner = "worker-1"

        [[tasks]]
        id = "api"
        subject = "Mend the API"

        [[tasks]]
        id = "model"
        subject = "Mend the model"
        blockedBy = ["api"]

        [[tasks]]
        id = "test"
        subject = "Test the whole"
        blockedBy = [
            "form",
            "api",
        ]
        role = "tester"
        accept = ["Every page has a test."]

        [[tasks]]
        id = "docs"
        subject = "Describe it"
        blockedBy = ["test"]

        [[tasks]]
        id = "news"
        subject = "Tell people"
        blockedBy = ["model"]

        [[tasks]]
        id = "more"
        subject = "Tell others"
        blockedBy = ["model"]
        "#);
        let read = read_edited(Path::new(EDITED_FILE), &text, &spec).unwrap();
        assert_eq!(read, proposed.plan);
    }

    #[test]
    fn edited_plan_must_suit_the_team() {
        let text = "[[tasks]]\nid = 'a'\nsubject = 'A'\nrole = 'cook'\n\n[[tasks]]\nid = 'b'\nsubject = 'B'\nowner = 'ann'\n\n\
                    [[tasks]]\nid = 'c'\nsubject = 'C'\nowner = 'worker-1'\nrole = 'tester'\n\n\
                    [[tasks]]\nid = 'd'\nsubject = 'D'\nrole = 'Tester'\ncapabilities = ['cooking']\n";
        let faults = read_edited(Path::new(EDITED_FILE), text, &spec()).unwrap_err();
        insta::assert_snapshot!(faults, @r#"
        plan.toml:1: task "a" is for the role cook, which no member of the team has; there are executor, tester
        plan.toml:6: task "b" has the owner ann, who is not in the team; there are worker-1, worker-2
        plan.toml:11: task "c" has the owner worker-1, who does not have the role tester
        plan.toml:17: task "d" needs cooking, and no member of the team as Tester can do any of it
        "#);
        let each = RunSpec {
            distribution: Distribution::Each,
            ..spec()
        };
        let one = "[[tasks]]\nid = 'a'\nsubject = 'A'\n";
        let faults = read_edited(Path::new(EDITED_FILE), one, &each).unwrap_err();
        assert!(faults.to_string().contains("no plan to change"), "{faults}");
    }
}
