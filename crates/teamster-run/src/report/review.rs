//! What the reviews say, for the gate and for the report.

use std::fmt::Write as _;

use teamster_journal::payload::{ReviewFinding, ReviewFinished, ReviewMode};
use teamster_journal::{ReviewOutcome, ReviewState};
use teamster_types::text::fit;

use super::ReportInput;
use super::markdown::{cell, code, code_cell, counted, inside, line, short};

/// Columns that a line of the gate takes at most.
const WIDTH: usize = 200;
/// Findings that are shown at the gate.
const MOST: usize = 40;

impl ReportInput {
    /// Returns the review of the commit that a person is asked about; without one, the last that there is.
    fn review(&self) -> Option<&ReviewState> {
        let last = self.reviews.last()?;
        let asked = self.asked_about.as_deref().unwrap_or(&last.commit);
        self.reviews.iter().find(|review| review.commit == asked)
    }

    /// Returns whether the work was reviewed, in one sentence; `None` where nobody asked for it and nobody did.
    pub(super) fn review_words(&self) -> Option<String> {
        let not_reviewed = |why: &str| Some(format!("This work was NOT reviewed: {why}."));
        let is_required = self.review_mode == ReviewMode::Require;
        let Some(review) = self.review() else {
            let is_missed = self.asked_about.is_some() && is_required;
            return not_reviewed("nobody was asked about this commit").filter(|_| is_missed);
        };
        match &review.outcome {
            ReviewOutcome::Finished(finished) => Some(finished_words(finished)),
            ReviewOutcome::Failed(why) => {
                not_reviewed(&format!("{} was asked, and {why}", review.reviewer))
            }
            ReviewOutcome::UnderWay => not_reviewed("the review is not over"),
            ReviewOutcome::Skipped(why) if is_required => not_reviewed(why),
            ReviewOutcome::Skipped(_) => None,
        }
    }
}

/// Returns the verdict and the number of findings in one sentence.
fn finished_words(finished: &ReviewFinished) -> String {
    let found = match finished.findings.len() {
        0 => "found nothing".to_owned(),
        count => format!("found {}", things(count)),
    };
    let mut words = format!(
        "{} {} and {found}",
        finished.reviewer,
        finished.verdict.words()
    );
    if finished.dropped > 0 {
        let _ = write!(
            words,
            "; {} dropped, because the place is not in the commit or there were too many",
            counted(finished.dropped, "finding")
        );
    }
    words + "."
}

fn things(count: usize) -> String {
    counted(count, "thing")
}

/// Returns what stands at the gate: the verdict, and the findings by severity, each with its line.
pub(super) fn gate_lines(input: &ReportInput) -> String {
    let Some(words) = input.review_words() else {
        return String::new();
    };
    let mut text = format!("  {}\n", line(&words));
    let Some(finished) = input.review().and_then(ReviewState::finished) else {
        return text;
    };
    for finding in finished.findings.iter().take(MOST) {
        let said = format!("  {}", line(&finding_words(finding)));
        let _ = writeln!(text, "{}", fit(&said, WIDTH));
    }
    if finished.findings.len() > MOST {
        let _ = writeln!(text, "  … {} more", finished.findings.len() - MOST);
    }
    for unmet in finished.criteria.iter().filter(|criterion| !criterion.met) {
        let said = format!("  not met: {}", line(&unmet.criterion));
        let _ = writeln!(text, "{}", fit(&said, WIDTH));
    }
    text
}

fn finding_words(finding: &ReviewFinding) -> String {
    let severity = finding.severity.as_str();
    match finding.place().as_str() {
        "" => format!("{severity}: {}", finding.claim),
        place => format!("{severity}: {place}: {}", finding.claim),
    }
}

/// Returns the section of the report: every review in order, the findings of the last one in full.
pub(super) fn section(input: &ReportInput) -> String {
    let Some(words) = input.review_words() else {
        return String::new();
    };
    let mut page = format!("{}\n", inside(&words));
    let last = input.review().map(|review| review.commit.as_str());
    for review in input
        .reviews
        .iter()
        .filter(|it| Some(it.commit.as_str()) != last)
    {
        if let Some(finished) = review.finished() {
            let commit = code(&short(&review.commit));
            let _ = writeln!(
                page,
                "\nBefore, at {commit}: {}",
                inside(&finished_words(finished))
            );
        }
    }
    let Some(finished) = input.review().and_then(ReviewState::finished) else {
        return page;
    };
    if !finished.findings.is_empty() {
        page.push('\n');
    }
    for finding in &finished.findings {
        let place = match finding.place().as_str() {
            "" => String::new(),
            place => format!(" in {}", code_cell(place)),
        };
        let _ = writeln!(
            page,
            "- {}{place}: {}",
            finding.severity.as_str(),
            cell(&finding.claim)
        );
        for (heading, text) in [
            ("shown by", &finding.evidence),
            ("to do", &finding.suggestion),
        ] {
            if !text.trim().is_empty() {
                let _ = writeln!(page, "  - {heading}: {}", cell(text));
            }
        }
    }
    if !finished.criteria.is_empty() {
        page.push('\n');
    }
    for criterion in &finished.criteria {
        let state = if criterion.met { "met" } else { "NOT met" };
        let _ = writeln!(page, "- {state}: {}", cell(&criterion.criterion));
    }
    page
}
