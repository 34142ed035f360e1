//! `signet price live`.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use measure::Figures;
use signet_price::live::{self, Window};
use signet_serve::admin::{self, FiguresAt, FiguresPage};

use super::{told, unwritable};
use crate::args::InstanceArgs;

#[derive(Debug, Args)]
pub(crate) struct LiveOptions {
    #[command(flatten)]
    place: InstanceArgs,
    /// The server's address for figures, in place of its data folder: http://127.0.0.1:9060/metrics
    #[arg(long, value_name = "URL", conflicts_with_all = ["config", "data"])]
    metrics: Option<String>,
    /// What a core costs for an hour, in euros
    #[arg(long, value_name = "EUR", value_parser = price)]
    core_hour_eur: f64,
    /// The time between the two looks
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Keep the record in this file, - for the standard output alone
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the page in this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl LiveOptions {
    /// The files that it writes.
    pub(super) fn files(&self) -> [Option<&PathBuf>; 2] {
        [self.json.as_ref(), self.html.as_ref()]
    }

    /// Looks twice; gives what is printed.
    pub(super) fn run(self) -> Result<String, String> {
        let at = match self.metrics {
            Some(url) => FiguresAt::Address(url),
            None => FiguresAt::Instance(self.place.into()),
        };
        let began = SystemTime::now().duration_since(UNIX_EPOCH);
        let first = ask(&at)?;
        let looked = Instant::now();
        let _ = writeln!(
            std::io::stderr(),
            "looking at {} for {} s",
            first.from,
            self.seconds
        );
        std::thread::sleep(Duration::from_secs(self.seconds));
        let second = ask(&at)?;
        let window = Window {
            command: measure::command_line().join(" "),
            from: second.from,
            started_unix_s: began.map_or(0, |since| since.as_secs()),
            seconds: looked.elapsed().as_secs_f64(),
            core_hour_eur: self.core_hour_eur,
        };
        let (before, after) = (Figures::new(first.text), Figures::new(second.text));
        let record = live::reckon(&before, &after, window).map_err(|error| error.to_string())?;
        if let Some(path) = &self.html {
            let page = live::page(&record).map_err(|error| error.to_string())?;
            measure::file::write(path, page.as_bytes())
                .map_err(|error| unwritable(path, &error))?;
        }
        told(
            self.json.as_deref(),
            || live::told(&record),
            || serde_json::to_string_pretty(&record).map_err(|error| error.to_string()),
        )
    }
}

fn ask(at: &FiguresAt) -> Result<FiguresPage, String> {
    admin::figures(at).map_err(|error| format!("{}: {}", error.what(), error.remedy()))
}

/// A price above nothing.
fn price(text: &str) -> Result<f64, String> {
    let price = text.trim().parse::<f64>().ok();
    let price = price.filter(|price| price.is_finite() && *price > 0.0);
    price.ok_or_else(|| format!("'{text}' is no price; write euros, for example 0.05"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_above_nothing() {
        assert_eq!(price("0.05"), Ok(0.05));
        for text in ["0", "-1", "nan", "inf", "0,05", "5ct"] {
            assert!(price(text).unwrap_err().contains("write euros"), "{text}");
        }
    }
}
