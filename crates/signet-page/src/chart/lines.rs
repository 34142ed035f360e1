//! Lines over an axis, with marks and intervals.

use super::legend::{self, Key};
use super::{Axis, Datum, colour, is_narrow};
use crate::number;
use crate::scale::Scale;
use crate::svg::{Anchor, Path, SIZE_SMALL, Svg, width_of, wrap};

/// Lines over two axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// To the right.
    pub x: Axis,
    /// Up.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its colour, from 0: one for each system.
    pub colour: usize,
    /// Which mark and which dashes it has, from 0: one for each series of a system.
    pub nth: usize,
    /// Whether its marks are hollow: figures that are not ours.
    pub is_hollow: bool,
    /// From left to right.
    pub points: Vec<Point>,
}

/// A place on a line; where there is no figure the line has a gap.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// To the right.
    pub x: f64,
    /// Up.
    pub y: Datum,
}

/// The mark with this number is what bars have for figures that stand beside.
pub(super) const DIAMOND: usize = 3;
const MARKS: usize = 6;
const DASHES: usize = 4;
/// A line with more points has no marks.
const MARKED_MAX: usize = 40;
const RADIUS: f64 = 3.6;

/// The classes of a line.
pub(super) fn style(line_colour: usize, nth: usize) -> String {
    format!("line {} dash{}", colour("s", line_colour), nth % DASHES)
}

/// A mark at a place.
pub(super) fn mark(
    svg: &mut Svg,
    mark_colour: usize,
    nth: usize,
    is_hollow: bool,
    (x, y): (f64, f64),
    told: &str,
) {
    let class = if is_hollow {
        format!("mark hollow {}", colour("s", mark_colour))
    } else {
        format!(
            "mark {} {}",
            colour("f", mark_colour),
            colour("s", mark_colour)
        )
    };
    svg.path(&class, outline(nth % MARKS, (x, y)).as_str(), told);
}

fn outline(kind: usize, (x, y): (f64, f64)) -> Path {
    let r = RADIUS;
    // Corners around the middle; the first is a circle, as near as twelve corners come.
    let corners: Vec<(f64, f64)> = match kind {
        1 => vec![(-r, -r), (r, -r), (r, r), (-r, r)],
        2 => vec![(0.0, -r * 1.2), (r * 1.15, r), (-r * 1.15, r)],
        DIAMOND => vec![
            (0.0, -r * 1.4),
            (r * 1.4, 0.0),
            (0.0, r * 1.4),
            (-r * 1.4, 0.0),
        ],
        4 => vec![(-r * 1.15, -r), (r * 1.15, -r), (0.0, r * 1.2)],
        5 => {
            let t = r * 0.4;
            vec![
                (-t, -r),
                (t, -r),
                (t, -t),
                (r, -t),
                (r, t),
                (t, t),
                (t, r),
                (-t, r),
                (-t, t),
                (-r, t),
                (-r, -t),
                (-t, -t),
            ]
        }
        _ => (0..12)
            .map(|nth| (f64::from(nth) * std::f64::consts::TAU / 12.0).sin_cos())
            .map(|(sin, cos)| (cos * r, sin * r))
            .collect(),
    };
    let mut path = Path::default();
    for (nth, (dx, dy)) in corners.into_iter().enumerate() {
        let place = (x + dx, y + dy);
        if nth == 0 {
            path.go(place);
        } else {
            path.line(place);
        }
    }
    path.back();
    path
}

impl Lines {
    pub(super) fn draw(&self, width: f64) -> (Svg, f64) {
        let mut svg = Svg::new(width);
        let mut top = legend::draw(&mut svg, 4.0, &self.legend());
        for line in wrap(&self.y.title, SIZE_SMALL, width, 2) {
            svg.text("faint", (0.0, top + 11.0), Anchor::Start, SIZE_SMALL, &line);
            top += 15.0;
        }
        top += 6.0;
        let height = if is_narrow(width) { 220.0 } else { 300.0 };
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let ups = points().flat_map(|point| point.y.ends());
        let up = self
            .y
            .scale(ups, (height / 45.0) as usize)
            .between(top + height, top);
        let labels = self.y.labels(&up);
        let widest = labels
            .iter()
            .map(|label| width_of(label, SIZE_SMALL))
            .fold(0.0, f64::max);
        let start = widest.min(width * 0.3) + 8.0;
        let end = width - 10.0;
        for (tick, label) in up.ticks.iter().zip(&labels) {
            let Some(y) = up.at(*tick) else { continue };
            svg.line("grid", (start, y), (end, y));
            svg.text(
                "faint",
                (start - 6.0, y + 4.0),
                Anchor::End,
                SIZE_SMALL,
                label,
            );
        }
        let rights: Vec<f64> = points().map(|point| point.x).collect();
        let right = self.x.across(&rights, start + 4.0, end - 4.0);
        self.x.draw_across(&mut svg, &right, top, top + height);
        svg.line("axis", (start, top + height), (end, top + height));
        for line in &self.lines {
            line.draw(&mut svg, &right, &up, &self.x);
        }
        let mut foot = top + height + 20.0;
        for line in wrap(&self.x.title, SIZE_SMALL, end - start, 2) {
            svg.text(
                "faint",
                ((start + end) / 2.0, foot + 12.0),
                Anchor::Middle,
                SIZE_SMALL,
                &line,
            );
            foot += 15.0;
        }
        (svg, foot + 6.0)
    }

    fn legend(&self) -> Vec<(Key, String)> {
        self.lines
            .iter()
            .map(|line| {
                let key = Key::Line {
                    colour: line.colour,
                    nth: line.nth,
                    is_hollow: line.is_hollow,
                };
                let has_figure = line.points.iter().any(|point| point.y.known().is_some());
                let none = if has_figure { "" } else { " (no figure)" };
                (key, format!("{}{none}", line.name))
            })
            .collect()
    }
}

impl Line {
    fn draw(&self, svg: &mut Svg, right: &Scale, up: &Scale, x: &Axis) {
        let places: Vec<Option<(f64, f64)>> = self
            .points
            .iter()
            .map(|point| {
                let (value, _) = point.y.known()?;
                Some((right.at(point.x)?, up.at(value)?))
            })
            .collect();
        let mut path = Path::default();
        let mut is_drawing = false;
        for place in &places {
            match place {
                Some(place) if is_drawing => {
                    path.line(*place);
                }
                Some(place) => {
                    path.go(*place);
                    is_drawing = true;
                }
                None => is_drawing = false,
            }
        }
        if !path.as_str().is_empty() {
            svg.path(&style(self.colour, self.nth), path.as_str(), "");
        }
        let is_known = |nth: Option<usize>| {
            nth.and_then(|nth| places.get(nth))
                .is_some_and(Option::is_some)
        };
        let are_many = places.iter().flatten().count() > MARKED_MAX;
        for (nth, (point, place)) in self.points.iter().zip(&places).enumerate() {
            let (Some((value, interval)), Some(place)) = (point.y.known(), *place) else {
                continue;
            };
            // One that no line leads to has its mark however many there are: else it is not seen.
            let is_on_a_line = is_known(nth.checked_sub(1)) || is_known(Some(nth + 1));
            if are_many && is_on_a_line {
                continue;
            }
            if let Some((low, high)) = interval
                && let (Some(low), Some(high)) = (up.at(low), up.at(high))
            {
                self.draw_interval(svg, place.0, low, high);
            }
            let at = x.names.iter().find(|(at, _)| *at == point.x);
            let at = at.map_or_else(|| number::figure(point.x), |(_, name)| name.clone());
            let told = format!("{}, {at}: {}", self.name, number::figure(value));
            mark(svg, self.colour, self.nth, self.is_hollow, place, &told);
        }
    }

    fn draw_interval(&self, svg: &mut Svg, x: f64, low: f64, high: f64) {
        let mut path = Path::default();
        path.go((x, low)).line((x, high));
        for end in [low, high] {
            path.go((x - 3.0, end)).line((x + 3.0, end));
        }
        svg.path(
            &format!("line {}", colour("s", self.colour)),
            path.as_str(),
            "",
        );
    }
}
