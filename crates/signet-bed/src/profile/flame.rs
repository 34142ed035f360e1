//! Stacks that were sampled, as folded lines and as a picture.

use std::collections::HashMap;
use std::fmt::Write;

use super::sample::Sample;
use super::{Component, Profile};

const NODES_MAX: usize = 50_000;
const BOXES_MAX: usize = 5_000;
const WIDTH_PX: f64 = 1_200.0;
const MARGIN_PX: f64 = 10.0;
const ROW_PX: f64 = 17.0;
/// Above the boxes: the title, and two rows that say what the colours mean.
const HEAD_PX: f64 = 84.0;
/// Narrower boxes are not seen.
const BOX_PX_MIN: f64 = 0.4;
/// Of the letters in boxes.
const LETTER_PX: f64 = 6.7;

/// A tree of the stacks that were sampled: processes, their threads, and functions from the
/// outermost to the innermost.
#[derive(Clone, Debug)]
pub struct Stacks {
    nodes: Vec<Node>,
    places: HashMap<(usize, String), usize>,
}

#[derive(Clone, Debug)]
struct Node {
    label: String,
    image: String,
    component: Option<Component>,
    own_ns: u64,
    children: Vec<usize>,
}

impl Default for Stacks {
    fn default() -> Self {
        let root = Node {
            label: String::new(),
            image: String::new(),
            component: None,
            own_ns: 0,
            children: Vec::new(),
        };
        Self {
            nodes: vec![root],
            places: HashMap::new(),
        }
    }
}

/// Where a node is drawn. Pixels from the left, rows from the bottom.
struct Drawn {
    node: usize,
    left_px: f64,
    width_px: f64,
    row: usize,
    scaled_ns: f64,
    of_process: f64,
}

impl Stacks {
    /// Adds a sample whose frames count as these components.
    pub(crate) fn add(&mut self, process: &str, sample: &Sample, components: &[Component]) {
        let mut at = self.child(0, process, "", None);
        at = self.child(at, &sample.thread, "", None);
        for (frame, component) in sample.frames.iter().zip(components).rev() {
            at = self.child(at, &frame.symbol, &frame.image, Some(*component));
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.own_ns += sample.period_ns;
        }
    }

    /// The child of that name; where there is no room for it, the parent itself.
    fn child(
        &mut self,
        parent: usize,
        label: &str,
        image: &str,
        component: Option<Component>,
    ) -> usize {
        let key = (parent, format!("{label}\n{image}"));
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        let place = self.nodes.len();
        if place >= NODES_MAX {
            return parent;
        }
        self.nodes.push(Node {
            label: label.to_owned(),
            image: image.to_owned(),
            component,
            own_ns: 0,
            children: Vec::new(),
        });
        self.places.insert(key, place);
        if let Some(parent) = self.nodes.get_mut(parent) {
            parent.children.push(place);
        }
        place
    }

    /// One line for each stack, `process;thread;outer;inner MICROSECONDS`, as other programs
    /// that draw stacks read it.
    #[must_use]
    pub fn folded(&self) -> String {
        let mut lines = Vec::new();
        let mut open = vec![(0, String::new())];
        while let Some((place, path)) = open.pop() {
            let Some(node) = self.nodes.get(place) else {
                continue;
            };
            let label = node.label.replace(';', ":");
            let path = match (place, path.is_empty()) {
                (0, _) => path,
                (_, true) => label,
                (_, false) => format!("{path};{label}"),
            };
            if node.own_ns > 0 {
                lines.push(format!("{path} {}\n", node.own_ns / 1_000));
            }
            open.extend(node.children.iter().map(|&child| (child, path.clone())));
        }
        lines.sort_unstable();
        lines.concat()
    }

    /// The CPU time under each node, scaled to what its process used.
    fn scaled(&self, profile: &Profile) -> Vec<f64> {
        let mut sums: Vec<f64> = self.nodes.iter().map(|node| node.own_ns as f64).collect();
        // Children stand behind their parents.
        for place in (0..self.nodes.len()).rev() {
            let children = self
                .nodes
                .get(place)
                .map_or(&[][..], |node| node.children.as_slice());
            let below: f64 = children.iter().filter_map(|&child| sums.get(child)).sum();
            if let Some(sum) = sums.get_mut(place) {
                *sum += below;
            }
        }
        let processes = self
            .nodes
            .first()
            .map_or(&[][..], |root| root.children.as_slice());
        let mut open: Vec<(usize, f64)> = Vec::new();
        let mut whole = 0.0;
        for &place in processes {
            let (Some(node), Some(&sum)) = (self.nodes.get(place), sums.get(place)) else {
                continue;
            };
            let used_ns = profile.process(&node.label).map(|p| p.cpu_ns as f64);
            let factor = used_ns.filter(|_| sum > 0.0).map_or(1.0, |used| used / sum);
            whole += sum * factor;
            open.push((place, factor));
        }
        while let Some((place, factor)) = open.pop() {
            if let Some(sum) = sums.get_mut(place) {
                *sum *= factor;
            }
            let children = self
                .nodes
                .get(place)
                .map_or(&[][..], |node| node.children.as_slice());
            open.extend(children.iter().map(|&child| (child, factor)));
        }
        if let Some(root) = sums.first_mut() {
            *root = whole;
        }
        sums
    }

    fn layout(&self, sums: &[f64]) -> Vec<Drawn> {
        let whole = sums.first().copied().unwrap_or(0.0);
        if whole <= 0.0 {
            return Vec::new();
        }
        let px_per_ns = (WIDTH_PX - 2.0 * MARGIN_PX) / whole;
        let mut drawn: Vec<Drawn> = Vec::new();
        let mut open = vec![(0_usize, MARGIN_PX, 0_usize, whole)];
        while let Some((place, left_px, row, process_ns)) = open.pop() {
            let (Some(node), Some(&sum)) = (self.nodes.get(place), sums.get(place)) else {
                continue;
            };
            let process_ns = if row == 1 { sum } else { process_ns };
            if sum * px_per_ns < BOX_PX_MIN {
                continue;
            }
            if row > 0 {
                drawn.push(Drawn {
                    node: place,
                    left_px,
                    width_px: sum * px_per_ns,
                    row: row - 1,
                    scaled_ns: sum,
                    of_process: sum / process_ns,
                });
            }
            let mut children = node.children.clone();
            children.sort_by_key(|&child| self.nodes.get(child).map(|node| &node.label));
            let mut child_px = left_px;
            for child in children {
                open.push((child, child_px, row + 1, process_ns));
                child_px += sums.get(child).copied().unwrap_or(0.0) * px_per_ns;
            }
        }
        drawn.sort_by(|a, b| b.width_px.total_cmp(&a.width_px));
        drawn.truncate(BOXES_MAX);
        drawn
    }

    /// A picture that needs nothing around it: boxes as wide as their CPU time, callers below
    /// those they called, coloured by component, with a title for each box. Light and dark as
    /// the reader's system is.
    #[must_use]
    pub fn svg(&self, profile: &Profile) -> String {
        let drawn = self.layout(&self.scaled(profile));
        let rows = drawn.iter().map(|d| d.row + 1).max().unwrap_or(0);
        let height_px = HEAD_PX + ROW_PX * rows as f64 + MARGIN_PX;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH_PX} {height_px}\" \
             font-family=\"ui-monospace, monospace\" font-size=\"11\">\n<style>\n{}</style>\n\
             <rect class=\"ground\" width=\"{WIDTH_PX}\" height=\"{height_px}\"/>\n",
            style()
        );
        head(&mut svg, profile);
        for d in &drawn {
            self.draw(&mut svg, d, height_px, profile);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw(&self, svg: &mut String, d: &Drawn, height_px: f64, profile: &Profile) {
        let Some(node) = self.nodes.get(d.node) else {
            return;
        };
        let class = node.component.map_or("process", Component::key);
        let top_px = height_px - MARGIN_PX - ROW_PX * (d.row + 1) as f64;
        let time = match profile.us_per_call(d.scaled_ns as u64) {
            Some(us) => format!("{us:.1} us a call"),
            None => format!("{:.1} ms", d.scaled_ns / 1e6),
        };
        let place = if node.image.is_empty() {
            String::new()
        } else {
            format!(" ({})", node.image)
        };
        let title = format!(
            "{}{place}: {time}, {:.1} % of its process",
            node.label,
            d.of_process * 100.0
        );
        let letters = ((d.width_px - 4.0) / LETTER_PX).max(0.0) as usize;
        let _ = write!(
            svg,
            "<g><title>{}</title><rect class=\"{class}\" x=\"{:.1}\" y=\"{top_px:.1}\" \
             width=\"{:.1}\" height=\"{:.1}\" rx=\"1\"/>",
            escape(&title),
            d.left_px,
            (d.width_px - 0.3).max(0.2),
            ROW_PX - 1.0
        );
        let text = cut(&node.label, letters);
        if !text.is_empty() {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                d.left_px + 2.0,
                top_px + ROW_PX - 5.0,
                escape(&text)
            );
        }
        svg.push_str("</g>\n");
    }
}

/// The title, and what the colours mean.
fn head(svg: &mut String, profile: &Profile) {
    let names: Vec<String> = profile
        .processes
        .iter()
        .map(|process| format!("{} ({})", process.name, process.system))
        .collect();
    let _ = writeln!(
        svg,
        "<text x=\"{MARGIN_PX}\" y=\"22\" font-size=\"15\">CPU time of {} in {:.1} s</text>",
        escape(&names.join(", ")),
        profile.window_ns as f64 / 1e9
    );
    for (place, component) in Component::ALL.into_iter().enumerate() {
        let left_px = MARGIN_PX + (place % 5) as f64 * 236.0;
        let top_px = 34.0 + (place / 5) as f64 * 20.0;
        let _ = writeln!(
            svg,
            "<rect class=\"{}\" x=\"{left_px}\" y=\"{top_px}\" width=\"12\" height=\"12\"/>\
             <text x=\"{}\" y=\"{}\">{component}</text>",
            component.key(),
            left_px + 18.0,
            top_px + 10.0
        );
    }
}

/// Colours: of each component by day and by night.
fn style() -> String {
    const COLOURS: [(&str, &str); Component::COUNT] = [
        ("#f0b27a", "#8a4b14"),
        ("#a9cce3", "#1f5a80"),
        ("#d2b4de", "#643a78"),
        ("#f1948a", "#8c2f26"),
        ("#f7dc6f", "#75610d"),
        ("#a3e4d7", "#17685a"),
        ("#d5dbdb", "#56606a"),
        ("#abebc6", "#22693f"),
        ("#7dcea0", "#16522f"),
        ("#e5e0d8", "#4a463f"),
    ];
    let mut day = String::from(".ground{fill:#fff}.process{fill:#ebedef}text{fill:#17202a}\n");
    let mut night = String::from(".ground{fill:#14181d}.process{fill:#2c343c}text{fill:#eaeef2}\n");
    for (component, (light, dark)) in Component::ALL.into_iter().zip(COLOURS) {
        let _ = writeln!(day, ".{}{{fill:{light}}}", component.key());
        let _ = writeln!(night, ".{}{{fill:{dark}}}", component.key());
    }
    format!("{day}@media (prefers-color-scheme: dark){{\n{night}}}\ntext{{pointer-events:none}}\n")
}

/// So many letters at most, with a mark where some are missing; nothing where it would say
/// nothing.
fn cut(label: &str, letters: usize) -> String {
    if label.chars().count() <= letters {
        return label.to_owned();
    }
    if letters < 4 {
        return String::new();
    }
    let mut text: String = label.chars().take(letters - 1).collect();
    text.push('\u{2026}');
    text
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no way to write these.
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
