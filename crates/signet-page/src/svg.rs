//! Writes SVG: text is escaped, and no number is written that is none.

use std::borrow::Cow;
use std::fmt::Write as _;

use invariant::broken;

/// Which end of a text lies at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The sizes of text, in units of the picture.
pub(crate) const SIZE: f64 = 12.0;
/// Of what is said beside.
pub(crate) const SIZE_SMALL: f64 = 11.0;

/// A picture that is being drawn; its height is known at the end.
pub(crate) struct Svg {
    body: String,
    width: f64,
}

impl Svg {
    pub(crate) fn new(width: f64) -> Self {
        Self {
            body: String::new(),
            width,
        }
    }

    pub(crate) fn width(&self) -> f64 {
        self.width
    }

    /// The whole picture. `class` says when the style sheet shows it.
    pub(crate) fn finish(self, class: &str, height: f64, title: &str, description: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\">\
             <title>{}</title><desc>{}</desc>\n{}</svg>",
            escape(class),
            Number(self.width),
            Number(height.ceil()),
            escape(title),
            escape(description),
            self.body
        )
    }

    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            self.body,
            "<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            escape(class),
            Number(x1),
            Number(y1),
            Number(x2),
            Number(y2)
        );
    }

    /// A box; its `told` is seen where a pointer rests on it.
    pub(crate) fn rect(&mut self, class: &str, area: Area, told: &str) {
        let _ = write!(
            self.body,
            "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"{}\"",
            escape(class),
            Number(area.x),
            Number(area.y),
            Number(area.width.max(0.0)),
            Number(area.height.max(0.0)),
            Number(area.round)
        );
        self.end("rect", told);
    }

    pub(crate) fn path(&mut self, class: &str, path: &str, told: &str) {
        let _ = write!(
            self.body,
            "<path class=\"{}\" d=\"{}\"",
            escape(class),
            escape(path)
        );
        self.end("path", told);
    }

    fn end(&mut self, name: &str, told: &str) {
        if told.is_empty() {
            self.body.push_str("/>\n");
        } else {
            let _ = writeln!(self.body, "><title>{}</title></{name}>", escape(told));
        }
    }

    /// A text, moved so that it lies within the picture, and cut where it is wider.
    pub(crate) fn text(
        &mut self,
        class: &str,
        (x, y): (f64, f64),
        anchor: Anchor,
        size: f64,
        text: &str,
    ) {
        let text = clip(text, size, self.width);
        let width = width_of(&text, size);
        let last = (self.width - width).max(0.0);
        let (name, x) = match anchor {
            Anchor::Start => ("start", x.min(last).max(0.0)),
            Anchor::Middle => ("middle", (x - width / 2.0).min(last).max(0.0) + width / 2.0),
            Anchor::End => ("end", (x - width).min(last).max(0.0) + width),
        };
        let _ = writeln!(
            self.body,
            "<text class=\"{}\" x=\"{}\" y=\"{}\" text-anchor=\"{name}\" font-size=\"{}\">{}</text>",
            escape(class),
            Number(x),
            Number(y),
            Number(size),
            escape(&text)
        );
    }

    /// A text that goes up.
    pub(crate) fn text_up(&mut self, class: &str, (x, y): (f64, f64), length: f64, text: &str) {
        let text = clip(text, SIZE, length);
        let _ = writeln!(
            self.body,
            "<text class=\"{}\" x=\"{x}\" y=\"{y}\" text-anchor=\"middle\" font-size=\"{}\" \
             transform=\"rotate(-90 {x} {y})\">{}</text>",
            escape(class),
            Number(SIZE),
            escape(&text),
            x = Number(x),
            y = Number(y),
        );
    }
}

/// A box.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Area {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// The radius of its corners.
    pub(crate) round: f64,
}

/// Moves and lines, as a path has them.
#[derive(Default)]
pub(crate) struct Path {
    text: String,
}

impl Path {
    pub(crate) fn go(&mut self, (x, y): (f64, f64)) -> &mut Self {
        let _ = write!(self.text, "M{} {}", Number(x), Number(y));
        self
    }

    pub(crate) fn line(&mut self, (x, y): (f64, f64)) -> &mut Self {
        let _ = write!(self.text, "L{} {}", Number(x), Number(y));
        self
    }

    pub(crate) fn back(&mut self) -> &mut Self {
        self.text.push('Z');
        self
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }
}

/// A coordinate, in tenths.
struct Number(f64);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = if self.0.is_finite() {
            self.0
        } else {
            broken!("a chart gives each thing a place", 0.0)
        };
        // Without the sign of a zero.
        let tenths = (value * 10.0).round() / 10.0 + 0.0;
        write!(f, "{tenths}")
    }
}

/// What a text may hold between tags and in quotes. What XML has no character for is left out.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    let is_odd = |c: char| {
        matches!(c, '&' | '<' | '>' | '"' | '\'' | '\u{fffe}' | '\u{ffff}')
            || (c.is_control() && !matches!(c, '\t' | '\n' | '\r'))
    };
    if !text.contains(is_odd) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if is_odd(c) => {}
            c => escaped.push(c),
        }
    }
    Cow::Owned(escaped)
}

/// How wide a text is at most, in a usual sans-serif font.
pub(crate) fn width_of(text: &str, size: f64) -> f64 {
    text.chars().map(em).sum::<f64>() * size
}

/// The widths of DejaVu Sans, which is as wide as such fonts come.
fn em(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '\'' => 0.28,
        'I' | 'J' => 0.3,
        ' ' | '.' | ',' => 0.32,
        ':' | ';' | '/' | '|' | '-' => 0.36,
        'f' | 't' | 'r' | '(' | ')' => 0.41,
        's' | 'c' | 'z' => 0.55,
        'w' | '+' | '=' | '<' | '>' | '~' | '±' | '×' | '→' => 0.84,
        'm' | 'M' | 'W' | '%' | '@' | '–' | '…' => 1.0,
        'A'..='Z' => 0.76,
        'a'..='z' | '0'..='9' => 0.637,
        c if c.is_ascii() => 0.64,
        c if (c as u32) < 0x0250 => 0.76,
        // Where scripts are wide, they are square.
        _ => 1.05,
    }
}

/// A text of at most this width, with three dots where something is missing.
pub(crate) fn clip(text: &str, size: f64, width: f64) -> Cow<'_, str> {
    if width_of(text, size) <= width {
        return Cow::Borrowed(text);
    }
    let mut left = width - width_of("…", size);
    let mut kept = String::new();
    for c in text.chars() {
        left -= em(c) * size;
        if left < 0.0 {
            break;
        }
        kept.push(c);
    }
    let mut kept = kept.trim_end().to_owned();
    kept.push('…');
    Cow::Owned(kept)
}

/// A text in lines of at most this width; the last one is cut where there are more.
pub(crate) fn wrap(text: &str, size: f64, width: f64, lines_max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let is_full = lines.len() >= lines_max;
        match lines.last_mut() {
            Some(line)
                if is_full
                    || width_of(line, size) + width_of(" ", size) + width_of(word, size)
                        <= width =>
            {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
        .iter()
        .map(|line| clip(line, size, width).into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_control_characters_are_left_out() {
        assert_eq!(
            escape("a<b>&\"c\"'\u{0}\u{7}"),
            "a&lt;b&gt;&amp;&quot;c&quot;&#39;"
        );
        assert!(matches!(escape("plain µs – …"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_is_too_wide_is_cut_or_wrapped() {
        let long = "Transport Layer Security with mutual authentication";
        let cut = clip(long, 12.0, 100.0);
        assert!(cut.ends_with('…') && width_of(&cut, 12.0) <= 100.0, "{cut}");
        let lines = wrap(long, 12.0, 130.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(
            lines.iter().all(|line| width_of(line, 12.0) <= 130.0),
            "{lines:?}"
        );
        assert_eq!(wrap(long, 12.0, 1_000.0, 2), [long]);
        assert!(wrap("", 12.0, 10.0, 2).is_empty());
        assert_eq!(clip("ab", 12.0, 0.0), "…");
    }

    #[test]
    fn a_text_stays_in_the_picture() {
        let mut svg = Svg::new(100.0);
        svg.text("t", (99.0, 10.0), Anchor::Start, 12.0, "right");
        svg.text("t", (-5.0, 10.0), Anchor::Middle, 12.0, "left");
        let drawn = svg.finish("chart", 20.0, "a", "b");
        assert!(
            !drawn.contains("x=\"99\"") && !drawn.contains("x=\"-5\""),
            "{drawn}"
        );
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(Number(-0.01).to_string(), "0");
        assert_eq!(Number(1.25).to_string(), "1.3");
        assert_eq!(Number(100.0).to_string(), "100");
    }
}
