//! `signet price rate`.

use clap::Args;
use protection::Ratings;
use signet_bed::bit_rate;

use super::{Sources, told};

#[derive(Debug, Args)]
pub(crate) struct RateOptions {
    #[command(flatten)]
    sources: Sources,
    /// The line that a packet of level 10 keeps up with
    #[arg(long, value_name = "RATE", default_value = "10gbit", value_parser = bit_rate)]
    line: u64,
}

impl RateOptions {
    pub(super) fn run(&self) -> Result<String, String> {
        let (levels, prices) = (self.sources.levels()?, self.sources.prices()?);
        let ratings = Ratings::new(&levels, &prices, self.line);
        self.sources.draw(|| signet_price::rate::page(&ratings))?;
        told(
            self.sources.json.as_deref(),
            || ratings.text(),
            || Ok(ratings.json()),
        )
    }
}
