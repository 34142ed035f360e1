//! What a record says of what a paper found.

use signet_bed::experiment::{Interval, PriceFigure, PriceFinding, PricePick, Verdict};
use signet_page::number;

use super::record::PricesRecord;
use crate::page::standing;
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

/// A figure and what its repeats allow.
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
    let median = point.median_ns / divisor;
    Ok(Interval {
        median,
        low: median * (1.0 - point.spread),
        high: median * (1.0 + point.spread),
        repeats: point.batches as usize,
    })
}

fn throughput(name: &str, record: &PricesRecord) -> Result<Interval, String> {
    let Some(tunnels) = &record.tunnels else {
        return Err(format!("no tunnel was measured: {}", record.tunnels_missed));
    };
    let tunnel = tunnels.tunnel(name);
    let found = tunnel.and_then(|it| it.summary(tunnel::figure::THROUGHPUT_BITS_PER_S));
    if let Some(found) = found {
        return Ok(Interval {
            median: found.median,
            low: found.low,
            high: found.high,
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
    use crate::record::{Item, Point, PriceRecord};
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
                spread: 0.01,
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
                    repeats: vec![repeat],
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
        // Of less.
        assert_eq!(of((1.1, 1.3)).verdict, Verdict::No);
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
