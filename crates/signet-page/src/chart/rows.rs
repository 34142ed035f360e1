//! Bars that lie, one below the other: names have room beside them, on a phone too.

use super::legend::{self, Key};
use super::{Axis, Datum, REFERENCE, colour, is_narrow, lines};
use crate::number;
use crate::scale::Scale;
use crate::svg::{Anchor, Area, Path, SIZE, SIZE_SMALL, Svg, clip, width_of, wrap};

/// Bars in groups, over one axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// What their length counts.
    pub axis: Axis,
    /// The groups, from above.
    pub groups: Vec<Group>,
    /// The names of the parts, where rows are stacked.
    pub parts: Vec<String>,
    /// What the ends beside a bar are: "lowest and highest of the repeats".
    pub interval: String,
    /// What the hollow marks are: "Shen 2010".
    pub reference: String,
}

/// Rows with a name in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The name.
    pub label: String,
    /// The rows.
    pub rows: Vec<Row>,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name, a word: "Signet".
    pub name: String,
    /// Its colour, from 0; those with the same name should have the same.
    pub colour: usize,
    /// What is in it.
    pub content: Content,
}

/// What a row shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A bar.
    Bar(Datum),
    /// A hollow mark: a figure that is not ours.
    Reference(f64),
    /// A bar of parts, in the order of [`Rows::parts`]; what is not above 0 is left out.
    Stack(Vec<f64>),
}

const ROW_HEIGHT: f64 = 18.0;
const BAR_HEIGHT: f64 = 12.0;
const LABEL_HEIGHT: f64 = 16.0;
const GROUP_GAP: f64 = 9.0;
/// Between the longest bar and what stands behind it.
const GAP: f64 = 6.0;

impl Content {
    fn ends(&self) -> Vec<f64> {
        match self {
            Self::Bar(datum) => datum.ends().collect(),
            Self::Reference(value) => vec![*value],
            Self::Stack(parts) => vec![total(parts)],
        }
    }

    /// What stands behind it.
    fn told(&self) -> String {
        match self {
            Self::Bar(datum) => match (datum.known(), datum) {
                (Some((value, _)), _) => number::figure(value),
                (None, Datum::Missing(why)) => why.clone(),
                (None, Datum::Known { .. }) => number::NONE.to_owned(),
            },
            Self::Reference(value) => number::figure(*value),
            Self::Stack(parts) if total(parts) > 0.0 => number::figure(total(parts)),
            Self::Stack(_) => number::NONE.to_owned(),
        }
    }
}

fn total(parts: &[f64]) -> f64 {
    parts.iter().filter(|part| is_part(**part)).sum()
}

fn is_part(part: f64) -> bool {
    part.is_finite() && part > 0.0
}

impl Rows {
    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.groups.iter().flat_map(|group| &group.rows)
    }

    pub(super) fn draw(&self, width: f64) -> (Svg, f64) {
        let mut svg = Svg::new(width);
        let mut top = legend::draw(&mut svg, 4.0, &self.legend());
        let title = wrap(&self.axis.title, SIZE_SMALL, width, 2);
        for line in title {
            svg.text("faint", (0.0, top + 11.0), Anchor::Start, SIZE_SMALL, &line);
            top += 15.0;
        }
        top += 2.0;
        let name_max = if is_narrow(width) { 84.0 } else { 170.0 };
        let widest = |text: &dyn Fn(&Row) -> String| {
            let widths = self.rows().map(|row| width_of(&text(row), SIZE_SMALL));
            widths.fold(0.0, f64::max)
        };
        let names = widest(&|row| row.name.clone()).min(name_max);
        let told = widest(&|row| row.content.told()).min(width * 0.3);
        let start = if names > 0.0 { names + 8.0 } else { 2.0 };
        let end = (width - told - GAP - 8.0).max(start + 40.0);
        let values: Vec<f64> = self.rows().flat_map(|row| row.content.ends()).collect();
        let scale = self.axis.across(&values, start, end);
        let height: f64 = self
            .groups
            .iter()
            .map(|group| self.height_of(group, width))
            .sum();
        self.axis.draw_across(&mut svg, &scale, top, top + height);
        let base = scale.base();
        svg.line("axis", (base, top), (base, top + height));
        let mut y = top;
        for group in &self.groups {
            y += GROUP_GAP / 2.0;
            for line in label_lines(group, width) {
                svg.text(
                    "ink strong halo",
                    (0.0, y + 12.0),
                    Anchor::Start,
                    SIZE,
                    &line,
                );
                y += LABEL_HEIGHT;
            }
            for row in &group.rows {
                let name = clip(&row.name, SIZE_SMALL, name_max);
                svg.text(
                    "ink",
                    (start - 7.0, y + 13.0),
                    Anchor::End,
                    SIZE_SMALL,
                    &name,
                );
                self.draw_row(&mut svg, &scale, group, row, y);
                y += ROW_HEIGHT;
            }
            y += GROUP_GAP / 2.0;
        }
        (svg, top + height + 20.0)
    }

    fn height_of(&self, group: &Group, width: f64) -> f64 {
        label_lines(group, width).len() as f64 * LABEL_HEIGHT
            + group.rows.len() as f64 * ROW_HEIGHT
            + GROUP_GAP
    }

    fn legend(&self) -> Vec<(Key, String)> {
        let mut entries: Vec<(Key, String)> = self
            .parts
            .iter()
            .enumerate()
            .map(|(nth, name)| (Key::Part { nth }, name.clone()))
            .collect();
        let has_reference = self
            .rows()
            .any(|row| matches!(row.content, Content::Reference(_)));
        if has_reference && !self.reference.is_empty() {
            entries.push((Key::Reference, self.reference.clone()));
        }
        let has_interval = self.rows().any(|row| match &row.content {
            Content::Bar(datum) => datum
                .known()
                .is_some_and(|(_, interval)| interval.is_some()),
            Content::Reference(_) | Content::Stack(_) => false,
        });
        if has_interval && !self.interval.is_empty() {
            entries.push((Key::Interval, self.interval.clone()));
        }
        entries
    }

    fn draw_row(&self, svg: &mut Svg, scale: &Scale, group: &Group, row: &Row, y: f64) {
        let middle = y + ROW_HEIGHT / 2.0;
        let told = row.content.told();
        let hint = format!("{}, {}: {told}", group.label, row.name);
        let end = match &row.content {
            Content::Bar(datum) => draw_bar(svg, scale, row, datum, middle, &hint),
            Content::Reference(value) => scale
                .at(*value)
                .inspect(|x| {
                    lines::mark(svg, REFERENCE, lines::DIAMOND, true, (*x, middle), &hint);
                })
                .map(|x| x + 6.0),
            Content::Stack(parts) => self.draw_stack(svg, scale, group, row, parts, middle),
        };
        let class = if end.is_some() {
            "ink halo"
        } else {
            "faint halo"
        };
        let x = end.unwrap_or_else(|| scale.base()) + GAP;
        let told = clip(&told, SIZE_SMALL, svg.width() - x);
        svg.text(class, (x, middle + 4.0), Anchor::Start, SIZE_SMALL, &told);
    }

    /// Gives where the last part ends.
    fn draw_stack(
        &self,
        svg: &mut Svg,
        scale: &Scale,
        group: &Group,
        row: &Row,
        parts: &[f64],
        middle: f64,
    ) -> Option<f64> {
        let mut sum = 0.0;
        let mut last = None;
        for (nth, part) in parts.iter().enumerate().filter(|(_, part)| is_part(**part)) {
            let from = scale.at(sum)?;
            sum += part;
            let to = scale.at(sum)?;
            let name = self.parts.get(nth).map_or("", String::as_str);
            let hint = format!(
                "{}, {}: {name} {}",
                group.label,
                row.name,
                number::figure(*part)
            );
            svg.rect(
                &colour("f", nth),
                bar(from, (to - 1.0).max(from + 0.3), middle, 0.0),
                &hint,
            );
            let number = (nth + 1).to_string();
            if to - from >= width_of(&number, SIZE_SMALL) + 4.0 {
                let place = ((from + to - 1.0) / 2.0, middle + 4.0);
                svg.text("on", place, Anchor::Middle, SIZE_SMALL, &number);
            }
            last = Some(to);
        }
        last
    }
}

/// Bold letters are that much wider.
const BOLD: f64 = 1.13;

fn label_lines(group: &Group, width: f64) -> Vec<String> {
    wrap(&group.label, SIZE, width / BOLD, 2)
}

fn bar(from: f64, to: f64, middle: f64, round: f64) -> Area {
    Area {
        x: from.min(to),
        y: middle - BAR_HEIGHT / 2.0,
        width: (to - from).abs(),
        height: BAR_HEIGHT,
        round,
    }
}

/// Gives where bar and interval end on the right.
fn draw_bar(
    svg: &mut Svg,
    scale: &Scale,
    row: &Row,
    datum: &Datum,
    middle: f64,
    hint: &str,
) -> Option<f64> {
    let (value, interval) = datum.known()?;
    let to = scale.at(value)?;
    let base = scale.base();
    svg.rect(&colour("f", row.colour), bar(base, to, middle, 2.0), hint);
    let mut end = to.max(base);
    if let Some((low, high)) = interval
        && let (Some(low), Some(high)) = (scale.at(low), scale.at(high))
    {
        whisker(svg, (low, high), middle);
        end = end.max(high);
    }
    Some(end)
}

/// The ends of an interval, on a bar and beyond it.
pub(super) fn whisker(svg: &mut Svg, (low, high): (f64, f64), middle: f64) {
    let mut path = Path::default();
    path.go((low, middle)).line((high, middle));
    for end in [low, high] {
        path.go((end, middle - 4.0)).line((end, middle + 4.0));
    }
    // Beneath it in the colour of the page, so that it is seen on a bar of any colour.
    svg.path("whisker-under", path.as_str(), "");
    svg.path("whisker", path.as_str(), "");
}
