//! Ratings of algorithms: what they are worth and how fast they are here, beside what
//! Table 14 of Niedermayer 2006 said.

use std::fmt::Write as _;

use serde::Serialize;

use crate::ipsec::{AEADS, CIPHERS, MACS};
use crate::level::{Level, Protection};
use crate::performance::{
    HANDSHAKE_NS, TABLE_14, TABLE_14_PLAIN_MBIT_PER_S, Table14, level, line_ns,
};
use crate::price::{Prices, Use, time};
use crate::suites::{GROUPS, SUITES};
use crate::table::Levels;

/// Bytes of a packet that is rated: those of the paper's tables.
const PACKET_BYTES: u32 = 1_400;

/// What the paper said of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Published {
    /// Its name there.
    pub name: &'static str,
    /// Its level of protection.
    pub protection: Level,
    /// Its level of performance.
    pub performance: Level,
    /// What today's rule makes of the paper's throughput.
    pub performance_by_rule: Level,
}

/// A rating.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rating {
    /// The algorithm.
    pub name: &'static str,
    /// In which table it stands.
    pub table: &'static str,
    /// What the paper said, where it had it.
    pub published: Option<Published>,
    /// What it is worth.
    pub protection: Protection,
    /// Whether no policy may choose it.
    pub is_broken: bool,
    /// How fast it is, where that is known.
    pub performance: Option<Level>,
    /// What it costs, where that is known: a packet of 1,400 bytes sent once and received
    /// once, a message of 1,400 bytes received and sent on, a full handshake of a server.
    pub cost_ns: Option<f64>,
}

/// All ratings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ratings {
    /// Where the prices are from, in a sentence.
    pub prices: String,
    /// The rate of the line that a packet is held against.
    pub line_bits_per_s: u64,
    /// The ratings, table by table.
    pub ratings: Vec<Rating>,
}

const CONFIDENTIALITY: &str = "confidentiality (ESP)";
const AUTHENTICATION: &str = "authentication (AH)";
const RECORDS: &str = "TLS cipher suites";
const EXCHANGES: &str = "TLS key exchange";

impl Ratings {
    /// Rates everything that has a level.
    pub fn new(levels: &Levels, prices: &Prices, line_bits_per_s: u64) -> Self {
        let line = line_ns(PACKET_BYTES, line_bits_per_s as f64);
        let packet = |what: Use, name: &str| {
            let cost = prices.of(what, name)?.at(PACKET_BYTES)?;
            // Once sent and once received: each has the line for itself.
            Some((cost, level(cost / 2.0, line)))
        };
        let ciphers = CIPHERS.into_iter().chain(AEADS);
        let ciphers = ciphers.map(|name| {
            rating(
                CONFIDENTIALITY,
                name,
                &[name],
                levels,
                packet(Use::Cipher, name),
            )
        });
        let macs = (MACS.into_iter()).map(|name| {
            rating(
                AUTHENTICATION,
                name,
                &[name],
                levels,
                packet(Use::Mac, name),
            )
        });
        let records = SUITES.iter().filter_map(|suite| {
            let priced = packet(Use::Record, suite.iana)?;
            Some(rating(
                RECORDS,
                suite.iana,
                suite.parts,
                levels,
                Some(priced),
            ))
        });
        let exchanges = GROUPS.iter().map(|group| {
            let priced = prices.of(Use::Accept, group.name).and_then(|price| {
                let cost = price.at(0)?;
                Some((cost, level(cost, HANDSHAKE_NS)))
            });
            rating(EXCHANGES, group.name, &[group.name], levels, priced)
        });
        Self {
            prices: prices.to_string(),
            line_bits_per_s,
            ratings: ciphers
                .chain(macs)
                .chain(records)
                .chain(exchanges)
                .collect(),
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "Niedermayer 2006, Table 14, beside today's levels; today by {}\n\
             performance: 10 - 3 log2(time / reference); the reference is the time of {PACKET_BYTES} bytes\n\
             on a line, of {TABLE_14_PLAIN_MBIT_PER_S} Mbit/s (the paper's plain IP) for 2006, of {} Mbit/s for today\n",
            self.prices,
            self.line_bits_per_s / 1_000_000
        );
        for table in [CONFIDENTIALITY, AUTHENTICATION] {
            let _ = write!(
                text,
                "\n{table:<42}  protection   performance\n{:<42}  2006 today   2006 by-rule today   time\n",
                ""
            );
            for rating in self.of(table) {
                rating.paper_line(&mut text, table == CONFIDENTIALITY);
            }
        }
        let _ = write!(text, "\n{RECORDS:<46} protection, performance, time\n");
        for rating in self.of(RECORDS) {
            rating.line(&mut text);
        }
        let _ = write!(
            text,
            "\n{EXCHANGES:<46} protection, performance (10 is 10,000 full handshakes/s and core), time\n"
        );
        for rating in self.of(EXCHANGES) {
            rating.line(&mut text);
        }
        text.push_str("\n* broken: no policy chooses it\n");
        text
    }

    /// For programs.
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    fn of(&self, table: &'static str) -> impl Iterator<Item = &Rating> {
        let ratings = self.ratings.iter();
        ratings.filter(move |rating| rating.table == table)
    }
}

impl Rating {
    fn paper_line(&self, text: &mut String, is_cipher: bool) {
        let today = if is_cipher {
            self.protection.confidentiality
        } else {
            self.protection.authentication
        };
        let level = |level: Option<Level>| level.map_or("-".to_owned(), |level| level.to_string());
        let published = self.published;
        let _ = writeln!(
            text,
            "  {:<40}  {:>4} {:>5}   {:>4} {:>7} {:>5}   {}",
            self.marked(),
            level(published.map(|published| published.protection)),
            level(today),
            level(published.map(|published| published.performance)),
            level(published.map(|published| published.performance_by_rule)),
            level(self.performance),
            self.time(),
        );
    }

    fn line(&self, text: &mut String) {
        let performance = match self.performance {
            Some(level) => level.to_string(),
            None => "-".to_owned(),
        };
        let _ = writeln!(
            text,
            "  {:<44} {}; {performance}; {}",
            self.marked(),
            self.protection,
            self.time()
        );
    }

    fn marked(&self) -> String {
        let star = if self.is_broken { " *" } else { "" };
        match self.published {
            Some(published) if published.name != self.name => {
                format!("{} ({}){star}", self.name, published.name)
            }
            _ => format!("{}{star}", self.name),
        }
    }

    fn time(&self) -> String {
        self.cost_ns.map_or("not measured".to_owned(), time)
    }
}

fn rating(
    table: &'static str,
    name: &'static str,
    parts: &[&str],
    levels: &Levels,
    priced: Option<(f64, Level)>,
) -> Rating {
    // What is broken has a level as well, to be shown: 0.
    let of_parts = parts.iter().filter_map(|part| levels.get(part));
    let protection = of_parts
        .map(crate::table::Algorithm::protection)
        .fold(Protection::default(), Protection::with);
    Rating {
        name,
        table,
        published: TABLE_14.iter().find(|row| row.name == name).map(published),
        protection,
        is_broken: levels.judge(parts).is_err(),
        performance: priced.map(|(_, level)| level),
        cost_ns: priced.map(|(cost, _)| cost),
    }
}

fn published(row: &Table14) -> Published {
    let level = |number: u8| Level::new(number).unwrap_or_default();
    Published {
        name: row.published_as,
        protection: level(row.protection),
        performance: level(row.performance),
        performance_by_rule: row.by_rule(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::price::Price;

    #[test]
    fn the_papers_rows_stand_beside_todays() {
        let price = Price::flat(4_480.0);
        let prices = Prices::shipped()
            .with(Use::Cipher, "AES-128-CBC", price.clone())
            .with(Use::Accept, "X25519", price);
        let ratings = Ratings::new(&Levels::shipped(), &prices, 10_000_000_000);
        let of = |name: &str| {
            let mut found = ratings.ratings.iter().filter(|rating| rating.name == name);
            found.next().unwrap().clone()
        };
        let aes = of("AES-128-CBC");
        // 2,240 ns each way on a line of 1,120 ns: a doubling.
        assert_eq!(aes.performance.unwrap().number(), 7);
        assert_eq!(aes.published.unwrap().name, "AES-128");
        assert_eq!(of("X25519").performance, Some(Level::TEN));
        let (des, blowfish) = (of("DES-CBC"), of("Blowfish-192-CBC"));
        assert!(des.is_broken && !blowfish.is_broken);
        assert_eq!(des.protection.confidentiality, Some(Level::ZERO));
        assert_eq!(blowfish.published.unwrap().protection, Level::TEN);
        let published = ratings
            .ratings
            .iter()
            .filter(|rating| rating.published.is_some());
        assert_eq!(published.count(), TABLE_14.len());
        let text = ratings.text();
        for told in [
            "AES-128-CBC (AES-128)",
            "DES-CBC (DES) *",
            "HMAC-SHA-256-128 (HMAC-SHA-2-256)",
        ] {
            assert!(text.contains(told), "{told:?} is not in:\n{text}");
        }
    }
}
