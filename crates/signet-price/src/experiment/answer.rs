//! What a record says of what a paper found.

use measure::statistics::median_interval_95;
use signet_bed::Summary;
use signet_bed::experiment::{Interval, PriceFigure, PriceFinding, PricePick, Verdict};
use signet_page::number;

use super::record::PricesRecord;
use crate::page::standing;
use crate::record::Point;
use crate::tunnel;

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Yes, no, or otherwise.
    pub verdict: Verdict,
    /// The ratio, or the figure itself, where it was measured.
    pub value: Option<Interval>,
    /// A sentence with the numbers; where nothing was measured, what is missing.
    pub sentence: String,
}

/// What the record says of a finding.
pub fn answer(finding: &PriceFinding, record: &PricesRecord) -> Answer {
    match compared(finding, record) {
        Ok((value, sentence)) => {
            let sentence = match finding.published {
                Some(published) => format!("{sentence} (paper {})", number::figure(published)),
                None => sentence,
            };
            // Where it can be below the one and above the other, it says neither.
            let (least, most) = (
                finding.yes_at.min(finding.no_at),
                finding.yes_at.max(finding.no_at),
            );
            let allows_both = value.low <= least && value.high >= most;
            if value.repeats < 2 {
                return Answer {
                    verdict: Verdict::NotMeasured,
                    value: Some(value),
                    sentence: format!("{sentence}; one repeat decides nothing"),
                };
            }
            match Verdict::of(&value, finding.yes_at, finding.no_at) {
                Verdict::Differently if allows_both => Answer {
                    verdict: Verdict::NotMeasured,
                    value: Some(value),
                    sentence: format!("{sentence}; more repeats decide it"),
                },
                verdict => Answer {
                    verdict,
                    value: Some(value),
                    sentence,
                },
            }
        }
        Err(why) => Answer {
            verdict: Verdict::NotMeasured,
            value: None,
            sentence: why,
        },
    }
}

fn compared(finding: &PriceFinding, record: &PricesRecord) -> Result<(Interval, String), String> {
    let of = value(finding.figure, &finding.of, record)?;
    let told = |pick: &PricePick, value: &Interval| {
        let figure = in_words(finding.figure, value.median);
        match pick.size_bytes {
            Some(size) => format!("{} with {} bytes {figure}", pick.name, number::count(size)),
            None => format!("{} {figure}", pick.name),
        }
    };
    let Some(pick) = &finding.than else {
        return Ok((of, told(&finding.of, &of)));
    };
    let than = value(finding.figure, pick, record)?;
    if than.low <= 0.0 {
        return Err(format!("{} is nothing, so there is no ratio", pick.name));
    }
    let ratio = Interval {
        median: of.median / than.median,
        low: of.low / than.high,
        high: of.high / than.low,
        repeats: of.repeats.min(than.repeats),
    };
    let sentence = format!(
        "{}, {}: {} times, {} to {} as far as the repeats allow",
        told(&finding.of, &of),
        told(pick, &than),
        number::figure(ratio.median),
        number::figure(ratio.low),
        number::figure(ratio.high)
    );
    Ok((ratio, sentence))
}

fn in_words(figure: PriceFigure, value: f64) -> String {
    match figure {
        PriceFigure::Time => format!("takes {} ns", number::figure(value)),
        PriceFigure::TimePerByte => format!("takes {} ns a byte", number::figure(value)),
        PriceFigure::LineError => format!("misses its line by {}", number::percent(value)),
        PriceFigure::Throughput => format!("carries {} Mbit/s", number::figure(value / 1e6)),
    }
}

/// A figure and what its repeats allow: of a median its interval of 95 %, which more of them make
/// narrower.
fn value(figure: PriceFigure, pick: &PricePick, record: &PricesRecord) -> Result<Interval, String> {
    if figure == PriceFigure::Throughput {
        return throughput(&pick.name, record);
    }
    let item = standing(&record.packets, &pick.name)
        .ok_or_else(|| format!("{} was not measured", pick.name))?;
    if figure == PriceFigure::LineError {
        let line = item.line.as_ref();
        let error = line
            .ok_or_else(|| format!("{} has no line", pick.name))?
            .error;
        return Ok(Interval {
            median: error,
            low: error,
            high: error,
            repeats: item.points.len(),
        });
    }
    let size = pick.size_bytes.unwrap_or(0);
    let point = item
        .at(size)
        .ok_or_else(|| format!("{} was not measured with {size} bytes", pick.name))?;
    let divisor = match figure {
        PriceFigure::TimePerByte => size.max(1) as f64,
        _ => 1.0,
    };
    let [low, high] = point.interval_ns.unwrap_or_else(|| around(point));
    Ok(Interval {
        median: point.median_ns / divisor,
        low: low / divisor,
        high: high / divisor,
        repeats: point.batches as usize,
    })
}

/// The interval of a median whose record has none: 95 % where batches scatter as a normal
/// variable does.
fn around(point: &Point) -> [f64; 2] {
    // 1.96 standard errors of a median, 1.2533 deviations each over the root of their number; a
    // deviation is half of the distance between quartiles over 0.6745.
    const REACH: f64 = 1.96 * 1.2533 / 0.6745;
    let share = REACH * point.spread / f64::from(point.batches.max(1)).sqrt();
    [1.0 - share, 1.0 + share].map(|factor| point.median_ns * factor)
}

fn throughput(name: &str, record: &PricesRecord) -> Result<Interval, String> {
    let Some(tunnels) = &record.tunnels else {
        return Err(format!("no tunnel was measured: {}", record.tunnels_missed));
    };
    let tunnel = tunnels.tunnel(name);
    let mut values = tunnel.map_or_else(Vec::new, |it| {
        it.values(tunnel::figure::THROUGHPUT_BITS_PER_S)
    });
    values.sort_by(f64::total_cmp);
    if let Some(found) = Summary::of(values.clone()) {
        let (low, high) = median_interval_95(&values).unwrap_or((found.median, found.median));
        return Ok(Interval {
            median: found.median,
            low,
            high,
            repeats: found.count,
        });
    }
    let why = tunnels.missed.iter().find(|missed| missed.name == name);
    Err(match why {
        Some(missed) => format!("{name} was not measured: {}", missed.why),
        None => format!("{name} was not measured"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Item, PriceRecord};
    use crate::tunnel::{TunnelRecord, TunnelResult};
    use signet_bed::record::Repeat;

    fn item(name: &str, median_ns: f64) -> Item {
        Item {
            name: name.to_owned(),
            provider: "rustcrypto".to_owned(),
            operation: "send".to_owned(),
            points: vec![Point {
                size_bytes: 1_400,
                median_ns,
                interval_ns: Some([median_ns * 0.99, median_ns * 1.01]),
                batches: 101,
                ..Point::default()
            }],
            ..Item::default()
        }
    }

    fn record() -> PricesRecord {
        let repeat = Repeat {
            figures: [(tunnel::figure::THROUGHPUT_BITS_PER_S.to_owned(), 5e8)].into(),
            ..Repeat::default()
        };
        PricesRecord {
            packets: PriceRecord {
                items: vec![item("a", 200.0), item("b", 100.0)],
                ..PriceRecord::default()
            },
            tunnels: Some(TunnelRecord {
                tunnels: vec![TunnelResult {
                    name: "none".to_owned(),
                    repeats: vec![repeat; 2],
                    ..TunnelResult::default()
                }],
                ..TunnelRecord::default()
            }),
            ..PricesRecord::default()
        }
    }

    fn finding(
        figure: PriceFigure,
        of: &str,
        than: &str,
        (yes_at, no_at): (f64, f64),
    ) -> PriceFinding {
        let pick = |name: &str| PricePick {
            name: name.to_owned(),
            size_bytes: (figure == PriceFigure::Time).then_some(1_400),
        };
        PriceFinding {
            statement: String::new(),
            place: String::new(),
            figure,
            of: pick(of),
            than: Some(pick(than)),
            yes_at,
            no_at,
            published: Some(2.69),
        }
    }

    #[test]
    fn a_ratio_is_held_against_both_bounds() {
        let of = |bounds| answer(&finding(PriceFigure::Time, "a", "b", bounds), &record());
        let yes = of((1.1, 1.0));
        assert_eq!(yes.verdict, Verdict::Yes);
        assert!(yes.sentence.contains("2.00 times") && yes.sentence.contains("paper 2.69"));
        assert_eq!(of((4.0, 3.0)).verdict, Verdict::No);
        assert_eq!(of((4.0, 1.0)).verdict, Verdict::Differently);
        // What it can be reaches from the one to the other.
        let open = of((2.001, 1.999));
        assert_eq!(open.verdict, Verdict::NotMeasured);
        assert!(open.sentence.contains("more repeats"), "{}", open.sentence);
        // A record without the interval has it from what its batches differ by.
        let mut older = record();
        for item in &mut older.packets.items {
            item.points[0].interval_ns = None;
            item.points[0].spread = 0.1;
        }
        let told = answer(&finding(PriceFigure::Time, "a", "b", (2.2, 2.1)), &older);
        let value = told.value.unwrap();
        assert!(value.low > 1.8 && value.high < 2.2, "{value:?}");
        // Of less.
        assert_eq!(of((1.1, 1.3)).verdict, Verdict::No);
    }

    /// A record of one tunnel that carried so much in its repeats.
    fn carried(mbits_per_s: &[f64]) -> PricesRecord {
        let repeat = |mbit_per_s: &f64| Repeat {
            figures: [(
                tunnel::figure::THROUGHPUT_BITS_PER_S.to_owned(),
                mbit_per_s * 1e6,
            )]
            .into(),
            ..Repeat::default()
        };
        PricesRecord {
            tunnels: Some(TunnelRecord {
                tunnels: vec![TunnelResult {
                    name: "none".to_owned(),
                    repeats: mbits_per_s.iter().map(repeat).collect(),
                    ..TunnelResult::default()
                }],
                ..TunnelRecord::default()
            }),
            ..PricesRecord::default()
        }
    }

    #[test]
    fn one_repeat_decides_nothing_and_more_decide_what_few_did_not() {
        let faster = PriceFinding {
            than: None,
            ..finding(PriceFigure::Throughput, "none", "none", (400e6, 300e6))
        };
        let of = |mbits_per_s: &[f64]| answer(&faster, &carried(mbits_per_s));
        let one = of(&[500.0]);
        assert_eq!(one.verdict, Verdict::NotMeasured);
        assert!(one.sentence.contains("one repeat decides nothing"));
        // The same distribution, more often.
        let few = [250.0, 450.0, 500.0, 510.0];
        let told = of(&few);
        assert_eq!(told.verdict, Verdict::NotMeasured);
        assert!(told.sentence.contains("more repeats"), "{}", told.sentence);
        assert_eq!(of(&few.repeat(5)).verdict, Verdict::Yes);
    }

    #[test]
    fn what_is_missing_is_said() {
        let absent = finding(PriceFigure::Time, "a", "c", (1.1, 1.0));
        let told = answer(&absent, &record());
        assert_eq!(told.verdict, Verdict::NotMeasured);
        assert!(told.sentence.contains("c was not measured"));
        let tunnels = finding(PriceFigure::Throughput, "none", "none", (0.9, 0.5));
        assert_eq!(answer(&tunnels, &record()).verdict, Verdict::Yes);
        let without = PricesRecord {
            tunnels: None,
            tunnels_missed: "be root".to_owned(),
            ..record()
        };
        let told = answer(&tunnels, &without);
        assert!(told.sentence.contains("be root"), "{told:?}");
    }
}
