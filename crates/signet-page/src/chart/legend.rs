//! What marks and colours mean.

use crate::svg::{Anchor, Area, SIZE_SMALL, Svg, clip, width_of};

/// What stands before a word of a legend.
pub(super) enum Key {
    /// A mark on a line, of this colour and in this order.
    Line {
        colour: usize,
        nth: usize,
        is_hollow: bool,
    },
    /// A numbered part of a stack.
    Part { nth: usize },
    /// The hollow mark of a figure that stands beside.
    Reference,
    /// The ends of an interval.
    Interval,
}

const KEY_WIDTH: f64 = 26.0;
const LINE_HEIGHT: f64 = 19.0;
const GAP: f64 = 14.0;

/// Draws a legend below `top`; gives where it ends.
pub(super) fn draw(svg: &mut Svg, top: f64, entries: &[(Key, String)]) -> f64 {
    let (mut x, mut y) = (0.0, top);
    let width = svg.width();
    for (key, text) in entries {
        let text = clip(text, SIZE_SMALL, width - KEY_WIDTH - 2.0).into_owned();
        let needed = KEY_WIDTH + width_of(&text, SIZE_SMALL);
        if x > 0.0 && x + needed > width {
            (x, y) = (0.0, y + LINE_HEIGHT);
        }
        draw_key(svg, key, (x, y + 8.0));
        svg.text(
            "ink",
            (x + KEY_WIDTH, y + 12.0),
            Anchor::Start,
            SIZE_SMALL,
            &text,
        );
        x += needed + GAP;
    }
    if entries.is_empty() {
        top
    } else {
        y + LINE_HEIGHT + 3.0
    }
}

fn draw_key(svg: &mut Svg, key: &Key, (x, y): (f64, f64)) {
    match key {
        Key::Line {
            colour,
            nth,
            is_hollow,
        } => {
            let style = super::lines::style(*colour, *nth);
            svg.line(&style, (x + 1.0, y), (x + 21.0, y));
            super::lines::mark(svg, *colour, *nth, *is_hollow, (x + 11.0, y), "");
        }
        Key::Part { nth } => {
            let area = Area {
                x: x + 2.0,
                y: y - 7.0,
                width: 18.0,
                height: 14.0,
                round: 2.0,
            };
            svg.rect(&super::colour("f", *nth), area, "");
            let number = (nth + 1).to_string();
            svg.text(
                "on",
                (x + 11.0, y + 4.0),
                Anchor::Middle,
                SIZE_SMALL,
                &number,
            );
        }
        Key::Reference => {
            super::lines::mark(
                svg,
                super::REFERENCE,
                super::lines::DIAMOND,
                true,
                (x + 11.0, y),
                "",
            );
        }
        Key::Interval => super::rows::whisker(svg, (x + 3.0, x + 19.0), y),
    }
}
