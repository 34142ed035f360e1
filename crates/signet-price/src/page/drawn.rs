//! The paper's figures, with ours in them, and one of all transforms.

use signet_page::chart::{
    Axis, Chart, Content, Datum, Figure, Group, Line, Lines, Point as ChartPoint, Row, Rows,
};

use super::standing;
use crate::paper::{Paper, Table};
use crate::record::{Item, PriceRecord};

/// What the paper draws: each row of its tables 4 and 5 in transport mode, and ours.
const DRAWN: [(&str, &str); 3] = [
    ("AES-128", "esp/transport/ipv4/aes-128-cbc"),
    (
        "AES-128 + SHA-1",
        "esp+ah/transport/ipv4/aes-128-cbc/hmac-sha1-96",
    ),
    ("SHA-1", "ah/transport/ipv4/hmac-sha1-96"),
];
/// Native IPsec of Linux 2.6.9, and StrongS/WAN.
const NATIVE: u32 = 4;
const STRONGSWAN: u32 = 5;

pub(crate) fn figures(record: &PriceRecord, paper: &Paper) -> Vec<Figure> {
    let mut figures = Vec::new();
    let ours: Vec<Line> = (0..)
        .zip(DRAWN)
        .filter_map(|(nth, it)| ours(record, nth, it))
        .collect();
    if !ours.is_empty() {
        let native = published(paper, NATIVE, "Linux 2.6.9");
        let strongswan = published(paper, STRONGSWAN, "StrongS/WAN");
        let fits = (0..)
            .zip(DRAWN)
            .filter_map(|(nth, it)| fit(record, nth, it));
        let first: Vec<Line> = ours
            .iter()
            .cloned()
            .chain(fits)
            .chain(native.clone())
            .collect();
        let second = first
            .iter()
            .filter(|line| !line.name.ends_with(FIT))
            .map(per_byte)
            .collect();
        let third = ours.into_iter().chain(native).chain(strongswan).collect();
        figures.push(drawn(
            "Figure 1: the delay of a packet in transport mode, by its size",
            "cycles a packet",
            first,
        ));
        figures.push(drawn(
            "Figure 2: the delay for each byte, in transport mode",
            "cycles a byte",
            second,
        ));
        figures.push(drawn(
            "Figure 3: StrongS/WAN, Linux 2.6.9, and here",
            "cycles a packet",
            third,
        ));
    }
    figures.extend(all(record));
    figures
}

const FIT: &str = "a*size + b";
/// Pieces of a straight line, which is none where the axis is logarithmic. So many places have
/// no marks.
const FIT_PIECES: u32 = 48;

fn drawn(title: &str, unit: &str, lines: Vec<Line>) -> Figure {
    Figure {
        title: title.to_owned(),
        description: "Hollow marks are the paper's, on its machine; the others are measured here."
            .to_owned(),
        chart: Chart::Lines(Lines {
            x: Axis::linear("payload, bytes"),
            y: Axis::log(unit),
            lines,
        }),
    }
}

fn ours(record: &PriceRecord, nth: usize, (title, name): (&str, &str)) -> Option<Line> {
    let points: Vec<ChartPoint> = standing(record, name)?
        .points
        .iter()
        .filter_map(|point| {
            Some(ChartPoint {
                x: point.size_bytes as f64,
                y: Datum::exact(point.cycles?),
            })
        })
        .collect();
    (!points.is_empty()).then(|| Line {
        name: format!("{title}, here"),
        colour: nth,
        nth: 0,
        is_hollow: false,
        points,
    })
}

/// The regression through ours.
fn fit(record: &PriceRecord, nth: usize, (title, name): (&str, &str)) -> Option<Line> {
    let item = standing(record, name)?;
    let line = item.line.filter(|_| record.clock.hz > 0.0)?;
    let (first, last) = (item.points.first()?, item.points.last()?);
    let from = first.size_bytes as f64;
    let piece = (last.size_bytes as f64 - from) / f64::from(FIT_PIECES);
    let places = (0..=FIT_PIECES).map(|nth| {
        let size_bytes = from + piece * f64::from(nth);
        ChartPoint {
            x: size_bytes,
            y: Datum::exact(line.at(size_bytes) * record.clock.hz / 1e9),
        }
    });
    Some(Line {
        name: format!("{title}, {FIT}"),
        colour: nth,
        nth: 3,
        is_hollow: true,
        points: places.collect(),
    })
}

/// The rows of a table in transport mode.
fn published(paper: &Paper, number: u32, whose: &str) -> Vec<Line> {
    let Some(table) = paper.table(number) else {
        return Vec::new();
    };
    (0..)
        .zip(DRAWN)
        .filter_map(|(nth, (title, name))| {
            let points = places(table, name);
            (!points.is_empty()).then(|| Line {
                name: format!("{title}, {whose}"),
                colour: nth,
                nth: if number == NATIVE { 1 } else { 2 },
                is_hollow: true,
                points,
            })
        })
        .collect()
}

fn places(table: &Table, name: &str) -> Vec<ChartPoint> {
    let mut points = Vec::new();
    for row in &table.rows {
        for (column, value) in table.columns.iter().zip(&row.values) {
            let what = table.what(row, column);
            if what.item_name().as_deref() == Some(name)
                && let Some(size) = what.size_bytes
            {
                points.push(ChartPoint {
                    x: size as f64,
                    y: Datum::exact(*value),
                });
            }
        }
    }
    points
}

fn per_byte(line: &Line) -> Line {
    let points = line.points.iter().map(|point| ChartPoint {
        x: point.x,
        y: match &point.y {
            Datum::Known { value, .. } => Datum::exact(value / point.x.max(1.0)),
            Datum::Missing(why) => Datum::Missing(why.clone()),
        },
    });
    Line {
        points: points.collect(),
        ..line.clone()
    }
}

/// Every transform, sending in transport mode over IPv4, at the largest size.
fn all(record: &PriceRecord) -> Option<Figure> {
    let is =
        |item: &Item, key: &str, value: &str| item.labels.get(key).is_some_and(|it| it == value);
    let sent = record.items.iter().filter(|item| {
        item.operation == "send" && is(item, "mode", "transport") && is(item, "outer", "ipv4")
    });
    let mut groups: Vec<Group> = Vec::new();
    let mut size_bytes = 0;
    let providers = providers(record);
    for item in sent {
        let Some(point) = item.points.last() else {
            continue;
        };
        size_bytes = point.size_bytes;
        let label = item.name.replace("/transport/ipv4", "");
        let row = Row {
            name: item.provider.clone(),
            colour: providers
                .iter()
                .position(|it| *it == item.provider)
                .unwrap_or(0),
            content: Content::Bar(Datum::exact(point.median_ns)),
        };
        match groups.iter_mut().find(|group| group.label == label) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group {
                label,
                rows: vec![row],
            }),
        }
    }
    (!groups.is_empty()).then(|| Figure {
        title: format!("Every transform, sending {size_bytes} bytes in transport mode over IPv4"),
        description: "Nanoseconds a packet, by each provider that has it.".to_owned(),
        chart: Chart::Rows(Rows {
            axis: Axis::linear("ns a packet"),
            groups,
            ..Rows::default()
        }),
    })
}

/// Their names, in the order of the record.
fn providers(record: &PriceRecord) -> Vec<String> {
    let mut providers: Vec<String> = Vec::new();
    for item in &record.items {
        if !providers.contains(&item.provider) {
            providers.push(item.provider.clone());
        }
    }
    providers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Clock, Point};

    #[test]
    fn a_straight_line_goes_through_every_size_though_the_axis_is_logarithmic() {
        let points: Vec<Point> = [64_u64, 300, 1_400]
            .map(|size_bytes| Point {
                size_bytes,
                median_ns: 100.0 + 2.0 * size_bytes as f64,
                ..Point::default()
            })
            .into();
        let (title, name) = DRAWN[0];
        let record = PriceRecord {
            clock: Clock {
                hz: 1e9,
                ..Clock::default()
            },
            items: vec![Item {
                name: name.to_owned(),
                provider: "rustcrypto".to_owned(),
                operation: "send".to_owned(),
                line: crate::Line::through(&points),
                points,
                ..Item::default()
            }],
            ..PriceRecord::default()
        };
        let drawn = fit(&record, 0, (title, name)).unwrap();
        assert!(drawn.points.len() > 40, "{}", drawn.points.len());
        let (first, last) = (&drawn.points[0], &drawn.points[FIT_PIECES as usize]);
        assert_eq!((first.x, last.x), (64.0, 1_400.0));
        for place in &drawn.points {
            let Datum::Known { value, .. } = place.y else {
                panic!("{place:?}")
            };
            assert!((value - 100.0 - 2.0 * place.x).abs() < 1e-6, "{place:?}");
        }
    }
}
