//! The table: figures of many rounds go in; lowest, median and highest come out, each with what it has to reach.

use std::fmt;

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

/// What is measured, against what, and what it has to reach.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) against: &'static str,
    pub(crate) goal: Goal,
    pub(crate) unit: Unit,
    /// One of each round.
    pub(crate) figures: Vec<f64>,
}

/// What the median has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// Told for what it explains, not judged.
    Told,
}

/// What a figure is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Unit {
    /// Ours by the reference's.
    Ratio,
    Milliseconds,
    Seconds,
    Bytes,
    Megabytes,
    Calls,
}

/// How a line came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Reached,
    Missed,
    NotJudged,
}

impl Line {
    /// The lowest, the median and the highest figure.
    fn spread(&self) -> Option<[f64; 3]> {
        let mut figures = self.figures.clone();
        figures.sort_by(f64::total_cmp);
        Some([*figures.first()?, *figures.get(figures.len() / 2)?, *figures.last()?])
    }

    /// Whether the median reaches the goal. A line without a figure misses it.
    pub(crate) fn verdict(&self) -> Verdict {
        let median = self.spread().map(|[_, median, _]| median);
        let reached = match (self.goal, median) {
            (Goal::Told, Some(_)) => return Verdict::NotJudged,
            (Goal::AtLeast(goal), Some(median)) => median >= goal,
            (Goal::AtMost(goal), Some(median)) => median <= goal,
            (_, None) => false,
        };
        if reached { Verdict::Reached } else { Verdict::Missed }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Ratio => "×",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Bytes => "B",
            Self::Megabytes => "MB",
            Self::Calls => "calls",
        })
    }
}

/// All lines, as Markdown.
pub(crate) fn render(lines: &[Line]) -> String {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header(["what", "against", "lowest", "median", "highest", "goal", ""]);
    for line in lines {
        let unit = line.unit;
        let figures = match line.spread() {
            Some(figures) => figures.map(|figure| format!("{figure:.2} {unit}")),
            None => Default::default(),
        };
        let goal = match line.goal {
            Goal::AtLeast(goal) => format!("≥ {goal} {unit}"),
            Goal::AtMost(goal) => format!("≤ {goal} {unit}"),
            Goal::Told => String::new(),
        };
        let verdict = match line.verdict() {
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::NotJudged => "",
        };
        let mut row = vec![line.what.clone(), line.against.to_owned()];
        row.extend(figures);
        row.extend([goal, verdict.to_owned()]);
        table.add_row(row);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(goal: Goal, figures: &[f64]) -> Line {
        Line { what: "a".into(), against: "b", goal, unit: Unit::Ratio, figures: figures.into() }
    }

    #[test]
    fn the_median_decides() {
        assert_eq!(line(Goal::AtLeast(0.8), &[0.5, 0.9, 0.81]).verdict(), Verdict::Reached);
        assert_eq!(line(Goal::AtMost(0.8), &[0.5, 0.9, 0.81]).verdict(), Verdict::Missed);
        assert_eq!(line(Goal::Told, &[0.5]).verdict(), Verdict::NotJudged);
        assert_eq!(line(Goal::AtLeast(0.0), &[]).verdict(), Verdict::Missed, "nothing was measured");
    }
}
