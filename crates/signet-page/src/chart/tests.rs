use roxmltree::{Document, Node};

use super::*;
use crate::svg::width_of;

/// Names that a file may have.
const NAMES: [&str; 4] = [
    "Signet",
    "<Kamailio> & \"others\"",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA with mutual authentication and a session that is used again",
    "",
];

/// Sets of figures that nobody would think of.
fn odd() -> Vec<Vec<f64>> {
    vec![
        vec![],
        vec![42.0],
        vec![0.0, 0.0, 0.0],
        vec![1e300, 2e300, f64::MAX],
        vec![1e-300, 5e-324],
        vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
        vec![-5.0, 3.0, -0.001],
        vec![1e-300, 1e300, -1e300],
        vec![47.26, 54.5, 131.0, 7_900.0],
        (0..200).map(|n| f64::from(n) * 1.37).collect(),
    ]
}

fn name(nth: usize) -> String {
    NAMES[nth % NAMES.len()].to_owned()
}

fn datum(nth: usize, value: f64) -> Datum {
    match nth % 4 {
        0 => Datum::exact(value),
        1 => Datum::between(value, value * 0.9, value * 1.2),
        2 => Datum::Missing("not settled".to_owned()),
        _ => Datum::between(value, f64::NAN, f64::INFINITY),
    }
}

fn rows(values: &[f64]) -> Rows {
    let row = |nth: usize, content: Content| Row {
        name: name(nth),
        colour: nth,
        content,
    };
    Rows {
        axis: Axis::linear("CPU for a call, µs"),
        groups: values
            .iter()
            .enumerate()
            .map(|(nth, value)| Group {
                label: name(nth + 1),
                rows: vec![
                    row(0, Content::Bar(datum(nth, *value))),
                    row(1, Content::Bar(datum(nth + 1, *value))),
                    row(2, Content::Reference(*value)),
                ],
            })
            .collect(),
        interval: "lowest and highest of the repeats".to_owned(),
        reference: "Shen & others <2010>".to_owned(),
        ..Rows::default()
    }
}

fn stacked(values: &[f64]) -> Rows {
    let row = |nth: usize| Row {
        name: name(nth),
        colour: nth,
        content: Content::Stack(values.to_vec()),
    };
    Rows {
        axis: Axis::linear("CPU for a call, µs"),
        groups: vec![
            Group {
                label: name(1),
                rows: vec![row(0), row(1)],
            },
            Group::default(),
        ],
        parts: (0..values.len())
            .map(|nth| format!("part <{nth}>"))
            .collect(),
        ..Rows::default()
    }
}

fn lines(values: &[f64], x: Axis, y: Axis) -> Lines {
    let line = |nth: usize| Line {
        name: name(nth),
        colour: nth,
        nth,
        is_hollow: nth == 3,
        points: values
            .iter()
            .enumerate()
            .map(|(at, value)| Point {
                x: at as f64 * 100.0,
                y: datum(at + nth, *value),
            })
            .collect(),
    };
    Lines {
        x,
        y,
        lines: (0..4).map(line).collect(),
    }
}

fn field(nth: usize, values: &[f64]) -> Field {
    let cell = |nth: usize| Cell {
        // Some lie outside.
        column: nth % 9,
        row: nth / 8,
        value: values.get(nth % (values.len() + 1)).copied(),
        missing: "not settled".to_owned(),
        is_computed: nth.is_multiple_of(7),
    };
    Field {
        title: name(nth),
        cells: (0..60).map(cell).collect(),
    }
}

fn heat(values: &[f64]) -> Heat {
    Heat {
        unit: "calls a second".to_owned(),
        columns_title: "look-ups in a batch".to_owned(),
        columns: (0..8).map(|n| (1 << n).to_string()).collect(),
        rows_title: "processes that wait".to_owned(),
        rows: (0..6).map(|n| (4 << n).to_string()).collect(),
        fields: (0..3).map(|nth| field(nth, values)).collect(),
    }
}

fn charts(values: &[f64]) -> Vec<Chart> {
    let names = || Axis::of_names("case", (0..values.len()).map(name));
    vec![
        Chart::Rows(rows(values)),
        Chart::Rows(stacked(values)),
        Chart::Lines(lines(values, Axis::linear("calls/s"), Axis::linear("ms"))),
        Chart::Lines(lines(values, Axis::log("calls/s"), Axis::log("ms"))),
        Chart::Lines(lines(values, names(), Axis::linear("µs"))),
        Chart::Heat(heat(values)),
    ]
}

fn figure(chart: Chart) -> Figure {
    Figure {
        title: "What <it> costs & why".to_owned(),
        description: "\"TLS\" costs more.".to_owned(),
        chart,
    }
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    let text = node.attribute(name).unwrap();
    text.parse().unwrap_or_else(|_| panic!("{name} is {text}"))
}

/// Left, top, right and bottom of a text.
fn text_box(node: Node<'_, '_>) -> [f64; 4] {
    let (x, y, size) = (
        number(node, "x"),
        number(node, "y"),
        number(node, "font-size"),
    );
    let width = width_of(node.text().unwrap_or(""), size);
    let left = match node.attribute("text-anchor").unwrap() {
        "start" => x,
        "middle" => x - width / 2.0,
        "end" => x - width,
        other => panic!("{other}"),
    };
    [left, y - size * 0.75, left + width, y + size * 0.22]
}

/// The texts that lie from left to right.
fn texts<'a, 'input>(drawn: &'a Document<'input>) -> Vec<Node<'a, 'input>> {
    let is_level = |node: &Node<'_, '_>| {
        node.has_tag_name(("http://www.w3.org/2000/svg", "text"))
            && !node.has_attribute("transform")
    };
    drawn.descendants().filter(is_level).collect()
}

fn size(drawn: &Document<'_>) -> (f64, f64) {
    let view = drawn.root_element().attribute("viewBox").unwrap();
    let sides: Vec<f64> = view.split(' ').map(|side| side.parse().unwrap()).collect();
    (sides[2], sides[3])
}

#[test]
fn whatever_the_figures_are_a_chart_is_well_formed_and_lies_within_itself() {
    for values in odd() {
        for chart in charts(&values) {
            for width in [WIDE, NARROW] {
                let drawn = figure(chart.clone()).drawn(width, "chart");
                let document = Document::parse(&drawn).unwrap_or_else(|e| panic!("{e}: {drawn}"));
                let (right, bottom) = size(&document);
                assert!(bottom > 20.0 && bottom.is_finite(), "{values:?}: {bottom}");
                for node in document.descendants() {
                    for attribute in node.attributes() {
                        let value = attribute.value();
                        let is_bad = ["NaN", "inf"].iter().any(|bad| value.contains(bad));
                        assert!(!is_bad, "{values:?}: {}=\"{value}\"", attribute.name());
                    }
                    if node.tag_name().name() == "rect" {
                        let (x, width) = (number(node, "x"), number(node, "width"));
                        assert!(
                            x >= -0.1 && x + width <= right + 0.1,
                            "{values:?}: {node:?}"
                        );
                    }
                }
                for text in texts(&document) {
                    let [left, top, end, foot] = text_box(text);
                    assert!(
                        left >= -0.1 && end <= right + 0.1 && top >= 0.0 && foot <= bottom,
                        "{values:?} {width}: {:?} at {left} {top} {end} {foot} of {right} {bottom}",
                        text.text()
                    );
                }
            }
        }
    }
}

#[test]
fn no_text_lies_on_another() {
    let values = [47.26, 54.5, 131.0, 7_900.0, 12_000.0, 3.0];
    for chart in charts(&values) {
        for width in [WIDE, NARROW] {
            let drawn = figure(chart.clone()).drawn(width, "chart");
            let document = Document::parse(&drawn).unwrap();
            let texts = texts(&document);
            for (nth, one) in texts.iter().enumerate() {
                for other in texts.iter().skip(nth + 1) {
                    let (a, b) = (text_box(*one), text_box(*other));
                    let apart = a[2] <= b[0] || b[2] <= a[0] || a[3] <= b[1] || b[3] <= a[1];
                    assert!(
                        apart,
                        "{width}: {:?} {a:?} and {:?} {b:?}",
                        one.text(),
                        other.text()
                    );
                }
            }
        }
    }
}

#[test]
fn a_chart_says_what_it_shows() {
    for chart in charts(&[1.0, 2.0]) {
        let html = figure(chart).html();
        let document = Document::parse(&html).unwrap();
        let drawn: Vec<_> = document
            .descendants()
            .filter(|node| node.tag_name().name() == "svg")
            .collect();
        assert_eq!(drawn.len(), 2, "one for wide and one for narrow pages");
        for svg in drawn {
            assert_eq!(svg.attribute("role"), Some("img"));
            let said: Vec<_> = svg.children().filter(Node::is_element).take(2).collect();
            assert_eq!(said[0].tag_name().name(), "title");
            assert_eq!(said[0].text(), Some("What <it> costs & why"));
            assert_eq!(said[1].tag_name().name(), "desc");
            assert_eq!(said[1].text(), Some("\"TLS\" costs more."));
        }
    }
}

#[test]
fn a_picture_alone_has_its_style_inside() {
    let svg = figure(Chart::Rows(rows(&[1.0]))).svg();
    let document = Document::parse(&svg).unwrap();
    assert_eq!(svg.matches("<style>").count(), 1);
    assert!(
        document
            .root_element()
            .first_element_child()
            .unwrap()
            .text()
            .unwrap()
            .contains(".chart .ink")
    );
}

#[test]
fn bars_are_as_long_as_their_figures_and_missing_ones_say_so() {
    let bar = |datum| Row {
        name: "Signet".to_owned(),
        colour: 0,
        content: Content::Bar(datum),
    };
    let chart = Chart::Rows(Rows {
        axis: Axis::linear("µs"),
        groups: vec![Group {
            label: "UDP".to_owned(),
            rows: vec![
                bar(Datum::exact(25.0)),
                bar(Datum::exact(100.0)),
                bar(Datum::Missing("not settled".to_owned())),
            ],
        }],
        ..Rows::default()
    });
    let drawn = figure(chart).drawn(WIDE, "chart");
    let document = Document::parse(&drawn).unwrap();
    let bars: Vec<f64> = document
        .descendants()
        .filter(|node| node.tag_name().name() == "rect")
        .map(|node| number(node, "width"))
        .collect();
    assert_eq!(bars.len(), 2, "none for what is missing");
    assert!((bars[1] / bars[0] - 4.0).abs() < 0.01, "{bars:?}");
    let told: Vec<_> = texts(&document)
        .iter()
        .filter_map(|text| text.text().map(str::to_owned))
        .collect();
    assert!(told.contains(&"not settled".to_owned()), "{told:?}");
    assert!(told.contains(&"25.0".to_owned()), "{told:?}");
}

#[test]
fn the_paper_has_a_hollow_mark_and_a_legend() {
    let drawn = figure(Chart::Rows(rows(&[10.0, 20.0]))).drawn(WIDE, "chart");
    // One for each group, and one in the legend.
    assert_eq!(drawn.matches("mark hollow sref").count(), 3);
    assert!(drawn.contains("Shen &amp; others &lt;2010&gt;"));
    assert!(drawn.contains("lowest and highest of the repeats"));
}

#[test]
fn a_line_has_a_gap_where_a_figure_is_missing_and_marks_of_its_own() {
    let point = |x, y| Point { x, y };
    let known = Datum::exact;
    let line = |nth: usize| Line {
        name: format!("line {nth}"),
        colour: 0,
        nth,
        is_hollow: false,
        points: vec![
            point(1.0, known(1.0)),
            point(2.0, known(2.0)),
            point(3.0, Datum::Missing(String::new())),
            point(4.0, known(3.0)),
            point(5.0, known(2.0)),
        ],
    };
    let chart = Lines {
        x: Axis::linear("calls/s"),
        y: Axis::linear("ms"),
        lines: vec![line(0), line(1)],
    };
    let drawn = figure(Chart::Lines(chart)).drawn(WIDE, "chart");
    let document = Document::parse(&drawn).unwrap();
    let paths = |class: &str| -> Vec<String> {
        document
            .descendants()
            .filter(|node| node.attribute("class") == Some(class))
            .filter_map(|node| node.attribute("d").map(str::to_owned))
            .collect()
    };
    let drawn = paths("line s0 dash0");
    assert_eq!(drawn.len(), 1);
    assert_eq!(drawn[0].matches('M').count(), 2, "{}", drawn[0]);
    let corners = |path: &String| path.matches(['M', 'L']).count();
    let marks: Vec<usize> = paths("mark f0 s0").iter().map(corners).collect();
    assert!(
        marks.contains(&12) && marks.contains(&4),
        "circles and squares: {marks:?}"
    );
}

#[test]
fn a_figure_that_no_line_leads_to_is_seen_however_many_there_are() {
    // A second with a figure, one without, and so on; the last two have one each.
    let points: Vec<Point> = (0..201)
        .map(|n| Point {
            x: f64::from(n),
            y: match n % 2 == 0 || n == 199 {
                true => Datum::exact(1.0 + f64::from(n)),
                false => Datum::Missing(String::new()),
            },
        })
        .collect();
    let line = Line {
        name: "median".to_owned(),
        colour: 0,
        nth: 0,
        is_hollow: false,
        points,
    };
    let chart = Lines {
        x: Axis::linear("s"),
        y: Axis::linear("ms"),
        lines: vec![line],
    };
    let drawn = figure(Chart::Lines(chart)).drawn(WIDE, "chart");
    let document = Document::parse(&drawn).unwrap();
    let marks = document
        .descendants()
        .filter(|node| node.attribute("class") == Some("mark f0 s0"))
        .count();
    // 0, 2, ... 196; the line leads through 198, 199 and 200. One more is the legend's.
    assert!((99..=100).contains(&marks), "{marks}");
}

#[test]
fn parts_of_a_stack_are_numbered_and_as_long_as_all() {
    let drawn =
        figure(Chart::Rows(stacked(&[30.0, 20.0, f64::NAN, 0.0, 50.0]))).drawn(WIDE, "chart");
    let document = Document::parse(&drawn).unwrap();
    let numbers = texts(&document)
        .iter()
        .filter(|text| text.attribute("class") == Some("on"))
        .filter_map(|text| text.text().map(str::to_owned))
        .collect::<Vec<_>>();
    // The legend's five, and three in each of two bars.
    assert_eq!(numbers.join(" "), "1 2 3 4 5 1 2 5 1 2 5");
    assert!(
        texts(&document)
            .iter()
            .any(|text| text.text() == Some("100"))
    );
}

#[test]
fn the_hottest_cell_is_marked_and_what_is_computed_is_pale() {
    let cell = |column, value, is_computed| Cell {
        column,
        row: 0,
        value: Some(value),
        missing: String::new(),
        is_computed,
    };
    let chart = Heat {
        columns: ["1", "2", "4"].map(str::to_owned).to_vec(),
        rows: vec!["4".to_owned()],
        fields: vec![Field {
            title: String::new(),
            cells: vec![
                cell(0, 131.0, false),
                cell(1, 7_900.0, false),
                cell(2, 9_999.0, true),
            ],
        }],
        ..Heat::default()
    };
    let drawn = figure(Chart::Heat(chart)).drawn(NARROW, "chart");
    assert_eq!(drawn.matches(" best").count(), 1);
    for shown in ["131", "7.9k", "10.0k"] {
        assert!(drawn.contains(&format!(">{shown}<")), "{shown} in {drawn}");
    }
    assert!(
        drawn.contains("class=\"h7 best\"") || drawn.contains("class=\"h6 best\""),
        "{drawn}"
    );
    assert_eq!(drawn.matches("class=\"cell\"").count(), 1);
}

#[test]
fn names_of_several_words_stand_whole_beside_cells() {
    for (name, width) in [
        ("its own way", NARROW),
        ("the server's own way", 2.0 * NARROW),
    ] {
        let places = || ["1", "2", "4", "8", "16", "32", "64", name].map(str::to_owned);
        let chart = Heat {
            columns: places().to_vec(),
            rows: places().to_vec(),
            fields: vec![Field {
                cells: vec![Cell {
                    value: Some(1.0),
                    ..Cell::default()
                }],
                ..Field::default()
            }],
            ..Heat::default()
        };
        let drawn = figure(Chart::Heat(chart)).drawn(width, "chart");
        assert!(!drawn.contains('…'), "{drawn}");
        assert!(drawn.matches("way").count() >= 2, "{drawn}");
    }
}

#[test]
fn the_papers_field_stands_beside_ours_and_below_it_where_there_is_no_room() {
    let cell = |value| Cell {
        value: Some(value),
        ..Cell::default()
    };
    let field = |title: &str, value| Field {
        title: title.to_owned(),
        cells: vec![cell(value)],
    };
    let chart = Chart::Heat(Heat {
        columns: vec!["1".to_owned()],
        rows: vec!["4".to_owned()],
        fields: vec![field("Signet", 131.0), field("Dacosta 2009", 130.0)],
        ..Heat::default()
    });
    let places = |width| {
        let drawn = figure(chart.clone()).drawn(width, "chart");
        // Each field has a best of its own.
        assert_eq!(drawn.matches(" best").count(), 2);
        assert!(drawn.contains("Signet, 1"), "{drawn}");
        let document = Document::parse(&drawn).unwrap();
        let rects = document.descendants();
        let rects = rects.filter(|node| node.tag_name().name() == "rect");
        rects
            .map(|node| (number(node, "x"), number(node, "y")))
            .collect::<Vec<_>>()
    };
    let wide = places(WIDE);
    assert!(wide[1].0 > wide[0].0 && wide[1].1 == wide[0].1, "{wide:?}");
    let narrow = places(NARROW);
    assert!(
        narrow[1].0 == narrow[0].0 && narrow[1].1 > narrow[0].1,
        "{narrow:?}"
    );
}

/// The colours of a block of the style sheet, by their names.
fn colours(block: &str) -> std::collections::BTreeMap<&str, [f64; 3]> {
    let declared = block
        .split(';')
        .filter_map(|part| part.trim().strip_prefix("--")?.split_once(": #"));
    declared
        .map(|(name, code)| {
            let part = |at| f64::from(u8::from_str_radix(&code[at..at + 2], 16).unwrap());
            (name, [part(0), part(2), part(4)])
        })
        .collect()
}

/// WCAG 2.2: from 1, the same, to 21, black on white.
fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let luminance = |colour: [f64; 3]| {
        let [r, g, b] = colour.map(|part| {
            let part = part / 255.0;
            if part <= 0.040_45 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        });
        0.2126 * r + 0.7152 * g + 0.0722 * b
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn everything_can_be_told_from_what_is_behind_it_in_the_light_and_in_the_dark() {
    let blocks: Vec<&str> = STYLE
        .split(":root {")
        .skip(1)
        .map(|rest| rest.split('}').next().unwrap())
        .collect();
    assert_eq!(blocks.len(), 2, "light and dark");
    for block in blocks {
        let colours = colours(block);
        let holds = |front: &str, back: &str, least: f64| {
            let found = contrast(colours[front], colours[back]);
            assert!(
                found >= least,
                "{front} on {back}: {found:.2}, below {least}"
            );
        };
        holds("ink", "bg", 7.0);
        holds("faint", "bg", 4.5);
        holds("faint", "cell", 4.5);
        holds("axis", "bg", 3.0);
        for nth in 0..COLOURS {
            holds(&format!("c{nth}"), "bg", 4.5);
            holds("on", &format!("c{nth}"), 4.5);
        }
        for nth in 0..8 {
            holds(
                if nth < 4 { "cold" } else { "hot" },
                &format!("h{nth}"),
                4.5,
            );
        }
    }
}
